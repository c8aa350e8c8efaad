import pytest

from raybench.analysis.comparison import PlannedCell, Spread, compare
from raybench.analysis.findings import Finding
from raybench.analysis.results import attempts, latest
from raybench.trial import events

WARM = 9.0


def trial(cell, repeat, seconds=(), status="completed", accuracy=0.5, wall=60.0, attempt=1):
    """A trial's events: a warm-up epoch, then epochs of so many seconds."""
    name = f"{cell}-r{repeat}"
    told = [events.trial_started(name, attempt, cell={"warmup_epochs": 1})]
    for number, train in enumerate([WARM, *seconds] if seconds else [], 1):
        metrics = {"val/accuracy": accuracy, "val/loss": 2.0}
        account = {"train": train}
        told.append(
            events.epoch_ended(name, attempt, epoch=number, steps=1, examples=8, ledger=account, metrics=metrics)
        )
    return [*told, events.trial_ended(name, attempt, status, wall=wall, template_import=0.0)]


def known(*trials):
    return latest(attempts(event for one in trials for event in one).values())


CELLS = [
    PlannedCell("cpu", {"device": "cpu", "batch_size": 64}, 3),
    PlannedCell("gpu", {"device": "gpu", "batch_size": 64}, 3, price_per_hour=0.36),
]
DEVICES = [trial("cpu", n, [s], accuracy=0.5 + n / 10) for n, s in enumerate([4.0, 4.1, 4.05])] + [
    trial("gpu", n, [s]) for n, s in enumerate([2.0, 2.02, 1.98])
]


def test_a_row_a_cell_with_the_contract_s_speed_up():
    cpu, gpu = compare(CELLS, known(*DEVICES), {"device": "cpu"})
    assert cpu.status == gpu.status == "3/3 completed"
    assert cpu.steady == Spread(4.049794228, 4.0, 4.1, 3) and gpu.steady == Spread(1.999933331, 1.98, 2.02, 3)
    assert cpu.metric == Spread(pytest.approx(0.6), 0.5, 0.7, 3)
    assert cpu.is_baseline and cpu.speedup is None and not gpu.is_baseline
    assert [round(x, 2) for x in (gpu.speedup.ratio, gpu.speedup.low, gpu.speedup.high)] == [2.02, 1.97, 2.08]
    assert not cpu.from_warmup
    assert gpu.epoch_price == pytest.approx(0.36 * gpu.steady.value / 3600) and gpu.total_price == pytest.approx(0.006)
    assert cpu.epoch_price is None


def test_each_cell_is_compared_with_the_one_that_differs_in_the_baseline_s_fields_alone():
    cells = [PlannedCell(f"{d}{b}", {"device": d, "batch_size": b}, 1) for b in (64, 128) for d in ("cpu", "gpu")]
    runs = [trial("cpu64", 0, [8.0]), trial("gpu64", 0, [4.0]), trial("cpu128", 0, [6.0]), trial("gpu128", 0, [1.0])]
    rows = {row.cell_id: row for row in compare(cells, known(*runs), {"device": "cpu"})}
    assert rows["gpu64"].speedup.ratio == pytest.approx(2.0)
    assert rows["gpu128"].speedup.ratio == pytest.approx(6.0)
    assert [name for name, row in rows.items() if row.is_baseline] == ["cpu64", "cpu128"]


def test_axes_that_are_lists_or_maps_find_their_baseline():
    axes = {"augmentation": ["crop", {"cutout": 8}], "weight_decay": 0}
    cells = [PlannedCell("a", {**axes, "device": "cpu"}, 1), PlannedCell("b", {**axes, "device": "gpu"}, 1)]
    rows = compare(cells, known(trial("a", 0, [4.0]), trial("b", 0, [1.0])), {"device": "cpu", "weight_decay": 0.0})
    assert rows[1].speedup.ratio == pytest.approx(4.0)


@pytest.mark.parametrize("baseline", [None, {}, {"device": "tpu"}])
def test_without_a_baseline_nothing_is_compared(baseline):
    rows = compare(CELLS, known(*DEVICES), baseline)
    assert [(row.is_baseline, row.speedup) for row in rows] == [(False, None)] * 2


def test_a_baseline_that_did_not_complete_gives_no_speed_up():
    rows = compare(CELLS, known(trial("cpu", 0, [4.0], status="oom"), trial("gpu", 0, [2.0])), {"device": "cpu"})
    assert rows[0].is_baseline and rows[0].steady is None and rows[1].speedup is None


def test_only_completed_runs_give_numbers_and_every_run_is_in_the_status():
    runs = [
        trial("cpu", 0, [4.0]),
        trial("cpu", 1, [400.0], status="oom", accuracy=0.0),
        trial("cpu", 2, status="diverged"),
    ]
    (row,) = compare(CELLS[:1], known(*runs))
    assert row.status == "1/3 completed, 1 diverged, 1 oom"
    assert row.steady == Spread(4.0, 4.0, 4.0, 1) and row.metric.runs == 1


def test_the_latest_attempt_counts():
    runs = [trial("cpu", 0, [4.0], status="lost"), trial("cpu", 0, [3.0], attempt=2)]
    (row,) = compare([PlannedCell("cpu", {}, 1)], known(*runs))
    assert (row.status, row.steady.value) == ("1/1 completed", 3.0)


def test_repeats_nobody_asked_for_are_left_aside():
    (row,) = compare([PlannedCell("cpu", {}, 2)], known(*DEVICES))
    assert (row.status, row.steady.runs) == ("2/2 completed", 2)


def test_what_has_not_run_or_not_ended_is_said():
    running = trial("cpu", 1, [4.0])[:-1]
    (row,) = compare(CELLS[:1], known(trial("cpu", 0, [4.0]), running))
    assert row.status == "1/3 completed, 1 not run, 1 unfinished"
    assert row.steady.runs == 1


def test_a_skipped_cell_says_why():
    cell = PlannedCell("tpu", {"device": "tpu"}, 3, skip="no TPU on any node")
    (row,) = compare([cell], {})
    assert (row.status, row.steady, row.metric) == ("skipped: no TPU on any node", None, None)
    told = {"event": "trial_skipped", "t": events.now(), "trial": "tpu-r0", "cell_id": "tpu", "reason": "no TPU here"}
    (row,) = compare([PlannedCell("tpu", {}, 1)], known([told]))
    assert row.status == "skipped: no TPU here"
    (row,) = compare([cell], known(trial("tpu", 0, [1.0])))
    assert row.status == "1/3 completed"


def test_a_steady_time_from_a_warm_up_epoch_says_so():
    told = trial("cpu", 0, [4.0])
    (row,) = compare([PlannedCell("cpu", {}, 1)], known([*told[:2], told[-1]]))
    assert row.from_warmup and row.steady.value == WARM


def test_another_metric():
    (row,) = compare(CELLS[:1], known(*DEVICES), metric="val/loss")
    assert row.metric == Spread(2.0, 2.0, 2.0, 3)
    (row,) = compare(CELLS[:1], known(*DEVICES), metric="val/none")
    assert row.metric is None


def test_an_a_a_check_is_compared_with_what_it_is_once_more():
    again = PlannedCell("again", {"device": "cpu", "batch_size": 64}, 3, again="cpu")
    runs = [*DEVICES, *(trial("again", n, [s]) for n, s in enumerate([4.06, 4.11, 4.0]))]
    cpu, gpu, same = compare([*CELLS, again], known(*runs), {"device": "cpu"})
    assert (cpu.is_baseline, cpu.is_again, same.is_baseline, same.is_again) == (True, False, False, True)
    assert gpu.speedup.ratio == pytest.approx(2.025, abs=1e-3)
    assert same.speedup.low < 1 < same.speedup.high
    cpu, same = compare([CELLS[0], again], known(*runs))
    assert cpu.speedup is None and same.speedup, "also where nothing else is compared"


def test_findings_of_completed_runs_are_in_the_row():
    trials = known(trial("a", 0, [2.0, 2.0]), trial("a", 1, [2.0], status="oom"))
    few = Finding("few_threads", "1 thread on 2 cores", "mend it", {"cores_a_thread": 2.0})
    told = dict.fromkeys([("a-r0", 1), ("a-r1", 1)], (few,))
    (row,) = compare([PlannedCell("a", {}, 2)], trials, findings=told)
    assert row.findings == {"a-r0": (few,)}

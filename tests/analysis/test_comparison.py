import numpy as np
import pytest

from raybench.analysis.comparison import MeanMinMax, PlannedCell, compare
from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.run_counts import Ending, RunCounts
from raybench.core import events
from raybench.results.attempt import attempts, latest

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
    assert cpu.counts == gpu.counts == RunCounts(3, 3)
    assert cpu.steady == MeanMinMax(4.049794228, 4.0, 4.1, 3) and gpu.steady == MeanMinMax(1.999933331, 1.98, 2.02, 3)
    assert cpu.metric == MeanMinMax(pytest.approx(0.6), 0.5, 0.7, 3)
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
    assert row.counts == RunCounts(3, 1, None, (Ending("diverged", 1), Ending("oom", 1)))
    assert row.steady == MeanMinMax(4.0, 4.0, 4.0, 1) and row.metric.runs == 1


def test_the_latest_attempt_counts():
    runs = [trial("cpu", 0, [4.0], status="lost"), trial("cpu", 0, [3.0], attempt=2)]
    (row,) = compare([PlannedCell("cpu", {}, 1)], known(*runs))
    assert (row.counts, row.steady.value) == (RunCounts(1, 1), 3.0)


def test_repeats_nobody_asked_for_are_left_aside():
    (row,) = compare([PlannedCell("cpu", {}, 2)], known(*DEVICES))
    assert (row.counts, row.steady.runs) == (RunCounts(2, 2), 2)


def test_what_has_not_run_or_not_ended_is_said():
    running = trial("cpu", 1, [4.0])[:-1]
    (row,) = compare(CELLS[:1], known(trial("cpu", 0, [4.0]), running))
    assert row.counts == RunCounts(3, 1, None, (Ending("not run", 1), Ending("unfinished", 1)))
    assert row.steady.runs == 1


def test_a_skipped_cell_says_why():
    cell = PlannedCell("tpu", {"device": "tpu"}, 3, skip="no TPU on any node")
    (row,) = compare([cell], {})
    assert (row.counts, row.steady, row.metric) == (RunCounts(3, skip="no TPU on any node"), None, None)
    told = {"event": "trial_skipped", "t": events.now(), "trial": "tpu-r0", "cell_id": "tpu", "reason": "no TPU here"}
    (row,) = compare([PlannedCell("tpu", {}, 1)], known([told]))
    assert row.counts == RunCounts(1, skip="no TPU here")
    (row,) = compare([cell], known(trial("tpu", 0, [1.0])))
    assert row.counts == RunCounts(3, 1, "no TPU on any node")


def test_a_steady_time_from_a_warm_up_epoch_says_so():
    told = trial("cpu", 0, [4.0])
    (row,) = compare([PlannedCell("cpu", {}, 1)], known([*told[:2], told[-1]]))
    assert row.from_warmup and row.steady.value == WARM


def test_another_metric():
    (row,) = compare(CELLS[:1], known(*DEVICES), metric="val/loss")
    assert row.metric == MeanMinMax(2.0, 2.0, 2.0, 3)
    (row,) = compare(CELLS[:1], known(*DEVICES), metric="val/none")
    assert row.metric is None


def test_an_a_a_check_is_compared_with_what_it_is_once_more():
    again = PlannedCell("again", {"device": "cpu", "batch_size": 64}, 3, aa_of="cpu")
    runs = [*DEVICES, *(trial("again", n, [s]) for n, s in enumerate([4.06, 4.11, 4.0]))]
    cpu, gpu, same = compare([*CELLS, again], known(*runs), {"device": "cpu"})
    assert (cpu.is_baseline, cpu.is_aa_test, same.is_baseline, same.is_aa_test) == (True, False, False, True)
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


def test_repeats_in_which_all_cells_move_together_are_paired():
    cells = [PlannedCell(name, {"device": name}, 3) for name in ("cpu", "other", "third", "fourth")]

    def runs(name, seconds, host="node-1"):
        told = [trial(name, repeat, [seconds * factor]) for repeat, factor in enumerate((1.0, 1.5, 0.9))]
        for start, *_ in told:
            start["host"] = {"name": host}
        return told

    beside = [*runs("cpu", 4.0), *runs("third", 3.0), *runs("fourth", 1.0)]
    assert compare(cells, known(*beside, *runs("other", 2.0)), {"device": "cpu"})[1].speedup.paired
    elsewhere = known(*beside, *runs("other", 2.0, "node-2"))
    assert not compare(cells, elsewhere, {"device": "cpu"})[1].speedup.paired, "two machines do not move together"


def on(hosts, told):
    """The trials of a cell on these machines, in turn."""
    for (start, *_), host in zip(told, hosts, strict=True):
        start["host"] = {"name": host}
    return told


def test_runs_on_several_machines_count_once_for_each_machine():
    """Six runs on two machines, of which one is slower, are no six independent numbers."""
    cells = [PlannedCell(name, {"device": name}, 6) for name in ("cpu", "gpu")]
    hosts = ["one", "two"] * 3
    slow = [trial("cpu", n, [4.0 + 0.4 * (n % 2)]) for n in range(6)]
    fast = [trial("gpu", n, [3.9 + 0.4 * (n % 2)]) for n in range(6)]
    several = compare(cells, known(*on(hosts, slow), *on(["three", "four"] * 3, fast)), {"device": "cpu"})[1]
    assert several.speedup.df == pytest.approx(2.0, abs=0.1)
    assert several.steady.runs == 6, "the table shows all runs"
    one = compare(cells, known(*on(["one"] * 6, slow), *on(["three"] * 6, fast)), {"device": "cpu"})[1]
    assert one.speedup.df == pytest.approx(10.0, abs=0.1)
    assert one.speedup.low > several.speedup.low


@pytest.mark.slow
def test_machines_of_one_model_are_seldom_said_to_differ():
    """39 machines, three runs on each, in two groups of the same model."""
    random = np.random.default_rng(1)
    cells = [PlannedCell(name, {"device": name}, 9) for name in ("cpu", "gpu")]
    called = 0
    for _ in range(200):
        told = []
        for name in ("cpu", "gpu"):
            machines = np.repeat(np.exp(random.normal(0, 0.02, 3)), 3)
            runs = [trial(name, n, [float(4 * m * np.exp(random.normal(0, 0.003)))]) for n, m in enumerate(machines)]
            told += on([f"{name} {n // 3}" for n in range(9)], runs)
        called += compare(cells, known(*told), {"device": "cpu"})[1].speedup.differs
    assert called / 200 <= 0.08


def test_epochs_of_different_size_are_compared_by_example():
    runs = [trial("cpu", n, [4.0]) for n in range(3)] + [trial("gpu", n, [4.4]) for n in range(3)]
    for told in runs[3:]:
        for event in told[1:-1]:
            event["examples"] = 16
    gpu = compare(CELLS, known(*runs), {"device": "cpu"})[1]
    assert gpu.per_example and gpu.speedup.ratio == pytest.approx(2 * 4.0 / 4.4)
    assert not compare(CELLS, known(*DEVICES), {"device": "cpu"})[1].per_example


def test_few_threads_are_a_caution_only_if_hardware_is_compared():
    few = Finding("few_threads", "1 thread on 2 cores", "mend it", {"cores_a_thread": 2.0}, too_long=1.0)

    def cautions(model):
        for told in DEVICES:
            device = {"model": "a gpu" if told[0]["trial"].startswith("gpu") else "a cpu", "threads": 1}
            told[0]["cell"] = {"warmup_epochs": 1, "device": device | ({"model": model} if model else {})}
        trials = known(*DEVICES)
        found = {run.key: (few,) for run in trials.values()}
        return [row.cautions for row in compare(CELLS, trials, {"device": "cpu"}, findings=found)]

    assert cautions(None) == [("few_threads",), ()], "the baseline may be as fast with all its cores"
    assert cautions("the same") == [(), ()]

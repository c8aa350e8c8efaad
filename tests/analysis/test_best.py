"""A factored study from its runs' events to its sentences."""

from dataclasses import replace

import numpy as np
import pytest

from raybench.analysis.best import best_settings, learns_apart, study_of
from raybench.analysis.comparison import PlannedCell, compare
from raybench.analysis.factored import TIMED_FOR, setting_of
from raybench.analysis.report import make_report
from raybench.analysis.results import attempts, latest
from raybench.analysis.sentences import plain
from raybench.analysis.sides import pairs
from raybench.analysis.standing import Standing
from raybench.analysis.verdict import verdict
from raybench.trial import events
from raybench.trial.job import Target

GOAL = Target("val/accuracy", 0.94, None)
EPOCH_S = {"gpu": 2.0, "tpu": 0.5}
EPOCHS = {1e-4: 20, 5e-4: 12}


def content(device, decay, **settings):
    return {
        "data": {"name": "cifar10"},
        "device": {"kind": device, "replicas": 1},
        "engine": {"name": "torch"},
        "framework": "torch",
        "settings": {
            "batch_size": 64,
            "epochs": 24,
            "optimizer": {"name": "sgd", "learning_rate": 0.1},
            "precision": "fp32",
            "weight_decay": decay,
            **settings,
        },
        "warmup_epochs": 1,
        "workload": {"name": "davidnet"},
    }


def cells(*roles, precision="fp32"):
    """Four cells: (device, decay), each full, timing or predicted."""
    made = []
    for (device, decay), role in zip([(d, w) for d in EPOCH_S for w in EPOCHS], roles, strict=True):
        kept = content(device, decay, precision=precision if device == "tpu" else "fp32")
        if role == "timing":
            kept |= {"settings": kept["settings"] | {"epochs": 4}, TIMED_FOR: 24}
        repeats = 0 if role == "predicted" else 3
        axes = {"device": device, "batch_size": 64, "weight_decay": decay}
        made.append(PlannedCell(f"{device}{decay:g}", axes, repeats, content=kept))
    return made


def events_of(cell, random, factor=1.0, reached=True):
    """Its three runs: some epochs more or less to the target, epoch times with a little noise, 5 s before it all."""
    told = []
    device, decay = cell.axes["device"], cell.axes["weight_decay"]
    for repeat in range(cell.repeats):
        trial = f"{cell.cell_id}-r{repeat}"
        to_target = 4 if TIMED_FOR in cell.content else round(EPOCHS[decay] * factor) + repeat - 1
        told.append(events.trial_started(trial, 1, cell=cell.content, host={"name": "node-1"}))
        for number in range(1, to_target + 1):
            accuracy = 0.95 if number == to_target and reached and TIMED_FOR not in cell.content else 0.5
            ledger = {"train": EPOCH_S[device] * float(np.exp(random.normal(0, 0.01)))}
            told.append(
                events.epoch_ended(
                    trial, 1, epoch=number, steps=10, examples=640, ledger=ledger, metrics={"val/accuracy": accuracy}
                )
            )
        told.append(events.trial_ended(trial, 1, "completed", wall=99.0, ledger={"setup": 5.0}, template_import=0.0))
    return told


def study(made, **how):
    random = np.random.default_rng(0)
    told = [event for cell in made for event in events_of(cell, random, **how)]
    return study_of(made, latest(attempts(told).values()), GOAL)


def test_what_was_never_run_is_predicted():
    found = study(cells("full", "full", "timing", "predicted"))
    predicted = {(p.setting.device, p.setting.name): p for p in found.surface.predictions}
    for (device, name), truth in {
        ("gpu", "decay 1e-4"): 5 + 20 * 2.0,
        ("gpu", "decay 5e-4"): 5 + 12 * 2.0,
        ("tpu", "decay 1e-4"): 5 + 20 * 0.5,
        ("tpu", "decay 5e-4"): 5 + 12 * 0.5,
    }.items():
        each = predicted[device, name]
        assert each.seconds == pytest.approx(truth, rel=0.05)
        assert each.low < truth < each.high
    assert found.checks == ()
    said = [plain(told) for told in best_settings(found, GOAL)]
    assert said[0].startswith("On gpu, decay 5e-4 takes 29.0 s to 94 % (95 %: 2")
    assert said[0].endswith(
        ", the fastest there with probability 1.00; 3 of 3 trainings of this setting reached it."
    ), "no miss of three is not none of many"
    assert said[1].startswith("On tpu, decay 5e-4 takes 1")
    assert said[2].startswith("Each at its best, to 94 %: tpu is 2.6")


def test_a_timing_is_no_try_at_the_target_and_has_no_accuracy():
    made = cells("full", "full", "timing", "predicted")
    runs = latest(attempts(event for cell in made for event in events_of(cell, np.random.default_rng(0))).values())
    rows = compare(made, runs, {"device": "gpu"})
    assert [row.status for row in rows] == [*["3/3 completed"] * 2, "3/3 completed, only timed", "predicted"]
    assert [row.metric is None for row in rows] == [False, False, True, True]
    assert rows[2].speedup.low < 4 < rows[2].speedup.high
    said = [plain(told) for told in verdict(pairs(made, runs, {"device": "gpu"})[2])]
    assert not any("Accuracy" in each for each in said)
    found = study(cells("full", "full", "timing", "predicted"))
    assert all(each.share == 1 for each in found.surface.predictions)


def test_no_sentence_of_the_report_calls_a_timing_a_miss():
    made = cells("full", "full", "timing", "predicted")
    random = np.random.default_rng(0)
    runs = latest(attempts(event for cell in made for event in events_of(cell, random)).values())
    grid = Standing("factored", "davidnet", made, runs, {"device": "gpu"}, GOAL)
    report = make_report(grid)
    said = [plain(each) for paragraph in report.verdict for each in paragraph]
    said += [plain(each) for _, sentences in report.comparisons for each in sentences]
    assert any(each.startswith("tpu trains davidnet (batch 64, decay 1e-4) 4.0") for each in said)
    assert not any(each.startswith("tpu reaches") for each in said), (
        "it was cut to a timing, and meant to reach nothing"
    )
    assert not any("differ in epochs" in each for each in said)
    (table,) = [each for each in report.sections if each.name == "target"]
    assert {record["cell"] for record in table.records} == {"gpu wd1e-4", "gpu wd5e-4"}


def test_in_a_full_grid_the_other_device_checks_the_epochs():
    agreed = study(cells("full", "full", "full", "full"))
    assert [each.refuted_by for each in agreed.checks] == [None, None]
    made = cells("full", "full", "full", "full")
    random = np.random.default_rng(0)
    told = [event for cell in made[:2] for event in events_of(cell, random)]
    told += [event for cell in made[2:] for event in events_of(cell, random, factor=1.8)]
    refuted = study_of(made, latest(attempts(told).values()), GOAL)
    assert [each.refuted_by for each in refuted.checks] == ["epochs", "epochs"]
    said = [plain(each) for each in best_settings(refuted, GOAL)]
    assert "decay 1e-4 on tpu: refuted by 3 full runs: they did not take as many epochs" in said[-2]
    assert said[1].startswith("On tpu, decay 5e-4 takes ") and said[1].endswith(", which full runs there refute.")
    assert not any(each.startswith("Each at its best") for each in said), "of what was refuted no ratio is told"
    assert any(plain(each).startswith("Each at its best") for each in best_settings(agreed, GOAL))
    assert "With decay 1e-4, runs on tpu do not take as many epochs to 94 % as those on gpu." in [
        plain(each) for each in learns_apart(refuted, GOAL)
    ]
    assert learns_apart(agreed, GOAL) == []


def test_each_at_its_best_is_set_beside_the_baseline():
    found = study(cells("full", "full", "timing", "predicted"))
    (line,) = [plain(each) for each in best_settings(found, GOAL, "tpu") if plain(each).startswith("Each at its best")]
    assert line.startswith("Each at its best, to 94 %: gpu is 0.3") and " × as fast as tpu (95 %" in line


def test_a_full_grid_of_many_cells_names_the_device_that_learns_apart():
    """Eight cells, so that the verdict sums up: what each pair comes to stands among the comparisons."""
    random = np.random.default_rng(0)
    made, told = [], []
    for device in EPOCH_S:
        for batch in (32, 64, 128, 256):
            kept = content(device, 5e-4, batch_size=batch)
            cell = PlannedCell(f"{device}{batch}", {"device": device, "batch_size": batch}, 3, content=kept)
            made.append(replace(cell, axes=cell.axes | {"weight_decay": 5e-4}))
            told += events_of(made[-1], random, factor=1.8 if (device, batch) == ("tpu", 64) else 1.0)
    grid = Standing("full", "davidnet", made, latest(attempts(told).values()), {"device": "gpu"}, GOAL)
    said = [plain(each) for paragraph in make_report(grid).verdict for each in paragraph]
    apart = [each for each in said if "epochs to 94 %" in each]
    assert apart == ["With batch 64, runs on tpu do not take as many epochs to 94 % as those on gpu."]


def test_other_numerics_are_learned_apart():
    bf16 = study(cells("full", "full", "full", "full", precision="bf16"))
    assert bf16.checks == ()
    assert len(bf16.surface.runs) == 4


def test_what_bears_on_an_epoch_s_time_and_what_on_learning():
    base = setting_of("gpu", "x", content("cuda", 1e-4))

    def differs(**settings):
        other = setting_of("gpu", "x", content("cuda", settings.pop("weight_decay", 1e-4), **settings))
        return other.timed != base.timed, other.learned != base.learned

    assert differs() == (False, False)
    assert differs(weight_decay=5e-4) == (False, True)
    assert differs(optimizer={"name": "sgd", "learning_rate": 0.4}) == (False, True)
    assert differs(batch_size=128) == (True, True)
    assert differs(precision="bf16") == (True, True)
    assert differs(compile=True) == (True, False)
    assert differs(epochs=48) == (False, True)


def test_no_run_reached_it():
    said = [
        plain(told) for told in best_settings(study(cells("full", "full", "timing", "predicted"), reached=False), GOAL)
    ]
    assert said == ["No run reached 94 % with decay 1e-4 and decay 5e-4."]


def test_nothing_was_trained():
    made = cells("full", "full", "full", "full")
    assert study_of(made, {}, GOAL) is None

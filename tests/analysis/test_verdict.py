"""Whole grids, as their events, and every sentence that is said of them."""

import re

import pytest

from raybench.analysis.comparison import PlannedCell, compare
from raybench.analysis.conditions import Finding
from raybench.analysis.results import attempts, latest
from raybench.analysis.sentences import markdown, plain
from raybench.analysis.sides import pairs
from raybench.analysis.verdict import verdict
from raybench.trial import events

CPU, OTHER = [4.000, 4.100, 4.050], [2.000, 2.020, 1.980]
TIMES = {"cpu": CPU, "other": OTHER}


def cell(device, batch=256, **settings):
    return {
        "data": {"name": "cifar10", "examples": {"train": 40000, "val": 10000}},
        "device": {"kind": device, "model": device, "count": 1, "replicas": 1},
        "framework": "torch",
        "settings": {"batch_size": batch, "precision": "fp32", "optimizer": {"name": "sgd"}, **settings},
        "warmup_epochs": 1,
        "workload": {"name": "katnoria_cnn"},
    }


def trial(name, repeat, what, seconds, accuracy=0.56, status="completed", epochs=2, once=0.0, host="node-1", steps=156):
    """The events of a trial: a warm-up epoch that takes as long as the others, and no compilation."""
    trial = f"{name}-r{repeat}"
    told = [events.trial_started(trial, 1, cell=what, host={"name": host})]
    for number in range(1, epochs + 1):
        metrics = {"val/accuracy": accuracy}
        told.append(
            events.epoch_ended(
                trial, 1, epoch=number, steps=steps, examples=256 * steps, ledger={"train": seconds}, metrics=metrics
            )
        )
    ledger = {"setup": once, "train": epochs * seconds}
    return [*told, events.trial_ended(trial, 1, status, wall=100.0, template_import=0.0, ledger=ledger)]


def skipped(name, repeat, reason):
    return [events.trial_skipped(f"{name}-r{repeat}", name, reason)]


def runs_of(name, seconds, accuracies=(0.560, 0.561, 0.559), **how):
    return [
        trial(name, repeat, cell(name), each, accuracy, **how)
        for repeat, (each, accuracy) in enumerate(zip(seconds, accuracies, strict=False))
    ]


def planned(*names, repeats=3, **how):
    return [PlannedCell(name, {"device": name, "batch_size": 256}, repeats, **how) for name in names]


def known(*trials):
    return latest(attempts(event for one in trials for event in one).values())


def told(cells, runs, which=1, render=plain, baseline=None, **how):
    found = pairs(cells, known(*runs), baseline or {"device": "cpu"}, **how)
    return [render(each) for each in verdict(found[which])]


def test_the_contract_s_verdict_word_for_word():
    runs = runs_of("cpu", CPU) + runs_of("other", OTHER)
    assert told(planned("cpu", "other"), runs, render=markdown)[0] == (
        "*other* trains `katnoria_cnn` (batch 256) **2.02 × as fast** as *cpu*, steady epochs, 3 runs each "
        "(95 %: 1.97 to 2.08)."
    )
    assert "Accuracy after 2 epochs is the same within what 3 runs can show." in told(planned("cpu", "other"), runs)


def test_table_and_verdict_say_the_same():
    cells = planned("cpu", "other", "third", "fourth")
    factors = (1.0, 1.5, 0.9)
    runs = [
        run
        for name, seconds in (("cpu", 4.0), ("other", 2.0), ("third", 3.0), ("fourth", 1.0))
        for run in runs_of(name, [seconds * factor for factor in factors])
    ]
    row = compare(cells, known(*runs), {"device": "cpu"})[1]
    assert row.speedup.paired, "the other two show that the machine moves"
    assert "repeat by repeat" in told(cells, runs)[0]
    elsewhere = runs_of("other", [2.0, 3.0, 1.8], host="node-2")
    row = compare(cells, known(*runs, *elsewhere), {"device": "cpu"})[1]
    assert not row.speedup.paired, "two machines do not move together"


def test_one_run_each():
    runs = runs_of("cpu", CPU[:1]) + runs_of("other", OTHER[:1])
    said = told(planned("cpu", "other", repeats=1), runs)
    assert said == [
        "other trains katnoria_cnn (batch 256) 2.00 × as fast as cpu, steady epochs, one run each: no interval.",
        "Accuracy after 2 epochs is 56.00 % on other and 56.00 % on cpu, one run each: no interval.",
    ]


def test_slower_is_said_both_ways():
    said = told(planned("cpu", "other"), runs_of("cpu", OTHER) + runs_of("other", CPU))
    assert said[0] == (
        "other trains katnoria_cnn (batch 256) 0.494 × as fast as cpu, steady epochs, 3 runs each "
        "(95 %: 0.481 to 0.507): it takes 2.02 × as long."
    )


def test_no_difference_and_what_would_have_shown():
    said = told(planned("cpu", "other"), runs_of("cpu", CPU) + runs_of("other", [4.05, 4.1, 4.02]))
    head = (
        "other trains katnoria_cnn (batch 256) as fast as cpu within what 3 runs can show: 0.998 ×, steady epochs (95"
    )
    assert said[0].startswith(head)
    assert said[0].endswith("% would have shown four times in five.")


def test_what_only_the_absurd_would_have_shown_is_not_written_out():
    said = told(planned("cpu", "other"), runs_of("cpu", [0.2, 20.0]) + runs_of("other", [7.0, 0.14]))
    assert said[0].endswith("only a ratio of more than 9999 × would have shown four times in five.")


def test_how_many_runs_would_tell_and_where_the_spread_is():
    """Epochs of one process all alike, processes far apart: more epochs would not help."""
    runs = runs_of("cpu", [4.0, 5.0, 4.5], epochs=3) + runs_of("other", [4.2, 5.1, 4.4], epochs=3)
    said = told(planned("cpu", "other"), runs)
    assert said[0] == (
        "Whether other trains katnoria_cnn (batch 256) faster or slower than cpu is not to be told from 3 runs: "
        "0.985 ×, "
        "steady epochs (95 %: 0.773 to 1.26); only a difference of 39 % would have shown four times in five."
    )
    assert said[1].startswith("To show a difference of 5 % four times in five, about 7")
    assert " runs each are needed; on other most of what runs differ by is from process to process (" in said[1]
    assert said[1].endswith("%): more repeats would narrow it most.")
    few = told(planned("cpu", "other"), runs_of("cpu", CPU) + runs_of("other", [4.05, 4.1, 4.02]))
    assert not any("four times in five, about" in each for each in few), "these would have shown 5 %"


def test_a_difference_in_accuracy():
    runs = runs_of("cpu", CPU, (0.940, 0.941, 0.939)) + runs_of("other", OTHER, (0.920, 0.921, 0.919))
    said = told(planned("cpu", "other"), runs)
    assert (
        "Accuracy after 2 epochs is 2.0 points lower on other than on cpu: 92.0 against 94.0 %, 3 runs each" in said[-1]
    )
    assert said[-1].endswith("(95 %: 1.8 to 2.2 points).")


def test_accuracies_that_runs_do_not_tell_apart_are_not_called_the_same():
    runs = runs_of("cpu", CPU, (0.90, 0.94, 0.92)) + runs_of("other", OTHER, (0.88, 0.93, 0.91))
    assert told(planned("cpu", "other"), runs)[-1] == (
        "Whether accuracy after 2 epochs differs is not to be told from 3 runs: 90.7 % on other and 92.0 % on cpu "
        "(95 %: -6.6 to 3.9 points); only 7.1 points would have shown."
    )


def test_warmup_epochs_are_not_called_steady():
    runs = runs_of("cpu", CPU, epochs=1) + runs_of("other", OTHER, epochs=1)
    said = told(planned("cpu", "other"), runs)
    assert "epochs of the warm-up, for none came after it, 3 runs each" in said[0]
    assert "Accuracy after 1 epoch is the same" in said[-1]


def test_runs_that_stopped_at_different_epochs():
    runs = runs_of("cpu", CPU) + runs_of("other", OTHER, epochs=4)
    assert "Accuracy at the end is the same" in told(planned("cpu", "other"), runs)[-1]


def test_one_out_of_memory_and_one_not_run():
    runs = runs_of("cpu", CPU) + runs_of("other", OTHER[:1]) + [trial("other", 1, cell("other"), 1.0, status="oom")]
    said = told(planned("cpu", "other"), runs)
    assert "1 run against 3: no interval." in said[0]
    assert said[-1] == "other: of 3 runs 1 completed and counts; 1 was not run and 1 ran out of memory."


def test_all_diverged():
    lost = [trial("other", repeat, cell("other"), 1.0, status="diverged") for repeat in range(3)]
    assert told(planned("cpu", "other"), runs_of("cpu", CPU) + lost) == ["other has no time: of 3 runs 3 diverged."]
    turned = told(planned("cpu", "other"), runs_of("cpu", CPU) + lost, baseline={"device": "other"}, which=0)
    assert turned[0].startswith(
        "cpu trains katnoria_cnn (batch 256) in 4.05 s an epoch, steady epochs, 3 runs (95 %: 3."
    )
    assert turned[1] == "other has no time: of 3 runs 3 diverged."


def test_skipped_here_or_when_it_ran():
    cells = [*planned("cpu"), *planned("tpu", skip="no TPU on any node")]
    assert told(cells, runs_of("cpu", CPU)) == ["tpu was skipped: no TPU on any node."]
    gone = [skipped("tpu", repeat, "no TPU on any node.") for repeat in range(3)]
    assert told(planned("cpu", "tpu"), runs_of("cpu", CPU) + gone) == ["tpu was skipped: no TPU on any node."]


def test_nothing_has_run():
    assert told(planned("cpu", "other"), []) == [
        "other has no time: of 3 runs 3 were not run.", "cpu has no time: of 3 runs 3 were not run."
    ]  # fmt: skip


def test_one_cell_alone():
    said = told(planned("cpu", repeats=1), runs_of("cpu", CPU[:1]), which=0)
    assert said == ["cpu trains katnoria_cnn (batch 256) in 4.00 s an epoch, steady epochs, one run: no interval."]


@pytest.mark.parametrize(
    ("times", "says"), [(CPU, "contains 1, as it should."), (OTHER, "does not contain 1: runs here")]
)
def test_the_same_cell_twice(times, says):
    cells = [*planned("cpu"), PlannedCell("again", {"device": "cpu", "batch_size": 256}, 3, again="cpu")]
    said = told(cells, runs_of("cpu", CPU) + runs_of("again", times))
    assert len(said) == 1
    assert said[0].startswith("A/A: cpu trains katnoria_cnn (batch 256) ")
    assert says in said[0]


def test_what_else_differs_is_named():
    runs = runs_of("cpu", CPU) + [
        trial("other", repeat, cell("other", precision="bf16"), each) for repeat, each in enumerate(OTHER)
    ]
    assert "They also differ in precision (bf16 against fp32)." in told(planned("cpu", "other"), runs)


def test_other_axes_are_in_the_setting_and_find_their_own_baseline():
    cells = [
        PlannedCell(f"{device}{decay:g}", {"device": device, "batch_size": 64, "weight_decay": decay}, 3)
        for device in ("cpu", "gpu") for decay in (1e-4, 5e-4)
    ]  # fmt: skip
    runs = [
        trial(each.cell_id, repeat, cell(each.axes["device"], 64, weight_decay=each.axes["weight_decay"]), seconds)
        for each in cells
        for repeat, seconds in enumerate(CPU if each.axes["device"] == "cpu" else OTHER)
    ]
    assert told(cells, runs, which=3)[0].startswith(
        "gpu trains katnoria_cnn (batch 64, decay 5e-4) 2.02 × as fast as cpu,"
    )
    by_decay = told(cells, runs, which=1, baseline={"weight_decay": 1e-4})
    assert by_decay[0].startswith("decay 5e-4 trains katnoria_cnn (batch 64, device cpu) as fast as decay 1e-4 within")


def test_a_ratio_that_is_not_the_hardware_s():
    runs = known(*runs_of("cpu", CPU), *runs_of("other", OTHER))
    doubts = {("cpu-r1", 1): [Finding("few_threads", "", "", {})], ("other-r0", 1): [Finding("niceness", "", "", {})]}
    pair = pairs(planned("cpu", "other"), runs, {"device": "cpu"}, findings=doubts)[1]
    said = [plain(each) for each in verdict(pair)]
    assert said[1:3] == [
        "The ratio is not to be credited to the hardware.",
        "cpu ran with fewer threads than cores: this measures a part of the processor, not the whole.",
    ]


def test_nothing_is_said_of_hardware_that_is_the_same():
    cells = [PlannedCell(f"b{batch}", {"device": "cpu", "batch_size": batch}, 3) for batch in (32, 128)]
    runs = known(
        *(
            trial(f"b{batch}", repeat, cell("cpu", batch), seconds)
            for batch, times in ((32, CPU), (128, OTHER))
            for repeat, seconds in enumerate(times)
        )
    )
    pair = pairs(cells, runs, {"batch_size": 32}, findings={("b32-r1", 1): [Finding("busy_host", "", "", {})]})[1]
    said = " ".join(plain(each) for each in verdict(pair))
    assert said.startswith("batch 128 trains katnoria_cnn")
    assert "hardware" not in said and "shared cores" not in said


def test_from_which_job_length_on():
    """100 s of start-up against none; 2 s an epoch of 156 steps less: 50 epochs."""
    runs = runs_of("cpu", [4.0, 4.01, 3.99]) + runs_of("other", [2.0, 2.01, 1.99], once=100.0)
    said = told(planned("cpu", "other"), runs)
    line = next(each for each in said if "job length" in each or "steps on" in each)
    assert line.startswith("With what is paid once (loading, start-up, compilation) counted, other is faster from 7,8")
    assert re.search(r"; cpu is in shorter jobs, surely in those of up to 7,7\d\d steps\.$", line)
    always = told(planned("cpu", "other"), runs_of("cpu", CPU) + runs_of("other", OTHER))
    assert (
        "With what is paid once (loading, start-up, compilation) counted, other is faster at every job length."
        in always
    )


def test_what_it_costs():
    cells = planned("cpu", price_per_hour=0.5) + planned("other", price_per_hour=3.0)
    said = told(cells, runs_of("cpu", CPU) + runs_of("other", OTHER))
    assert said[-1].startswith("An epoch costs 2.96 × as much on other as on cpu, at 3 and 0.5 an hour (95 %: 2.89 to")
    cells = planned("cpu", price_per_hour=0.5) + planned("other", price_per_hour=1.0)
    said = told(cells, runs_of("cpu", CPU) + runs_of("other", OTHER))
    assert said[-1].startswith("An epoch costs as much on other as on cpu within what the runs can show")

"""Sentences and tables that were untrue of some odd grid once."""

from dataclasses import replace

import pytest
from made_up_grids import PRICES, cell_of, made_up, told
from test_step_sections_told import standing as by_sections

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.figures import draw
from raybench.analysis.report import make_report
from raybench.analysis.results import attempts, latest
from raybench.analysis.sentences import plain
from raybench.analysis.sides import differences
from raybench.analysis.standing import Standing
from raybench.cli.verdict import caption
from raybench.identity import cell_id
from raybench.trial.job import Target

LEARNING = (0.4, 0.6, 0.7, 0.8)


def grid(*cells, repeats=3, change=None, **how):
    """A grid of (content, seconds of an epoch): runs waver by a percent, the baseline is the first's device."""
    made, planned = [], []
    for content, seconds in cells:
        axes = {"device": content["device"]["kind"], "batch_size": content["settings"]["batch_size"]}
        planned.append(PlannedCell(cell_id(content), axes, repeats, price_per_hour=PRICES[axes["device"]]))
        for repeat in range(repeats):
            times = [seconds * (1 + 0.01 * repeat)] * len(LEARNING)
            trial = told(content, repeat, times, [each + 0.002 * repeat for each in LEARNING], profile=axes["device"])
            for event in trial:
                if change and event["event"] == "epoch_ended":
                    change(content, event)
            made += trial
    device = cells[0][0]["device"]["kind"]
    return Standing("odd", "katnoria_cnn", planned, latest(attempts(made).values()), {"device": device}, **how)


def said(standing):
    return [plain(each) for paragraph in make_report(standing).verdict for each in paragraph]


def section(standing, name):
    return next(each for each in make_report(standing).sections if each.name == name)


@pytest.mark.parametrize("devices", [("cpu", "gpu"), ("cpu", "gpu", "tpu", "mps")])
def test_runs_by_sections_have_completed(devices):
    assert said(by_sections(*devices, asked=(True,))) == [
        "All runs timed the sections of their steps apart (sections: true), so that there is no verdict on speed."
    ]


def as_error(content, event):
    wrong = 1 - event["metrics"]["val/accuracy"] + content["settings"]["batch_size"] / 10_000
    event["metrics"] = {"val/rmse": wrong, "val/depth": wrong}


def test_of_an_error_the_lowest_is_the_best():
    cells = [(cell_of(device, batch), 4.0) for device in ("cpu", "gpu") for batch in (128, 512)]
    found = grid(*cells, change=as_error)
    assert [record["best"] for record in section(found, "best").records] == ["b128", "b128"]
    aimed = replace(found, target=Target("val/depth", at_most=0.3))
    assert not aimed.metric.endswith("rmse") and aimed.less_is_better, "its name does not tell, but the target does"
    assert not made_up().less_is_better
    assert not replace(found, target=Target("val/rmse", at_least=0.1)).less_is_better


def shorter_at_the_end(content, event):
    if event["epoch"] == len(LEARNING):
        event["steps"] = 140


def test_a_part_of_an_epoch_is_no_epoch():
    found = grid((cell_of("cpu", epochs=3.9), 4.0), (cell_of("gpu", epochs=3.9), 1.0), change=shorter_at_the_end)
    assert {found.steps(cell) for cell in found.cells} == {156}
    jobs = {record["device"]: record["seconds"] for record in section(found, "jobs").records}
    assert jobs["cpu"] == pytest.approx(100 * 4.04 + 4.5, rel=0.01)


def test_warmup_epochs_are_called_so_over_many_settings():
    found = said(made_up(("cpu", "gpu"), (64, 128, 256, 512), epochs=1))
    assert found[0].startswith("Over 4 settings gpu trains katnoria_cnn 3.9")
    assert "as fast as cpu, epochs of the warm-up, for none came after it: surely faster in 4." in found[0]


def test_what_chance_calls_over_many_settings():
    speeds = [(64, 4.0, 6.0), (128, 3.0, 3.0), (256, 2.5, 1.0), (512, 2.4, 0.5)]
    cells = [(cell_of(d, batch), t) for batch, slow, fast in speeds for d, t in (("cpu", slow), ("gpu", fast))]
    assert said(grid(*cells))[0].endswith(
        "surely faster in 2, surely slower in 1, not to be told in 1; of 20 that are as fast, chance alone calls one "
        "faster or slower."
    )
    assert said(grid(*cells, repeats=1))[0].endswith(": no interval in 4.")


def test_spread_that_only_binary_floats_make_is_none():
    found = grid((cell_of("cpu"), 3.97), (cell_of("gpu"), 4.1))
    assert {record["epoch"]["sd"] for record in section(found, "variation").records} == {0}


def test_cells_with_other_numbers_of_runs():
    found = made_up(("cpu", "gpu"), (128, 256))
    fewer = replace(
        found, cells=[replace(cell, repeats=1) if n in (0, 3) else cell for n, cell in enumerate(found.cells)]
    )
    assert "; up to 3 runs each, least and most in brackets" in caption(make_report(fewer))
    assert "; 3 runs each, least and most in brackets" in caption(make_report(found))
    (note,) = [doubt.says for doubt in make_report(fewer).doubts if doubt.kind == "note"]
    assert note == "The journal has 4 trials more of these cells than the repeats asked for, left aside."


def few_examples(content, event):
    if content["device"]["kind"] == "gpu":
        event |= {"steps": 10, "examples": 2560}


def test_epochs_of_other_lengths_are_not_the_same_work():
    """A tenth of the examples in a quarter of the time is no device that is four times as fast."""
    cut = cell_of("gpu")
    cut["data"]["examples"] = {"train": 2560, "val": 10000}
    found = grid((cell_of("cpu"), 4.0), (cut, 1.0), change=few_examples)
    assert (
        "An epoch is not the same work on both: 2,560 examples on gpu against 39,936 on cpu; for each example gpu is "
        "0.255 × as fast."
    ) in said(found)
    (record,) = section(found, "lengths").records
    assert "long_run" not in record and "epochs_10" not in record and record["step"]["ratio"] < 1.1
    doubts = [doubt.says for doubt in make_report(found).doubts]
    assert any(each.startswith("One cell is compared with a baseline whose epochs have another") for each in doubts)
    same = grid((cell_of("cpu"), 4.0), (cell_of("gpu"), 1.0))
    assert not any("same work" in each for each in said(same))
    assert not any("another number" in doubt.says for doubt in make_report(same).doubts)


def test_times_without_any_spread_are_doubted():
    found = grid((cell_of("cpu"), 4.0), (cell_of("gpu"), 1.0), repeats=1)
    twice = replace(found, cells=[replace(cell, repeats=2) for cell in found.cells])
    exact = {f"{run.cell_id}-r1": replace(run, trial=f"{run.cell_id}-r1") for run in found.latest.values()}
    told_of = [doubt.says for doubt in make_report(replace(twice, latest={**found.latest, **exact})).doubts]
    assert any(each.startswith("The runs of 2 cells took the same time to the last digit") for each in told_of)


def test_runs_that_stop_at_their_target_prove_no_accuracy():
    """Each ended because it had got there: that all did is no mean above it."""
    aim = Target("val/accuracy", 0.75)
    stop = {"stop_at_target": {"metric": "val/accuracy", "at_least": 0.75}}
    found = grid((cell_of("cpu", **stop), 4.0), (cell_of("gpu", **stop), 1.0), target=aim)
    report = make_report(found)
    every = [plain(each) for _, sentences in report.comparisons for each in sentences]
    assert any("reaches 75 % in 3 of 3 runs" in each for each in every)
    assert not any("ccuracy" in each for each in every) and not report.deciding
    assert "proof" not in section(found, "target").records[0]
    free = make_report(grid((cell_of("cpu"), 4.0), (cell_of("gpu"), 1.0), target=aim))
    assert any("75 % is shown" in plain(each) for _, sentences in free.comparisons for each in sentences)


def test_what_runs_far_apart_do_not_tell():
    made = made_up(("cpu", "gpu"), noise=0.5, repeats=2, seed=0)
    told_of = said(replace(made, target=Target("val/accuracy", 0.3)))
    assert told_of[0].startswith("Whether gpu trains katnoria_cnn")
    assert any(
        each.startswith("Whether an epoch costs more or less on gpu than on cpu is not to be") for each in told_of
    )
    assert not any("costs as much" in each for each in told_of)
    (ratio,) = [each for each in told_of if "sooner or later at 30 %" in each]
    assert ratio.startswith("Whether gpu is sooner or later at 30 % than cpu is not to be told: ")
    assert ratio.endswith("): both take as many epochs.")


def unlike(content, event):
    if event["epoch"] == len(LEARNING):
        event["metrics"]["val/accuracy"] += 0.1 * (event["trial"][-1] == "1")


def test_accuracies_far_apart_are_not_called_the_same():
    (line,) = [
        each for each in said(grid((cell_of("cpu"), 4.0), (cell_of("gpu"), 1.0), change=unlike)) if "ccurac" in each
    ]
    assert line.startswith("Whether accuracy after 4 epochs differs is not to be told from 3 runs: 81.53 % on gpu and")
    assert line.endswith(" points would have shown.")


def test_warmup_epochs_tell_of_no_job_length():
    found = make_report(made_up(epochs=1))
    assert not any("job length" in plain(each) or "steps on" in plain(each) for each in found.verdict[0])
    assert "lengths" not in {each.name for each in found.sections}


def test_nine_point_nine_epochs_are_not_ten():
    found = grid((cell_of("cpu", epochs=3.9), 4.0), (cell_of("gpu", epochs=3.9), 1.0))
    assert "Accuracy after 3.9 epochs is the same within what 3 runs can show." in said(found)


def test_accuracy_in_training_is_not_that_of_validation():
    found = said(made_up()) + said(replace(made_up(), target=Target("train/accuracy", 0.8)))
    assert any(each.startswith("gpu reaches train/accuracy of 80 % in 3 of 3 runs") for each in found)


def test_restarts_do_not_help_what_does_not_fit():
    ends = {("gpu", 256, 5e-4, repeat): "oom" for repeat in range(3)}
    report = make_report(replace(made_up(ends=ends), target=Target("val/accuracy", 0.78)))
    sentences = [plain(each) for each in dict(report.comparisons)["gpu"]]
    assert "gpu reaches 78 % in 0 of 3 runs (95 %: 0 to 56 %)." in sentences


def test_a_target_without_accuracy_says_nothing_of_a_mean():
    loss = replace(made_up(), target=Target("val/loss", at_most=1.45))
    assert "mean accuracy" not in section(loss, "target").says
    assert "mean accuracy" in section(replace(made_up(), target=Target("val/accuracy", 0.78)), "target").says


def test_two_batches_on_one_device_have_one_price():
    found = grid((cell_of("cpu", 64), 6.0), (cell_of("cpu", 256), 4.0))
    (line,) = [each for each in said(replace(found, baseline={"batch_size": 64})) if "costs" in each]
    assert line.startswith("An epoch costs 0.667 × as much on batch 256 as on batch 64, at 0.1 an hour (95 %: 0.6")
    assert "would cost the same" not in line, "there is no hour of a batch"


def test_an_included_cell_with_a_setting_of_its_own_is_told_from_the_others():
    """As the published decay rule beside the right one: everything else of the two is alike."""
    found = grid((cell_of("cpu"), 4.0), (cell_of("gpu"), 1.0), (cell_of("gpu", decay_rule="sum_over_replicas"), 1.0))
    *others, included = found.cells
    included = replace(included, axes=included.axes | {"decay_rule": "sum_over_replicas"})
    found = replace(found, cells=[*others, included])
    report = make_report(found)
    assert [label for label, _ in report.comparisons] == ["cpu", "gpu", "gpu decay_rule=sum_over_replicas"]
    assert "(batch 256, decay rule sum_over_replicas)" in plain(report.comparisons[2][1][0])
    (row,) = [record for record in section(found, "best").records if record["device"] == "gpu"]
    assert row["best"] == row["fastest"] == "–", "the one without that setting"


def test_a_time_with_restarts_is_called_so_on_every_device():
    cells = [(cell_of(device, batch), t) for device, t in (("cpu", 4.0), ("gpu", 1.0)) for batch in (32, 64, 128, 256)]
    told_of = said(grid(*cells, target=Target("val/accuracy", 0.781)))
    assert "The soonest of many settings had some luck, which its interval leaves out." in told_of
    few = said(grid(*cells[:2], *cells[4:6], target=Target("val/accuracy", 0.781)))
    assert not any("some luck" in each for each in few)
    (line,) = [each for each in told_of if each.startswith("On gpu")]
    assert line.startswith("On gpu, b") and "gets to 78.1 % soonest: in " in line
    assert " s of training with restarts (95 %: " in line and line.endswith("2 of 3 runs reached it.")


@pytest.mark.parametrize(
    ("prices", "says"),
    [
        ((0.0, 0.35), "An epoch costs nothing on cpu, at 0 an hour."),
        ((0.1, 0.0), "An epoch costs nothing on gpu, at 0 an hour; it would cost as much as on cpu at 0.39"),
        ((0.1, None), "An epoch costs as much on gpu as on cpu where an hour of it costs 0.39"),
    ],
)
def test_what_costs_nothing(prices, says):
    found = grid((cell_of("cpu"), 4.0), (cell_of("gpu"), 1.0))
    cells = [replace(cell, price_per_hour=price) for cell, price in zip(found.cells, prices, strict=True)]
    (line,) = [each for each in said(replace(found, cells=cells)) if "cost" in each]
    assert line.startswith(says)


def test_what_costs_nothing_has_its_mark_in_the_figure():
    found = made_up(("cpu", "gpu", "tpu"))
    free = replace(found, cells=[replace(found.cells[0], price_per_hour=0.0), *found.cells[1:]])
    (panel, *_) = draw("time_and_cost", free).axes
    assert panel.get_yscale() == "linear", "0 has no place on a logarithmic one"
    assert draw("time_and_cost", found).axes[0].get_yscale() == "log"


def test_a_long_start_may_turn_the_time_to_the_target():
    """Four times as fast in training, after a start that is fifty times as long."""
    cells, made = [], []
    for device, seconds, start in (("cpu", 4.0, 2.0), ("gpu", 1.0, 300.0)):
        content = cell_of(device)
        cells.append(PlannedCell(cell_id(content), {"device": device}, 3))
        for repeat in range(3):
            times = [seconds * (1 + 0.01 * repeat)] * len(LEARNING)
            made += told(content, repeat, times, LEARNING, profile=device, start=start)
    found = Standing("odd", "katnoria_cnn", cells, latest(attempts(made).values()), {"device": "cpu"})
    (line,) = [each for each in said(replace(found, target=Target("val/accuracy", 0.75))) if each.startswith("To 75 %")]
    assert line.startswith("To 75 % gpu is 3.59 × as fast as cpu (95 %: 3.5")
    assert line.endswith(
        ": both take as many epochs; that is of training: with loading and start-up it is 0.0894 × as fast."
    )


def test_a_sentence_goes_on_in_the_middle_of_another():
    made = made_up(("cpu", "gpu"), (32, 64, 128, 256, 512), noise=0.8, repeats=2, seed=3)
    assert any(each.startswith("Where it is fastest: whether gpu trains katnoria_cnn") for each in said(made))


def test_a_setting_that_only_one_side_has_is_told_against_its_default():
    """Settings that came after the first form of a cell are in it only where they differ from their default."""
    plain_cell, set_cell = cell_of("cpu"), cell_of("gpu", channels_last=True, label_smoothing=0.2)
    assert differences(plain_cell, set_cell, ["device"]) == (
        "channels last (True against False)",
        "label smoothing (0.2 against 0)",
    )
    assert differences(set_cell, plain_cell, ["device"]) == (
        "channels last (False against True)",
        "label smoothing (0 against 0.2)",
    )
    del plain_cell["device"]["replicas"]
    assert "replicas (1 against not told)" in differences(plain_cell, set_cell, ["device"])

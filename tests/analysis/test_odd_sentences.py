"""Sentences and tables that were untrue of some odd grid once."""

from dataclasses import replace

import pytest
from made_up_grids import PRICES, cell_of, made_up, told
from test_step_sections_told import standing as by_sections

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.report import make_report
from raybench.analysis.results import attempts, latest
from raybench.analysis.sentences import plain
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
    found = grid((cell_of("cpu"), 4.0), (cell_of("gpu"), 1.0))
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

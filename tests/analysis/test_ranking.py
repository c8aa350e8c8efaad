from dataclasses import replace

import pytest
from support.made_up_grids import made_up
from support.report_grids import CPU, GPU, REPORTS, Grid

from raybench.core.job import Target
from raybench.reporting.report import make_report


def ranking(results):
    return make_report(results).ranking


def test_devices_are_ranked_by_their_fastest_settings():
    results = made_up(("cpu", "gpu", "tpu"), (64, 512))
    ranked = ranking(results)
    assert [each.device for each in ranked] == ["tpu", "gpu", "cpu"]
    assert {results.label(results.cells[each.number]).split()[1] for each in ranked} == {"b512"}
    assert [each.is_baseline for each in ranked] == [False, False, True] and ranked[2].speedup is None
    rows = results.rows
    assert ranked[0].speedup.ratio == pytest.approx(rows[ranked[0].number].speedup.ratio)
    assert ranked[0].speedup.low < rows[ranked[0].number].speedup.low, "selected from two settings on each side"


def test_a_target_ranks_by_the_time_to_it():
    results = replace(made_up(("cpu", "gpu"), (64, 512)), target=Target("val/accuracy", 0.78))
    ranked = ranking(results)
    assert [each.device for each in ranked] == ["gpu", "cpu"]
    assert all(each.target.seconds for each in ranked) and ranked[0].target.seconds < ranked[1].target.seconds
    assert ranked[0].price == pytest.approx(0.35 * ranked[0].target.seconds / 3600)


def test_a_device_without_results_is_last_and_one_that_was_skipped_is_not_there():
    ends = {("gpu", 256, 5e-4, repeat): "failed" for repeat in range(3)}
    ends |= {("tpu", 256, 5e-4, 0): "skipped"}
    assert ranking(made_up(("cpu", "gpu", "tpu"), ends=ends)) == [], "only one device has times"
    grid = Grid().add("mps", (3.0,), statuses={0: "oom"}, plan={"repeats": 1}).add("cpu", CPU).add("gpu", GPU)
    assert [each.device for each in grid.report().ranking] == ["gpu", "cpu", "mps"]


def test_examples_per_second_decide_if_epochs_differ_in_size():
    def tenth(event):
        if event["event"] == "epoch_ended":
            event |= {"steps": 10, "examples": 3993}

    ranked = Grid().add("cpu", CPU).add("gpu", GPU, event=tenth).report().ranking
    assert [each.device for each in ranked] == ["cpu", "gpu"]


def test_one_device_has_no_ranking():
    assert REPORTS["batches"]().ranking == REPORTS["one_device"]().ranking == []
    assert ranking(replace(made_up(), name="made_up~smoke")) == []

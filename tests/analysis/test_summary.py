from dataclasses import replace

import pytest
from support.made_up_grids import made_up
from support.report_grids import CPU, GPU, REPORTS, Grid

from raybench.analysis.summary import (
    BestToTargetFact,
    FastestCellFact,
    FastestSettingFact,
    MissingCellsFact,
    NoVerdictFact,
    PartialCellsFact,
    SelectionFact,
    SlowestCellFact,
    SmokeCaveatFact,
    SmokeRunFact,
    SpeedupRangeFact,
    TargetMissedFact,
)
from raybench.analysis.verdict import BreakEvenFact, HardwareCaveatFact, RunsFact
from raybench.core.job import Target
from raybench.reporting.report import make_report


def facts(report):
    return [fact for paragraph in report.verdict for fact in paragraph]


def of(report, kind):
    return [fact for fact in facts(report) if isinstance(fact, kind)]


def test_many_comparisons_have_a_range_and_the_fastest_of_them():
    report = REPORTS["many_settings"]()
    first, fastest = report.verdict[0][:2]
    assert isinstance(first, SpeedupRangeFact) and isinstance(fastest, FastestSettingFact)
    assert first.least < 1 < first.most == pytest.approx(fastest.speedup.ratio)
    assert (first.settings, first.faster, first.slower, first.not_significant) == (4, 2, 1, 1)


def test_without_a_baseline_the_fastest_and_the_slowest_cell():
    report = REPORTS["one_device"]()
    (fastest,), (slowest,) = of(report, FastestCellFact), of(report, SlowestCellFact)
    assert fastest.cells == 4 and fastest.time.seconds < slowest.time.seconds


def test_nothing_to_compare():
    assert REPORTS["nothing_at_all"]().verdict == [[NoVerdictFact(completed=False)]]
    assert of(REPORTS["nothing_completed"](), RunsFact)


def test_the_setting_that_reaches_the_target_first():
    results = made_up(("cpu", "gpu"), (64, 128, 256, 512))
    report = make_report(replace(results, target=Target("val/accuracy", 0.78)))
    best = {fact.device: fact for fact in of(report, BestToTargetFact)}
    assert set(best) == {"cpu", "gpu"}
    assert best["gpu"].seconds < best["cpu"].seconds
    assert best["gpu"].settings == 4 >= best["gpu"].reaching
    never = make_report(replace(results, target=Target("val/accuracy", 0.99)))
    assert {fact.device: fact.tries for fact in of(never, TargetMissedFact)} == {"cpu": 12, "gpu": 12}
    easy = make_report(replace(results, target=Target("val/accuracy", 0.3)))
    assert of(easy, SelectionFact) and not of(never, SelectionFact)


def test_missing_cells_and_runs():
    lost = {("gpu", batch, 5e-4, repeat): "lost" for batch in (64, 128, 256, 512) for repeat in range(3)}
    lost[("cpu", 64, 5e-4, 0)] = "lost"
    report = make_report(made_up(("cpu", "gpu"), (64, 128, 256, 512), ends=lost))
    assert of(report, MissingCellsFact) == [MissingCellsFact(8, 4)]
    assert of(report, PartialCellsFact) == [PartialCellsFact(1)]


def test_a_fact_is_in_the_verdict_once_but_for_the_caveat_of_each_comparison():
    report = REPORTS["outcomes"]()
    every = facts(report)
    assert all(every.count(fact) == 1 for fact in every if not isinstance(fact, HardwareCaveatFact))


def test_alike_facts_about_other_sides_are_not_one():
    """Both devices are slower at every job length: that is a fact of each comparison."""
    grid = Grid().add("cpu", GPU).add("gpu", CPU).add("tpu", CPU)
    assert [fact.loser for fact in of(grid.report(), BreakEvenFact)] == ["gpu", "tpu"]


def test_a_smoke_run_has_no_other_fact():
    report = make_report(
        replace(made_up(ends={("gpu", 256, 5e-4, n): "failed" for n in range(3)}), name="made_up~smoke")
    )
    assert report.verdict == [[SmokeRunFact(1, 2), SmokeCaveatFact()]]
    assert report.comparisons == []

import pytest
from support.report_grids import CPU, GPU, REPORTS, Grid

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.pairs import CellSummary, Comparison, pairs
from raybench.analysis.run_counts import RunCounts
from raybench.analysis.target import (
    MeanAccuracyFact,
    NoTargetRatioFact,
    TargetFact,
    TargetRatioFact,
    mean_accuracy,
    to_target,
)
from raybench.analysis.verdict import Outcome
from raybench.core.job import Target


@pytest.fixture(scope="module")
def facts():
    """Facts of each cell on its way to the target, by its label."""
    return dict(REPORTS["targets"]().comparisons)


def of(some, kind, name=None):
    return next((fact for fact in some if isinstance(fact, kind) and (name is None or fact.name == name)), None)


def test_without_a_target_there_is_no_fact():
    assert to_target(pairs([PlannedCell("cpu", {"device": "cpu"}, 1)], {}, {})[0]) == []


def test_how_often_and_how_soon_a_cell_reaches_it(facts):
    all_of_them, some, none = (of(facts[name], TargetFact, name) for name in ("sooner", "some", "none"))
    assert (all_of_them.successes, all_of_them.tries) == (3, 3)
    assert all_of_them.seconds == pytest.approx(all_of_them.mean_seconds)
    assert (some.successes, some.tries) == (2, 3) and some.seconds > some.mean_seconds
    assert some.share_low < 2 / 3 < some.share_high
    assert (none.successes, none.seconds, none.mean_seconds) == (0, None, None) and none.low > 0
    assert of(facts["lost"], TargetFact, "lost") is None, "no run shows anything"


def test_ratios_of_times():
    slowly = tuple(0.4 + 0.01 * epoch for epoch in range(40))
    grid = Grid(target=Target("val/accuracy", 0.75)).add("cpu", CPU, learning=slowly)
    grid.add("sooner", (2.0, 2.02, 1.98), learning=slowly).add("later", (8.0, 8.2, 8.1), learning=slowly)
    grid.add("long start", (2.0, 2.02, 1.98), learning=slowly, start=3000.0)
    grid.add("not clear", (3.0, 6.0, 4.4), learning=slowly)
    facts = {label: of(some, TargetRatioFact) for label, some in grid.report().comparisons if label != "cpu"}
    assert {label: fact.outcome for label, fact in facts.items()} == {
        "sooner": Outcome.HIGHER,
        "later": Outcome.LOWER,
        "long start": Outcome.HIGHER,
        "not clear": Outcome.NOT_SIGNIFICANT,
    }
    assert all(fact.same_epochs and not fact.restarts for fact in facts.values())
    assert facts["sooner"].with_startup is None and facts["long start"].with_startup < 1


def test_a_ratio_of_hardware_and_precision_together_names_the_precision(facts):
    fact = of(facts["more epochs in bf16"], TargetRatioFact)
    assert [each.setting for each in fact.differences] == ["precision"]
    assert not fact.same_epochs and fact.epochs_ratio > 1


def test_no_ratio_where_epochs_are_not_shown_to_be_alike(facts):
    more = of(facts["more epochs"], NoTargetRatioFact)
    assert (more.outcome, round(more.epochs_ratio, 2)) == (Outcome.HIGHER, 1.25)
    assert of(facts["one run"], NoTargetRatioFact).outcome == Outcome.EQUAL
    assert of(facts["more epochs"], TargetRatioFact) is None


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ((0.95,), Outcome.UNKNOWN),
        ((0.95, 0.951, 0.952), Outcome.HIGHER),
        ((0.90, 0.901, 0.902), Outcome.LOWER),
        ((0.92, 0.95, 0.96), Outcome.NOT_SIGNIFICANT),
    ],
)
def test_what_runs_prove_of_a_mean(accuracies, expected):
    side = CellSummary("gpu", RunCounts(3, 3), accuracies=accuracies)
    fact = mean_accuracy(Comparison("", side, target=Target("val/accuracy", 0.94)))
    assert isinstance(fact, MeanAccuracyFact) and (fact.outcome, fact.runs) == (expected, len(accuracies))


def test_no_mean_is_proven_without_runs_or_of_another_metric_or_of_runs_that_stop():
    def fact(target, **known):
        return mean_accuracy(Comparison("", CellSummary("gpu", RunCounts(3, 3), **known), target=target))

    assert fact(Target("val/accuracy", 0.94)) is None
    assert fact(Target("val/loss", None, 0.3), accuracies=(0.9, 0.9)) is None
    assert fact(Target("val/accuracy", 0.94), accuracies=(0.95, 0.96), stops=True) is None
    assert fact(None, accuracies=(0.9,)) is None


def test_the_mean_is_a_fact_of_a_report():
    report = Grid(target=Target("val/accuracy", 0.7)).add("cpu", CPU).add("gpu", GPU).report()
    assert [of(some, MeanAccuracyFact).outcome for _, some in report.comparisons] == [Outcome.HIGHER] * 2

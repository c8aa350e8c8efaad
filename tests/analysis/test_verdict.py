"""Facts of comparisons: which case applies, and its numbers."""

import pytest
from support.report_grids import CPU, GPU, REPORTS, Grid

from raybench.analysis.diagnostics import diagnose  # noqa: F401 — declares the kinds of findings
from raybench.analysis.pairs import CellSummary, Comparison
from raybench.analysis.run_counts import Ending, RunCounts
from raybench.analysis.statistics.break_even import Estimate
from raybench.analysis.verdict import (
    AaTestFact,
    AccuracyFact,
    BreakEvenFact,
    BreakEvenPriceFact,
    ConfounderFact,
    CostFact,
    DifferencesFact,
    EpochSizeFact,
    EpochTimeFact,
    FreeBaselineFact,
    FreeOtherFact,
    HardwareCautionFact,
    OneMachineEachFact,
    Outcome,
    RunsFact,
    Samples,
    SpeedupFact,
    confounders,
    one_machine_each,
    outcome,
    reasons,
    runs,
    unique,
    verdict,
)


@pytest.fixture(scope="module")
def outcomes():
    """Facts of each cell of a report, by its label."""
    return dict(REPORTS["outcomes"]().comparisons)


def of(facts, kind):
    """The fact of a kind, of which there is one at most."""
    found = [fact for fact in facts if isinstance(fact, kind)]
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize(
    ("differs", "is_higher", "is_equal", "expected"),
    [
        (None, True, True, Outcome.UNKNOWN),
        (True, True, False, Outcome.HIGHER),
        (True, False, True, Outcome.LOWER),
        (False, True, True, Outcome.EQUAL),
        (False, True, False, Outcome.NOT_SIGNIFICANT),
    ],
)
def test_outcomes(differs, is_higher, is_equal, expected):
    assert outcome(differs, is_higher, is_equal) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("faster", Outcome.HIGHER),
        ("slower", Outcome.LOWER),
        ("as fast", Outcome.EQUAL),
        ("not clear", Outcome.NOT_SIGNIFICANT),
        ("one run", Outcome.UNKNOWN),
    ],
)
def test_a_speed_up_has_its_outcome(outcomes, label, expected):
    fact = outcomes[label][0]
    assert isinstance(fact, SpeedupFact) and fact.outcome == expected
    assert (fact.other, fact.baseline, fact.setting) == (label, "cpu", "batch 256")
    assert (fact.low is None) == (expected == Outcome.UNKNOWN)
    assert fact.low is None or fact.low < fact.ratio < fact.high


def test_a_speed_up_has_its_samples(outcomes):
    assert of(outcomes["faster"], SpeedupFact).samples == Samples(3, 3)
    assert of(outcomes["one run"], SpeedupFact).samples == Samples(1, 3)
    assert of(outcomes["fewer examples"], SpeedupFact).per_example
    assert not of(outcomes["faster"], SpeedupFact).per_example
    moving = dict(REPORTS["moving_machine"]().comparisons)
    assert of(moving["other"], SpeedupFact).paired


def test_a_cell_without_a_comparison_has_its_time(outcomes):
    fact = outcomes["cpu"][0]
    assert isinstance(fact, EpochTimeFact) and (fact.name, fact.runs) == ("cpu", 3)
    assert fact.low < fact.seconds < fact.high and fact.seconds == pytest.approx(4.06, abs=0.01)


def test_an_a_a_test_has_its_outcome():
    every = [of(facts, AaTestFact) for _, facts in REPORTS["same_cell_twice"]().comparisons]
    found = {fact.name: fact.outcome for fact in every if fact}
    assert found == {"cpu A/A": Outcome.EQUAL} or set(found.values()) == {
        Outcome.EQUAL,
        Outcome.LOWER,
        Outcome.UNKNOWN,
    }


def test_a_difference_in_accuracy(outcomes):
    worse, unclear = of(outcomes["learns worse"], AccuracyFact), of(outcomes["learns less surely"], AccuracyFact)
    assert worse.outcome == Outcome.LOWER and worse.low < worse.points < worse.high < 0
    assert worse.points == pytest.approx(worse.other_percent - worse.baseline_percent)
    assert (unclear.outcome, unclear.epochs, unclear.samples) == (Outcome.NOT_SIGNIFICANT, 4, Samples(3, 3))
    assert of(outcomes["longer"], AccuracyFact) is None, "it was to be trained for other epochs"


def test_other_settings_and_epochs_of_another_size(outcomes):
    assert {each.setting for each in of(outcomes["bf16"], DifferencesFact).differences} == {
        "precision",
        "channels_last",
    }
    fact = of(outcomes["fewer examples"], EpochSizeFact)
    assert (fact.other_examples, fact.baseline_examples) == (2560, 39936)


def test_break_even_lengths(outcomes):
    slow, quick = of(outcomes["slow start"], BreakEvenFact), of(outcomes["quick start"], BreakEvenFact)
    assert (slow.winner, slow.loser) == ("slow start", "cpu")
    assert slow.sure_before < slow.turns_at < slow.sure_from
    assert quick.winner == "cpu"
    assert of(outcomes["one run"], BreakEvenFact) is None


def test_a_device_named_after_a_batch_has_its_break_even_length():
    report = Grid().add("cpu", CPU).add("big batch", GPU, start=300.0).report()
    fact = of(report.comparisons[1][1], BreakEvenFact)
    assert (fact.winner, fact.loser) == ("big batch", "cpu")


def test_of_two_batches_no_length_is_the_same_work():
    report = REPORTS["batches"]()
    assert all(of(facts, BreakEvenFact) is None for _, facts in report.comparisons)


def test_costs():
    facts = dict(REPORTS["prices"]().comparisons)
    dearer = of(facts["dearer"], CostFact)
    speedup = of(facts["dearer"], SpeedupFact)
    assert dearer.ratio == pytest.approx(0.35 / 0.1 / speedup.ratio)
    assert (dearer.low, dearer.high) == pytest.approx((3.5 / speedup.high, 3.5 / speedup.low))
    assert (dearer.outcome, dearer.break_even.value) == (Outcome.HIGHER, pytest.approx(0.1 * speedup.ratio))
    assert of(facts["at half the speed and price"], CostFact).outcome == Outcome.EQUAL
    assert of(facts["not clear"], CostFact).outcome == Outcome.NOT_SIGNIFICANT
    assert of(facts["one run"], CostFact).outcome == Outcome.UNKNOWN
    assert isinstance(of(facts["free"], FreeOtherFact).price, Estimate)
    assert of(facts["without a price"], BreakEvenPriceFact).baseline_price == 0.1
    assert of(dict(REPORTS["free_baseline"]().comparisons)["gpu"], FreeBaselineFact) == FreeBaselineFact("cpu")


def test_of_one_device_no_price_is_sought():
    (fact,) = [found for _, facts in REPORTS["batches"]().comparisons if (found := of(facts, CostFact))]
    assert fact.break_even is None


def test_runs_that_are_missing(outcomes):
    assert of(outcomes["faster"], RunsFact) is None
    some, none = of(outcomes["one of three"], RunsFact), of(outcomes["all lost"], RunsFact)
    assert (some.timed, some.counts.by_status) == (1, {"failed": 1, "oom": 1})
    assert (none.timed, none.counts.by_status) == (0, {"lost": 3})
    assert of(outcomes["skipped"], RunsFact).counts.skip == "no TPU on any node"
    assert runs(CellSummary("gpu", RunCounts(3, 1, "no TPU"), times={0: 1.0})) is None
    assert runs(CellSummary("gpu", RunCounts(3, 1, "no TPU", (Ending("oom", 1),)), times={0: 1.0})).timed == 1


def side(name, *cautions, bottleneck=(), hosts=()):
    return CellSummary(name, RunCounts(3, 3), cautions=frozenset(cautions), bottleneck=bottleneck, hosts=hosts)


@pytest.mark.parametrize(("bottleneck", "code"), [("input", "input_bound"), ("overhead", "overhead_bound")])
def test_what_bounds_a_side_confounds_as_a_finding_does(bottleneck, code):
    expected = [HardwareCautionFact(), ConfounderFact(code, ("gpu",), *reasons()[code])]
    assert confounders(side("cpu"), side("gpu", bottleneck=(bottleneck, "memory"))) == expected
    assert confounders(side("cpu"), side("gpu", code)) == expected
    assert confounders(side("cpu"), side("gpu", code, bottleneck=(bottleneck,))) == expected, "once"


def test_each_reason_is_a_fact_with_the_sides_it_concerns():
    found = confounders(side("cpu", "few_threads", "throttled"), side("gpu", "throttled", bottleneck=("input",)))
    assert found[0] == HardwareCautionFact()
    assert {fact.code: fact.sides for fact in found[1:]} == {
        "throttled": ("gpu", "cpu"),
        "input_bound": ("gpu",),
        "few_threads": ("cpu",),
    }


@pytest.mark.parametrize("bottleneck", [("compute",), ("memory",), ("compute", "overhead"), ()])
def test_two_busy_devices_are_not_confounded(bottleneck):
    assert confounders(side("cpu", bottleneck=("compute",)), side("gpu", bottleneck=bottleneck)) == []


def test_a_caution_confounds_nothing():
    assert confounders(side("cpu", "niceness", "no_audit"), side("gpu")) == []


def test_hardware_is_not_in_question_where_both_ran_on_the_same():
    facts = verdict_of(hardware=False)
    assert not any(isinstance(fact, HardwareCautionFact | ConfounderFact) for fact in facts)
    assert of(verdict_of(hardware=True), HardwareCautionFact)


def verdict_of(hardware):
    """The facts of two batches, of which one ran on a busy machine."""
    from dataclasses import replace

    from raybench.analysis.pairs import pairs
    from raybench.results.attempt import attempts, latest

    grid = Grid().add("cpu", CPU).add("gpu", GPU)
    pair = pairs(grid.cells, latest(attempts(grid.events).values()), {"device": "cpu"})[1]
    return verdict(replace(pair, hardware=hardware, other=replace(pair.other, cautions=frozenset({"throttled"}))))


def test_one_machine_on_each_side():
    def found(hardware, *hosts):
        sides = [side("cpu", hosts=hosts[0]), side("gpu", hosts=hosts[1])]
        return one_machine_each(Comparison("", sides[1], sides[0], hardware=hardware), sides[0])

    assert found(True, ("a",), ("b",)) == OneMachineEachFact()
    assert found(True, ("a",), ("a",)) is None and found(True, ("a",), ("b", "c")) is None
    assert found(False, ("a",), ("b",)) is None


def test_unique_facts_keep_their_order():
    facts = [HardwareCautionFact(), OneMachineEachFact(), HardwareCautionFact()]
    assert list(unique(facts)) == facts[:2]

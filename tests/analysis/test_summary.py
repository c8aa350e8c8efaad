import math
from dataclasses import replace

import pytest
from support.made_up_grids import made_up
from support.report_grids import CPU, GPU, REPORTS, Grid

from raybench.analysis import summary
from raybench.analysis.pairs import pairs
from raybench.analysis.summary import (
    BestSpeedupFact,
    BestToTargetFact,
    CellTimesFact,
    CheapestFact,
    LeastEnergyFact,
    NoBaselineFact,
    NoVerdictFact,
    OverallAccuracyFact,
    OverallSpeedupFact,
    SmokeCautionFact,
    SmokeRunFact,
    TargetSummaryFact,
)
from raybench.analysis.verdict import EpochTimeFact, Outcome
from raybench.core.job import Target
from raybench.reporting.comparison_table import cell_columns, ranking_columns
from raybench.reporting.report import as_json, make_report
from raybench.reporting.sentences import plain


def facts(report):
    return [fact for paragraph in report.verdict for fact in paragraph]


def of(report, kind):
    (fact,) = [fact for fact in facts(report) if isinstance(fact, kind)]
    return fact


@pytest.mark.parametrize("name", REPORTS)
def test_an_answer_has_at_most_three_facts(name):
    assert 1 <= len(facts(REPORTS[name]())) <= 3


def test_the_speed_up_is_the_geometric_mean_over_pairs():
    grid = Grid(baseline={"batch_size": 64})
    for decay, seconds in ((0.0, (4.0, 2.0)), (5e-4, (4.0, 1.9))):
        for batch, second in zip((64, 256), seconds, strict=True):
            runs = [second * factor for factor in (1.0, 1.01, 1.02)]
            grid.add("cpu", runs, batch=batch, axes={"weight_decay": decay}, weight_decay=decay)
    report = grid.report()
    fact = of(report, OverallSpeedupFact)
    ratios = [row.speedup.ratio for row in report.results.rows if row.speedup]
    assert (fact.other, fact.baseline) == ("batch 256", "batch 64")
    assert fact.ratio == pytest.approx(math.sqrt(ratios[0] * ratios[1]))
    assert fact.low < fact.ratio < fact.high and fact.outcome == Outcome.HIGHER
    assert (fact.least, fact.most) == pytest.approx((min(ratios), max(ratios)))
    assert not fact.depends_on and not fact.fastest and not fact.equal_settings


def test_a_speed_up_that_depends_on_a_setting_is_a_range():
    fact = of(REPORTS["many_settings"](), OverallSpeedupFact)
    assert fact.depends_on == ("batch_size",)
    assert fact.least < 1 < fact.most == pytest.approx(4.74, abs=0.01)


def test_the_fastest_of_several_has_a_wider_interval():
    alone = of(Grid().add("cpu", CPU).add("gpu", GPU).report(), OverallSpeedupFact)
    of_two = of(Grid().add("cpu", CPU).add("gpu", GPU).add("tpu", (2.0, 2.02, 1.98)).report(), OverallSpeedupFact)
    assert (of_two.other, of_two.fastest, of_two.tied) == ("gpu", True, ())
    assert not alone.fastest and of_two.ratio == pytest.approx(alone.ratio)
    assert of_two.low < alone.low < alone.high < of_two.high


def test_a_device_that_is_not_shown_to_be_slower_is_named():
    report = Grid().add("cpu", CPU).add("gpu", GPU).add("tpu", (1.01, 1.0, 0.99)).report()
    fact = of(report, OverallSpeedupFact)
    assert {fact.other, *fact.tied} == {"gpu", "tpu"}


def test_a_baseline_may_be_the_fastest():
    fact = of(Grid().add("cpu", GPU).add("gpu", CPU).add("tpu", (8.0, 8.1, 8.2)).report(), OverallSpeedupFact)
    assert (fact.other, fact.baseline, fact.fastest) == ("cpu", "gpu", True)
    assert fact.low < fact.ratio < fact.high and fact.ratio == pytest.approx(4.05, abs=0.05)


def test_accuracy_is_compared_over_the_same_pairs():
    worse = Grid().add("cpu", CPU).add("gpu", GPU, accuracies=(-0.03, -0.031, -0.029)).report()
    fact = of(worse, OverallAccuracyFact)
    assert fact.outcome == Outcome.LOWER and fact.low < fact.points < fact.high < 0
    depends = of(REPORTS["effects_do_not_add_up"](), OverallAccuracyFact)
    assert depends.depends_on == ("weight_decay",) and depends.least < 1 < depends.most
    assert not any(isinstance(fact, OverallAccuracyFact) for fact in facts(REPORTS["batches"]())), "other epochs"


def test_without_a_baseline_the_fastest_and_the_slowest_cell():
    fact = of(REPORTS["one_device"](), CellTimesFact)
    assert (fact.cells, fact.fastest, fact.slowest) == (4, "b512", "b64")
    assert fact.low < fact.seconds < fact.high < fact.slowest_seconds
    assert of(make_report(made_up(("gpu",))), EpochTimeFact).name == "gpu"


def test_nothing_to_compare():
    assert REPORTS["nothing_at_all"]().verdict == [[NoVerdictFact(completed=False)]]
    assert REPORTS["nothing_completed"]().verdict == [[NoVerdictFact(completed=False)]]


def test_the_devices_that_reach_the_target_first():
    results = made_up(("cpu", "gpu"), (64, 128, 256, 512))
    fact = of(make_report(replace(results, target=Target("val/accuracy", 0.78))), BestToTargetFact)
    assert (fact.other, fact.baseline, fact.selected) == ("gpu", "cpu", True)
    assert fact.ratio == pytest.approx(fact.baseline_seconds / fact.seconds, rel=0.01)
    assert fact.low < fact.ratio < fact.high and fact.outcome == Outcome.HIGHER
    never = of(make_report(replace(results, target=Target("val/accuracy", 0.99))), TargetSummaryFact)
    assert [(side.name, side.successes, side.tries) for side in never.sides] == [("gpu", 0, 12), ("cpu", 0, 12)]


def test_settings_have_their_times_to_the_target():
    report = REPORTS["batches"]()
    fact = of(report, BestToTargetFact)
    assert (fact.other, fact.baseline, fact.selected) == ("batch 256", "batch 64", False)
    assert fact.low < fact.ratio < fact.high and fact.outcome == Outcome.HIGHER
    never = of(make_report(replace(report.results, target=Target("val/accuracy", 0.999))), TargetSummaryFact)
    assert [(side.successes, side.tries) for side in never.sides] == [(0, 3), (0, 3)]


def test_the_target_is_compared_with_the_settings_that_reach_it_first_not_with_the_fastest():
    results = replace(made_up(("cpu",), (64, 256, 512)), baseline={"batch_size": 64})
    target = Target("val/accuracy", 0.5)
    results = replace(results, target=target, latest={n: replace(r, target=target) for n, r in results.latest.items()})
    fastest = of(make_report(results), OverallSpeedupFact)
    late = {}
    for name, run in results.latest.items():
        epochs = {each.epoch: each for each in run.epochs}
        if fastest.other == f"batch {run.cell.settings.batch_size}":
            epochs = {n: replace(each, metrics=each.metrics | {"val/accuracy": 0.1}) for n, each in epochs.items()}
        late[name] = replace(run, epochs=list(epochs.values()))
    fact = of(make_report(replace(results, latest=late)), BestToTargetFact)
    assert of(make_report(replace(results, latest=late)), OverallSpeedupFact).other == fastest.other
    assert fastest.other not in (fact.other, fact.baseline)


def test_every_run_reached_the_target_is_said_of_completed_runs_if_others_failed():
    target = Target("val/accuracy", 0.5)
    for ends, words in (({}, "Every run"), ({("gpu", 256, 5e-4, 0): "failed"}, "Every completed run")):
        results = made_up(("cpu", "gpu"), ends=ends)
        runs = {name: replace(run, target=target) for name, run in results.latest.items()}
        sides = [pair.other for pair in pairs(results.cells, runs, results.compared_with)]
        fact = summary._target(target, {"cpu": [0], "gpu": [1]}, sides)
        assert plain(fact).startswith(f"{words} reached 50% accuracy: ") and fact.not_counted == len(ends)


def test_best_settings_without_a_target():
    fact = of(make_report(made_up(("cpu", "gpu"), (64, 512))), BestSpeedupFact)
    assert (fact.other, fact.baseline, fact.outcome) == ("gpu", "cpu", Outcome.HIGHER)
    assert of(make_report(made_up(("cpu", "gpu"), (64, 512))), OverallSpeedupFact).equal_settings


def test_advice_for_a_grid_without_a_baseline():
    fact = of(make_report(made_up(("cpu",), (256, 512))), NoBaselineFact)
    assert plain(fact) == (
        'No baseline, so no speed-up: add "baseline: {batch_size: 256}" to the grid, '
        'or run "raybench report made_up --baseline batch_size=256".'
    )
    with_baseline = make_report(replace(made_up(("cpu",), (256, 512)), baseline={"batch_size": 256}))
    failed = make_report(made_up(("cpu",), (256, 512), ends={("cpu", 512, 5e-4, n): "failed" for n in range(3)}))
    for report in (with_baseline, failed):
        assert not any(isinstance(fact, NoBaselineFact) for fact in facts(report))


def test_the_cheapest_device():
    report = Grid().add("cpu", CPU, price=0.1).add("gpu", GPU, price=0.8).report()
    fact = of(report, CheapestFact)
    cpu, gpu = report.results.rows
    assert (fact.device, fact.other, fact.target) == ("cpu", "gpu", None)
    assert fact.price == pytest.approx(cpu.epoch_price)
    assert fact.ratio == pytest.approx(gpu.epoch_price / cpu.epoch_price) == pytest.approx(8 / gpu.speedup.ratio)
    assert (fact.low, fact.high) == pytest.approx((8 / gpu.speedup.high, 8 / gpu.speedup.low))


def test_the_device_with_the_least_energy():
    grid = Grid().add("cpu", CPU, joules=(200.0, 210.0, 190.0)).add("gpu", GPU, joules=(100.0, 101.0, 99.0))
    report = grid.add("tpu", GPU).report()
    fact = of(report, LeastEnergyFact)
    cpu, gpu, _ = report.results.rows
    assert (fact.device, fact.other, fact.not_measured) == ("gpu", "cpu", ("tpu",))
    assert fact.joules == pytest.approx(gpu.energy.epoch)
    assert fact.ratio == pytest.approx(cpu.energy.epoch / gpu.energy.epoch) and fact.low < fact.ratio < fact.high
    assert plain(fact) == (
        f"gpu uses the least energy (devices alone): 100 J per epoch, 2.00x less than cpu "
        f"(95% CI {fact.low:.2f}–{fact.high:.2f}) (not measured: tpu)."
    )
    data = as_json(report)
    assert data["ranking"][0]["energy"] == pytest.approx(gpu.energy.epoch) and "energy" not in data["cells"][2]
    columns = {column.head: column.cells for column in cell_columns(report.results.rows)}
    assert columns["J/epoch"] == ["200", "100", "–"] and columns["host J/epoch"] == ["20.0", "10.0", "–"]
    assert columns["less energy (95% CI)"][1].startswith("2.00x (")
    ranked = {column.head: column.cells for column in ranking_columns(report.results, report.ranking)}
    assert ranked["energy, J"] == ["100", "–", "200"]


@pytest.mark.parametrize("joules", [(None, None, None), (100.0, 300.0, 50.0)])
def test_energy_of_one_device_or_without_a_significant_difference(joules):
    report = Grid().add("cpu", CPU, joules=(120.0, 90.0, 110.0)).add("gpu", GPU, joules=joules).report()
    if joules[0] is None:
        assert not any(isinstance(fact, LeastEnergyFact) for fact in facts(report))
    else:
        fact = of(report, LeastEnergyFact)
        assert plain(fact) == (
            f"cpu uses the least energy (devices alone): {fact.joules:.0f} J per epoch "
            "(not significantly less than gpu)."
        )


def test_trials_that_did_not_complete_are_one_caution():
    lost = {("gpu", batch, 5e-4, repeat): "lost" for batch in (64, 128, 256, 512) for repeat in range(3)}
    lost[("cpu", 64, 5e-4, 0)] = "oom"
    report = make_report(made_up(("cpu", "gpu"), (64, 128, 256, 512), ends=lost))
    (remark,) = [remark for remark in report.remarks if "did not complete" in remark.says]
    assert remark.says == (
        "13 of 24 trials did not complete: 1 ran out of memory, 12 were lost with the machine. "
        "The results are those of the 11 that completed."
    )


def test_a_smoke_run_has_no_other_fact():
    report = make_report(
        replace(made_up(ends={("gpu", 256, 5e-4, n): "failed" for n in range(3)}), name="made_up~smoke")
    )
    assert report.verdict == [[SmokeRunFact(1, 2)], [SmokeCautionFact()]]
    assert report.comparisons == []


def test_an_answer_names_the_cautions_that_could_change_it():
    grid = Grid(baseline={"device": "cpu"})
    for device, seconds, precision in (("cpu", 4.0, "fp32"), ("gpu", 2.0, "bf16")):
        grid.add(device, [seconds * factor for factor in (1.0, 1.01, 1.02)], precision=precision)
    fact = of(grid.report(), OverallSpeedupFact)
    assert fact.cautions == ("",) and plain(fact).endswith(", see caution).")
    several = replace(fact, cautions=("a", "c"))
    assert plain(several).endswith(", see cautions a and c).")
    range_of_both = replace(several, depends_on=("batch_size",), least=1.5, most=2.0)
    assert plain(range_of_both).endswith("depending on batch (see cautions a and c).")

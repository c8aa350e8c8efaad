"""Questions about made-up grids whose right answers are known."""

import math
import random
from dataclasses import replace

import pytest
from support.made_up_runs import LEARNING, MadeUpGrid, by_label, change_epochs, effect_of

from raybench.analysis.answer import Criterion, Status
from raybench.core.job import Target
from raybench.core.repeats import RepeatRule
from raybench.reporting import frames
from raybench.reporting.words.best import best_texts
from raybench.reporting.words.captions import table_caption
from raybench.reporting.words.effects import scaling_sentences
from raybench.results.epochs import Epochs
from raybench.results.output_clock import OutputClock

TARGET = Target("val/accuracy", 0.94)


def around(value, runs=3, spread=0.01, seed=0):
    """Times of runs around a value."""
    chance = random.Random(f"{value} {seed}")
    return [value * math.exp(chance.gauss(0, spread)) for _ in range(runs)]


def test_cheaper_device_with_epochs_of_different_size():
    """The tpu's epoch is four times as dear and five times as large."""
    grid = MadeUpGrid()
    grid.add({"device": "gpu"}, around(10), examples=1000, price=1.0)
    grid.add({"device": "tpu"}, around(10), examples=5000, price=4.0)
    answer = grid.answer()
    assert answer.unit.label == "1,000 examples"
    cheapest = next(each for each in answer.best if Criterion.CHEAPEST in each.ratios)
    assert answer.configurations[cheapest.configuration].label == "tpu"
    ratio = cheapest.ratios[Criterion.CHEAPEST]
    assert ratio.value == pytest.approx(1.25, rel=0.03)
    assert by_label(answer)["tpu"].price.value < by_label(answer)["gpu"].price.value


BUDGET = {"settings": {"epochs": 99}, "accuracies": [(0.5, 0.90), (0.5, 0.91), (0.5, 0.92)]}


def test_a_budget_compares_qualities():
    """Batch 64 is faster, but batch 32 learns more in its 20 s; a tenth of the last epoch is left out."""
    grid = MadeUpGrid(budget={"time": 20.0})
    better = [(0.5, 0.95), (0.5, 0.96), (0.5, 0.97)]
    grid.add({"batch_size": 32}, [[10, 10]] * 3, **{**BUDGET, "accuracies": better})
    grid.add({"batch_size": 64}, [[10, 5]] * 3, **BUDGET)
    for run in grid.attempts:
        *full, last = run.epochs
        run.epochs = Epochs([*full, replace(last, partial=True, examples=last.examples // 2)])
    answer = grid.answer()
    (best,) = answer.best
    assert answer.configurations[best.configuration].label == "batch 32"
    assert best.quality.value == pytest.approx(0.05)
    assert best.quality.is_significant
    text = str(best_texts(answer)[0])
    assert text.startswith(
        "Best in budget: batch 32 (the reference), best accuracy in 20 s of training: 96.00%; 5.0 points more accurate"
    )
    assert [each.rate.value for each in answer.configurations] == pytest.approx([50, 100]), "of the partial epoch"
    assert [each.seconds.value for each in answer.configurations] == pytest.approx([20, 10])
    assert grid.attempts[0].steady_s == 10, "of a full epoch"


def test_effect_with_a_device_that_varies_by_repeat():
    """The interval over nine sets is that of three repeats, not of 27 runs."""
    chance = random.Random(3)
    shared = [chance.gauss(0, 0.02) for _ in range(3)]
    grid = MadeUpGrid()
    for device in ("cpu", "gpu"):
        for batch in (32, 64, 128):
            for decay in (0.0, 1e-4, 5e-4):
                of_device = shared if device == "gpu" else [0, 0, 0]
                times = [math.exp(chance.gauss(each, 0.002)) for each in of_device]
                grid.add({"device": device, "batch_size": batch, "weight_decay": decay}, times)
    effect = effect_of(grid.answer(), "device", "gpu")
    assert effect.sets == 9
    assert math.log(effect.speed.high / effect.speed.low) / 2 > 0.02


@pytest.mark.parametrize("target", [None, TARGET])
@pytest.mark.parametrize("own_batch", [False, True])
def test_fastest_of_four_devices_is_rank_one(target, own_batch):
    seconds = {"cpu": 8.0, "a": 4.0, "b": 2.0, "c": 1.0}
    grid = MadeUpGrid({"device": "cpu"}, target=target)
    for number, (device, each) in enumerate(seconds.items()):
        axes = {"device": device} | ({"batch_size": 32 * 2**number} if own_batch else {})
        grid.add(axes, around(each))
    answer = grid.answer()
    first = answer.best[0]
    assert answer.configurations[first.configuration].axes["device"] == "c"
    assert answer.configurations[first.configuration].rank == 1
    assert answer.configurations[first.other].axes["device"] == "cpu"
    assert next(iter(first.ratios.values())).value == pytest.approx(8, rel=0.05)
    effect = effect_of(answer, "device", "c")
    assert effect.speed.value == pytest.approx(8, rel=0.05)
    assert effect.tied == ({"batch_size": 256} if own_batch else {})


def test_three_axes_in_the_baseline_have_one_reference():
    """Batch, threads and precision: the ratio in the sentence is that of the table."""
    grid = MadeUpGrid({"batch_size": 32, "params.threads": 1, "precision": "fp32"})
    for batch in (32, 64):
        for threads in (1, 2):
            for precision in ("fp32", "bf16"):
                base = 1.0 / (1.4 if threads == 2 else 1.0) * (6.3 if precision == "bf16" else 1.0)
                axes = {"batch_size": batch, "params.threads": threads, "precision": precision}
                grid.add(axes, around(base, seed=f"{batch}{threads}{precision}"))
    answer = grid.answer()
    assert {each.reference for each in answer.configurations} == {0}
    (best,) = answer.best
    row = answer.configurations[best.configuration]
    assert best.ratios[Criterion.FASTEST].value == row.ratio.value
    assert effect_of(answer, "precision", "bf16").speed.value == pytest.approx(1 / 6.3, rel=0.03)
    assert answer.effects[0].axis == "precision"
    assert effect_of(answer, "params.threads", 2).speed.value == pytest.approx(1.4, rel=0.03)


def test_epochs_of_different_length_in_one_run():
    """An epoch of one side has half the examples in its middle epochs."""
    grid = MadeUpGrid()
    grid.add({"device": "cpu"}, [[4, 4, 4, 4]] * 3, examples=1000)
    grid.add({"device": "gpu"}, [[2, 1, 1, 2], [2, 1, 1, 2], [2, 1, 1, 2]], examples=[1000, 500, 500, 1000])
    answer = grid.answer()
    assert answer.unit.name == "examples"
    assert by_label(answer)["gpu"].ratio.value == pytest.approx(2.0)
    assert by_label(answer)["gpu"].rate.value == pytest.approx(500)


def test_fastest_device_with_target_and_prices_states_accuracy():
    grid = MadeUpGrid(target=Target("val/accuracy", 0.85))
    grid.add({"device": "cpu"}, around(8), accuracies=(0.5, 0.7, 0.9, 0.965), price=1)
    grid.add({"device": "gpu"}, around(1), accuracies=(0.5, 0.7, 0.9, 0.89), price=2)
    (best,) = grid.answer().best
    assert set(best.ratios) == {Criterion.FIRST_TO_TARGET, Criterion.CHEAPEST}
    assert best.quality.value == pytest.approx(0.89 - 0.965)
    assert best.quality.is_significant


def test_three_successes_each_show_no_sure_winner():
    """A ratio of 1.5 stands only if no run misses, and three runs do not show that."""
    grid = MadeUpGrid(target=TARGET).add({"device": "cpu"}, around(3)).add({"device": "gpu"}, around(2))
    gpu = by_label(grid.answer())["gpu"].to_target
    assert (gpu.reached, gpu.tried) == (3, 3)
    assert gpu.ratio.low > 1
    assert gpu.ratio.holds_if_no_miss
    assert not gpu.ratio.is_significant


def test_ten_successes_each_show_a_winner():
    grid = MadeUpGrid(target=TARGET).add({"device": "cpu"}, around(3, 10)).add({"device": "gpu"}, around(2, 10))
    assert by_label(grid.answer())["gpu"].to_target.ratio.is_significant


def test_misses_count_as_restarts():
    """Three of three runs against one of three: expected times with restarts, and an interval."""
    never = (0.1, 0.2, 0.3, 0.4)
    grid = MadeUpGrid(target=TARGET).add({"device": "cpu"}, around(4))
    grid.add({"device": "gpu"}, around(1), accuracies=[LEARNING, never, never])
    gpu = by_label(grid.answer())["gpu"].to_target
    assert (gpu.reached, gpu.tried) == (1, 3)
    assert gpu.expected.value == pytest.approx(12, rel=0.05)  # 4 s, and two misses of 4 s
    assert gpu.expected.low < 12 < gpu.expected.high
    assert gpu.ratio.low < 1 < gpu.ratio.value < gpu.ratio.high
    assert gpu.ratio.value / gpu.ratio.low > gpu.ratio.high / gpu.ratio.value, "it may miss more often than it has"


def test_a_miss_costs_all_epochs_also_if_runs_stop_at_the_target():
    """So the interval is the same; compilation is in the first epoch alone."""
    ratios = []
    for curve in (LEARNING, LEARNING[:2]):
        grid = MadeUpGrid(target=Target("val/accuracy", 0.75))
        grid.add({"device": "cpu"}, [[10.0, 1.0, 1.0, 1.0]] * 3, accuracies=curve, epoch_count=4)
        grid.add({"device": "gpu"}, around(1), accuracies=[LEARNING, LEARNING[:1] * 4, LEARNING[:1] * 4])
        ratios.append(by_label(grid.answer())["gpu"].to_target.ratio)
    assert (ratios[0].low, ratios[0].high) == pytest.approx((ratios[1].low, ratios[1].high))


def test_success_rate_of_the_specification():
    """Two of four runs after 20.2 s, misses of 20.4 s: 40.6 s, from 23 to 152 s."""
    grid = MadeUpGrid(target=TARGET)
    reached = (0.5, 0.95)
    grid.add(
        {"device": "cpu"},
        [10.1, 10.1, 10.2, 10.2],
        accuracies=[reached, reached, (0.5, 0.6), (0.5, 0.6)],
        epoch_count=2,
    )
    to_target = grid.answer().configurations[0].to_target
    assert to_target.expected.value == pytest.approx(40.6)
    assert (round(to_target.expected.low), round(to_target.expected.high)) == (23, 152)


def test_single_runs_of_workloads_are_not_averaged():
    grid = MadeUpGrid({"device": "cpu"})
    for number in range(7):
        speed = 0.44 * (3.1 / 0.44) ** (number / 6)
        for device, seconds in (("cpu", 1.0), ("gpu", 1.0 / speed)):
            grid.add({"workload": f"w{number}", "device": device}, [seconds], workload=f"w{number}")
    answer = grid.answer()
    effect = effect_of(answer, "device", "gpu")
    assert effect.speed is None
    assert (effect.least, effect.most) == (pytest.approx(0.44), pytest.approx(3.1))
    assert len(effect.parts) == 7
    assert [each.workload for each in answer.best] == [f"w{number}" for number in range(7)]
    assert answer.configurations[answer.best[0].configuration].axes["device"] == "cpu"
    assert "one_run" in [each.code for each in answer.trust.cautions]


def test_degrees_of_freedom_of_two_against_ten():
    grid = MadeUpGrid().add({"device": "cpu"}, around(2, 10)).add({"device": "gpu"}, around(1, 2))
    ratio = by_label(grid.answer())["gpu"].ratio
    assert not ratio.paired
    assert (ratio.runs, ratio.other_runs) == (2, 10)


def test_baseline_without_a_run_is_replaced():
    grid = MadeUpGrid({"device": "cpu"})
    grid.add({"device": "cpu"}, around(4), status="failed").add({"device": "gpu"}, around(1))
    answer = grid.add({"device": "tpu"}, around(0.5)).answer()
    assert answer.baseline == {"device": "gpu"}
    assert "baseline_replaced" in [each.code for each in answer.trust.notes]
    assert answer.status.endings == {"failed": 3}


def test_unknown_work_of_one_side_is_not_compared():
    grid = MadeUpGrid()
    grid.add({"device": "a"}, around(4), examples=1000).add({"device": "b"}, around(2), examples=2000)
    answer = grid.add({"device": "c"}, around(1), examples=0).answer()
    unknown = by_label(answer)["c"]
    assert unknown.seconds is None
    assert unknown.ratio is None
    caution = next(each for each in answer.trust.cautions if each.code == "not_compared")
    assert caution.configurations == (unknown.index,)


def test_partial_epochs_are_no_epochs():
    grid = MadeUpGrid()
    for batch in (32, 64):
        grid.add({"batch_size": batch}, around(1), examples=batch * 10, settings={"steps_per_epoch": 10})
    answer = grid.answer()
    assert answer.unit.label == "1,000 examples"
    assert by_label(answer)["batch 64"].ratio.value == pytest.approx(2, rel=0.05)


def test_counted_tokens_are_the_unit():
    grid = MadeUpGrid()
    grid.add({"device": "cpu"}, around(2), units={"tokens": 500_000})
    grid.add({"device": "gpu"}, around(1), units={"tokens": 1_000_000})
    answer = grid.answer()
    assert answer.unit.label == "million tokens"
    assert by_label(answer)["gpu"].ratio.value == pytest.approx(4, rel=0.05)
    assert by_label(answer)["gpu"].rate.value == pytest.approx(1e6, rel=0.05)


def test_interaction_gives_values_by_the_other_axis():
    grid = MadeUpGrid()
    seconds = {("cpu", 32): 8.0, ("cpu", 512): 8.0 / 1.2, ("gpu", 32): 2.0, ("gpu", 512): 2.0 / 2.1}
    for (device, batch), each in seconds.items():
        for decay in (0.0, 5e-4):
            axes = {"device": device, "batch_size": batch, "weight_decay": decay}
            grid.add(axes, around(each, spread=0.003, seed=f"{device}{batch}{decay}"))
    effect = effect_of(grid.answer(), "batch_size", 512)
    assert effect.varies
    assert {(part.axis, part.value, round(part.speed.value, 1)) for part in effect.parts} == {
        ("device", "cpu", 1.2),
        ("device", "gpu", 2.1),
    }


def test_effect_of_both_signs_has_no_mean():
    grid = MadeUpGrid()
    for (device, batch), each in {("a", 1): 1, ("a", 2): 2, ("b", 1): 1, ("b", 2): 0.5}.items():
        grid.add({"device": device, "batch_size": batch}, around(each, spread=0.003, seed=f"{device}{batch}"))
    effect = effect_of(grid.answer(), "batch_size", 2)
    assert effect.speed is None
    assert (round(effect.least, 1), round(effect.most, 1)) == (0.5, 2.0)


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_answer_and_table_have_one_interval_for_one_pair(repeats):
    """Also if another configuration is far noisier."""
    grid = MadeUpGrid()
    for batch, spread in ((32, 0.01), (64, 0.2), (128, 0.02)):
        grid.add({"batch_size": batch}, around(32 / batch, repeats, spread))
    answer = grid.answer()
    row, (best,) = by_label(answer)["batch 128"].ratio, answer.best
    assert best.ratios == {Criterion.FASTEST: row} and effect_of(answer, "batch_size", 128).speed == row
    assert repeats == 2 or row.high / row.low < 1.5


def test_effects_are_first_on_the_time_to_a_target():
    """Batch 512 has faster epochs, but needs one more of them; a mean over misses has no interval."""
    for last, has_interval in ((0.95, True), (0.93, False)):
        grid = MadeUpGrid(target=TARGET)
        for device, seconds in (("cpu", 10.0), ("gpu", 2.0)):
            grid.add({"device": device, "batch_size": 32}, around(seconds), accuracies=(0.8, 0.9, 0.95, 0.95))
            ends = [(0.5, 0.8, 0.9, 0.95)] * 2 + [(0.5, 0.8, 0.9, last)]
            grid.add({"device": device, "batch_size": 512}, around(0.75 * seconds), accuracies=ends)
        effect = effect_of(grid.answer(), "batch_size", 512)
        assert effect.speed.value == pytest.approx(1.33, rel=0.03)
        assert effect.to_target.value == pytest.approx(1.0 if has_interval else 0.67, rel=0.05)
        assert effect.to_target.has_interval is has_interval


def test_a_last_metric_that_is_not_a_number_is_a_caution():
    ends = [LEARNING, LEARNING, (*LEARNING[:3], math.nan)]
    answer = MadeUpGrid().add({"device": "cpu"}, around(2)).add({"device": "gpu"}, around(1), accuracies=ends).answer()
    (caution,) = (each for each in answer.trust.cautions if each.code == "metric_not_a_number")
    assert caution.configurations == (1,) and by_label(answer)["gpu"].cautions == (caution.mark,)


def test_four_interleaved_repeats_are_paired():
    drift = [1.0, 1.1, 1.2, 1.3]
    grid = MadeUpGrid(these_machines=True).add({"device": "cpu"}, [2 * each for each in drift])
    ratio = by_label(grid.add({"device": "gpu"}, [1.01, 1.1, 1.19, 1.3]).answer())["gpu"].ratio
    assert ratio.paired
    assert ratio.high / ratio.low < 1.07


def test_machines_of_one_model_are_samples():
    """Runs on two machines share each machine's speed: the interval is of machines."""
    grid = MadeUpGrid()
    for device, seconds in (("cpu", 2), ("gpu", 1)):
        grid.add({"device": device}, [*around(seconds, 4), *around(1.2 * seconds, 4)])
    for attempt in grid.attempts:
        attempt.host = {"name": f"node-{attempt.repeat // 4}"}
    gpu = by_label(grid.answer())["gpu"]
    assert (gpu.completed, gpu.planned) == (8, 8)
    assert gpu.ratio.high / gpu.ratio.low > 1.5


def test_equal_accuracies_are_equal_but_for_rare_failures():
    grid = MadeUpGrid().add({"device": "cpu"}, around(2, 10)).add({"device": "gpu"}, around(1, 10))
    answer = grid.answer()
    difference = by_label(answer)["gpu"].quality_difference
    assert difference.is_equal
    assert difference.low < 0 < difference.high  # identical values are known to one example
    assert any(each.code == "few_runs" and "26%" in each.text for each in answer.trust.notes)


def test_accuracies_in_percent_become_fractions():
    percent = tuple(100 * each for each in LEARNING)
    grid = MadeUpGrid(target=Target("val/accuracy", 94)).add({"device": "cpu"}, around(2), accuracies=percent)
    answer = grid.add({"device": "gpu"}, around(1), accuracies=percent).answer()
    assert answer.target.at_least == 0.94
    assert answer.configurations[0].quality.value == pytest.approx(0.95)
    assert answer.configurations[0].to_target.reached == 3


def test_percent_of_one_workload_leaves_the_fractions_of_another():
    grid = MadeUpGrid({"device": "cpu"}, target=TARGET)
    for workload, factor in (("percent", 100), ("fraction", 1)):
        for device, seconds in (("cpu", 8), ("gpu", 1)):
            axes, own = {"workload": workload, "device": device}, [factor * each for each in LEARNING]
            grid.add(axes, around(seconds), workload=workload, accuracies=own)
    rows = grid.answer().configurations
    assert [(round(each.quality.value, 6), each.to_target.reached) for each in rows] == [(0.95, 3)] * 4


def test_quality_of_one_workload_alone_is_no_range():
    grid = MadeUpGrid({"device": "cpu"})
    for workload in ("a", "b"):
        for device in ("cpu", "gpu"):
            grid.add({"workload": workload, "device": device}, around(1, seed=workload + device), workload=workload)
    for run in grid.attempts[6:]:
        change_epochs(run, metrics={})
    effect = effect_of(grid.answer(), "device", "gpu")
    assert effect.speed is None and effect.quality["val/accuracy"].has_interval


def test_value_of_both_sides_is_not_named_with_an_effect():
    grid = MadeUpGrid().add({"device": "cpu"}, around(8))
    for threads in (1, 2):
        grid.add({"device": "gpu", "params.threads": threads}, around(2 / threads))
    assert effect_of(grid.answer(), "params.threads", 2).tied == {}


def test_energy_is_that_of_the_runs_with_a_counter():
    grid = MadeUpGrid().add({"device": "cpu"}, around(1), joules=[100.0, 100.0, 100.0])
    grid.attempts[-1].audit = None
    answer = grid.add({"device": "gpu"}, around(2), joules=[50.0, 50.0, 50.0]).answer()
    assert [each.energy_j for each in answer.configurations] == [pytest.approx(100), pytest.approx(50)]


@pytest.mark.parametrize(
    ("bound", "reached", "never"),
    [(0.94, (40, 80, 93, 95), (1.0, 0.97, 1.0, 1.0)), (94, (0.4, 0.8, 0.93, 0.95), (0.01, 0.01, 0.01, 0.01))],
)
def test_target_is_in_the_unit_of_the_accuracies(bound, reached, never):
    """1% of a run that learns nothing is not 100%."""
    grid = MadeUpGrid(target=Target("val/accuracy", bound)).add({"device": "cpu"}, around(2), accuracies=reached)
    answer = grid.add({"device": "gpu"}, around(1), accuracies=never).answer()
    assert [each.to_target.reached for each in answer.configurations] == [3, 0]
    assert answer.target.at_least == 0.94
    assert answer.best[0].configuration == 0


@pytest.mark.parametrize(
    ("metric", "is_loss"),
    [("val/RMSE", True), ("Loss/val", True), ("val/cross_entropy", True), ("test/auc", False)],
)
def test_direction_of_a_metric(metric, is_loss):
    grid = MadeUpGrid(budget={"time": 20.0}, metric=metric)
    grid.add({"batch_size": 32}, around(1)).add({"batch_size": 64}, around(1))
    for run in grid.attempts:
        change_epochs(run, metrics={metric: 0.2 + (run.cell_id == "cell1") / 2 + run.repeat / 1000})
    assert grid.answer().best[0].configuration == (0 if is_loss else 1)


def test_workload_that_never_reaches_the_target_has_no_price_to_it():
    grid = MadeUpGrid({"device": "cpu"}, target=TARGET)
    for workload, accuracies in (("easy", LEARNING), ("hard", (0.1, 0.2, 0.3, 0.4))):
        for device, seconds in (("cpu", 8), ("gpu", 1)):
            axes = {"workload": workload, "device": device}
            grid.add(axes, around(seconds), workload=workload, accuracies=accuracies, price=1.0)
    easy, hard = map(str, best_texts(grid.answer()))
    assert easy.startswith("Faster on easy: gpu, first to 94% accuracy and cheapest: ")
    assert hard.startswith("Faster on hard: gpu, fastest and cheapest: no run reached")


def test_best_is_chosen_within_a_workload():
    grid = MadeUpGrid({"device": "cpu"})
    for workload in ("a", "b"):
        for device in ("cpu", "gpu", "tpu"):
            axes = {"workload": workload, "device": device}
            grid.add(axes, around(1, seed=f"{workload}{device}"), workload=workload)
    assert "choosing the best of 3." in table_caption(grid.answer())


def test_fastest_for_certain_and_cheapest_by_chance_are_two_sentences():
    grid = MadeUpGrid({"device": "cpu"}).add({"device": "cpu"}, around(100), price=1.0)
    grid.add({"device": "a"}, around(10), price=2.0).add({"device": "b"}, [20.0, 20.4, 19.8], price=1.0)
    fastest, cheapest = grid.answer().best
    assert (list(fastest.ratios), fastest.close) == ([Criterion.FASTEST], set())
    assert len(cheapest.close) == 1


@pytest.mark.parametrize(("seconds", "is_close"), [(1.02, True), (3.0, False)])
def test_single_run_near_the_best_is_named(seconds, is_close):
    grid = MadeUpGrid({"device": "cpu"}).add({"device": "cpu"}, around(10)).add({"device": "a"}, around(1))
    (best,) = grid.add({"device": "b"}, [seconds]).answer().best
    assert (best.configuration, best.is_open) == (1, is_close)


def test_repeats_that_all_have_decide_the_ranking():
    """From the fifth repeat on the machine is slower, and a has no more of them, as its ratio is known by then."""
    drift = [1.0] * 4 + [1.1] * 6
    grid = MadeUpGrid({"device": "cpu"}, rule=RepeatRule(4, 10, 0.05)).add({"device": "cpu"}, [10 * d for d in drift])
    grid.add({"device": "a"}, around(1, 4, 0.001), repeats=10)
    answer = grid.add({"device": "b"}, [0.96 * d for d in drift]).answer()
    rows = by_label(answer)
    assert rows["b"].ratio.value > rows["a"].ratio.value
    assert (rows["b"].rank, answer.best[0].configuration) == (1, 2)


def test_no_repeat_of_both_sides_reached_the_target():
    grid = MadeUpGrid(target=TARGET, rule=RepeatRule(3, 10))
    grid.add({"device": "cpu"}, around(2, 2), status=["completed", "lost"], repeats=3)
    grid.add({"device": "gpu"}, around(1, 2), status=["failed", "completed"], repeats=3)
    for run in grid.attempts:
        run.epochs = run.epochs if run.status == "completed" else Epochs()
    gpu = by_label(grid.answer())["gpu"].to_target
    assert gpu.ratio.value == pytest.approx(2, rel=0.05)
    assert not gpu.ratio.has_interval


def test_time_to_a_target_is_known_to_an_epoch():
    """Runs that all reach it in epoch 4 could have reached it at the end of another one."""
    grid = MadeUpGrid(target=TARGET).add({"device": "cpu"}, [2.0, 2.001, 1.999])
    gpu = by_label(grid.add({"device": "gpu"}, [1.0, 1.001, 0.999]).answer())["gpu"].to_target
    assert gpu.ratio.high / gpu.ratio.low > 1.1


def test_energy_decides_least_energy():
    grid = MadeUpGrid().add({"device": "cpu"}, around(1), joules=[100.0, 101, 99])
    answer = grid.add({"device": "gpu"}, around(2), joules=[50.0, 51, 49]).answer()
    fastest, frugal = answer.best
    assert set(fastest.ratios) == {Criterion.FASTEST}
    assert (frugal.configuration, set(frugal.ratios)) == (1, {Criterion.LEAST_ENERGY})
    assert frugal.ratios[Criterion.LEAST_ENERGY].value == pytest.approx(2, rel=0.02)


def scaled_grid(amounts, seconds, axis="count", grows=False, kind="cuda", joules=None, **fields):
    """Runs on each amount of hardware, whose batch grows with it or not; the price of one is 2 an hour."""
    grid = MadeUpGrid()
    for each, times in zip(amounts, seconds, strict=True):
        examples = 1000 * (each if grows else 1)
        price = 2.0 * (each if axis == "count" else 1)
        energy = joules and [joules * each * time for time in times]
        grid.add({axis: each}, times, examples=examples, price=price, device={"kind": kind}, joules=energy, **fields)
    return grid


SHARES = (0.08, 0.10, 0.12, 0.10)
"""Serial shares of four repeats: mean 0.10, sd 0.01633, t(3, .975) = 3.1824, half 0.02598."""


@pytest.mark.parametrize(
    ("amounts", "serial", "limits"),
    [
        ((1, 2, 4), SHARES, (0.0740, 0.1260)),
        ((8, 2, 4), SHARES, (0.0740, 0.1260)),
        ((1, 2), SHARES, None),
        ((1, 2, 4), (0.1,), None),
    ],
)
def test_serial_share(amounts, serial, limits):
    """Of times that follow Amdahl's law in each repeat; from three amounts and two repeats on."""
    answer = scaled_grid(amounts, [[10 * (s + (1 - s) / n) for s in serial] for n in amounts]).answer()
    (scaling,) = answer.scalings
    found = scaling.serial and (scaling.serial.low, scaling.serial.high)
    assert found == (limits and pytest.approx(limits, abs=1e-4))
    table = frames.effects([answer])
    assert table["serial_share"].notna().all() == (scaling.serial is not None)
    largest = effect_of(answer, "count", max(amounts))
    assert largest.other == min(amounts)
    assert largest.efficiency.value == pytest.approx(largest.speed.value * min(amounts) / max(amounts))


def test_times_that_do_not_follow_amdahl_have_no_serial_share():
    (scaling,) = scaled_grid((1, 2, 4), [around(1, 4), around(0.5, 4), around(0.6, 4)]).answer().scalings
    assert scaling.serial is None


@pytest.mark.parametrize(
    ("grid", "sentences"),
    [
        (
            scaled_grid((1, 2, 4), [[10.0, 10.1], [5.4, 5.5], [3.0, 2.9]], joules=9),
            [
                "4 GPUs: 3.4x as fast as 1 (efficiency 85%, 95% CI 77–94%), costs 1.17x as much, needs 1.2x as much "
                "device energy per epoch.",
                "Strong scaling: the batch size is the same for all.",
            ],
        ),
        (
            scaled_grid((1, 2), [[10.0] * 3, [5.0] * 3], grows=True),
            ["2 GPUs: 4.0x as fast as 1", "Weak scaling: the batch size grows with the number of GPUs."],
        ),
        (
            scaled_grid((1, 2), [[10.0], [14.0]], "params.nproc", kind="cpu"),
            ["2 processes: takes 1.4x as long as 1 in one run each (efficiency 36%).", "Strong scaling"],
        ),
        (scaled_grid((2, 4), [around(4), around(2.1)], "threads", kind="cpu"), ["4 threads: 1.92x as fast as 2"]),
    ],
)
def test_scaling_in_words(grid, sentences):
    found = list(scaling_sentences(grid.answer()))
    assert len(found) >= len(sentences)
    for text, expected in zip(found, sentences, strict=False):
        assert text.startswith(expected), text


def test_break_even_price_is_that_of_the_next_cheapest_device():
    """An epoch costs 6 on gpu, 10 on cpu and 27 on the reference, tpu."""
    grid = MadeUpGrid({"device": "tpu"})
    for device, seconds, price in (("tpu", 6, 4.5), ("gpu", 10, 0.6), ("cpu", 100, 0.1)):
        grid.add({"device": device}, [seconds, seconds * 1.001, seconds / 1.001], price=price)
    text = str(best_texts(grid.answer())[0])
    assert text.endswith("If gpu cost more than $1.00 per hour, cpu would be cheaper.")


def test_counts_of_one_device_have_no_break_even_price():
    answer = scaled_grid((1, 2), [around(10), around(6)]).answer()
    assert any(Criterion.CHEAPEST in each.ratios for each in answer.best)
    assert not any("cost more than" in str(each) for each in best_texts(answer))


@pytest.mark.parametrize(("threads", "is_scaling"), [(2, False), (1, True)])
def test_processes_on_the_same_cores_have_no_efficiency(threads, is_scaling):
    grid = MadeUpGrid()
    for count, seconds in ((1, 10), (2, 6)):
        grid.add({"count": count}, around(seconds), device={"kind": "cpu", "threads": threads, "devices": count})
    answer = grid.answer()
    assert (effect_of(answer, "count", 2).efficiency is not None) == is_scaling == bool(answer.scalings)


def test_stopped_grid_is_incomplete():
    grid = MadeUpGrid().add({"device": "cpu"}, around(2)).add({"device": "gpu"}, around(1, 2), repeats=3)
    status = grid.answer().status
    assert status.is_stopped
    assert (status.planned, status.completed, status.endings) == (6, 5, {"not run": 1})
    stops = {ending: Status(2, 1, {ending: 1}).is_stopped for ending in ("unfinished", "lost", "killed", "failed")}
    assert stops == {"unfinished": True, "lost": True, "killed": True, "failed": False}


def test_out_of_memory_is_no_row_without_reason():
    grid = MadeUpGrid().add({"batch_size": 32}, around(1))
    error = {"type": "OutOfMemoryError", "message": "out of memory in train"}
    grid.add({"batch_size": 4096}, around(1), status="oom", error=error)
    row = by_label(grid.answer())["batch 4096"]
    assert (row.rank, row.completed, row.endings[0].status, row.endings[0].runs) == (None, 0, "oom", 3)
    assert row.endings[0].message == "OutOfMemoryError: out of memory in train"


def test_no_attempts_at_all():
    answer = MadeUpGrid().answer()
    assert (answer.best, answer.effects, answer.ranking) == ((), (), ())


def test_epochs_too_short_for_their_clock_leave_no_verdict():
    grid = MadeUpGrid({"threads": 1})
    grid.add({"threads": 1}, [0.02, 0.02], form="command", clock="output")
    grid.add({"threads": 2}, [0.1, 0.1], form="command", clock="output")
    answer = grid.answer()
    assert not answer.best and not any(each.speed or each.least for each in answer.effects)
    assert not any(each.ratio or each.rank == 2 for each in answer.configurations)


def test_times_too_short_in_one_workload_leave_the_other():
    grid = MadeUpGrid({"workload": "a"})
    grid.add({"workload": "a"}, [0.02, 0.02], form="command", clock="output", workload="a")
    grid.add({"workload": "b"}, [0.1, 0.1], form="command", clock="output", workload="b")
    assert [best.configuration for best in grid.answer().best] == [1]


def test_a_configuration_too_short_to_time_is_named():
    """It may be the fastest, and its accuracy does not depend on the clock."""
    grid = MadeUpGrid({"batch": 64})
    for batch, width, seconds, accuracy in ((64, 64, 0.3, 0.940), (64, 256, 0.4, 0.930), (256, 256, 0.2, 0.931)):
        accuracies = [(0.5, accuracy + part) for part in (0, 0.001, 0.002)]
        grid.add(
            {"batch": batch, "width": width}, around(seconds), accuracies=accuracies, form="command", clock="output"
        )
    accuracies = [(0.5, 0.944 + part) for part in (0, 0.001, 0.002)]
    grid.add({"batch": 256, "width": 64}, [0.044, 0.044, 0.19], accuracies=accuracies, form="command", clock="output")
    for run in grid.attempts:
        run.output_clock = OutputClock(are_passes=True)
    answer = grid.answer()
    text = str(best_texts(answer)[0])
    assert text.startswith("Faster: batch 256, width 256, fastest of those timed:")
    assert "Not compared, because epochs are too short to be timed: batch 256, width 64." in text
    assert [each.rank for each in answer.configurations] == [2, 3, 1, None]
    assert answer.configurations[3].seconds.value == pytest.approx((0.044**2 * 0.19) ** (1 / 3))
    assert effect_of(answer, "batch", 256).quality["val/accuracy"].value == pytest.approx(0.0025)

import pytest
from support.report_grids import REPORTS

from raybench.analysis.learning import (
    AxisEffectFact,
    ConfoundedAxisFact,
    InteractionFact,
    RunNoiseFact,
    SingleRunsFact,
    ValidationNoiseFact,
    accuracy_factors,
)


def test_no_run_and_one_place_decide_nothing():
    assert accuracy_factors([]) == []
    assert accuracy_factors([({"device": "cpu"}, 0.9)] * 2) == []


def test_an_axis_that_decides_has_its_best_and_worst_value():
    facts = REPORTS["decay_decides"]().deciding
    effects = {fact.axis: fact for fact in facts if isinstance(fact, AxisEffectFact)}
    decay = effects["weight_decay"]
    assert decay.significant and decay.additive and not effects["device"].significant
    assert (decay.best, decay.worst) == ("5e-4", "1e-4")
    assert decay.low < decay.points < decay.high and decay.points == pytest.approx(2.0, abs=0.1)
    assert any(isinstance(fact, RunNoiseFact) for fact in facts)
    assert [fact.examples for fact in facts if isinstance(fact, ValidationNoiseFact)] == [10000]


def test_effects_that_do_not_add_up():
    facts = REPORTS["effects_do_not_add_up"]().deciding
    assert InteractionFact(("device", "weight_decay")) in facts
    assert not any(fact.additive for fact in facts if isinstance(fact, AxisEffectFact))


def test_axes_that_cannot_be_told_apart():
    confounded = [fact.axis for fact in REPORTS["confounded_axes"]().deciding if isinstance(fact, ConfoundedAxisFact)]
    assert confounded == ["device", "weight_decay"]


def test_one_run_of_each_cell_shows_no_effect():
    assert REPORTS["one_run_of_each"]().deciding == [SingleRunsFact()]


@pytest.mark.parametrize(("scale", "examples"), [(100.0, 10000), (1.0, -5)])
def test_an_accuracy_in_percent_or_a_damaged_size_has_no_noise_of_a_validation_set(scale, examples):
    runs = [
        ({"device": "cpu", "batch_size": size}, scale * (0.9 + size / 1000 + run / 500))
        for size in (1, 2, 3)
        for run in (0, 1)
    ]
    facts = accuracy_factors(runs, examples)
    assert facts and not any(isinstance(fact, ValidationNoiseFact) for fact in facts)

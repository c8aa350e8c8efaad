import numpy as np
import pytest
from support.simulated import CALLS, accuracies, covers

from raybench.analysis.statistics.anova import decompose


def shown(found):
    return {source.name for source in found.sources if source.shown}


def test_it_is_the_decay():
    found = decompose(accuracies(np.random.default_rng(0), decay=2.0))
    assert shown(found) == {"weight_decay"}
    effect = found.effect("weight_decay", 5e-4, 1e-4)
    assert effect.low < 2.0 < effect.high
    assert found.effect("device", "gpu", "cpu").low < 0 < found.effect("device", "gpu", "cpu").high
    assert found.effect("epochs", 24, 24) is None, "nothing is known of an axis with one value"
    assert next(source for source in found.sources if source.name == "weight_decay").share > 0.9


def test_it_is_the_decay_on_one_device():
    assert "interaction" in shown(decompose(accuracies(np.random.default_rng(0), both=2.0)))


def test_in_a_whole_grid_the_shares_add_up():
    found = decompose(accuracies(np.random.default_rng(0), device=1.0, decay=0.5))
    assert sum(source.share for source in found.sources) + found.luck_share == pytest.approx(1)


def test_it_is_luck():
    """Each axis and the interaction are called by chance one time in twenty, and effects cover what they claim."""
    found = [decompose(accuracies(np.random.default_rng(seed))) for seed in range(1000)]
    for name in ("device", "weight_decay", "interaction"):
        assert np.mean([name in shown(each) for each in found]) <= CALLS
    assert covers([each.effect("device", "gpu", "cpu") for each in found], 0.0) >= 0.935
    pairs = np.random.default_rng(0).normal(0, 0.15, (1000, 2))
    reach = np.mean([each.repeatability_limit for each in found])
    assert np.mean(np.abs(pairs[:, 0] - pairs[:, 1]) < reach) > 0.94


def test_a_grid_with_runs_and_a_cell_missing():
    whole = accuracies(np.random.default_rng(0), device=1.0, decay=2.0)
    found = decompose(whole[:2] + whole[3:9])
    assert shown(found) == {"device", "weight_decay"}
    assert found.interaction is None, "three cells cannot tell it"
    effect = found.effect("weight_decay", 5e-4, 1e-4)
    assert effect.low < 2.0 < effect.high


def test_axes_that_the_cells_cannot_tell_apart_are_named():
    found = decompose([({"device": "cpu", "decay": 1}, 0.92), ({"device": "gpu", "decay": 2}, 0.94)] * 2)
    assert found.confounded == ("device", "decay")
    assert found.effect("device", "gpu", "cpu") is None
    assert found.sources == ()


def test_without_repeats_nothing_is_told_from_luck():
    found = decompose(accuracies(np.random.default_rng(0), decay=2.0, repeats=1))
    assert found.residual_sd is None
    assert shown(found) == set()
    assert found.repeatability_limit is None
    assert found.effect("weight_decay", 5e-4, 1e-4).low is None


def test_one_cell_and_none():
    found = decompose([({"device": "cpu"}, 0.9), ({"device": "cpu"}, 0.9)])
    assert found.sources == ()
    assert found.residual_sd == 0
    assert decompose([]) is None
    with pytest.raises(ValueError, match="the same axes"):
        decompose([({"device": "cpu"}, 0.9), ({}, 0.9)])


def test_runs_of_a_cell_that_agree_to_the_example():
    runs = [({"device": device}, value) for device, value in (("cpu", 0.90), ("gpu", 0.91)) for _ in range(3)]
    assert shown(decompose(runs)) == {"device"}
    assert shown(decompose(runs, floor=0.01**2)) == set(), "one example of a hundred more is luck"


@pytest.mark.parametrize("levels", [2, 3, 6])
def test_the_best_value_against_the_worst_is_covered_though_it_was_picked(levels):
    random = np.random.default_rng(levels)
    held = []
    for _ in range(500):
        table = [({"decay": level}, x) for level in range(levels) for x in random.normal(0.0, 1.0, 3).tolist()]
        found = decompose(table)
        order = sorted(range(levels), key=lambda level: found.effect("decay", level, 0).value)
        gap = found.effect("decay", order[-1], order[0], chosen=True)
        held.append(gap.low <= 0 <= gap.high)
        assert held[-1] or found.sources[0].shown, "what is not shown as a whole is not shown of two values"
    assert np.mean(held) >= 0.935


def by_dummy_variables(runs):
    """Squares, rank and effects by a fit of one column per value, which decomposes the whole matrix of runs."""
    axes = {axis: sorted({place[axis] for place, _ in runs}) for axis in runs[0][0]}
    columns = [[1.0] * len(runs)]
    places = [None]
    for axis, levels in axes.items():
        columns += [[float(place[axis] == level) for place, _ in runs] for level in levels]
        places += [(axis, level) for level in levels]
    design, numbers = np.array(columns).T, np.array([value for _, value in runs])
    effects, _, rank, _ = np.linalg.lstsq(design, numbers, rcond=None)
    residuals = numbers - design @ effects
    return float(residuals @ residuals), rank, dict(zip(places, effects, strict=True))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kept", [0.2, 0.6, 1.0])
def test_the_fit_is_that_of_dummy_variables_if_cells_are_missing(seed, kept):
    """With cells missing, axes can be confounded in part or wholly, and the matrix lacks more ranks."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 6, 3)
    cells = [place for place in np.ndindex(*sizes) if random.random() < kept] or [(0, 0, 0), (1, 1, 1)]
    places = [dict(zip("abc", place, strict=True)) for place in cells for _ in range(3)]
    runs = [(place, sum(place.values()) + random.normal()) for place in places]
    found = decompose(runs)
    residual, rank, effects = by_dummy_variables(runs)
    numbers = np.array([value for _, value in runs])
    total = float(np.sum((numbers - numbers.mean()) ** 2))
    assert found.interaction is None or found.interaction.df == len(cells) - rank
    for source in found.sources:
        if source.name == "interaction":
            continue
        larger, smaller_rank, _ = by_dummy_variables(
            [({axis: value for axis, value in place.items() if axis != source.name}, number) for place, number in runs]
        )
        assert source.df == rank - smaller_rank == len({place[source.name] for place in places}) - 1
        assert source.share == pytest.approx((larger - residual) / total, rel=1e-9, abs=1e-12)
        first, *others = sorted({place[source.name] for place in places})
        for other in others:
            difference = effects[source.name, other] - effects[source.name, first]
            assert found.effect(source.name, other, first).value == pytest.approx(difference, rel=1e-9, abs=1e-9)
    for axis in found.confounded:
        _, smaller_rank, _ = by_dummy_variables(
            [({name: value for name, value in place.items() if name != axis}, number) for place, number in runs]
        )
        assert rank - smaller_rank < len({place[axis] for place in places}) - 1


def test_an_axis_with_hundreds_of_values_in_a_chain_that_just_holds_together():
    """Each value of one axis shares a single value of the other with the next: the worst connected of full ranks."""
    count = 300
    places = [{"first": step, "second": step + side} for step in range(count) for side in (0, 1)]
    runs = [(place, place["first"] - 2.0 * place["second"]) for place in places for _ in range(2)]
    found = decompose(runs)
    assert found.confounded == ()
    assert found.effect("first", count - 1, 0).value == pytest.approx(count - 1)
    assert found.effect("second", count, 0).value == pytest.approx(-2.0 * count)
    assert decompose(runs[:200] + runs[204:]).confounded == ("first", "second"), "the chain is in two pieces"

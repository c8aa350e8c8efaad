import numpy as np
import pytest
from support.simulated import CALLS, COVERS, GRIDS, covers

from raybench.analysis.statistics.accuracy import (
    AccuracyDifference,
    check_mean_accuracy,
    compare_accuracy,
    validation_set_uncertainty,
    wilson,
)

EXAMPLES = 10_000


def accuracies(random, truth, repeats, sd=0.0015):
    """One a run: the spread of DavidNet's runs, rounded to whole examples."""
    return np.round(random.normal(truth, sd, (GRIDS, repeats)) * EXAMPLES) / EXAMPLES


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_intervals_cover_the_truth_and_an_a_a_grid_is_seldom_called_different(repeats):
    random = np.random.default_rng(repeats)
    first, second = accuracies(random, 0.94, repeats), accuracies(random, 0.92, repeats, sd=0.003)
    found = [compare_accuracy(*sides, EXAMPLES) for sides in zip(first.tolist(), second.tolist(), strict=True)]
    assert COVERS[0] <= covers(found, 2.0) <= COVERS[1]
    again = accuracies(random, 0.94, repeats)
    found = [compare_accuracy(*sides, EXAMPLES) for sides in zip(first.tolist(), again.tolist(), strict=True)]
    assert np.mean([each.differs for each in found]) <= CALLS


def test_a_small_validation_set_does_not_make_runs_that_agree_certain():
    """360 examples: three runs with the same count may differ by up to an example each."""
    one, more = [355 / 360] * 3, [356 / 360] * 3
    found = compare_accuracy(one, more, 360)
    assert found.low < found.points < found.high
    assert compare_accuracy(one, more).low == pytest.approx(found.points)


def test_the_same_accuracy_has_to_be_shown():
    assert compare_accuracy([0.94, 0.941, 0.942], [0.941, 0.94, 0.942], EXAMPLES).alike
    spread = compare_accuracy([0.93, 0.95, 0.94], [0.94, 0.92, 0.945], EXAMPLES)
    assert (spread.differs, spread.alike) == (False, False)
    assert not compare_accuracy([0.94], [0.94], EXAMPLES).alike, "one run each"


def test_one_run_each_has_no_interval():
    assert compare_accuracy([0.94], [0.92], EXAMPLES) == AccuracyDifference(
        pytest.approx(2.0), blur=validation_set_uncertainty(0.93, EXAMPLES)
    )
    assert compare_accuracy([0.94], [0.92]).differs is None
    assert compare_accuracy([], [0.92]) is None


def test_what_a_validation_set_leaves_open():
    assert validation_set_uncertainty(0.94, EXAMPLES) == pytest.approx(0.47, abs=0.005)
    assert validation_set_uncertainty(0.94, 360) > 2


def test_wilson_s_interval():
    """35 of 50, by the formula of the textbooks."""
    assert wilson(35, 50) == pytest.approx((0.5625, 0.8090), abs=1e-4)
    assert wilson(0, 5)[0] == 0
    assert wilson(5, 5)[1] == 1
    assert wilson(0, 0) == (0.0, 1.0)


def test_whether_runs_prove_a_mean():
    sure = check_mean_accuracy([0.9408, 0.9421, 0.9395, 0.9412], 0.94, EXAMPLES)
    assert not sure.shown
    assert sure.low < 0.94 < sure.mean
    assert not check_mean_accuracy([0.92, 0.921], 0.94).shown
    assert check_mean_accuracy([0.95, 0.951, 0.9505], 0.94).shown
    assert check_mean_accuracy([0.95], 0.94).low is None
    assert check_mean_accuracy([], 0.94) is None


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_interval_of_a_mean_covers_and_what_is_not_there_is_seldom_proven(repeats):
    random = np.random.default_rng(repeats)
    found = [check_mean_accuracy(row, 0.94, EXAMPLES) for row in accuracies(random, 0.94, repeats).tolist()]
    assert COVERS[0] <= covers(found, 0.94) <= COVERS[1]
    assert np.mean([each.shown for each in found]) <= 0.035, "of one side: half of what two sides leave out"

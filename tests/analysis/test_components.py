import numpy as np
import pytest

from raybench.analysis.components import components


def grid(machine, process, epoch, machines=4, processes=5, epochs=20, seed=0):
    random = np.random.default_rng(seed)
    logs = (
        random.normal(0, machine, (machines, 1, 1))
        + random.normal(0, process, (machines, processes, 1))
        + random.normal(0, epoch, (machines, processes, epochs))
    )
    return {f"node-{number}": 3.0 * np.exp(each) for number, each in enumerate(logs)}


def test_each_part_is_found_on_the_average_of_many_grids():
    """ANOVA's parts are unbiased as variances, but for those that are cut off at 0."""
    found = [components(grid(0.1, 0.05, 0.02, seed=seed)) for seed in range(200)]
    for name, truth in (("machine", 0.1), ("process", 0.05), ("epoch", 0.02)):
        assert np.sqrt(np.mean([getattr(each, name).sd ** 2 for each in found])) == pytest.approx(truth, rel=0.1)


def test_intervals_of_the_parts_cover():
    found = [components(grid(0.1, 0.05, 0.02, seed=seed)) for seed in range(400)]
    for name, truth in (("machine", 0.1), ("process", 0.05), ("epoch", 0.02)):
        covered = np.mean([getattr(each, name).low <= truth <= getattr(each, name).high for each in found])
        assert covered > 0.92, name


def test_uneven_groups_are_taken_apart_too():
    variances = []
    for seed in range(300):
        whole = grid(0.0, 0.05, 0.02, machines=2, seed=seed)
        ragged = {name: [run[: 3 + 5 * number] for number, run in enumerate(runs)] for name, runs in whole.items()}
        variances.append(components(ragged).process.sd ** 2)
    assert np.sqrt(np.mean(variances)) == pytest.approx(0.05, rel=0.1)


def test_what_was_not_repeated_is_not_told_apart():
    one = components({"a": [[1.0, 1.1, 1.2]]})
    assert (one.machine, one.process) == (None, None)
    assert one.epoch.sd > 0
    assert components({"a": [[1.0], [1.1]]}).epoch is None
    assert components({"a": [[1.0]]}).says() == "one epoch of one run: nothing is known of the spread"
    assert components({}).process is None


def test_it_says_what_would_help():
    assert "more repeats would narrow it most" in components(grid(0.0, 0.1, 0.01)).says()
    assert "from epoch to epoch" in components(grid(0.0, 0.0, 0.1)).says()
    assert components({"a": [[1.0, 1.0], [1.0, 1.0]]}).says() == "no spread at all"

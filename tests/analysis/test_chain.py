"""Chains of equal versions: how often a step, or the whole, looks like a change."""

from itertools import pairwise

import numpy as np
import pytest

from raybench.analysis.intervals import Candidates, Sample, difference

DRAWS = 400


@pytest.mark.parametrize("only_records", [False, True], ids=["all versions", "versions that beat the last record"])
def test_false_alarms_of_steps_and_of_the_whole(only_records):
    random = np.random.default_rng(0)
    wholes, steps = [], []
    for _ in range(DRAWS):
        versions = [random.normal(0, 0.001 * np.exp(random.normal(0, 0.5)), 3) for _ in range(20)]
        chain = versions[:1]
        for version in versions[1:]:
            if not only_records or version.mean() < chain[-1].mean():
                chain.append(version)
        sides = [tuple(Sample(repeat, float(value)) for repeat, value in enumerate(runs)) for runs in chain]
        if len(sides) > 2:
            wholes.append(difference(sides[-1], sides[0], 0.0, Candidates(sides)))
        steps += [difference(after, before) for before, after in pairwise(sides)]
    for differences in (wholes, steps):
        ends = [each.interval() for each in differences]
        assert len(ends) > 200
        assert np.mean([not low <= 0 <= high for low, high in ends]) < 0.06

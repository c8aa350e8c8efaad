"""Losses of two configurations, within the noise between runs."""

from dataclasses import replace

import pytest
from support.made_up_runs import MadeUpGrid

from raybench.analysis.parity import parity
from raybench.results.epochs import Epochs

EPOCHS = 6


def compared(noise, shift, runs=4):
    """The only pair of a grid: losses 1 / epoch with that noise; those of the second are shifted from an epoch on."""
    grid = MadeUpGrid({"device": "torch"})
    for device in ("torch", "keras"):
        shifts = [shift.get(epoch, 0.0) if device == "keras" else 0.0 for epoch in range(1, EPOCHS + 1)]
        grid.add({"device": device}, [1.0] * runs, accuracies=(0.5,) * EPOCHS)
        for run in grid.attempts[-runs:]:
            run.epochs = Epochs(
                replace(
                    each, metrics={"train/loss": 1 / each.epoch + noise * (-1) ** (run.repeat + each.epoch) + shift_}
                )
                for each, shift_ in zip(run.epochs, shifts, strict=True)
            )
    (pair,) = parity(grid.answer())
    return pair


@pytest.mark.parametrize(
    ("noise", "shift", "differing"),
    [
        (0.01, {}, []),
        (0.01, {1: 0.2}, [(1, 1)]),
        (0.01, {5: 0.2, 6: 0.2}, [(5, 6)]),
        (0.01, dict.fromkeys(range(1, 7), -0.2), [(1, 1), (2, 2), (3, 4), (5, 6)]),
        (0.5, {1: 0.2}, []),
        (0.0, {1: 1e-9}, []),
        (0.0, {2: 0.001}, [(2, 2)]),
    ],
)
def test_first_losses_and_curves(noise, shift, differing):
    pair = compared(noise, shift)
    assert [(row.first, row.last) for row in pair.rows] == [(1, 1), (2, 2), (3, 4), (5, 6)]
    assert [(row.first, row.last) for row in pair.rows if row.differs] == differing
    assert pair.differs == bool(differing)
    for row in pair.rows:
        assert row.difference.alpha == 0.05 / 4, "of four rows"
        assert row.mean - row.reference_mean == pytest.approx(row.difference.value)
        mean = sum(shift.get(epoch, 0.0) for epoch in range(row.first, row.last + 1)) / (row.last - row.first + 1)
        assert row.difference.value == pytest.approx(mean, abs=1e-6)


def test_one_run_has_no_noise():
    assert compared(0.01, {1: 9.0}, runs=1).differs is None

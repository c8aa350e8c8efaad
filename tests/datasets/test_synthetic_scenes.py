"""Synthetic scenes: exact, always the same, and like an array that takes no memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from raybench import datasets
from raybench.datasets import synthetic_scenes
from raybench.datasets.splits import Data


@pytest.fixture(scope="module")
def drawn():
    return synthetic_scenes.render(np.arange(64, dtype=np.uint64))


def test_pictures_and_targets(drawn) -> None:
    pictures, targets = drawn
    assert (pictures.shape, pictures.dtype) == ((64, 96, 96, 6), np.uint8)
    assert (targets.shape, targets.dtype) == ((64, 2, 96, 96), np.uint8)
    assert set(np.unique(targets[:, 0])) == {0, 255}


def test_outside_the_mask_is_the_background_and_its_plane(drawn) -> None:
    pictures, targets = drawn
    outside = targets[:, 0] == 0
    assert np.array_equal(pictures[..., :3][outside], pictures[..., 3:][outside])
    for depth, here in zip(targets[:, 1], outside, strict=True):
        rows = [np.unique(row[at]) for row, at in zip(depth, here, strict=True) if at.any()]
        assert all(len(values) == 1 for values in rows), "one depth a row"
        assert (np.diff([int(values[0]) for values in rows]) <= 0).all(), "farther to the top"


def test_inside_the_mask_are_at_most_three_shapes_each_before_the_background(drawn) -> None:
    pictures, targets = drawn
    for picture, (mask, depth) in zip(pictures, targets, strict=True):
        inside = mask == 255
        assert 0 < inside.mean() < 0.8
        planes = np.unique(depth[inside])
        assert 1 <= len(planes) <= 3
        assert planes.max() <= 150 < 170 <= depth[~inside].min()
        for plane in planes:
            colours = np.unique(picture[..., 3:][inside & (depth == plane)], axis=0)
            assert len(colours) == 1, "a plane is one shape, of one colour"


def test_scenes_differ_and_each_is_always_the_same(drawn) -> None:
    again = synthetic_scenes.render(np.array([5, 63, 5], np.uint64))
    for whole, part in zip(drawn, again, strict=True):
        assert np.array_equal(whole[[5, 63, 5]], part)
    assert len({picture.tobytes() for picture in drawn[0]}) == 64


def test_draws_are_uniform() -> None:
    drawn = synthetic_scenes.uniform(np.arange(20_000, dtype=np.uint64))
    assert drawn.min() >= 0 and drawn.max() < 1
    assert np.abs(drawn.mean(0) - 0.5).max() < 0.01
    assert np.abs(drawn.var(0) - 1 / 12).max() < 0.003
    assert np.abs(np.corrcoef(drawn.T) - np.eye(drawn.shape[1])).max() < 0.04


def test_like_an_array() -> None:
    data = datasets.get("scenes-synthetic").load(Path("/nowhere"))
    inputs, targets = data.train.inputs, data.train.targets
    assert (len(inputs), inputs.nbytes) == (1_200_000, 1_200_000 * 96 * 96 * 6)
    few = np.asarray(inputs[10:14])
    assert np.array_equal(few, inputs[np.array([10, 11, 12, 13])])
    assert np.array_equal(few, np.asarray(data.train.first(14).inputs)[10:])
    assert np.array_equal(np.asarray(targets[10:14]), targets[np.array([10, 11, 12, 13])])
    assert not np.array_equal(np.asarray(data.val.inputs[:4]), np.asarray(inputs[:4]))


@pytest.mark.parametrize("side", [32, 48])
def test_smaller_ones_are_the_same_scenes(side: int) -> None:
    """A mask covers the same part of a picture, and the depth under it is the same."""
    whole = datasets.get("scenes-synthetic").load(Path("/nowhere"))
    few = synthetic_scenes.sized(whole, side)
    assert few.train.inputs.shape == (1_200_000, side, side, 6)
    assert few.val.targets[np.arange(3)].shape == (3, 2, side, side)
    assert np.array_equal(np.asarray(few.train.first(9).targets), few.train.targets[np.arange(9)])
    places = np.arange(40)
    small, large = few.train.targets[places], whole.train.targets[places]
    apart = (small[:, 0] > 0).mean((1, 2)) - (large[:, 0] > 0).mean((1, 2))
    assert np.abs(apart).max() < 0.03
    for mine, theirs in zip(small, large, strict=True):
        assert set(mine[1][mine[0] > 0]) <= set(theirs[1][theirs[0] > 0])
    assert synthetic_scenes.sized(whole, synthetic_scenes.SIDE) is whole


@pytest.mark.slow
def test_the_process_holds_no_more_after_ten_times_as_many() -> None:
    """In a process of its own, by the kernel's account: 2,000 small scenes with their targets, and 20,000."""
    code = (
        "import numpy as np, resource; from pathlib import Path; from raybench.datasets import synthetic_scenes\n"
        "train = synthetic_scenes.sized(synthetic_scenes.read(Path()), 32).train\n"
        "for start in range(0, 20_000, 100):\n"
        "    places = np.arange(start, start + 100)\n"
        "    train.inputs[places], train.targets[places]\n"
        "    if start in (1_900, 19_900): print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    few, many = map(int, said.split())
    all_of_them = 20_000 * 32 * 32 * 8 / 1024
    assert many - few < all_of_them / 20


def test_memory_does_not_grow_with_what_has_been_read() -> None:
    inputs = datasets.get("scenes-synthetic").load(Path("/nowhere")).train.inputs
    tracemalloc.start()
    try:
        inputs[np.arange(32)]
        begun = tracemalloc.get_traced_memory()[0]
        for start in range(1_000, 1_000_000, 200_000):
            inputs[np.arange(start, start + 32)]
        assert tracemalloc.get_traced_memory()[0] < begun + 32 * 96 * 96 * 8
    finally:
        tracemalloc.stop()


def test_what_fits_is_made_at_once_and_the_rest_as_it_is_read() -> None:
    from raybench.trial.run import in_memory

    whole = datasets.get("scenes-synthetic").load(Path("/nowhere"))
    made = in_memory(Data(whole.train.first(8), whole.val.first(4)), most=8 * 96 * 96 * 8)
    assert isinstance(made.train.inputs, np.ndarray)
    assert np.array_equal(made.train.targets, np.asarray(whole.train.targets[:8]))
    assert not isinstance(in_memory(whole).train.inputs, np.ndarray)


def test_its_digest_says_which_generator() -> None:
    status = datasets.get("scenes-synthetic").status(Path("/nowhere"))
    assert (status.state, status.official) == ("ready", True)
    assert status.digest == datasets.get("scenes-synthetic").official_digest

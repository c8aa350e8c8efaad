"""Synthetic stand-ins: the shapes of the real data, the same bytes on every machine, classes that can be learned."""

import hashlib

import numpy as np
import pytest

from raybench import datasets
from raybench.datasets import imdb, synthetic
from raybench.errors import DataError

SHAPES = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3), "imdb": (512,)}


def neighbours(train, classes, val):
    """The class of the nearest training example."""
    distances = (val**2).sum(1)[:, None] - 2 * val @ train.T + (train**2).sum(1)
    return classes[distances.argmin(1)]


def counts(reviews):
    """How often each of the words is used that tell good reviews from bad ones."""
    low, high = synthetic.SENTIMENT_WORDS
    return np.stack([np.bincount(row, minlength=1 << 16)[low + imdb.OFFSET : high + imdb.OFFSET] for row in reviews])


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_they_have_the_shapes_and_numbers_of_the_real_ones(name, tmp_path):
    data_set = datasets.get(datasets.synthetic_name(name))
    assert data_set.examples == datasets.get(name).examples
    first, cached = data_set.load(tmp_path), data_set.load(tmp_path)
    kind = np.uint16 if name == "imdb" else np.uint8
    for split, count in data_set.examples.items():
        made, kept = getattr(first, split), getattr(cached, split)
        assert (made.inputs.shape, made.inputs.dtype) == ((count, *SHAPES[name]), kind)
        assert np.array_equal(made.inputs, kept.inputs) and np.array_equal(made.targets, kept.targets)
        share = np.bincount(made.targets) / count
        assert made.targets.dtype == np.int64 and share == pytest.approx(1 / (2 if name == "imdb" else 10))
    assert not np.array_equal(first.train.inputs[:100], first.val.inputs[:100])


def test_a_folder_that_cannot_be_written_to_costs_time_alone(tmp_path):
    (tmp_path / "synthetic").write_text("a file where the folder would be")
    assert len(datasets.get("mnist-synthetic").load(tmp_path).val) == 10_000


def test_they_are_the_same_on_every_machine():
    random = np.random.RandomState(0)
    pictures, classes = synthetic.pictures(random, 50, synthetic.prototypes(random, 8, 1))
    reviews, kinds = synthetic.reviews(random, 20)
    digests = [hashlib.sha256(each.tobytes()).hexdigest()[:8] for each in (pictures, classes, reviews, kinds)]
    assert digests == DIGESTS


def test_pictures_can_be_told_apart_but_not_all_of_them():
    random = np.random.RandomState(1)
    pictures, classes = synthetic.pictures(random, 4000, synthetic.prototypes(random, 16, 3))
    flat = pictures.reshape(len(pictures), -1) / 255
    right = neighbours(flat[:3500], classes[:3500], flat[3500:]) == classes[3500:]
    assert 0.7 < right.mean() < 1


def test_reviews_can_be_told_apart_but_not_all_of_them():
    reviews, kinds = synthetic.reviews(np.random.RandomState(2), 4000)
    used = counts(reviews)
    good, bad = (used[:3000][kinds[:3000] == kind].mean(0) for kind in (1, 0))
    scores = used[3000:] @ (np.log(good + 0.01) - np.log(bad + 0.01))
    right = (scores > np.median(scores)) == (kinds[3000:] == 1)
    assert 0.7 < right.mean() < 1


def test_reviews_are_as_long_as_the_real_ones():
    reviews, _ = synthetic.reviews(np.random.RandomState(3), 2000)
    lengths = (reviews > 0).sum(1)
    assert 160 < np.median(lengths) < 190 and (lengths == 512).mean() > 0.04
    assert (reviews[lengths < 512][:, ::-1].min(1) == 0).all(), "they are filled in front"
    starts = [row[512 - n] for row, n in zip(reviews, lengths, strict=True) if n < 512]
    assert set(starts) == {imdb.START}


def test_what_needs_no_download_stands_for_itself():
    assert [datasets.synthetic_name(name) for name in ("digits", "scenes-synthetic")] == ["digits", "scenes-synthetic"]
    stand_ins = [name for name in datasets.names() if datasets.is_synthetic(name)]
    assert stand_ins == [f"{name}-synthetic" for name in IN_ORDER]


def test_a_download_that_fails_names_them(tmp_path):
    def refuse(dataset, root):
        raise DataError(f"{dataset.name}: no network")

    with pytest.raises(DataError, match="no network; or use `--synthetic-data`: generated data"):
        datasets.ensure("mnist", tmp_path, refuse)


IN_ORDER = ("mnist", "imdb", "cifar10")
DIGESTS = ["ef1bcad2", "bc160b63", "82814884", "3555dcde"]

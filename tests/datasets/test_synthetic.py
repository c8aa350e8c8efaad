"""Random data in place of real ones: their shape and size, the same bytes on every machine."""

import hashlib

import numpy as np
import pytest

from raybench import datasets
from raybench.errors import DataError

SHAPES = {
    "mnist-synthetic": ((28, 28, 1), ()),
    "imdb-synthetic": ((512,), ()),
    "cifar10-synthetic": ((32, 32, 3), ()),
    "scenes-synthetic": ((96, 96, 6), (2, 96, 96)),
}
DIGESTS = {
    "mnist-synthetic": "6eacfbc4",
    "imdb-synthetic": "443bdf31",
    "cifar10-synthetic": "95a71fa7",
    "scenes-synthetic": "759b672a",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_numbers_of_real_data(name, tmp_path):
    dataset = datasets.get(name)
    data = dataset.load(tmp_path)
    if datasets.is_synthetic(name):
        assert dataset.examples == datasets.get(name.removesuffix("-synthetic")).examples
    for split, count in dataset.examples.items():
        arrays = getattr(data, split)
        assert (arrays.inputs.shape[1:], arrays.targets.shape[1:]) == SHAPES[name]
        assert len(arrays) == count
        assert arrays.inputs.dtype == (np.uint16 if "imdb" in name else np.uint8)
        assert arrays.targets.dtype == (np.uint8 if "scenes" in name else np.int64)
        assert len(np.unique(arrays.inputs[:50].reshape(50, -1), axis=0)) == 50, "no two examples are the same"
    assert not np.array_equal(data.train.inputs[:100], data.val.inputs[:100])


def test_same_data_on_every_machine(tmp_path):
    digests = {}
    for name in SHAPES:
        data = datasets.get(name).load(tmp_path)
        parts = (data.train.inputs[:50], data.train.targets[:50], data.val.inputs[:50], data.val.targets[:50])
        digests[name] = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:8]
    assert digests == DIGESTS


def test_data_without_a_download_replace_themselves():
    assert [datasets.synthetic_name(name) for name in ("digits", "scenes-synthetic")] == ["digits", "scenes-synthetic"]
    replacements = [name for name in datasets.names() if datasets.is_synthetic(name)]
    assert replacements == ["mnist-synthetic", "imdb-synthetic", "cifar10-synthetic"]


def test_failed_download_names_the_replacement(tmp_path):
    def refuse(dataset, root):
        raise DataError(f"{dataset.name}: no network")

    with pytest.raises(DataError, match="no network; or use `--synthetic-data`: random data"):
        datasets.ensure("mnist", tmp_path, refuse)

from __future__ import annotations

import gzip
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from raybench import datasets
from raybench.datasets import DataSet, cifar10, digits, imdb, mnist
from raybench.datasets.splits import Data, Split, hold_out
from raybench.errors import DataError

REAL = Path(os.environ.get("RAYBENCH_DATA", "/nowhere"))


def real(name: str) -> pytest.MarkDecorator:
    here = datasets.get(name).locate(REAL) / datasets.get(name).files[0].path
    return pytest.mark.skipif(not here.exists(), reason=f"{name} is not in RAYBENCH_DATA")


# digits


def test_digits_equal_scikit_learn(tmp_path: Path) -> None:
    data = datasets.get("digits").load(tmp_path)
    assert data.train.inputs.shape == (1437, 8, 8, 1)
    assert data.val.inputs.shape == (360, 8, 8, 1)
    assert data.train.inputs.dtype == np.uint8
    assert data.train.inputs.max() == 16
    assert data.train.inputs.flags.writeable
    loaded = pytest.importorskip("sklearn.datasets").load_digits()
    everything = np.concatenate([data.train.inputs, data.val.inputs])[..., 0]
    assert (everything == loaded.images).all()
    assert (np.concatenate([data.train.targets, data.val.targets]) == loaded.target).all()


DIGITS = replace(digits.DATASET, locate=lambda root: root)


@pytest.mark.parametrize(
    ("dataset", "content", "message"),
    [
        (DIGITS, gzip.compress(b"1,2\n3,4\n", mtime=0), "cannot reshape"),
        (DIGITS, gzip.compress(b"1,2\n" * 100, mtime=0)[:-9], "ended before"),
        (DIGITS, b"1,2,3", "Not a gzipped file"),
        (DIGITS, gzip.compress(b"a,b\n", mtime=0), "could not convert"),
        (
            mnist.DATASET,
            gzip.compress(b"!" * 99, mtime=0),
            r"train-images-idx3-ubyte\.gz is not an IDX file of 60000×28×28 bytes",
        ),
        (cifar10.DATASET, b"!" * 99, "cannot reshape"),
        (imdb.DATASET, b"!" * 99, "not a gzip file"),
    ],
)
def test_damaged_files(tmp_path: Path, dataset: DataSet, content: bytes, message: str) -> None:
    for file in dataset.files:
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_bytes(content)
    with pytest.raises(DataError, match=f"{dataset.name}: cannot be read from .*{message}.*fetch {dataset.name}"):
        dataset.load(tmp_path)


def test_digits_without_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "find_spec", lambda name: None)
    assert datasets.get("digits").status(tmp_path).state == "missing"
    with pytest.raises(DataError, match="install scikit-learn, which contains it"):
        datasets.get("digits").load(tmp_path)


# MNIST


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Five pictures and their classes."""
    pictures = np.arange(5 * 28 * 28).astype(np.uint8).reshape(5, 28, 28)
    paths = tmp_path / "images.gz", tmp_path / "labels.gz"
    for path, values in zip(paths, (pictures, np.array([3, 1, 4, 1, 5], np.uint8)), strict=True):
        path.write_bytes(gzip.compress(idx(values)))
    return paths


def test_idx_is_read(pair: tuple[Path, Path]) -> None:
    split = mnist._split(*pair, 5)
    assert split.inputs.shape == (5, 28, 28, 1)
    assert (split.inputs.ravel() == np.arange(5 * 28 * 28).astype(np.uint8)).all()
    assert split.targets.tolist() == [3, 1, 4, 1, 5]
    assert split.targets.dtype == np.int64
    assert split.inputs.flags.writeable


@pytest.mark.slow
@real("mnist")
def test_real_mnist() -> None:
    data = datasets.get("mnist").load(REAL)
    assert data.train.inputs.shape == (60_000, 28, 28, 1)
    assert data.train.targets[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.val.targets[:5].tolist() == [7, 2, 1, 0, 4]
    assert data.train.inputs.mean() == pytest.approx(33.318, abs=1e-3)


# CIFAR-10


@pytest.fixture
def batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six files of two examples each, every channel of every example with a value of its own."""
    monkeypatch.setattr(cifar10, "EXAMPLES", 2)
    for name in ("TRAIN", "VAL"):
        files = tuple(replace(file, size=2 * cifar10.RECORD) for file in getattr(cifar10, name))
        monkeypatch.setattr(cifar10, name, files)
    (tmp_path / cifar10.FOLDER).mkdir()
    for place, file in enumerate(cifar10.TRAIN + cifar10.VAL):
        records = np.zeros((2, cifar10.RECORD), np.uint8)
        for example in range(2):
            records[example, 0] = (2 * place + example) % 10
            for channel in range(3):
                at = 1 + 1024 * channel
                records[example, at : at + 1024] = 10 * (2 * place + example) + channel
            records[example, 1 + 5] = 255  # row 0, column 5, red
        (tmp_path / file.path).write_bytes(records.tobytes())
    return tmp_path


def test_cifar_layout(batches: Path) -> None:
    data = cifar10.read(batches)
    assert data.train.inputs.shape == (10, 32, 32, 3)
    assert data.val.inputs.shape == (2, 32, 32, 3)
    assert data.train.inputs[7, 31, 31].tolist() == [70, 71, 72]
    assert data.train.inputs[7, 0, 5].tolist() == [255, 71, 72]
    assert data.train.inputs.flags.c_contiguous
    assert data.train.inputs.flags.writeable
    assert data.train.targets.tolist() == list(range(10))
    assert data.val.targets.tolist() == [0, 1]


@pytest.mark.slow
@real("cifar10")
def test_real_cifar() -> None:
    data = datasets.get("cifar10").load(REAL)
    assert data.train.inputs.shape == (50_000, 32, 32, 3)
    assert np.bincount(data.train.targets).tolist() == [5000] * 10
    assert data.val.targets[:5].tolist() == [3, 8, 8, 0, 6]
    assert data.train.inputs.mean((0, 1, 2)) == pytest.approx((125.307, 122.950, 113.865), abs=1e-3)


# Splits


def test_hold_out_takes_the_end() -> None:
    data = hold_out(Split(np.arange(10), np.arange(10)), 3)
    assert isinstance(data, Data)
    assert data.train.targets.tolist() == list(range(7))
    assert data.val.targets.tolist() == [7, 8, 9]


@pytest.mark.parametrize("n", [0, 10, 11])
def test_hold_out_leaves_both_splits(n: int) -> None:
    with pytest.raises(ValueError, match=f"cannot hold out {n} of 10"):
        hold_out(Split(np.arange(10), np.arange(10)), n)


def test_invalid_splits() -> None:
    with pytest.raises(ValueError, match="3 inputs but 2 targets"):
        Split(np.arange(3), np.arange(2))
    with pytest.raises(ValueError, match="no examples"):
        Split(np.arange(0), np.arange(0))

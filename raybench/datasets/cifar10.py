"""CIFAR-10 in its official binary form.

An example is a class byte, then 32×32 red, green and blue bytes.

Source: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009;
https://www.cs.toronto.edu/~kriz/cifar.html.
"""

from __future__ import annotations

from pathlib import Path

from raybench.datasets.dataset import DataFile, DataSet, Download
from raybench.datasets.splits import Data, Split

FOLDER = "cifar-10-batches-bin"
EXAMPLES = 10_000  # number of examples per file
RECORD = 1 + 3 * 32 * 32


def _file(name: str, checksum: str) -> DataFile:
    return DataFile(f"{FOLDER}/{name}.bin", EXAMPLES * RECORD, checksum)


# The authors publish no checksums of these six; the MD5 of the archive (the last) is the one its users know it by.
TRAIN = (
    _file("data_batch_1", "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    _file("data_batch_2", "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    _file("data_batch_3", "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    _file("data_batch_4", "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    _file("data_batch_5", "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
)
VAL = (_file("test_batch", "md5:803d5f7f4d78ea53de84dbe85f74fb6d"),)
FILES = TRAIN + VAL


def read(folder: Path) -> Data:
    """Read 50,000 and 10,000 images, uint8 [N, 32, 32, 3]; int64 classes, 0 to 9."""
    return Data(_split(folder, TRAIN), _split(folder, VAL))


def _split(folder: Path, files: tuple[DataFile, ...]) -> Split:
    import numpy as np

    images = np.empty((len(files) * EXAMPLES, 32, 32, 3), np.uint8)
    classes = np.empty(len(images), np.int64)
    for index, file in enumerate(files):
        records = np.fromfile(folder / file.path, np.uint8).reshape(EXAMPLES, RECORD)
        rows = slice(index * EXAMPLES, (index + 1) * EXAMPLES)
        classes[rows] = records[:, 0]
        images[rows] = records[:, 1:].reshape(EXAMPLES, 3, 32, 32).transpose(0, 2, 3, 1)
    return Split(images, classes)


DATASET = DataSet(
    name="cifar10",
    description="60,000 photographs of 32×32 pixels in ten classes",
    files=FILES,
    examples={"train": 50_000, "val": 10_000},
    read=read,
    sources=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            170_052_171,
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            tuple(file.path for file in FILES),
        ),
    ),
)

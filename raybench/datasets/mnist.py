"""MNIST in its official form: four gzipped idx files.

Source: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-based learning applied to document recognition", 1998.
An idx file is big-endian: two zero bytes, a type (8: unsigned byte), the number of dimensions, each dimension as a
32-bit number, then the values.
"""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

from raybench.datasets.dataset import DataFile, DataSet, Download
from raybench.datasets.splits import Array, Data, Split

# The authors' own site no longer serves the files; this is PyTorch's mirror.
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
UNSIGNED_BYTE = 8


def _file(name: str, size: int, sha256: str) -> DataFile:
    return DataFile(f"mnist/{name}", size, f"sha256:{sha256}", size_may_differ=True)


FILES = (
    _file("train-images-idx3-ubyte.gz", 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    _file("train-labels-idx1-ubyte.gz", 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    _file("t10k-images-idx3-ubyte.gz", 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    _file("t10k-labels-idx1-ubyte.gz", 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)


def read(folder: Path) -> Data:
    """Read 60,000 and 10,000 images, uint8 [N, 28, 28, 1]; int64 classes, 0 to 9."""
    train_inputs, train_targets, val_inputs, val_targets = (folder / file.path for file in FILES)
    return Data(_split(train_inputs, train_targets, 60_000), _split(val_inputs, val_targets, 10_000))


def _split(inputs: Path, targets: Path, examples: int) -> Split:
    import numpy as np

    images = _idx(inputs, (examples, 28, 28))[..., None]
    return Split(images, _idx(targets, (examples,)).astype(np.int64))


def _idx(path: Path, shape: tuple[int, ...]) -> Array:
    """Read a gzipped idx file of a known shape, never more bytes than that."""
    import numpy as np

    header = bytes((0, 0, UNSIGNED_BYTE, len(shape))) + struct.pack(f">{len(shape)}I", *shape)
    size = len(header) + math.prod(shape)
    with gzip.open(path, "rb") as file:
        content = bytearray(file.read(size + 1))  # an array over bytes would be read-only
    if len(content) != size or not content.startswith(header):
        raise ValueError(f"{path} is not an IDX file of {'×'.join(map(str, shape))} bytes")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)


DATASET = DataSet(
    name="mnist",
    description="70,000 handwritten digits of 28×28 pixels, gray",
    files=FILES,
    examples={"train": 60_000, "val": 10_000},
    read=read,
    sources=tuple(
        Download(MIRROR + file.path.removeprefix("mnist/"), file.size, file.checksum, (file.path,)) for file in FILES
    ),
)

"""The source code of Python's standard library as a stream of bytes, for language models.

Every machine has it, so it needs no download. It differs between versions of Python, and so does its digest.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from functools import cache
from pathlib import Path

from raybench.datasets.dataset import DataSet
from raybench.datasets.splits import Array, Data, Split
from raybench.errors import DataError

MAX_TOKENS = 4096  # tokens of an example; a workload uses its first ones, as many as its context has
STRIDE = 256  # tokens from the beginning of an example to that of the next one
TRAIN, VAL = 15_360, 512
BYTES = (TRAIN + VAL - 1) * STRIDE + 2 * MAX_TOKENS + 1


def windows(tokens: Array, val: int = VAL) -> Data:
    """Cut a stream of tokens into overlapping examples of 4,096, each with the token after it as its target.

    Args:
        tokens: numbers, as bytes are, or those that a tokenizer has written.
        val: the number of examples of the validation set, at the end; none of the training set overlaps it.

    Raises:
        DataError: there are not enough tokens.
    """
    import numpy as np

    count = (len(tokens) - 1 - MAX_TOKENS) // STRIDE + 1
    train = count - val - MAX_TOKENS // STRIDE
    if train < 1:
        raise DataError(f"{len(tokens):,} tokens are too few for {val} examples to validate on and one to train on")
    views = np.lib.stride_tricks.sliding_window_view(tokens, MAX_TOKENS + 1)[::STRIDE]
    inputs, targets = views[:, :-1], views[:, 1:]
    return Data(Split(inputs[:train], targets[:train]), Split(inputs[count - val :], targets[count - val :]))


@cache
def source_code() -> bytes:
    """The modules of the standard library that are single files, in the order of their names."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = [folder / f"{name}.py" for name in sorted(sys.stdlib_module_names)]
    return b"".join(file.read_bytes() for file in files if file.is_file())[:BYTES]


def read(_: Path) -> Data:
    """Read 15,360 and 512 examples of 4,096 bytes: uint8 [N, 4096]."""
    import numpy as np

    code = source_code()
    if len(code) < BYTES:
        raise DataError(f"python-code: Python {sys.version.split()[0]} has {len(code):,} of {BYTES:,} bytes of sources")
    return windows(np.frombuffer(code, np.uint8))


DATASET = DataSet(
    name="python-code",
    description="4 MB of source code of this Python's standard library, as bytes",
    files=(),
    examples={"train": TRAIN, "val": VAL},
    read=read,
    hint="use one version of Python everywhere",
    generator=lambda: hashlib.sha256(source_code()).hexdigest(),
)

"""A picture of the trained model's predictions for the first validation examples.

It is made after the run is over and its ledger closed, so it is in no measured time.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from raybench.datasets.splits import Array, Split
from raybench.engines import CHANNELS_FIRST, Engine, open_inspection
from raybench.engines.images import is_pictures, plain
from raybench.workloads.base import Workload

SHEET = "predictions.png"
EXAMPLES = 8


def write_preview(workload: Workload, framework: str, engine: Engine, split: Split, folder: Path) -> None:
    """Write `predictions.png` into a folder, if the workload has a preview.

    Raises:
        Exception: any exception of the model or of the workload's function; nothing is written then.
    """
    if workload.preview is None:
        return
    inputs, targets = (np.asarray(values[:EXAMPLES]) for values in (split.inputs, split.targets))
    outputs = open_inspection(framework).outputs(engine.model, as_given(inputs, workload, framework))
    picture = png(workload.draw(inputs, targets, outputs))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SHEET).write_bytes(picture)


def as_given(inputs: Array, workload: Workload, framework: str) -> Array:
    """Examples as model inputs: images normalised and in the layout of the framework's models.

    Other arrays only change their type: floats to float32, integers to int64.
    """
    if is_pictures(inputs):
        mean, std = (np.asarray(values, np.float32) for values in (workload.mean, workload.std))
        inputs = (inputs.astype(np.float32) - mean) / std
        inputs = inputs.transpose(0, 3, 1, 2) if framework in CHANNELS_FIRST else inputs
    return plain(inputs)


def png(picture: Any) -> bytes:
    """Encode an image, uint8 [height, width, 3], as a PNG file.

    Source: ISO/IEC 15948: a signature, then header, data (each row after a byte 0: unfiltered) and end, with checksums.
    """
    height, width, _ = picture.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)

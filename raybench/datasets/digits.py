"""Handwritten digits, 8×8, a small real data set included in scikit-learn.

It needs no download.

Source: the test half of E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998.
"""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

from raybench.datasets.dataset import DataFile, DataSet
from raybench.datasets.splits import Data, Split

FILE, SHA256 = "digits.csv.gz", "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
TRAIN = 1437
VAL = 360


def locate(root: Path) -> Path:
    """The data folder in the installed scikit-learn, found without importing it, which would take a second."""
    spec = find_spec("sklearn")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0], "datasets", "data") if folders else root / "digits"


def read(folder: Path) -> Data:
    """Read 1,437 and 360 images, uint8 [N, 8, 8, 1] of 0 to 16, in the file's order; int64 classes."""
    import numpy as np

    with gzip.open(folder / FILE, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",").reshape(TRAIN + VAL, 65)
    images = table[:, :64].astype(np.uint8).reshape(-1, 8, 8, 1)
    classes = table[:, 64].astype(np.int64)
    return Data(Split(images[:TRAIN], classes[:TRAIN]), Split(images[TRAIN:], classes[TRAIN:]))


DATASET = DataSet(
    name="digits",
    description="1,797 handwritten digits of 8×8 pixels, inside scikit-learn",
    files=(DataFile(FILE, 57_523, f"sha256:{SHA256}", size_may_differ=True),),
    examples={"train": TRAIN, "val": VAL},
    read=read,
    locate=locate,
    hint="install scikit-learn, which contains it",
)

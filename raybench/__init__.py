"""raybench: which hardware trains your model faster, by how much, and with what certainty.

`raybench grid FILE` is the way in; see README.md. From Python:

- `Workload`: a model, its data and its recipe; what a file of your own defines.
- `Data`, `Split`: what a workload's own `data` function returns.
- `Trial`, `current_trial`: the run of a training loop of your own, which reports its epochs to it.
- `load`: results as tidy tables, from a journal, an MLflow store or elsewhere.
- `published`: the published results that come with raybench.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raybench._version import __version__
from raybench.datasets.splits import Data, Split
from raybench.workloads.base import Workload

if TYPE_CHECKING:
    from raybench.sources import load, published
    from raybench.training import Trial, current_trial

__all__ = ["Data", "Split", "Trial", "Workload", "__version__", "current_trial", "load", "published"]

_LATER = {
    "Trial": "raybench.training",
    "current_trial": "raybench.training",
    "load": "raybench.sources",
    "published": "raybench.sources",
}
"""What is loaded when it is asked for, and from where: a file that defines a workload needs nothing of it."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""raybench: which hardware trains your model faster, by how much, and with what certainty.

`raybench grid FILE` is the way in; see README.md. From Python:

- `Workload`: a model, its data and its recipe; what a file of your own defines.
- `Data`, `Split`: what a workload's own `data` function returns.
- `load`: results as tidy tables, from a journal, an MLflow store or elsewhere.
- `published`: the published results that come with raybench.
"""

from typing import TYPE_CHECKING, Any

from raybench._version import __version__
from raybench.datasets.splits import Data, Split
from raybench.workloads.base import Workload

if TYPE_CHECKING:
    from raybench.sources import load, published

__all__ = ["Data", "Split", "Workload", "__version__", "load", "published"]

_LATER = ("load", "published")
"""What is loaded when it is asked for: a file that defines a workload needs nothing of it."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from raybench import sources

        return getattr(sources, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""raybench: which hardware trains your model faster, by how much, and with what certainty.

`raybench grid FILE` is the way in; see README.md. From Python:

- `Workload`: a model, its data and its recipe; what a file of your own defines.
- `Data`, `Split`: what a workload's own `data` function returns.
"""

from raybench.datasets.base import Data, Split
from raybench.workloads.base import Workload

__version__ = "0.1.0"
__all__ = ["Data", "Split", "Workload", "__version__"]

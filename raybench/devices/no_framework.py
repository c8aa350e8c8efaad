"""The CPU for loops without a framework, such as those in NumPy or scikit-learn."""

from __future__ import annotations

import os

from raybench.devices.base import Device

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
"""Environment variables from which libraries take their number of threads when they are loaded."""


class Cpu(Device):
    """A CPU trial whose libraries read the number of their threads from the environment."""

    def set_threads(self, count: int) -> None:
        """Set the threads of libraries that are loaded later and, with threadpoolctl, of those that are loaded."""
        for name in VARIABLES:
            os.environ[name] = str(count)
        try:
            import threadpoolctl
        except ImportError:
            return
        threadpoolctl.threadpool_limits(count)

    def is_oom(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

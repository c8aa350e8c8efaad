"""Functions with the same name for two frameworks, in parallel modules."""

from __future__ import annotations


def twins(module: str, function: str) -> dict[str, str]:
    """ "module:function" for each framework.

    For `binary` and `loss`, those are in `binary_torch` and `binary_tensorflow`.
    """
    return {framework: f"raybench.workloads.{module}_{framework}:{function}" for framework in ("torch", "tensorflow")}

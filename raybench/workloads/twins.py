"""Functions that two frameworks have under one name, in modules that are called alike."""

from __future__ import annotations


def twins(module: str, function: str) -> dict[str, str]:
    """For each framework "module:function": of `binary` and `loss` those in `binary_torch` and `binary_tensorflow`."""
    return {framework: f"raybench.workloads.{module}_{framework}:{function}" for framework in ("torch", "tensorflow")}

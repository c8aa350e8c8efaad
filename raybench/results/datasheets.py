"""Peak arithmetic rates of accelerators as their vendors state them: dense, without sparsity.

Tensor-core rates of fp16 and bf16 are those with accumulation in fp32, which training uses. A sheet that states rates
"with sparsity" counts twice as much; here they are halved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

_A100 = {"fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0}
_H100 = {"fp32": 67.0, "tf32": 494.5, "bf16": 989.5, "fp16": 989.5}
_HOPPER_NVL = {"fp32": 60.0, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5}

_TERAFLOPS: Mapping[str, Mapping[str, float]] = {
    # NVIDIA data sheets and whitepapers of each product; names as NVML gives them
    r"NVIDIA A100-.*": _A100,
    r"NVIDIA H100 80GB HBM3": _H100,
    r"NVIDIA H100 PCIe": {"fp32": 51.0, "tf32": 378.0, "bf16": 756.5, "fp16": 756.5},
    r"NVIDIA H100 NVL": _HOPPER_NVL,
    r"NVIDIA H200": _H100,
    r"NVIDIA H200 NVL": _HOPPER_NVL,
    r"NVIDIA L4": {"fp32": 30.3, "tf32": 60.0, "bf16": 121.0, "fp16": 121.0},
    r"NVIDIA L40S": {"fp32": 91.6, "tf32": 183.0, "bf16": 362.0, "fp16": 362.0},
    r"NVIDIA A10": {"fp32": 31.2, "tf32": 62.5, "bf16": 125.0, "fp16": 125.0},
    r"NVIDIA GeForce RTX 4090": {"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp16": 165.2},
    r"Tesla T4": {"fp32": 8.1, "fp16": 65.0},
    r"Tesla V100-SXM2-.*": {"fp32": 15.7, "fp16": 125.0},
    r"Tesla V100-PCIE-.*": {"fp32": 14.0, "fp16": 112.0},
    # Google Cloud's documentation of each TPU version; per chip
    r"TPU v2": {"bf16": 46.0},
    r"TPU v3": {"bf16": 123.0},
    r"TPU v4": {"bf16": 275.0},
    r"TPU v5e": {"bf16": 197.0},
    r"TPU v5p": {"bf16": 459.0},
    r"TPU v6e": {"bf16": 918.0},
}
"""TFLOP/s by precision of a whole GPU or TPU chip, by its model's name; slices of a GPU have none."""

MEASURED: Mapping[str, Mapping[tuple[str, str], float]] = {
    # benchmarks/results/gpu_h200.txt: one H200 of a cloud, by the check before trials
    "NVIDIA H200": {("product", "bf16"): 832e12, ("convolution", "fp16"): 806e12},
}
"""FLOP/s that raybench has measured on a model, by probe and precision."""


@cache
def peak_flops(model: str, precision: str) -> float | None:
    """The stated peak of one accelerator in FLOP/s; None if it is not known."""
    rates = next((rates for name, rates in _TERAFLOPS.items() if re.fullmatch(name, model)), {})
    return rates[precision] * 1e12 if precision in rates and " MIG " not in model else None

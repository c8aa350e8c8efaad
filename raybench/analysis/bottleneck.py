"""The bottleneck of an attempt: compute, memory, input or overhead.

A roofline compares a model's demand with a device's capacity: here the steady epochs of an attempt with probes under
the same framework, in the same number format, with the same cores and threads (`raybench.checks.roofline`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from raybench.core.cell import Cell
from raybench.results import timing
from raybench.results.attempt import Attempt

COMPUTE, MEMORY, INPUT, OVERHEAD = "compute", "memory", "input", "overhead"

PASSES = 3
"""Passes over the layers per step: forward, input gradients and weight gradients.

Each has about the same number of multiplications, and about the same memory traffic."""

VALUE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
"""Bytes per activation; weights and optimiser state are float32 in every precision."""

WEIGHT_BYTES = 4
WEIGHT_MOVES = 6
"""Reads and writes of each weight or its gradient per step.

The weight is read in the forward and backward pass and the gradient is written; the optimiser reads both and writes the
weight."""

STATES = {"sgd": 1, "adam": 2, "adamw": 2}
"""Optimiser state values per weight, each read and written in a step.

SGD without momentum has none."""

LEAST_SHARE = 0.25
"""Minimum share of an epoch, or of a probe's rate, of a bottleneck.

Layers are narrower than probes, and batch norms, activations and optimisers run between the multiplications. On one
core of a server processor, in float32 under torch, DavidNet with batches of 32 reached 0.30 of its probes, and the
small katnoria_cnn 0.07 to 0.08 with single examples, 0.19 to 0.26 with batches of 8 and 0.25 to 0.33 with 32."""


@dataclass(frozen=True)
class Roofline:
    """The steady epochs of an attempt relative to its device's capacity.

    Attributes:
        train_flops, train_bytes: per example in a training step.
        flops_per_s, bytes_per_s: achieved, over training and waiting for input.
        compute: share of the better arithmetic probe; above 1 if the model's layers run at higher rates than the
            probes.
        memory: share of the memory probe; above 1 if caches serve part of the counted traffic.
        input: share of the time in which the host waited for the next batch.
    """

    train_flops: float
    train_bytes: float
    flops_per_s: float
    bytes_per_s: float
    compute: float
    memory: float
    input: float

    @property
    def bottleneck(self) -> str:
        """The class of the bottleneck.

        `input` if waiting for it took at least `LEAST_SHARE` of the time; else `compute` or `memory`, whichever is
        closer to its probe, if that share is at least `LEAST_SHARE`; else `overhead`: the device was mostly idle, so a
        more powerful device would not be faster. The time then mostly goes to the host, which launches one small
        operation after another.
        """
        if self.input >= LEAST_SHARE:
            return INPUT
        if max(self.compute, self.memory) < LEAST_SHARE:
            return OVERHEAD
        return COMPUTE if self.compute >= self.memory else MEMORY

    @property
    def share(self) -> float:
        """The share that determines the class.

        It is that of the time for `input`, else the larger of `compute` and `memory`.
        """
        return self.input if self.bottleneck == INPUT else max(self.compute, self.memory)


def roofline(attempt: Attempt) -> Roofline | None:
    """The roofline of an attempt.

    Returns:
        None if it has no steady epoch, or no measurement of its device or model.
    """
    steady = timing.steady(attempt)
    try:
        work, probes, cell = attempt.roofline["work"], attempt.roofline["probes"], attempt.cell
        flops, bytes_moved = float(PASSES * work["flops"]), float(train_bytes(work, cell))
        best, memory = max(float(probes["product"]), float(probes["convolution"])), float(probes["memory"])
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None
    if not steady or min(best, memory) <= 0:
        return None
    examples_per_s = timing.steady_epochs(attempt)[-1].examples / steady
    return Roofline(
        train_flops=flops,
        train_bytes=bytes_moved,
        flops_per_s=flops * examples_per_s,
        bytes_per_s=bytes_moved * examples_per_s,
        compute=flops * examples_per_s / best,
        memory=bytes_moved * examples_per_s / memory,
        input=input_share(attempt) or 0.0,
    )


def input_share(attempt: Attempt) -> float | None:
    """The share of the steady epochs' time spent waiting for input.

    Returns:
        None if no epoch took any time.
    """
    epochs = timing.steady_epochs(attempt)
    total_s = sum(timing.steady_seconds(attempt))
    # A device with its own clock shows when it had nothing to do: while it works, the host may wait for the next batch.
    wait_s = sum(epoch.device_s.get("input_wait", epoch.ledger.get("input_wait", 0.0)) for epoch in epochs)
    return wait_s / total_s if total_s > 0 else None


def train_bytes(work: Mapping[str, Any], cell: Cell) -> float:
    """Bytes moved per example in a training step, if every operation accesses memory.

    Compilers that fuse operations and caches that keep their results reduce it: it is the model's demand, not the value
    of a hardware counter.
    """
    settings, optimizer = cell.settings, cell.settings.optimizer_settings
    states = 0 if optimizer.get("momentum") == 0 else STATES[optimizer["name"]]
    weights = WEIGHT_BYTES * (WEIGHT_MOVES + 2 * states) * work["parameters"] * (cell.device.devices or 1)
    return float(PASSES * VALUE_BYTES[settings.precision] * work["values"] + weights / settings.batch_size)

"""What held an attempt up: its arithmetic, its memory, its input, or none of these.

A roofline compares what a model asks of a device with what the device can do: here the steady epochs of an attempt with
probes under the same framework, in the same number format, with the same cores and threads
(`raybench.checks.roofline.measure`).
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
"""Of a step over the layers: forward, for the gradient of the inputs and for that of the weights. Each multiplies as
often as the others, and reads and writes about as much."""

VALUE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
"""Of what goes from layer to layer; weights and the optimiser's state are float32 under every precision."""

WEIGHT_BYTES = 4
WEIGHT_MOVES = 6
"""How often a step reads or writes each weight or its gradient: the weight read forward and backward, the gradient
written, and the optimiser, which reads both and writes the weight."""

STATES = {"sgd": 1, "adam": 2, "adamw": 2}
"""Values an optimiser keeps for each weight, each read and written in a step; SGD without momentum keeps none."""

ENOUGH = 0.25
"""The share of an epoch, or of what a probe reached, from which on it is what held the attempt up.

Layers are narrower than probes, and batch norms, activations and optimisers stand between the multiplications. On one
core of a server processor, in float32 under torch, DavidNet with batches of 32 reached 0.30 of its probes, and
katnoria_cnn, small as it is, 0.09 to 0.17 with batches of 8 to 256.
"""


@dataclass(frozen=True)
class Roofline:
    """The steady epochs of an attempt beside what its device can do.

    Attributes:
        train_flops, train_bytes: of one example in a step of training.
        flops_per_s, bytes_per_s: achieved, over training and waiting for input.
        compute: share of the better probe of arithmetic; above 1 where the model's layers are kinder than the probes.
        memory: share of the probe of memory; above 1 where caches serve what is counted here as moved.
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
        """What held it up.

        `input` where waiting for it took enough of the time; else `compute` or `memory`, whichever came nearer to its
        probe, where that is near enough; else `overhead`: the device had little to do and was not what the
        time went to, so that another device would not be faster for being stronger. Mostly the host takes the time,
        to start one small operation after another.
        """
        if self.input >= ENOUGH:
            return INPUT
        if max(self.compute, self.memory) < ENOUGH:
            return OVERHEAD
        return COMPUTE if self.compute >= self.memory else MEMORY

    @property
    def share(self) -> float:
        """The share that speaks for the class: of the time for `input`, else of the probes the larger."""
        return self.input if self.bottleneck == INPUT else max(self.compute, self.memory)


def roofline(attempt: Attempt) -> Roofline | None:
    """The roofline of an attempt; None where it has no epoch, or nothing was found out of its device or model."""
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
    """The part of the steady epochs' time in which the host waited for the next batch; None where no epoch took any."""
    epochs = timing.steady_epochs(attempt)
    total_s = sum(map(timing.steady_seconds, epochs))
    wait_s = sum(epoch.ledger.get("input_wait", 0.0) for epoch in epochs)
    return wait_s / total_s if total_s > 0 else None


def train_bytes(work: Mapping[str, Any], cell: Cell) -> float:
    """Bytes moved for one example in a step of training, if every operation reads and writes memory.

    Compilers that fuse operations and caches that keep their results make it less: it is what the model asks for, not
    what a counter in the hardware would tell.
    """
    settings, optimizer = cell.settings, cell.settings.optimizer_settings
    states = 0 if optimizer.get("momentum") == 0 else STATES[optimizer["name"]]
    weights = WEIGHT_BYTES * (WEIGHT_MOVES + 2 * states) * work["parameters"] * (cell.device.devices or 1)
    return float(PASSES * VALUE_BYTES[settings.precision] * work["values"] + weights / settings.batch_size)

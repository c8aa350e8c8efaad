"""The share of the peak that a run uses (MFU), and its bottleneck: compute, memory, input or overhead.

MFU is the model's FLOPs per second, without recomputed activations, over the measured peak of its devices in its number
format. A roofline compares a model's demand with a device's capacity: here the steady epochs of a run with
probes under the same framework, in the same number format, with the same cores and threads
(`raybench.checks.roofline`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raybench.core.cell import Cell
from raybench.core.status import TrialStatus
from raybench.core.text import flops_text
from raybench.results.datasheets import peak_flops
from raybench.results.parsing import mapping_in

if TYPE_CHECKING:
    from raybench.results.run_table import Run

COMPUTE, MEMORY, INPUT, OVERHEAD, COMMUNICATION = "compute", "memory", "input", "overhead", "communication"

PASSES = 3  # passes over the layers per step, taken as equal: forward, input gradients and weight gradients

COUNTED, TRIPLED, STATED = "counted", "3 x the counted forward pass", "stated in the grid"
"""How the FLOPs of a training step are known."""

VALUE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
"""Bytes per activation; weights and optimizer state are float32 in every precision."""

WEIGHT_BYTES = 4
WEIGHT_MOVES = 6
"""Reads and writes of each weight or its gradient per step: 2 and 1 by the passes, 2 and 1 by the optimizer."""

STATES = {"sgd": 1, "adam": 2, "adamw": 2}
"""Values of the optimizer per weight, each read and written in a step; SGD without momentum has none."""

LEAST_SHARE = 0.25
"""Minimum share of an epoch, or of a probe's rate, of a bottleneck: layers are narrower than probes.

On one core of a server processor DavidNet with batches of 32 reached 0.30 of its probes.
"""


HOST_BUSY = 0.9  # least processor time per second of steady epochs of a host that may do nothing but launch operations
DEVICE_BUSY = 0.9  # least share of the time in which a device works if it is the limit


@dataclass(frozen=True)
class FlopsAndPeak:
    """The FLOPs of a model, and the measured peak that they are relative to.

    Attributes:
        peak: FLOP/s of the probe, of all devices together.
        probe: `product` (of matrices) or `convolution`.
        precision: the number format of the probes.
        flops: of the model per unit, forward and backward, without recomputed activations.
        unit: `examples` or `tokens`.
        source: how these are known: counted, 3 x the counted forward pass, or stated in the grid.
    """

    peak: float
    probe: str
    precision: str
    flops: float
    unit: str
    source: str


@dataclass(frozen=True)
class Utilization:
    """The FLOPs of a run's model relative to the peak of its devices.

    Attributes:
        flops_per_s: achieved, over training and waiting for input; None if the epochs do not count the unit.
        mfu: the share of the measured peak; None if there is a problem.
        datasheet_mfu: the share of the peak that the vendor states in this precision; None if that is not known.
        problem: why there is no MFU; empty if there is one.
    """

    basis: FlopsAndPeak
    flops_per_s: float | None
    mfu: float | None = None
    datasheet_mfu: float | None = None
    problem: str = ""


@dataclass(frozen=True)
class Roofline:
    """The steady epochs of a run relative to its device's capacity.

    Attributes:
        bottleneck: `input` or `communication` if it took at least `LEAST_SHARE` of the time; else `compute` or
            `memory`, whichever is closer to its probe, if that share is at least `LEAST_SHARE` and the device was busy
            or the host was not; else `overhead` if the host was busy or the device was not: the time mostly goes to the
            host, which launches one small operation after another. Empty without evidence.
        share: that of the bottleneck; for overhead the larger of compute and memory.
        memory: share of the memory probe.
        input: share of the time in which the host waited for the next batch.
    """

    bottleneck: str
    share: float
    memory: float
    input: float


def utilization_of(run: Run) -> Utilization | None:
    """The FLOPs of a run's model relative to its devices' peak; None if either is not known."""
    label, device = run.roofline, run.cell.device
    try:
        probes, precision = label["probes"], label["precision"]
        # Convolutions may be faster, by algorithms with fewer multiplications; a language model has none.
        names = ["product"] if "tokens" in run.epochs.names("units") else ["product", "convolution"]
        peak, probe = max((float(probes[name]), name) for name in names)
        if stated := label.get("stated"):
            unit, flops, source = stated["unit"], float(stated["flops"]), STATED
        elif (counted := label["work"])["train_flops"]:
            unit, flops, source = "examples", float(counted["train_flops"]), COUNTED
        else:
            unit, flops, source = "examples", float(PASSES * counted["flops"]), TRIPLED
        rate = run.rates.get(unit)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None
    if not run.epochs or peak <= 0:
        return None
    basis = FlopsAndPeak(peak, probe, precision, flops, unit, source)
    if rate is None:
        missing = f"no {unit} are counted: add `work: {{{unit}: …}}` or trial.count({unit}=…)"
        return Utilization(basis, None, problem=missing)
    flops_per_s, stated_peak = flops * rate, peak_flops(str(device.model), precision)
    if flops_per_s > peak:
        excess = f"{flops_text(flops_per_s)} exceed the measured peak of {flops_text(peak)} in {precision}"
        overstated = "overstated FLOPs, a different precision (set flops_precision)"
        cause = overstated if source == STATED else "an error of the count"
        problem = f"{excess}: {cause}, or a busy host while the peak was measured"
        return Utilization(basis, flops_per_s, problem=problem)
    datasheet = flops_per_s / (stated_peak * device.known_count) if stated_peak else None
    return Utilization(basis, flops_per_s, flops_per_s / peak, datasheet)


def unknown_mfu(runs: Iterable[Run]) -> list[str]:
    """Reasons why completed runs have no measured peak, without duplicates."""
    completed = [run.roofline for run in runs if run.status == TrialStatus.COMPLETED]
    reasons = dict.fromkeys(label["missing"] for label in completed if "missing" in label)
    return [f"no MFU: {reason}" for reason in reasons]


def roofline_of(run: Run) -> Roofline | None:
    """The roofline of a run; None without MFU, or if compilers or caches keep traffic from the memory."""
    used, examples_per_s = run.utilization, run.examples_per_s
    try:
        bytes_moved = train_bytes(run.roofline["work"], run.cell)
        memory = float(run.roofline["probes"]["memory"])
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None
    if used is None or used.mfu is None or examples_per_s is None or memory <= 0 or run.cell.settings.compile:
        return None
    moved, wait = bytes_moved * examples_per_s / memory, run.waiting or 0.0
    if moved > 1:
        return None
    share, cause = max((wait, INPUT), (run.communication or 0.0, COMMUNICATION))
    if share >= LEAST_SHARE:
        return Roofline(cause, share, moved, wait)
    share, cause = max((moved, MEMORY), (used.mfu, COMPUTE))
    is_limit, is_host = _evidence(run)
    is_near = share >= LEAST_SHARE
    return Roofline((cause if is_limit else "") if is_near else (OVERHEAD if is_host else ""), share, moved, wait)


def _evidence(run: Run) -> tuple[bool, bool]:
    """Return whether the device may be the limit, by how busy it or its host was, and whether its host may be."""
    seconds, cpu_s = run.steady_s or 0.0, run.steady_cpu_s
    cores = cpu_s / seconds if cpu_s is not None and seconds else None
    if str(run.cell.device.kind).endswith("cpu"):  # the host computes; idle cores wait for something else
        threads = float(run.runtime_conditions.get("threads") or run.cell.device.threads or 1)
        return True, cores is None or cores < DEVICE_BUSY * threads
    shares = [busy for gpu in (run.audit or {}).get("gpus") or [] if (busy := mapping_in(gpu).get("busy")) is not None]
    if shares:
        return min(shares) >= DEVICE_BUSY, min(shares) < DEVICE_BUSY
    return cores is not None and cores < HOST_BUSY, cores is not None and cores >= HOST_BUSY


def waiting_share(run: Run) -> float | None:
    """The share of the steady epochs' time spent waiting for input; None if no epoch took any time."""
    epochs, seconds = run.paced
    total_s = sum(seconds)
    # A device with its own clock shows when it had nothing to do: while it works, the host may wait for the next batch.
    of_device, of_host = epochs.column("device_s", "input_wait"), epochs.column("ledger", "input_wait", 0.0)
    wait_s = sum(host_s if own_s is None else own_s for own_s, host_s in zip(of_device, of_host, strict=True))
    return wait_s / total_s if total_s > 0 else None


def train_bytes(work: Mapping[str, Any], cell: Cell) -> float:
    """Bytes moved per example in a training step, if every operation accesses memory."""
    settings, optimizer = cell.settings, cell.settings.optimizer_settings
    states = 0 if optimizer.get("momentum") == 0 else STATES[optimizer["name"]]
    weights = WEIGHT_BYTES * (WEIGHT_MOVES + 2 * states) * work["parameters"] * cell.device.world_size
    return float(PASSES * VALUE_BYTES[settings.precision] * work["values"] + weights / settings.batch_size)

"""Scaled-down grid for a minute or two on a CPU: `raybench grid --smoke`.

It tests whether a grid runs, from its file to its report. All steps are those of a full run, but every device is the
host's CPU, and every job is a few steps on a few examples. The content of a scaled-down cell has the original values
under `smoke`, so that the cells of a grid remain distinct and none is mistaken for a full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raybench.config import DeviceProfile
from raybench.devices import frameworks, hosted
from raybench.engines import MODELS

EPOCHS = 2
"""Epochs of a trial, each of one step unless it is a training function's: one that is warm-up and one that is not."""

FUNCTION_STEPS = 4
"""Steps per epoch of a training function, whose loop may update the weights only every few batches."""

REPLICAS = 2
"""Replicas of a trial with several replicas: an undivided batch would be another computation."""

EXAMPLES = 2
"""Examples per replica in the smallest batch: the fewest that have a variance."""

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
"""Values of `precision` that a device may lack; a training function may have others of its own."""

ON_A_CPU = {"tf32": "fp32", "fp16": "bf16"}
"""CPU replacements of precisions that only accelerators have."""


def scaled_down(
    profile: DeviceProfile,
    resolved: Mapping[str, Any],
    examples: Mapping[str, int | None],
    models: Iterable[str],
    cores: int,
) -> Iterator[tuple[DeviceProfile, dict[str, Any]]]:
    """The candidates that may replace a cell in a smoke run.

    The most similar comes first. A cell that computes on the host's cores keeps its device if possible. Any other cell
    runs on the CPU: in its own framework and environment, else in raybench's own Python, else in another framework.

    Args:
        profile, resolved: the cell's device and settings, in full.
        examples: the number of examples of each split; None for a number that is not yet known.
        models: the frameworks for which the workload has a model.
        cores: the number of cores available to a trial.
    """
    settings = _settings(resolved, examples, cores)
    unbound: dict[str, Any] = {"accelerator_type": None, "memory_gb": None, "resources": None}
    own_framework = resolved["framework"]
    if hosted(profile.kind):
        yield profile.model_copy(update=unbound | {"count": min(profile.count, REPLICAS)}), settings
    on_cpu = unbound | {"kind": "cpu", "count": 1}
    precision = ON_A_CPU.get(resolved["precision"], resolved["precision"])
    # Compiling for the CPU would not test the compilation for an accelerator, and takes a minute.
    settings = settings | {"precision": precision}
    if not hosted(profile.kind):
        settings["compile"] = False
    other_frameworks = [name for name in frameworks("cpu") if name != own_framework and MODELS[name] in set(models)]
    for framework, update in [
        (own_framework, on_cpu),
        *((name, on_cpu | {"environment": None}) for name in (own_framework, *other_frameworks)),
    ]:
        small_profile = profile.model_copy(update=update)
        for form in dict.fromkeys((resolved.get("replication"), None)):
            yield small_profile, settings | {"framework": framework, "replication": form}


def _settings(resolved: Mapping[str, Any], examples: Mapping[str, int | None], cores: int) -> dict[str, Any]:
    """A cell's settings, reduced to little work."""
    replicas = min(resolved["replicas"], REPLICAS)
    batch = batch_size(resolved["batch_size"], replicas)
    epochs = _epochs(resolved["epochs"])
    example_limit = batch + 1  # the incomplete batch is dropped in training and padded in evaluation, as always
    small = {
        "replicas": replicas,
        "batch_size": batch,
        "epochs": epochs,
        "warmup_epochs": min(resolved["warmup_epochs"], max(0, int(epochs) - 1)),
        "steps_per_epoch": resolved["steps_per_epoch"] and 1,
        "examples": {split: min(example_limit, count or example_limit) for split, count in examples.items()},
        "threads": 1,  # more do not help such small jobs, and on a busy machine threads wait for each other
    }
    limits = {"steps_per_execution": 1, "cpus": cores}
    small |= {name: min(resolved[name], limit) for name, limit in limits.items() if resolved.get(name)}
    return dict(resolved) | small


def batch_size(batch: int, replicas: int = 1) -> int:
    """A small batch, a multiple of `replicas`, larger for each doubling: 64 becomes 6, 128 becomes 8."""
    small = min(batch, EXAMPLES * replicas + 2 * max(0, batch.bit_length() - 5))
    return max(1, small // replicas) * replicas


def _epochs(epochs: Any) -> Any:
    """At most `EPOCHS`; a fractional part is kept, so that training still ends within an epoch."""
    fraction = round(epochs % 1, 6)
    return min(epochs, EPOCHS - 1 + fraction if fraction else EPOCHS)


def original_values(
    device: str,
    full: tuple[DeviceProfile, Mapping[str, Any]],
    small: tuple[DeviceProfile, Mapping[str, Any]],
    examples: Mapping[str, int | None],
) -> dict[str, Any]:
    """The `smoke` entry of a scaled-down cell: the device's name and the full cell's values that differ."""
    replaced: dict[str, Any] = {"device": device}
    for name in ("kind", "count"):
        original = getattr(full[0], name)
        replaced |= {name: original} if getattr(small[0], name) != original else {}
    full_cell = {**full[1], "examples": dict(examples)}
    return replaced | {name: full_cell.get(name) for name, value in small[1].items() if full_cell.get(name) != value}

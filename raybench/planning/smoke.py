"""A grid cut to what ends in a minute or two on a laptop's CPU: `raybench grid --smoke`.

It answers one question: does this grid run, from its file to its report? Everything goes the way of a full run, but
every device is the host's CPU, and every job a few steps on a few examples. A cell that was cut says in its content,
under `smoke`, what it stands for, so that no two cells of a grid become one, and none is ever taken for a full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raybench.config import DeviceProfile
from raybench.devices import frameworks, hosted
from raybench.engines import MODELS

EPOCHS = 2
"""Of a trial, each of one step: one that is warm-up and one that is not."""

REPLICAS = 2
"""What has several replicas has as many here: a batch in one part would be another computation."""

EXAMPLES = 2
"""In the smallest batch of a replica: the fewest that have a variance."""

PROFILE_STEPS = 2
"""What is profiled, at most as many steps of."""

ON_A_CPU = {"tf32": "fp32", "fp16": "bf16"}
"""What stands in for a precision that is an accelerator's."""


def scaled_down(
    profile: DeviceProfile,
    resolved: Mapping[str, Any],
    examples: Mapping[str, int | None],
    models: Iterable[str],
    cores: int,
) -> Iterator[tuple[DeviceProfile, dict[str, Any]]]:
    """What may stand in for a cell here, what is nearest to it first.

    What computes on the host's cores stays what it is where that can be had; anything else is the CPU, in the framework
    and environment of the cell, else in raybench's own Python, else in another framework.

    Args:
        profile, resolved: the cell's device and settings, in full.
        examples: how many of each split it uses; None for a number that nobody knows yet.
        models: the frameworks that the workload has a model in.
        cores: how many cores there are for a trial.
    """
    settings = _settings(resolved, examples, cores)
    unbound: dict[str, Any] = {"accelerator_type": None, "memory_gb": None, "resources": None}
    own_framework = resolved["framework"]
    if hosted(profile.kind):
        yield profile.model_copy(update=unbound | {"count": min(profile.count, REPLICAS)}), settings
    on_cpu = unbound | {"kind": "cpu", "count": 1}
    precision = ON_A_CPU.get(resolved["precision"], resolved["precision"])
    # What is compiled for an accelerator says nothing of what would be for a CPU, and takes a minute.
    settings = settings | {"precision": precision, "compile": resolved["compile"] and hosted(profile.kind)}
    other_frameworks = [name for name in frameworks("cpu") if name != own_framework and MODELS[name] in set(models)]
    for framework, update in [
        (own_framework, on_cpu),
        *((name, on_cpu | {"environment": None}) for name in (own_framework, *other_frameworks)),
    ]:
        small_profile = profile.model_copy(update=update)
        for form in dict.fromkeys((resolved.get("replication"), None)):
            yield small_profile, settings | {"framework": framework, "replication": form}


def _settings(resolved: Mapping[str, Any], examples: Mapping[str, int | None], cores: int) -> dict[str, Any]:
    """A cell's settings, with little to do."""
    replicas = min(resolved["replicas"], REPLICAS)
    batch = batch_size(resolved["batch_size"], replicas)
    epochs = _epochs(resolved["epochs"])
    example_limit = batch + 1  # the ragged rest is dropped in training and padded in evaluation, as ever
    small = {
        "replicas": replicas,
        "batch_size": batch,
        "epochs": epochs,
        "warmup_epochs": min(resolved["warmup_epochs"], max(0, int(epochs) - 1)),
        "steps_per_epoch": resolved["steps_per_epoch"] and 1,
        "examples": {split: min(example_limit, count or example_limit) for split, count in examples.items()},
        "threads": 1,  # so little work has no use for more, and on a busy machine several wait for each other
    }
    limits = {"steps_per_execution": 1, "cpus": cores}
    small |= {name: min(resolved[name], limit) for name, limit in limits.items() if resolved.get(name)}
    return dict(resolved) | small


def batch_size(batch: int, replicas: int = 1) -> int:
    """A batch of a few examples, a multiple of the replicas, and another one for each doubling: 64 is 6, 128 is 8."""
    small = min(batch, EXAMPLES * replicas + 2 * max(0, batch.bit_length() - 5))
    return max(1, small // replicas) * replicas


def _epochs(epochs: Any) -> Any:
    """At most `EPOCHS`; where they end within an epoch, they still do."""
    fraction = round(epochs % 1, 6)
    return min(epochs, EPOCHS - 1 + fraction if fraction else EPOCHS)


def original_values(
    device: str,
    full: tuple[DeviceProfile, Mapping[str, Any]],
    small: tuple[DeviceProfile, Mapping[str, Any]],
    examples: Mapping[str, int | None],
) -> dict[str, Any]:
    """What a cell that was cut has under `smoke`: the device's name, and all that is otherwise in the full one."""
    replaced: dict[str, Any] = {"device": device}
    for name in ("kind", "count"):
        original = getattr(full[0], name)
        replaced |= {name: original} if getattr(small[0], name) != original else {}
    full_cell = {**full[1], "examples": dict(examples)}
    return replaced | {name: full_cell.get(name) for name, value in small[1].items() if full_cell.get(name) != value}

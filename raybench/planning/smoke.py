"""A smoke run: the same grid with small values on the CPU, to see that it runs from its file to its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from raybench.config import GridSpec
from raybench.config.command import GridCommand
from raybench.core.identity import SMOKE
from raybench.core.settings import SETTINGS
from raybench.devices import frameworks, hosted, loop_frameworks
from raybench.environments import RECIPES
from raybench.planning.expand import Point, expand
from raybench.workloads import WorkloadInfo

SMOKE_EPOCHS = 2  # one that is warm-up and one that is not
SMOKE_STEPS = 4  # a loop of the user may update the weights only every few batches
SMOKE_REPLICAS = 2  # an undivided batch would be a different computation
SMOKE_EXAMPLES = {"train": 40, "val": 40}  # more than any small batch
ON_A_CPU = {"tf32": "fp32", "fp16": "bf16"}  # for precisions that only accelerators have


def _batch(batch: int) -> int:
    """A small even batch, larger for each doubling: 64 becomes 6, 128 becomes 8."""
    return min(batch, 2 * SMOKE_REPLICAS + 2 * max(0, batch.bit_length() - 6))


_SMALL: Mapping[str, Callable[[Any], Any]] = {
    "batch_size": _batch,
    "checkpoint_every": lambda epochs: 1,
    "count": lambda number: min(number, SMOKE_REPLICAS),
    "cpus": lambda cpus: 1,
    "epochs": lambda epochs: min(epochs, SMOKE_EPOCHS),
    "nodes": lambda number: 1,
    "gradient_accumulation": lambda parts: min(parts, 2),
    "examples": lambda counts: SMOKE_EXAMPLES,
    "per_device_batch_size": _batch,
    "precision": lambda name: ON_A_CPU.get(name, name),
    "replicas": lambda number: min(number, SMOKE_REPLICAS),
    "steps_per_epoch": lambda steps: min(steps, SMOKE_STEPS),
    "threads": lambda threads: 1,  # more do not help such small jobs
    "warmup_epochs": lambda epochs: min(epochs, SMOKE_EPOCHS - 1),
}
"""A small value for each setting that makes a trial large."""


def smoke_grid(spec: GridSpec) -> GridSpec:
    """Return the grid of a smoke run: each value of each axis at least once, small jobs, every device the CPU."""
    info = spec.read_workload()
    everywhere = {"device": ["cpu"]} if spec.axes.get("device") == "available" else {}
    points = expand(spec.model_copy(update={"axes": spec.axes | everywhere}), [])
    cells = _cover(points, spec.baseline)
    profiles = {name: spec.profile(name) for name in [*spec.devices, *(cell["device"] for cell in cells)]}
    accelerators = [name for name, profile in profiles.items() if not hosted(profile.kind)]
    small = _small_values(info, bool(accelerators))

    def shrink(name: str, value: Any) -> Any:
        return small[name](value) if name in small and value is not None else value

    def shrink_all(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: shrink(name, value) for name, value in values.items()}

    cells = list(map(shrink_all, cells))
    tree = spec.model_dump(exclude_unset=True, exclude={"exclude", "target", "stop_at_target", "budget"})
    given = {*tree, *spec.axes}
    given |= {"batch_size"} if "per_device_batch_size" in given else set()
    added = {name: value for name, value in _defaults(info).items() if name not in given}
    for rule in tree.get("overrides", []):
        rule["set"] = shrink_all(rule["set"])
        rule["when"] = {name: [shrink(name, value) for value in values] for name, values in rule["when"].items()}
    tree["devices"] = {}
    for name, profile in profiles.items():
        exclude = {"accelerator_type", "resources", "price_per_hour"}
        if name in accelerators and profile.environment in RECIPES:
            exclude.add("environment")
        tree["devices"][name] = shrink_all(profile.model_dump(exclude_unset=True, exclude=exclude))
        if name in accelerators:
            tree["devices"][name]["kind"] = "cpu"
        if not {"count", "cpus"} & {*given, *tree["devices"][name]}:
            tree["devices"][name]["cpus"] = 1  # several trials at once
    tree = shrink_all(tree) | added
    tree["axes"] = {name: [value] for name, value in cells[0].items()} if cells else {}
    tree |= {"include": cells[1:], "baseline": shrink_all(spec.baseline), "repeats": 1, "workload": _short(spec, info)}
    smoke = GridSpec.model_validate(tree | {"name": "smoke"}).model_copy(update={"name": f"{spec.name}{SMOKE}"})
    smoke._source_text, smoke._source_path, smoke._document = spec.source_text, spec.source_path, spec._document
    return smoke


def _small_values(info: WorkloadInfo, moves: bool) -> dict[str, Callable[[Any], Any]]:
    """The function that makes a value small, by setting; `moves`: trials of accelerators run on the CPU."""
    small: dict[str, Callable[[Any], Any]] = {**_SMALL, "model": partial(_small_model, info)}
    if moves:
        on_cpu = info.runs_in(frameworks("cpu"), loop_frameworks("cpu"))
        small["framework"] = lambda name: name if name in on_cpu else on_cpu[0]
    return {name: function for name, function in small.items() if name not in info.unshrunk}


def _small_model(info: WorkloadInfo, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Model options with the small sizes of the workload, and without others if one is above its default.

    Sizes may depend on one another.
    """
    sizes = {name for name, value in options.items() if type(value) is int and name in info.options}
    is_large = any(options[name] > info.options[name] for name in sizes)
    return {name: value for name, value in options.items() if not (is_large and name in sizes)} | {**info.small_model}


def _defaults(info: WorkloadInfo) -> dict[str, Any]:
    """Small values of settings that a grid may leave to the workload."""
    batch = info.defaults.get("batch_size") or SETTINGS["batch_size"].default
    values = {
        "threads": 1,
        "epochs": SMOKE_EPOCHS,
        "steps_per_epoch": SMOKE_STEPS,
        "batch_size": _batch(batch),
        "examples": SMOKE_EXAMPLES,
        **({"model": info.small_model} if info.small_model else {}),
    }
    return {name: value for name, value in values.items() if name in {"model", *info.applied}}


def _short(spec: GridSpec, info: WorkloadInfo) -> Any:
    """The workload; a command with its arguments for a smoke run."""
    if not isinstance(spec.workload, GridCommand):
        return spec.workload
    if spec.workload.smoke is None and "epochs" not in info.applied:
        message = "--smoke needs arguments that make the command short; add them, such as `smoke: [--epochs=1]`, to it"
        raise spec.error("workload", message)
    return spec.workload.model_copy(update={"command": [*spec.workload.command, *(spec.workload.smoke or ())]})


def _cover(points: Iterable[Point], baseline: Mapping[str, Any]) -> list[Point]:
    """The point of the baseline, and the first point with each value that is in none of those before."""
    cover: list[Point] = []
    seen: set[tuple[str, str]] = set()
    for point in sorted(points, key=lambda point: any(point.get(name) != value for name, value in baseline.items())):
        values = {(name, repr(value)) for name, value in point.items()}
        if not values <= seen:
            cover.append(point)
            seen |= values
    return cover

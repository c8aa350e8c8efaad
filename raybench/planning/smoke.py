"""A smoke run: the same grid with small values on the CPU, to see that it runs from its file to its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from raybench.config import DeviceProfile, GridSpec
from raybench.config.command import Command
from raybench.core.identity import SMOKE
from raybench.core.settings import SETTINGS
from raybench.devices import frameworks, hosted, loop_frameworks
from raybench.environments import RECIPES
from raybench.errors import UsageError
from raybench.planning.expand import Point, expand, matches
from raybench.planning.validate import place
from raybench.workloads import WorkloadInfo

EPOCHS = 2
"""Epochs of a trial: one that is warm-up and one that is not."""

STEPS = 4
"""Steps per epoch of a user's own loop, which may update the weights only every few batches."""

REPLICAS = 2
"""Replicas of a trial with several: an undivided batch would be a different computation."""

MAX_NUMBERS = 2
"""The most values that are kept of an axis of numbers."""

ON_A_CPU = {"tf32": "fp32", "fp16": "bf16"}
"""CPU replacements of precisions that only accelerators have."""


def smoke_grid(spec: GridSpec, where: Sequence[tuple[str, str]] = ()) -> GridSpec:
    """Return the grid of a smoke run: each value of each axis at least once, small jobs, every device the CPU.

    Args:
        spec: the grid.
        where: (axis, value as text): only these cells.

    Raises:
        UsageError: a command does not say how to make it short.
        WorkloadError: the workload cannot be read.
    """
    info = spec.read_workload()
    small = _Small(spec, info)
    axes = {**spec.axes, "device": ["cpu"]} if spec.axes.get("device", "available") == "available" else spec.axes
    points = list(expand(_thinned(spec, axes), [], where))
    cover = [small.values(point) for point in _cover(points, spec.baseline)]
    update: dict[str, Any] = small.values(
        {name: getattr(spec, name) for name in spec.model_fields_set & SETTINGS.keys()}
    )
    if not info.command or info.command.reports:
        update = {"epochs": EPOCHS, **({"steps_per_epoch": STEPS} if info.own_loop else {})} | update
    if not info.own_loop or info.dataset:
        update = {"batch_size": small.default_batch, "examples": small.examples} | update
    update.setdefault("threads", 1)
    return spec.renamed(SMOKE).model_copy(
        update={
            **update,
            "workload": _short(spec, info),
            "repeats": 1,
            "target": None,
            "stop_at_target": False,
            "axes": {name: [value] for name, value in cover[0].items()} if cover else {},
            "include": cover[1:],
            "exclude": [],
            "baseline": small.values(spec.baseline),
            "overrides": [small.override(override) for override in spec.overrides],
            "devices": {name: small.device(name) for name in {**spec.devices, **dict.fromkeys(_all("device", points))}},
        }
    )


class _Small:
    """Small values of settings, and devices on the CPU."""

    def __init__(self, spec: GridSpec, info: WorkloadInfo) -> None:
        self._spec = spec
        self._on_cpu = loop_frameworks("cpu") if info.own_loop else frameworks("cpu")
        names = spec.axes.get("device", [])
        kinds = [spec.profile(name).kind for name in ([] if names == "available" else names)]
        self._moves = not all(map(hosted, kinds))
        default = info.parameters["batch_size"].default if info.parameters.get("batch_size") else None
        self.default_batch = _batch(default or info.defaults.get("batch_size") or SETTINGS["batch_size"].default)
        maps = [vars(spec), *spec.include, *(vars(rule.set) for rule in spec.overrides)]
        batches = [*spec.axes.get("batch_size", []), *_all("batch_size", maps)]
        number = 1 + max([self.default_batch, *(_batch(batch) for batch in batches if batch)])
        self.examples = {"train": number, "val": number}
        by_name: dict[str, Callable[[Any], Any]] = {
            "batch_size": _batch,
            "checkpoint_every": lambda epochs: 1,
            "cpus": lambda cpus: 1,
            "examples": lambda counts: self.examples,
            "epochs": lambda epochs: min(epochs, EPOCHS),
            "precision": lambda name: ON_A_CPU.get(name, name),
            "replicas": lambda number: min(number, REPLICAS),
            "replication": lambda form: "grouped",
            "steps_per_epoch": lambda steps: min(steps, STEPS if info.own_loop else 1),
            "steps_per_execution": lambda steps: 1,
            "threads": lambda threads: 1,  # more do not help such small jobs
            "warmup_epochs": lambda epochs: min(epochs, EPOCHS - 1),
        }
        if self._moves:
            by_name["framework"] = lambda name: name if name in self._on_cpu else self._on_cpu[0]
        if info.command:  # the command says itself what makes it short
            kept = () if info.command.reports else ("epochs", "steps_per_epoch")
            by_name = {name: small for name, small in by_name.items() if name not in (*kept, "batch_size", "examples")}
        self._by_name, self._is_command = by_name, info.command is not None

    def value(self, name: str, value: Any) -> Any:
        """A small value of a setting; any other value is kept."""
        return self._by_name[name](value) if name in self._by_name and value is not None else value

    def values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.value(name, value) for name, value in values.items()}

    def override(self, override: Any) -> Any:
        when = {name: [self.value(name, value) for value in values] for name, values in override.when.items()}
        names = override.set.model_fields_set & SETTINGS.keys()
        settings = override.set.model_copy(update=self.values({name: getattr(override.set, name) for name in names}))
        return override.model_copy(update={"when": when, "set": settings})

    def device(self, name: str) -> DeviceProfile:
        """A device on the CPU; a command's number of processes stays."""
        profile = self._spec.profile(name)
        names = profile.model_fields_set & SETTINGS.keys()
        update = self.values({name: getattr(profile, name) for name in names})
        update |= {"accelerator_type": None, "memory_gb": None, "resources": None}
        if not hosted(profile.kind):
            update |= {"kind": "cpu", "count": profile.count if self._is_command else 1}
            update |= {"environment": None} if profile.environment in RECIPES else {}
        return profile.model_copy(update=update)


def _batch(batch: int) -> int:
    """A small even batch, larger for each doubling: 64 becomes 6, 128 becomes 8."""
    return min(batch, 2 * REPLICAS + 2 * max(0, batch.bit_length() - 6))


def _short(spec: GridSpec, info: WorkloadInfo) -> Any:
    """The workload; a command with its arguments for a smoke run."""
    if not isinstance(spec.workload, Command):
        return spec.workload
    if spec.workload.smoke is None and not (info.command and info.command.reports):
        raise UsageError(
            f"{place(spec, 'workload')}--smoke needs arguments that make the command short; add them, such as "
            "`smoke: [--epochs=1]`, under `workload`"
        )
    return spec.workload.model_copy(update={"command": [*spec.workload.command, *(spec.workload.smoke or ())]})


def _thinned(spec: GridSpec, axes: Mapping[str, Any]) -> GridSpec:
    """The grid with at most `MAX_NUMBERS` values on each axis of numbers, the baseline's among them."""
    thinned = {}
    for name, values in axes.items():
        numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        ordered = sorted(values, key=lambda value: value != spec.baseline.get(name, values[0])) if numbers else values
        thinned[name] = ordered[:MAX_NUMBERS] if numbers else list(values)
    return spec.model_copy(update={"axes": thinned})


def _cover(points: Sequence[Point], baseline: Mapping[str, Any]) -> list[Point]:
    """The point of the baseline, and for each other value of an axis the point that differs least from it."""
    if not points:
        return []
    first = next((point for point in points if matches(point, baseline)), points[0])
    cover = [first]
    for name in dict.fromkeys(name for point in points for name in point):
        for value in {repr(point[name]): point[name] for point in points if name in point}.values():
            if not any(name in point and point[name] == value for point in cover):
                having = [point for point in points if name in point and point[name] == value]
                cover.append(min(having, key=lambda point: sum(1 for axis in point if point[axis] != first.get(axis))))
    return cover


def _all(name: str, maps: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    return (values[name] for values in maps if values.get(name) is not None)

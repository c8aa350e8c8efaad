"""From a grid to its trials: every cell with its identity, where it can run, and in which order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raybench import datasets, engines
from raybench.cell import DEFAULTS, PROCESS, make_cell
from raybench.checks import check_defaults, check_target, place
from raybench.devices import KINDS
from raybench.devices.node import Node
from raybench.errors import UsageError, WorkloadError
from raybench.identity import cell_id, trial_id
from raybench.preflight import Fit, Need, fit
from raybench.spec import DeviceProfile, GridSpec, Settings
from raybench.workloads import WorkloadInfo, read_reference

Point = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A point of the grid, resolved.

    Attributes:
        axes: the point itself: each axis and its value here.
        profile: the device profile's name.
        content: what the identity is made of.
        fit: where it can run; None where it cannot, and then `skip` says why.
    """

    cell_id: str
    axes: Mapping[str, Any]
    profile: str
    content: dict[str, Any]
    fit: Fit | None
    skip: str | None
    timeout: float
    price_per_hour: float | None


@dataclass(frozen=True)
class Trial:
    """One repeat of a cell."""

    trial_id: str
    cell: Cell
    repeat: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """A grid's cells, in the order of the file, and its trials, in the order in which they are to run."""

    spec: GridSpec
    workload: WorkloadInfo
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]
    nodes: tuple[Node, ...]

    def label(self, trial: Trial) -> str:
        """What a person calls a trial: `katnoria_cnn cpu torch b256 wd5e-4 r0`, and the grid's further axes."""
        settings = trial.cell.content["settings"]
        shown = {"device", "batch_size", "weight_decay", "framework"}
        further = [f"{name}={short(value)}" for name, value in trial.cell.axes.items() if name not in shown]
        parts = [
            self.workload.name,
            trial.cell.profile,
            trial.cell.content["framework"],
            f"b{settings['batch_size']}",
            f"wd{short(settings['weight_decay'])}",
            *further,
            f"r{trial.repeat}",
        ]
        return " ".join(parts)


def short(value: Any) -> str:
    """A value as people write it: 0.0005 is 5e-4, a list has no spaces."""
    if isinstance(value, float):
        plain = f"{value:g}"
        if value and abs(value) < 0.001:
            mantissa, exponent = f"{value:e}".split("e")
            plain = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
        return plain
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{short(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(short, value)) + "]"
    return str(value)


def make_plan(
    spec: GridSpec,
    nodes: Sequence[Node],
    data_root: Path,
    where: Iterable[tuple[str, str]] = (),
    isolation: str = PROCESS,
) -> Plan:
    """Everything that follows from a grid on these machines.

    Args:
        spec: the grid.
        nodes: the machines there are.
        data_root: where the data sets are, for their digests.
        where: only the cells whose axis, as text, is this.
        isolation: how the executor keeps trials apart.

    Raises:
        WorkloadError: the workload cannot be read.
        UsageError: a cell that can never be trained, such as a batch larger than the training set.
    """
    base = spec.source_path.parent if spec.source_path else Path()
    try:
        info = read_reference(spec.workload, base)
    except WorkloadError as error:
        raise WorkloadError(f"{place(spec, 'workload')}{error}") from None
    check_defaults(info)
    check_target(spec, info)
    digest, official = _data(info, data_root)
    resolver = _Resolver(spec, info, nodes, digest, official, isolation)
    points = [point for point in expand(spec, nodes) if _selected(point, where)]
    found: dict[str, Cell] = {}
    for cell in map(resolver.cell, points):
        found.setdefault(cell.cell_id, cell)
    cells = list(found.values())
    if not cells:
        raise UsageError(f"no cell of {spec.name} is left: exclude or --where takes every one of them")
    return Plan(spec, info, tuple(cells), tuple(_ordered(spec, cells)), tuple(nodes))


def expand(spec: GridSpec, nodes: Sequence[Node]) -> Iterator[Point]:
    """The grid's points in the order of the file: the product of its axes less `exclude`, then `include`."""
    axes = {"device": ["cpu"], **{name: list(values) for name, values in spec.axes.items() if values != "available"}}
    if spec.axes.get("device") == "available":
        axes["device"] = [kind for kind in KINDS if any(node.find(kind) for node in nodes)]
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        if not any(_matches(point, rule) for rule in spec.exclude):
            yield point
    for entry in spec.include:
        free = [[entry[name]] if name in entry else values for name, values in axes.items()]
        for values in itertools.product(*free):
            yield dict(zip(axes, values, strict=True)) | dict(entry)


def _matches(point: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether a point has, for each axis of a rule, the value or one of the values the rule gives."""
    return all(
        name in point and (point[name] in values if isinstance(values, (list, tuple)) else point[name] == values)
        for name, values in rule.items()
    )


def _selected(point: Point, where: Iterable[tuple[str, str]]) -> bool:
    return all(name in point and text in (str(point[name]), short(point[name])) for name, text in where)


def _ordered(spec: GridSpec, cells: Sequence[Cell]) -> Iterator[Trial]:
    """One whole repeat after another, each shuffled by the grid's seed, so that drift falls on every cell alike."""
    for repeat in range(spec.repeats):
        order = list(cells)
        random.Random(f"{spec.seed}/{repeat}").shuffle(order)
        for cell in order:
            yield Trial(trial_id(cell.cell_id, repeat), cell, repeat, spec.seed + repeat)


def _data(info: WorkloadInfo, root: Path) -> tuple[str | None, Mapping[str, int]]:
    """The digest of a workload's data and how many examples each split has, as far as that is known."""
    if info.dataset is None:
        return info.data_digest(root), {}
    dataset = datasets.get(info.dataset)
    status = dataset.status(root)
    return status.digest or dataset.official_digest, dataset.examples


class _Resolver:
    """Turns points into cells; what does not change from point to point is looked up once."""

    def __init__(
        self,
        spec: GridSpec,
        info: WorkloadInfo,
        nodes: Sequence[Node],
        digest: str | None,
        there: Mapping[str, int],
        isolation: str,
    ) -> None:
        self._isolation = isolation
        self._spec, self._info, self._nodes, self._digest = spec, info, nodes, digest
        self._there = dict(there)
        if info.held_out and self._there:
            self._there = {"train": self._there["train"] - info.held_out, "val": info.held_out}
        self._below = dict(DEFAULTS) | dict(info.defaults) | said(spec)
        self._fits: dict[Need, Fit | str] = {}
        self._profiles: dict[str, tuple[DeviceProfile, dict[str, Any]]] = {}
        self._rules = [(rule.when, said(rule.set)) for rule in spec.overrides]

    def cell(self, point: Point) -> Cell:
        profile, by_profile = self._profile(point["device"])
        resolved = self._below | by_profile | {k: v for k, v in point.items() if k != "device"}
        for when, changes in self._rules:
            if _matches(point, when):
                resolved |= changes
        need = self._need(profile, resolved)
        if need not in self._fits:
            self._fits[need] = fit(need, self._nodes)
        where = self._fits[need]
        skip = where if isinstance(where, str) else self._no_model(resolved["framework"])
        place = None if isinstance(where, str) else where
        content = self._content(profile, resolved, place)
        price = profile.price_per_hour
        timeout = float(resolved.get("timeout") or 0.0)
        return Cell(cell_id(content), point, point["device"], content, place, skip, timeout, price)

    def _profile(self, name: str) -> tuple[DeviceProfile, dict[str, Any]]:
        if name not in self._profiles:
            profile = self._spec.profile(name)
            self._profiles[name] = profile, said(profile, ("framework", "replicas", "threads", "cpus"))
        return self._profiles[name]

    def _no_model(self, framework: str) -> str | None:
        if framework in self._info.frameworks:
            return None
        return f"{self._info.name} has no {framework} model"

    @staticmethod
    def _need(profile: DeviceProfile, resolved: Mapping[str, Any]) -> Need:
        return Need(
            kind=profile.kind,
            framework=resolved["framework"],
            precision=resolved["precision"],
            replicas=resolved["replicas"],
            count=profile.count or 1,
            cpus=resolved.get("cpus") or 0,
            accelerator_type=profile.accelerator_type,
            memory_gb=profile.memory_gb,
            environment=profile.environment,
        )

    def _content(self, profile: DeviceProfile, resolved: Mapping[str, Any], place: Fit | None) -> dict[str, Any]:
        framework = resolved["framework"]
        cpus = place.cpus if place else resolved.get("cpus")
        device = {
            "kind": profile.kind,
            "model": place.hardware.model if place else profile.accelerator_type,
            "count": (place.accelerators or place.cpus) if place else profile.count or 1,
            "replicas": resolved["replicas"],
            "threads": resolved.get("threads") or cpus,
        }
        engine = {
            "name": framework,
            "version": engines.VERSIONS.get(framework),
            "framework_version": ".".join(place.framework_version.split(".")[:2]) if place else None,
        }
        target = self._spec.target if self._spec.stop_at_target else None
        return make_cell(
            workload=self._info.identity(),
            data={
                "name": self._info.dataset or self._info.name,
                "digest": self._digest,
                "examples": self._examples(resolved),
            },
            device=device,
            engine=engine,
            resolved=resolved,
            seed=self._spec.seed,
            target=target.model_dump(exclude_none=True) if target else None,
            isolation=self._isolation,
        )

    def _examples(self, resolved: Mapping[str, Any]) -> dict[str, int | None]:
        """How many examples of each split are used; None for all of a number nobody knows yet.

        Raises:
            UsageError: more than there are, or fewer than a batch.
        """
        wanted = {**self._info.examples, **(resolved.get("examples") or {})}
        counts = {split: wanted.get(split) or self._there.get(split) for split in ("train", "val")}
        name = self._info.dataset or self._info.name
        for split, count in counts.items():
            most = self._there.get(split)
            if count and most and count > most:
                raise UsageError(
                    f"{place(self._spec, 'examples')}examples.{split}: {count} asked for, and {name} has {most}"
                )
        train, batch = counts["train"], resolved["batch_size"]
        if train and batch > train:
            at = place(self._spec, "batch_size")
            raise UsageError(f"{at}batch_size {batch} is larger than the {train} examples there are to train on")
        return counts


def said(settings: Settings | DeviceProfile, only: Iterable[str] | None = None) -> dict[str, Any]:
    """The settings a person wrote, and no defaults."""
    names = settings.model_fields_set & (set(only) if only else set(Settings.model_fields))
    plain = settings.model_dump(include=set(names))
    return {name: value for name, value in plain.items() if value is not None or name == "steps_per_epoch"}

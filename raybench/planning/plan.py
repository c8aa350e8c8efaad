"""Plan the trials of a grid: every cell with its identity, its placement, and the run order."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from raybench import datasets
from raybench.config import GridSpec, wrong_settings
from raybench.core.cell import BASE, VERSION_AXIS, ComparedVersion
from raybench.core.identity import canonical, digest, is_smoke, trial_id
from raybench.core.labels import configuration_label
from raybench.core.origin import Origin
from raybench.core.secret_masking import masked
from raybench.core.settings import MISSING
from raybench.core.text import format_value, join_words, plural
from raybench.devices import hosted
from raybench.errors import WorkloadError
from raybench.planning.expand import AVAILABLE, Point, all_points, expand
from raybench.planning.machines import RepeatSpread, spreads
from raybench.planning.node import Node
from raybench.planning.placement import ResourceRequest
from raybench.planning.resolve import ResolvedCell, Resolver, data_of
from raybench.results.grid_request import GridRequest, PlannedCell, device_names
from raybench.workloads import WorkloadInfo


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One repeat of a cell."""

    cell: ResolvedCell
    repeat: int
    seed: int

    @property
    def trial_id(self) -> str:
        """Its identity."""
        return trial_id(self.cell.cell_id, self.repeat)


@dataclass(frozen=True, slots=True)
class Check:
    """A check (`raybench.checks`) and the key of its result."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One attempt (from 1) at a trial.

    Attributes:
        checks: those that run before it on its placement, because no earlier trial had them.
        needs: the keys of all checks that must have run before it.
        nodes: those on which it runs if they are there; empty: those that are free first.
    """

    trial: PlannedTrial
    attempt: int = 1
    checks: tuple[Check, ...] = ()
    needs: frozenset[str] = frozenset()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A grid's cells in file order, and its trials in run order.

    Attributes:
        workload: what is trained; if versions are compared, that of the new one. Each cell has its own, too.
        left_out: number of cells of the grid that the filter removed.
        repeated: number of points of the grid that make the same cell as an earlier one.
        same_devices: pairs of names of devices that are the same device.
    """

    spec: GridSpec
    workload: WorkloadInfo
    cells: tuple[ResolvedCell, ...]
    trials: tuple[PlannedTrial, ...]
    nodes: tuple[Node, ...]
    left_out: int = 0
    repeated: int = 0
    same_devices: tuple[tuple[str, str], ...] = ()

    def label(self, trial: PlannedTrial, with_device: bool = False) -> str:
        """Label of a trial: `gpu, batch 128, decay 5e-4, repeat 2`, with the values that vary in the grid."""
        cell, axes = trial.cell, dict.fromkeys([*(["device"] if with_device else []), *self.varied])
        device = self.device_names.get(cell.cell_id, cell.profile)
        configuration = configuration_label(masked({**cell.axes, "device": device}), axes)
        repeat = f", repeat {trial.repeat + 1}" if cell.repeats > 1 else ""
        return (configuration or f"{cell.content.shown_name} on {device}") + repeat

    @cached_property
    def wanted(self) -> Mapping[str, ResourceRequest]:
        """The resources of each device that no node has and a further one could have."""
        return {cell.profile: cell.wanted for cell in self.cells if cell.wanted}

    @cached_property
    def spreads(self) -> Sequence[RepeatSpread]:
        """How repeats are spread over machines."""
        return spreads(self.cells, self.spec.least_repeats, self.spec.machines)

    @cached_property
    def device_names(self) -> Mapping[str, str]:
        """The names of devices that are several models here, such as `cpu (AMD EPYC)`, by cell id."""
        points: dict[str, list[PlannedCell]] = {}
        for cell in request_of(self).cells:
            points.setdefault(canonical(cell.axes), []).append(cell)
        return device_names([*points.values()])

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """The axes that vary between the grid's cells; cells left out by `where` count too."""
        axes = dict.fromkeys(["device", *(name for cell in self.cells for name in cell.axes)])
        values = {name: {format_value(cell.axes.get(name, "")) for cell in self.cells} for name in axes}
        values["device"] = {self.device_names.get(cell.cell_id, cell.profile) for cell in self.cells}
        written = {name for name, listed in self.spec.axes.items() if listed == "available" or len(listed) > 1}
        return tuple(name for name in axes if name in written or len(values[name]) > 1)


def notes(plan: Plan) -> Iterator[str]:
    """Lines about a plan: a smoke run, environments of missing frameworks, files whose change makes new trials."""
    if is_smoke(plan.spec.name):
        yield "Smoke run: small values, each value of an axis once, on the CPU."
    substitutes = {
        (cell.content.framework, cell.fit.environment)
        for cell in plan.cells
        if cell.fit and cell.fit.environment and cell.axes.get(VERSION_AXIS) != BASE
        if not cell.content.engine.environment
    }
    for framework, environment in sorted(substitutes):
        yield f"{framework} is not installed in raybench's Python; its trials run in environment {environment}."
    if plan.repeated and not is_smoke(plan.spec.name):
        same = join_words([f"{name} is the same device as {first}" for first, name in plan.same_devices])
        yield (
            f"Not run again: {plural(plan.repeated, 'combination')} with the same settings as an earlier one"
            f"{f' ({same})' if same else ''}."
        )
    workload = plan.workload
    if workload.edited and not plan.spec.inputs and not plan.spec.versions:
        text = join_words([*workload.edited], "or")
        yield f"Editing {text} starts new trials; editing other files does so only if `inputs` in a grid file has them."
    cores = max((node.cores for node in plan.nodes), default=0)
    if (where := workload.shared_output) and any(c.fit and 2 * c.fit.cpus <= cores for c in plan.cells):
        yield f"Trials may run at once in {workload.folder}; let them write to {where}, or set `isolate: true`."


def plan_warnings(plan: Plan) -> Iterator[str]:
    """Settings of runnable cells that conflict, with a remedy."""
    of = f"of {plural(len(plan.cells), 'configuration')}"
    short_runs, crowded = Counter[tuple[Any, int]](), Counter[tuple[str, str, int, int]]()
    for cell in plan.cells:
        if cell.fit is None or cell.skip:
            continue
        epochs, warmup = cell.content.settings.epochs, cell.content.warmup_epochs
        # Without epochs, the user's own loop has their number.
        if epochs is not MISSING and int(epochs) <= warmup:
            short_runs[epochs, warmup] += 1
        threads, cores = cell.content.device.threads, cell.fit.cpus
        processes = cell.fit.devices // cell.fit.node_count if hosted(cell.content.device.kind) else 1
        if processes > cores:
            crowded["processes", "count", processes, cores] += 1
        elif threads > cores:
            crowded["threads", "threads", threads, cores] += 1
    for (epochs, warmup), count in short_runs.items():
        yield (
            f"{count} {of}: epochs {format_value(epochs)} with warmup_epochs {warmup} leaves no epoch after the "
            f"warm-up; set `epochs: {warmup + 1}` or more, or a lower `warmup_epochs`"
        )
    for (noun, setting, number, cores), count in crowded.items():
        has = plural(cores, "core")
        yield f"{count} {of}: {number} {noun} on {has} wait for each other; set `{setting}: {cores}` or less"
    yield from dict.fromkeys(note for spread in plan.spreads for note in spread.notes())
    program = plan.workload.program
    if program and not plan.spec.environments and not any(node.address for node in plan.nodes):
        path = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        if not shutil.which(program, path=os.pathsep.join(path)):
            yield f"there is no program {program!r} on this machine; check the first word of the command"
    files = [
        {os.path.normpath(Path(cell.workload.folder, name)) for name in cell.workload.files}
        for cell in plan.cells
        if BASE in plan.spec.versions
    ]
    if shared := sorted(set.intersection(*files)) if files else []:
        yield f"both versions use the same {join_words(shared)}; to compare versions of it, give each its own"


def skip_lines(
    plan: Plan, done: Mapping[str, Collection[int]] | None = None, awaited: Collection[str] = ()
) -> Iterator[str]:
    """Each reason for skipped cells once, then a remedy if the hardware is missing.

    Args:
        done: the repeats of cells that other machines have run; cells of which they have all are left out.
        awaited: devices for which nodes are being started; they are left out, too.
    """
    done = done or {}
    reasons: dict[str, list[ResolvedCell]] = {}
    skipped = [
        cell
        for cell in plan.cells
        if cell.skip and cell.profile not in awaited and len(done.get(cell.cell_id, ())) < cell.repeats
    ]
    for cell in skipped:
        reasons.setdefault(str(cell.skip), []).append(cell)
    for reason, cells in reasons.items():
        devices = ", ".join(dict.fromkeys(cell.profile for cell in cells))
        yield f"{devices}: {plural(len(cells), 'configuration')} skipped: {reason}"
    kinds = {cell.content.device.kind for cell in skipped}
    if all(node.find(kind) for kind in kinds for node in plan.nodes):
        return  # another machine would not help
    command = f"  raybench grid {shlex.quote(str(plan.spec.source_path))}" if plan.spec.source_path else ""
    rest = "To run the rest, type the same command on each machine (`raybench export` and `import` join the results)"
    yield f"{rest}, or on a Ray cluster{':' if command else ' (--address).'}"
    if command:
        yield f"{command} --address auto"
        yield "To try the whole grid in miniature on this CPU:"
        yield f"{command} --smoke"


def make_plan(spec: GridSpec, nodes: Sequence[Node], data_root: Path) -> Plan:
    """Make the plan of a grid for these machines: of its cells as filtered, or the `AVAILABLE` ones that can run."""
    versions = spec.versions or {"": spec}
    infos = {name: _workload(version) for name, version in versions.items()}
    if len(infos) > 1:  # commands have the names of their programs, and only runs of one workload are compared
        job = next(iter(versions.values())).name
        infos = {name: info.as_version(job) for name, info in infos.items()}
    locks = {
        name: [[key, *(node.interpreter(key).lock for node in nodes)] for key in versions[name].environments]
        for name in versions
    }
    of_all = digest({name: [info.digest, info.version, locks[name]] for name, info in infos.items()})
    resolvers = {
        name: Resolver(
            versions[name], info, nodes, data_of(info, data_root), ComparedVersion(name, of_all) if name else None
        )
        for name, info in infos.items()
    }
    points = expand(spec, nodes)
    cells_by_id: dict[str, ResolvedCell] = {}
    repeated, same_devices = 0, dict[tuple[str, str], None]()
    for point in points:
        for cell in _versions(point, resolvers):
            first = cells_by_id.setdefault(cell.cell_id, cell)
            repeated += first.axes != cell.axes
            if first.profile != cell.profile:
                same_devices[first.profile, cell.profile] = None
    cells = list(cells_by_id.values())
    if AVAILABLE in spec.where:
        # If nothing can run here, every cell is kept with its reason.
        cells = [cell for cell in cells if not cell.skip] or cells
    trials = tuple(_ordered(spec, cells))
    left_out = (len([*all_points(spec, nodes)]) - len(points)) * len(resolvers) + len(cells_by_id) - len(cells)
    workload = list(infos.values())[-1]
    return Plan(spec, workload, tuple(cells), trials, tuple(nodes), left_out, repeated, tuple(same_devices))


def _workload(spec: GridSpec) -> WorkloadInfo:
    try:
        info = spec.read_workload()
    except WorkloadError as error:
        place = spec.place(error.field)
        raise WorkloadError(f"{place}: {error}" if place else str(error), error.field) from None
    if spec.synthetic_data:
        if info.dataset is None:
            message = "reads its own data, which raybench cannot generate; let its own code generate them"
            raise spec.error("synthetic_data", f"{info.name} {message}")
        info = replace(info, dataset=datasets.synthetic_name(info.dataset))
    if problems := wrong_settings(info.defaults):
        origin = f"{info.file}: the defaults of {info.name}" if info.file else f"the defaults of {info.name}"
        raise WorkloadError("\n".join(f"{origin}: {problem}" for problem in problems))
    return info


def _versions(point: Point, resolvers: Mapping[str, Resolver]) -> list[ResolvedCell]:
    """The cells of a point, in each version that is compared; neither can run without the other."""
    if "" in resolvers:
        return resolvers[""].cells(point)
    by_version = {name: resolver.cells(point) for name, resolver in resolvers.items()}
    if len({len(cells) for cells in by_version.values()}) > 1:  # as many as both have
        by_version = {name: cells[:1] for name, cells in by_version.items()}
    return [
        cell
        for cells in zip(*by_version.values(), strict=True)
        for cell in _compared(point, dict(zip(by_version, cells, strict=True)))
    ]


def _compared(point: Point, cells: Mapping[str, ResolvedCell]) -> list[ResolvedCell]:
    """The versions of one cell, with a common reason if one cannot run."""
    reasons = [f"{name} version: {cell.skip}" for name, cell in cells.items() if cell.skip]
    if len({cell.skip for cell in cells.values()}) == 1:  # the same for both
        reasons = [cell.skip for cell in cells.values() if cell.skip][:1]
    skip = "; ".join(reasons) or None
    return [
        replace(cell, axes={**point, VERSION_AXIS: name}, skip=skip, fit=None if skip else cell.fit)
        for name, cell in cells.items()
    ]


def _ordered(spec: GridSpec, cells: Sequence[ResolvedCell]) -> Iterator[PlannedTrial]:
    """The trials, repeat by repeat: shuffled by the grid's seed, and every other repeat in the reverse order.

    A steady drift of the machine then affects all cells alike. The versions of a cell run in turn.
    """
    groups: dict[str, list[ResolvedCell]] = {}
    for cell in cells:
        groups.setdefault(cell.without_version, []).append(cell)
    for repeat in range(spec.most_repeats):
        shuffled = list(groups.values())
        random.Random(f"{spec.seed}/{repeat // 2}").shuffle(shuffled)
        order = [cell for group in shuffled for cell in group]
        for cell in reversed(order) if repeat % 2 else order:
            if repeat < cell.repeats:
                yield PlannedTrial(cell, repeat, spec.seed + repeat)


def request_of(plan: Plan) -> GridRequest:
    """Return the request of a plan, as it is saved with an execution and reported."""
    spec = plan.spec
    chosen = " ".join(f"--where {axis}={value}" for axis, value in spec.where)
    part = f"`{chosen}` leaves out {plan.left_out} of {len(plan.cells) + plan.left_out} configurations"
    return GridRequest(
        name=spec.name,
        cells=[
            PlannedCell(
                cell.cell_id,
                cell.axes,
                cell.repeats,
                cell.skip,
                cell.price.per_hour if cell.price else None,
                cell.content,
                cell.request_id,
                cell.price.source if cell.price else "",
                cell.price.origin if cell.price else Origin.SAID,
            )
            for cell in plan.cells
        ],
        baseline=dict(spec.baseline or {}),
        workload=plan.workload.name,
        target=spec.target.plain() if spec.target else None,
        budget=spec.budget.amount if spec.budget else {},
        metric=spec.metric or (spec.target.metric if spec.target else plan.workload.first_metric),
        higher_is_better=spec.directions,
        unit=spec.unit or "",
        description=spec.description or "",
        text=spec.source_text or "",
        part=part if plan.left_out else "",
        currency=spec.price_currency,
        rule=spec.rule,
        max_quality_loss=float(spec.max_quality_loss[:-1]) / 100,
    )

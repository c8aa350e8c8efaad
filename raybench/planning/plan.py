"""Plan the trials of a grid: every cell with its identity, its placement, and the run order."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from raybench import datasets
from raybench.config import GridSpec, too_many_trials, unknown_metric, wrong_parameters
from raybench.core.cell import BASE, PROCESS, VERSION_AXIS
from raybench.core.collector import collector_paused
from raybench.core.identity import digest, trial_id
from raybench.core.settings import MISSING, short_name
from raybench.core.text import join_words
from raybench.devices import KINDS
from raybench.errors import UsageError, WorkloadError
from raybench.planning.expand import Point, matches, minimal_cover
from raybench.planning.node import Node
from raybench.planning.resolve import CellGroup, ResolvedCell, Resolver, data_of
from raybench.planning.resolve_command import CommandResolver
from raybench.planning.resolve_function import FunctionResolver
from raybench.planning.validate import check_defaults, place
from raybench.workloads import WorkloadInfo

AVAILABLE = ("device", "available")
"""Filter on the cells that the machines at hand can run."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One repeat of a cell."""

    cell: ResolvedCell
    repeat: int
    seed: int

    @property
    def trial_id(self) -> str:
        """Its identity."""
        return trial_id(self.cell.cell_id, self.repeat)

    @property
    def unit(self) -> tuple[str, int]:
        """The same for both versions of a trial in a comparison, which run together; else its own."""
        return self.cell.group.content.role.pair or self.cell.cell_id, self.repeat


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One attempt (from 1) at a trial, or a check.

    If `check` is set, that check runs on the trial's placement.

    Attributes:
        key: for a check: identifies its result.
        needs: for a trial: the keys of the checks that must run before it, if they are part of the work.
    """

    trial: Trial
    attempt: int = 1
    check: str = ""
    key: str = ""
    needs: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Its name in events."""
        return self.key if self.check else self.trial.trial_id


@dataclass(frozen=True)
class Plan:
    """A grid's cells in file order, and its trials in run order.

    Attributes:
        where: (axis, value as text): filter on the cells of the plan.
        left_out: number of cells of the grid that the filter removed.
        base_workload: in a comparison of two versions, the workload of the base version.
    """

    spec: GridSpec
    workload: WorkloadInfo
    cells: tuple[ResolvedCell, ...]
    trials: tuple[Trial, ...]
    nodes: tuple[Node, ...]
    where: tuple[tuple[str, str], ...] = ()
    left_out: int = 0
    base_workload: WorkloadInfo | None = None

    @cached_property
    def groups(self) -> Mapping[CellGroup, int]:
        """The groups of the cells in their order, each with its number of cells."""
        return Counter(cell.group for cell in self.cells)

    def workload_of(self, cell: ResolvedCell) -> WorkloadInfo:
        """The workload of a cell: in a comparison, that of its version."""
        is_base = cell.group.content.role.version == BASE
        return self.base_workload if is_base and self.base_workload else self.workload

    def label(self, trial: Trial) -> str:
        """Name of a trial: `b32 wd5e-4 r0 katnoria_cnn cpu torch`.

        The values that vary in the grid come first, because tables cut off the end of long names.
        """
        parts = _parts(trial.cell)
        varying = [text for name, text in parts.items() if name in self._varying]
        constant = [text for name, text in parts.items() if name not in self._varying]
        repeat = f"r{trial.repeat}"
        return " ".join([*varying, repeat, *constant] if self.spec.repeats > 1 or varying else [*constant, repeat])

    @cached_property
    def _varying(self) -> frozenset[str]:
        """Names of the label parts that vary between the grid's cells.

        Cells left out by `where` count too.
        """
        axes = {name for name, values in self.spec.axes.items() if values == "available" or len(values) > 1}
        # One cell of those that differ only on axes that vary in any case.
        cells = {
            (cell.group, *(format_value(cell.axes[name]) for name in cell.group.own if name not in axes)): cell
            for cell in self.cells
        }
        texts: dict[str, set[str]] = {}
        for cell in cells.values():
            for name, text in _parts(cell).items():
                texts.setdefault(name, set()).add(text)
        return frozenset(axes | {name for name, variants in texts.items() if len(variants) > 1})


def notes(plan: Plan) -> Iterator[str]:
    """Lines about a plan: environments used for missing frameworks, cells without a step profile."""
    substitutes = {
        (group.content.framework, group.fit.environment)
        for group in plan.groups
        if group.fit and group.fit.environment and group.content.role.version != BASE
        if not plan.spec.environment(plan.spec.profile(group.profile))
    }
    for framework, environment in sorted(substitutes):
        yield f"{framework} is not installed in raybench's Python; its trials run in environment {environment}."
    if plan.workload.command:
        names = " or ".join([*plan.workload.files, "the command"])
        yield f"A change of {names} makes new trials; name other files that should count under `workload.files`."
    if plan.workload.is_function and not plan.workload.is_builtin and not plan.spec.files:
        count = len(plan.workload.files) + len(plan.workload.elsewhere) - 1
        modules = f" or {count} module{'s' if count > 1 else ''} that it imports" if count else ""
        file = Path(str(plan.workload.file)).name
        yield f"A change of {file}{modules} makes new trials; name other files that should count under `files`."


def _parts(cell: ResolvedCell) -> dict[str, str]:
    """The parts of a trial's label, keyed by axis."""
    content = cell.content
    settings, role = content.settings, content.role
    parts = {"workload": content.shown_name, "device": cell.profile, "framework": content.framework}
    short = {"batch_size": ("b", settings.batch_size), "weight_decay": ("wd", settings.weight_decay)}
    parts |= {name: f"{sign}{format_value(value)}" for name, (sign, value) in short.items() if value is not MISSING}
    parts |= {
        name: f"{short_name(name)}={format_value(value)}" for name, value in cell.axes.items() if name not in parts
    }
    parts |= {VERSION_AXIS: role.version} if role.version else {}
    return parts | ({"aa_of": "A/A"} if role.is_aa_test else {}) | ({"smoke": "smoke"} if role.is_smoke else {})


def plan_warnings(plan: Plan) -> Iterator[str]:
    """Settings of runnable cells that conflict, with a remedy."""
    of = f"of {len(plan.cells)} cell{'s' if len(plan.cells) > 1 else ''}"
    short_runs, crowded = Counter[tuple[Any, int]](), Counter[tuple[int, int]]()
    for (group, on_axis), count in Counter((cell.group, cell.axes.get("epochs")) for cell in plan.cells).items():
        if group.skip or not group.fit:
            continue
        warmup, of_group = group.content.warmup_epochs, group.content.settings.epochs
        epochs: Any = on_axis if "epochs" in group.own else of_group
        # Without epochs, the user's own loop has their number.
        if epochs is not MISSING and int(epochs) <= warmup and not plan.spec.smoke:
            short_runs[epochs, warmup] += count
        threads, cores = group.content.device.threads, group.fit.cpus
        if threads > cores:
            crowded[threads, cores] += count
    for (epochs, warmup), count in short_runs.items():
        yield (
            f"{count} {of}: epochs {format_value(epochs)} with warmup_epochs {warmup} leaves no epoch after the "
            f"warm-up; set `epochs: {warmup + 1}` or more, or a lower `warmup_epochs`"
        )
    for (threads, cores), count in crowded.items():
        has = f"{cores} core{'s' if cores > 1 else ''}"
        yield (f"{count} {of}: {threads} threads on {has} wait for each other; set `threads: {cores}` or less")
    base_modules = plan.base_workload.elsewhere.keys() if plan.base_workload else set()
    shared = sorted({name.partition(".")[0] for name in base_modules & plan.workload.elsewhere.keys()})
    if shared:
        folder = f"the folder of {Path(str(plan.workload.file)).name}"
        yield (
            f"both versions use the same files of {join_words(shared)}, outside of {folder}; to compare versions of "
            "these too, move them there"
        )


def skip_lines(plan: Plan, shown: Collection[str] = (), done: Collection[str] = ()) -> Iterator[str]:
    """Each reason for skipped cells once, then a remedy if the hardware is missing.

    Args:
        shown: reasons to leave out, since the user sees them elsewhere.
        done: the ids of cells to leave out, since other machines have run them.
    """
    reasons: dict[str, list[ResolvedCell]] = {}
    skipped = [cell for cell in plan.cells if cell.skip and cell.cell_id not in done]
    for cell in skipped:
        if cell.skip and cell.skip not in shown:
            reasons.setdefault(cell.skip, []).append(cell)
    for reason, cells in reasons.items():
        devices = ", ".join(dict.fromkeys(cell.profile for cell in cells))
        yield f"{devices}: {len(cells):,} cell{'s' if len(cells) > 1 else ''} skipped: {reason}"
    kinds = {cell.group.content.device.kind for cell in skipped}
    if all(node.find(kind) for kind in kinds for node in plan.nodes):
        return  # another machine would not help
    yield "Run them on another machine or on a Ray cluster (--address); `raybench devices` lists the devices here."
    if plan.spec.source_path and not plan.spec.smoke:
        yield "To try the whole grid in miniature on this CPU:"
        yield f"  raybench grid {plan.spec.source_path} --smoke"


def format_value(value: Any) -> str:
    """Format a value in its usual notation: 0.0005 is 5e-4, a list has no spaces."""
    if isinstance(value, float):
        text = f"{value:g}"
        if value and abs(value) < 0.001:
            mantissa, exponent = f"{value:e}".split("e")
            text = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
        return text
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(format_value, value)) + "]"
    return str(value)


def is_written(text: str, value: Any) -> bool:
    """Return whether a text is one notation of a value: 5.0e-4, 0.0005 and 5e-4 are the same."""
    if text in (str(value), format_value(value)):
        return True
    if isinstance(value, bool) or value is None:
        return text.lower() == ("null" if value is None else str(value).lower())
    try:
        return isinstance(value, int | float) and float(text) == value
    except ValueError:
        return False


@collector_paused()
def make_plan(
    spec: GridSpec,
    nodes: Sequence[Node],
    data_root: Path,
    where: Iterable[tuple[str, str]] = (),
    isolation: str = PROCESS,
) -> Plan:
    """Make the plan of a grid for these machines.

    Args:
        spec: the grid.
        nodes: the available machines.
        data_root: the folder of the data sets, needed for their digests.
        where: (axis, value as text): keep only the matching cells; with `AVAILABLE`, only those that can run.
        isolation: how the executor isolates trials from each other.

    Raises:
        WorkloadError: the workload cannot be read.
        UsageError: a cell that can never be trained, such as a batch larger than the training set.
    """
    base = spec.source_path.parent if spec.source_path else Path()
    problems = [] if spec.source_path else [too_many_trials(spec), unknown_metric(spec, base)]
    if not spec.source_path:
        problems += [f"{'.'.join(map(str, path))}: {problem}" for path, problem in wrong_parameters(spec, base)]
    for problem in filter(None, problems):  # problems of a file were reported when it was read
        raise UsageError(f"{spec.name}: {problem}")
    try:
        info = spec.read_workload()
    except WorkloadError as error:
        raise WorkloadError(f"{place(spec, error.field)}{error}", error.field) from None
    if spec.synthetic_data:
        info = _on_synthetic_data(spec, info)
    check_defaults(info)
    digest, official = data_of(info, data_root)
    make_resolver = CommandResolver if info.command else FunctionResolver if info.is_function else Resolver
    resolver = make_resolver(spec, info, nodes, digest, official, isolation)
    points, where = list(expand(spec, nodes)), tuple(where)
    if spec.smoke:
        points = _few(spec, [point for point in points if _selected(point, where)])
    selected = [resolver.cell(point) for point in points if _selected(point, where)]
    if AVAILABLE in where:
        # If nothing can run here, every cell is kept with its reason.
        selected = [cell for cell in selected if not cell.skip] or selected
    cells_by_id: dict[str, ResolvedCell] = {}
    for cell in selected:
        cells_by_id.setdefault(cell.cell_id, cell)
    cells = list(cells_by_id.values())
    if not cells:
        raise UsageError(f"{spec.name} has no cell left; change --where or exclude, which remove all of them")
    if spec.audit.aa_test:
        cells.append(_again(next((cell for cell in cells if matches(cell.axes, baseline_of(spec, cells))), cells[0])))
    trials, left_out = tuple(_ordered(spec, cells)), len(points) - len(selected)
    return Plan(spec, info, tuple(cells), trials, tuple(nodes), where, left_out)


def _on_synthetic_data(spec: GridSpec, info: WorkloadInfo) -> WorkloadInfo:
    """Replace the workload's data set by its synthetic stand-in.

    Raises:
        UsageError: the workload reads its own data, which has no stand-in.
    """
    if info.dataset is None:
        raise UsageError(
            f"{place(spec, 'synthetic_data')}synthetic_data: {info.name} reads its own data, which raybench cannot "
            "generate; return generated data from its `data` function"
        )
    return replace(info, dataset=datasets.synthetic_name(info.dataset))


def expand(spec: GridSpec, nodes: Sequence[Node]) -> Iterator[Point]:
    """The grid's points in the order of the file: the product of its axes less `exclude`, then `include`."""
    axes = {"device": ["cpu"], **{name: list(values) for name, values in spec.axes.items() if values != "available"}}
    if spec.axes.get("device") == "available":
        kinds = [kind.name for kind in KINDS.values() if not kind.virtual]
        axes["device"] = [kind for kind in kinds if any(node.find(kind) for node in nodes)]
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        if not any(matches(point, rule) for rule in spec.exclude):
            yield point
    for entry in spec.include:
        free = [[entry[name]] if name in entry else values for name, values in axes.items()]
        for values in itertools.product(*free):
            yield dict(zip(axes, values, strict=True)) | dict(entry)


def _few(spec: GridSpec, points: Sequence[Point]) -> list[Point]:
    """The subset of the points that a smoke run covers."""
    rules = [*({name: [value] for name, value in entry.items()} for entry in spec.include)]
    rules += [override.when for override in spec.overrides]
    baseline = spec.baseline or ({"device": points[0]["device"]} if points else {})
    return minimal_cover(points, baseline, rules)


def baseline_of(spec: GridSpec, cells: Sequence[ResolvedCell]) -> dict[str, Any]:
    """The baseline of the comparison: that of the file, or the first device if there are several."""
    if spec.baseline:
        return dict(spec.baseline)
    devices = list(dict.fromkeys(cell.profile for cell in cells))
    return {"device": devices[0]} if len(devices) > 1 else {}


def _again(cell: ResolvedCell) -> ResolvedCell:
    """A copy of the cell under another identity, for an A/A test."""
    content = cell.content
    content = replace(content, role=replace(content.role, aa_of=cell.cell_id))
    group = replace(cell.group, content=content, own={})
    return ResolvedCell(content.cell_id, cell.axes, group, digest({"aa_of": cell.request_id}))


def _selected(point: Point, where: Iterable[tuple[str, str]]) -> bool:
    return all(
        name in point and text in (str(point[name]), format_value(point[name]))
        for name, text in where
        if (name, text) != AVAILABLE
    )


def _ordered(spec: GridSpec, cells: Sequence[ResolvedCell]) -> Iterator[Trial]:
    """The trials, repeat by repeat, each repeat shuffled by the grid's seed.

    A drift of the machine then affects all cells alike.
    """
    for repeat in range(spec.repeats):
        order = [cell for cell in cells if repeat < cell.repeats]
        random.Random(f"{spec.seed}/{repeat}").shuffle(order)
        seed = spec.seed + repeat
        for cell in order:
            yield Trial(cell, repeat, seed)

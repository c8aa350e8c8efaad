"""From a grid to its trials: every cell with its identity, where it can run, and in which order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raybench.analysis.factored import FULL, PREDICTED, TIMED_EPOCHS, TIMED_FOR, setting_of, study
from raybench.cell import PROCESS
from raybench.checks import check_defaults, check_target, place
from raybench.devices import BORROWED, KINDS
from raybench.devices.node import Node
from raybench.errors import UsageError, WorkloadError
from raybench.identity import cell_id, shown_name, trial_id
from raybench.points import Point, few, matches
from raybench.resolve import Cell, Resolver, data_of
from raybench.spec import GridSpec
from raybench.workloads import WorkloadInfo, read_reference


@dataclass(frozen=True)
class Trial:
    """One repeat of a cell."""

    trial_id: str
    cell: Cell
    repeat: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """A grid's cells, in the order of the file, and its trials, in the order in which they are to run.

    Attributes:
        where: (axis, value as text): only cells with these are in it.
        left_out: how many cells of the grid are not in it for that.
    """

    spec: GridSpec
    workload: WorkloadInfo
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]
    nodes: tuple[Node, ...]
    where: tuple[tuple[str, str], ...] = ()
    left_out: int = 0

    def label(self, trial: Trial) -> str:
        """What a person calls a trial: `katnoria_cnn cpu torch b256 wd5e-4 r0`, and the grid's further axes."""
        settings = trial.cell.content["settings"]
        shown = {"device", "batch_size", "weight_decay", "framework"}
        further = [f"{name}={short(value)}" for name, value in trial.cell.axes.items() if name not in shown]
        parts = [
            shown_name(trial.cell.content),
            trial.cell.profile,
            trial.cell.content["framework"],
            f"b{settings['batch_size']}",
            f"wd{short(settings['weight_decay'])}",
            *further,
            *(["timing"] if TIMED_FOR in trial.cell.content else []),
            *(["A/A"] if "again" in trial.cell.content else []),
            *(["smoke"] if "smoke" in trial.cell.content else []),
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
    digest, official = data_of(info, data_root)
    resolver = Resolver(spec, info, nodes, digest, official, isolation)
    points, where = list(expand(spec, nodes)), tuple(where)
    if spec.smoke:
        points = _few(spec, [point for point in points if _selected(point, where)])
    if spec.study == "factored":
        # What is trained and what is timed follows from the whole grid, whatever is selected of it.
        made = [cell for cell in factored(list(map(resolver.cell, points))) if _selected(cell.axes, where)]
    else:
        made = [resolver.cell(point) for point in points if _selected(point, where)]
    found: dict[str, Cell] = {}
    for cell in made:
        found.setdefault(cell.cell_id, cell)
    cells = list(found.values())
    if not cells:
        raise UsageError(f"no cell of {spec.name} is left: exclude or --where takes every one of them")
    if spec.audit.aa:
        run = [cell for cell in cells if not cell.predicted] or cells
        cells.append(_again(next((cell for cell in run if matches(cell.axes, baseline_of(spec, cells))), run[0])))
    trials, left_out = tuple(_ordered(spec, cells)), len(points) - len(made)
    return Plan(spec, info, tuple(cells), trials, tuple(nodes), where, left_out)


def expand(spec: GridSpec, nodes: Sequence[Node]) -> Iterator[Point]:
    """The grid's points in the order of the file: the product of its axes less `exclude`, then `include`."""
    axes = {"device": ["cpu"], **{name: list(values) for name, values in spec.axes.items() if values != "available"}}
    if spec.axes.get("device") == "available":
        kinds = [kind for kind in KINDS if kind not in BORROWED]
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
    """The points that a smoke run is content with."""
    rules = [*({name: [value] for name, value in entry.items()} for entry in spec.include)]
    rules += [override.when for override in spec.overrides]
    baseline = spec.baseline or ({"device": points[0]["device"]} if points else {})
    return few(points, baseline, rules)


def factored(cells: Sequence[Cell]) -> list[Cell]:
    """A grid's cells as a factored study wants them: trained in full, cut to a timing, or left to be predicted.

    Devices come first in the order of the file; what no machine here can hold stays as it is, skipped. A timing is
    another cell than the training it stands for: it has fewer epochs and no target.
    """
    able = [cell for cell in cells if not cell.skip]
    settings = [setting_of(cell.profile, repr(dict(cell.axes)), cell.content) for cell in able]
    roles = study(settings, list(dict.fromkeys(cell.profile for cell in cells)))
    named = {id(cell): roles[setting] for cell, setting in zip(able, settings, strict=True)}
    return [_in_study(cell, named.get(id(cell), FULL)) for cell in cells]


def _in_study(cell: Cell, role: str) -> Cell:
    if role == PREDICTED:
        return replace(cell, predicted=True)
    short_enough = cell.content["warmup_epochs"] + TIMED_EPOCHS
    if role == FULL or cell.content["settings"]["epochs"] <= short_enough:
        return cell
    kept = {name: value for name, value in cell.content["settings"].items() if name != "stop_at_target"}
    asked = {TIMED_FOR: cell.content["settings"]["epochs"]}
    content = cell.content | {"settings": kept | {"epochs": short_enough}} | asked
    return replace(cell, cell_id=cell_id(content), content=content)


def baseline_of(spec: GridSpec, cells: Sequence[Cell]) -> dict[str, Any]:
    """What the others are compared with: the file's baseline, or the first device where there are several."""
    if spec.baseline:
        return dict(spec.baseline)
    devices = list(dict.fromkeys(cell.profile for cell in cells))
    return {"device": devices[0]} if len(devices) > 1 else {}


def _again(cell: Cell) -> Cell:
    """The same cell under another name: an A/A check."""
    content = cell.content | {"again": cell.cell_id}
    return replace(cell, cell_id=cell_id(content), content=content)


def _selected(point: Mapping[str, Any], where: Iterable[tuple[str, str]]) -> bool:
    return all(name in point and text in (str(point[name]), short(point[name])) for name, text in where)


def _ordered(spec: GridSpec, cells: Sequence[Cell]) -> Iterator[Trial]:
    """One whole repeat after another, each shuffled by the grid's seed, so that drift falls on every cell alike."""
    for repeat in range(spec.repeats):
        order = [cell for cell in cells if not cell.predicted]
        random.Random(f"{spec.seed}/{repeat}").shuffle(order)
        for cell in order:
            yield Trial(trial_id(cell.cell_id, repeat), cell, repeat, spec.seed + repeat)

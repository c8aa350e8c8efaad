"""Plan one grid that runs two versions of another one: two folders of code, or two environments.

Each cell is planned twice, once per version. The two are a pair: they run one after the other in every repeat, so that
a drift of the machine falls on both alike, and if either version changes, both run again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from raybench.config import GridSpec
from raybench.config.grid import Audit
from raybench.core.cell import BASE, NEW, PROCESS, VERSION_AXIS
from raybench.core.identity import digest
from raybench.core.settings import PARAM, SETTINGS
from raybench.errors import UsageError
from raybench.planning.node import Node
from raybench.planning.plan import AVAILABLE, Plan, Trial, format_value, make_plan
from raybench.planning.resolve import ResolvedCell
from raybench.workloads import WorkloadInfo

_OF_CODE = ("engine.", "workload.digest", "data.digest", "device.model")
"""The parts of a cell that may differ between two versions: those that no grid file sets."""

_OF_OWN_LOOP = ("framework", "workload.name", "data.name")
"""The same for a training function or a command, whose name and framework follow from its code."""


class _Requested(Protocol):
    """A cell with its request and its values on the axes."""

    @property
    def request_id(self) -> str: ...

    @property
    def axes(self) -> Mapping[str, Any]: ...


_Cell = TypeVar("_Cell", bound=_Requested)


def cell_pairs(base: Sequence[_Cell], new: Sequence[_Cell]) -> Iterator[tuple[_Cell, _Cell]]:
    """Yield the cells of the same request or, if the code changes that, with the same values on the axes."""
    rest = list(new)
    for cell in base:
        match = next((other for other in rest if cell.request_id and other.request_id == cell.request_id), None)
        match = match or next((other for other in rest if dict(other.axes) == dict(cell.axes)), None)
        if match:
            rest.remove(match)
            yield cell, match


def make_version_plan(
    base: GridSpec,
    new: GridSpec,
    nodes: Sequence[Node],
    data_root: Path,
    where: Sequence[tuple[str, str]] = (),
    isolation: str = PROCESS,
) -> Plan:
    """Make the plan of a grid that runs both versions of each cell.

    What concerns the whole grid, such as the target, is that of the new version.

    Args:
        base, new: the same grid with the code and the environments of each version.
        nodes, data_root, where, isolation: see `raybench.planning.plan.make_plan`.

    Raises:
        UsageError: the two grids do not have the same cells; or a problem of one of them.
    """
    filters = [each for each in where if each != AVAILABLE]
    base_plan, new_plan = (
        make_plan(spec.model_copy(update={"audit": Audit()}), nodes, data_root, filters, isolation)
        for spec in (base, new)
    )
    pairs = list(cell_pairs(base_plan.cells, new_plan.cells))
    _check_same_cells(base_plan, new_plan, pairs)
    if AVAILABLE in where:
        pairs = [pair for pair in pairs if not any(cell.skip for cell in pair)] or pairs
    both = [_versions(*pair) for pair in pairs]
    cells = tuple(cell for pair in both for cell in pair)
    return Plan(
        new.as_comparison().model_copy(update={"baseline": {VERSION_AXIS: BASE}}),
        new_plan.workload,
        cells,
        tuple(_ordered(new, both)),
        new_plan.nodes,
        tuple(where),
        left_out=base_plan.left_out + new_plan.left_out + 2 * len(new_plan.cells) - len(cells),
        base_workload=base_plan.workload,
    )


def _versions(base: ResolvedCell, new: ResolvedCell) -> tuple[ResolvedCell, ResolvedCell]:
    """Both versions of a cell, under identities of their own; neither can run without the other."""
    reasons = [f"{name} version: {cell.skip}" for name, cell in ((BASE, base), (NEW, new)) if cell.skip]
    same = base.skip == new.skip
    skip = base.skip if same else "; ".join(reasons)
    pair = digest({BASE: _identity(base), NEW: _identity(new)})

    def version(name: str, cell: ResolvedCell) -> ResolvedCell:
        content = cell.content
        content = replace(content, role=replace(content.role, compared={"version": name, "pair": pair}))
        fit = None if skip else cell.fit
        group = replace(cell.group, content=content, profile=new.profile, fit=fit, skip=skip, own={})
        request_id = digest({VERSION_AXIS: name, "of": cell.request_id})
        return ResolvedCell(content.cell_id, {**new.axes, VERSION_AXIS: name}, group, request_id)

    return version(BASE, base), version(NEW, new)


def _identity(cell: ResolvedCell) -> dict[str, Any]:
    """What distinguishes a version of a cell, with its environment, which is no part of a cell."""
    fit = cell.fit
    return {"cell": cell.cell_id, "environment": [fit.environment, fit.framework_version] if fit else None}


def _ordered(spec: GridSpec, pairs: Sequence[tuple[ResolvedCell, ResolvedCell]]) -> Iterator[Trial]:
    """The trials, repeat by repeat, the pairs of each repeat shuffled.

    Which version of a pair is first alternates from repeat to repeat, in case the first of two has an advantage.
    """
    firsts = [random.Random(f"{spec.seed}/{base.group.content.role.pair}").randrange(2) for base, _ in pairs]
    for repeat in range(spec.repeats):
        order = [(pair, first) for pair, first in zip(pairs, firsts, strict=True) if repeat < pair[0].repeats]
        random.Random(f"{spec.seed}/{repeat}").shuffle(order)
        for (base, new), first in order:
            for cell in (new, base) if (repeat + first) % 2 else (base, new):
                yield Trial(cell, repeat, spec.seed + repeat)


def _check_same_cells(base: Plan, new: Plan, pairs: Sequence[tuple[ResolvedCell, ResolvedCell]]) -> None:
    """Check that two plans differ only in their code and their environments.

    Raises:
        UsageError: they differ in something else.
    """
    files = [str(plan.spec.source_path or plan.spec.name) for plan in (base, new)]
    paired = {id(cell) for pair in pairs for cell in pair}
    for plan, file, other in ((base, files[0], files[1]), (new, files[1], files[0])):
        alone = [cell for cell in plan.cells if id(cell) not in paired]
        if alone:
            more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
            point = " ".join(f"{axis}={format_value(value)}" for axis, value in alone[0].axes.items())
            raise UsageError(
                f"{file}: {other} does not have the cell {point}{more}; to compare them, give both the same `axes`"
            )
    for pair in pairs:
        for name, values in _differences(pair, (base.workload, new.workload)):
            texts = ["not set" if value is None else format_value(value) for value in values]
            raise UsageError(
                f"{name} is {texts[0]} in {files[0]} and {texts[1]} in {files[1]}; to compare them, give both the same"
            )


def _differences(
    pair: tuple[ResolvedCell, ResolvedCell], workloads: tuple[WorkloadInfo, WorkloadInfo]
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield the values in which the requests of two cells differ, with their names in a grid file."""
    if pair[0].repeats != pair[1].repeats:
        yield "repeats", (pair[0].repeats, pair[1].repeats)
    if any(cell.skip for cell in pair):
        return  # what depends on the machine is not known
    sides = [cell.content.leaves() for cell in pair]
    defaults = [_defaults(workload) for workload in workloads]
    own_loop = all(workload.own_loop and not workload.is_builtin for workload in workloads)
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        values = sides[0].get(name), sides[1].get(name)
        if values[0] == values[1] or name.startswith(_OF_CODE) or (own_loop and name in _OF_OWN_LOOP):
            continue
        is_default = [value is None or value == known.get(name) for value, known in zip(values, defaults, strict=True)]
        only_one_has_it = name.startswith(PARAM) and None in values
        if not all(is_default) and not only_one_has_it:
            yield name.removeprefix("settings."), values


def _defaults(workload: WorkloadInfo) -> dict[str, Any]:
    """The values that a user's code sets if the grid does not, by their names in a cell."""
    values = {name: parameter.default for name, parameter in workload.parameters.items() if parameter.known}
    values |= {} if workload.is_builtin else dict(workload.defaults)
    defaults = {}
    for name, value in values.items():
        if name == "threads":
            defaults["device.threads"] = value
        elif name in SETTINGS:
            defaults[".".join(("settings", *SETTINGS[name].path))] = value
        else:
            defaults[f"{PARAM}{name}"] = value
    return defaults

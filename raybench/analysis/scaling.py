"""How the speed grows with an amount of hardware: devices, processes, cores or threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from raybench.analysis.answer import Effect, Scaling
from raybench.analysis.matching import CORES, Matching
from raybench.analysis.measured import SAME_WORK, Measured
from raybench.core.settings import short_name
from raybench.devices import KINDS
from raybench.results.attempt import Attempt

NOUNS = {"threads": "thread", "cpus": "core", "cores": "core", "gpus": "GPU", "nodes": "node", "nnodes": "node"}
"""What axes count, besides `count`; others count processes."""


def scalings(measured: Sequence[Measured], matching: Matching, effects: Sequence[Effect]) -> list[Scaling]:
    """Return how the speed grows along each axis that is an amount of hardware and has an effect."""
    made = []
    for axis in dict.fromkeys(each.axis for each in effects if each.efficiency):
        groups: dict[int, dict[float, Measured]] = {}
        for row in (each for each in effects if each.axis == axis):
            for own, other in matching.sets(axis, row.value, row.other):
                group = groups.setdefault(other, {float(row.other): measured[other]})
                group[float(row.value)] = measured[own]
        kind = "" if CORES.fullmatch(short_name(axis)) else _kind(groups.values())
        runs = [run for group in groups.values() for each in group.values() for run in each.completed]
        made.append(Scaling(axis, _noun(axis, runs), kind))
    return made


def _kind(groups: Iterable[Mapping[float, Measured]]) -> str:
    """Return `strong` if the examples of a step are the same for all amounts, `weak` if they grow with them."""
    kinds = set()
    for group in groups:
        sizes = {value: _batch(each.completed) for value, each in group.items()}
        for kind, of_kind in (("strong", sizes), ("weak", {each: size / each for each, size in sizes.items()})):
            if 0 < max(of_kind.values()) < SAME_WORK * min(of_kind.values()):
                kinds.add(kind)
    return kinds.pop() if len(kinds) == 1 else ""


def _batch(runs: Sequence[Attempt]) -> float:
    """Return the examples of a step, as counted or else as set; 0 if unknown."""
    counted = [epoch.examples / epoch.steps for run in runs for epoch in run.epochs if epoch.examples and epoch.steps]
    return max(counted, default=float(runs[0].cell.settings.batch_size or 0) if runs else 0.0)


def _noun(axis: str, runs: Sequence[Attempt]) -> str:
    """Return what an axis counts: `GPU`, `process`, `thread`."""
    if axis != "count":
        return NOUNS.get(short_name(axis), "process")
    kinds = [KINDS[run.cell.device.kind] for run in runs if run.cell.device.kind in KINDS]
    if any(kind.on_host for kind in kinds):
        return "process" if any((run.cell.device.devices or 1) > 1 for run in runs) else "core"
    labels = {kind.label.split()[-1] for kind in kinds}
    return labels.pop() if len(labels) == 1 else "device"

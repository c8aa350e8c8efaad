"""How the speed grows with an amount of hardware: devices, processes, cores or threads."""

from __future__ import annotations

from collections.abc import Sequence

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
        growths, runs = [], []  # of the amount and of the batch, by matched set
        for row in (each for each in effects if each.axis == axis):
            for pair in matching.sets(axis, row.value, row.other):
                sides = [measured[index].completed for index in pair]
                own, other = map(_batch, sides)
                growths.append((float(row.value) / float(row.other), own / other if own and other else 0.0))
                runs += [run for side in sides for run in side]
        is_strong = all(_is_same(batch, 1.0) for _, batch in growths)
        is_weak = all(_is_same(batch, amount) for amount, batch in growths)
        kind = "" if CORES.fullmatch(short_name(axis)) else "strong" if is_strong else "weak" if is_weak else ""
        made.append(Scaling(axis, _noun(axis, runs), kind))
    return made


def _is_same(growth: float, expected: float) -> bool:
    return expected / SAME_WORK < growth < expected * SAME_WORK


def _batch(runs: Sequence[Attempt]) -> float:
    """Return the examples of a step, as counted or else as set; 0 if unknown."""
    counts = (zip(*(run.epochs.column(name) for name in ("examples", "steps")), strict=True) for run in runs)
    counted = [examples / steps for of_run in counts for examples, steps in of_run if examples and steps]
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

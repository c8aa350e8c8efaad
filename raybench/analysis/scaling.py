"""How the speed grows with an amount of hardware: devices, processes, cores or threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from raybench.analysis.answer import Effect, Scaling, Summary
from raybench.analysis.intervals import Sample, at_every_look, mean
from raybench.analysis.matching import CORES, Matching
from raybench.analysis.measured import Measured
from raybench.analysis.work import SAME_WORK
from raybench.core.settings import short_name
from raybench.devices import KINDS
from raybench.results.run_table import Run

LEAST_AMOUNTS = 3  # fewest amounts that show whether times follow Amdahl's law
LARGEST_MISFIT = 0.05  # largest deviation of a time from Amdahl's law with which its serial share is stated

NOUNS = {"threads": "thread", "cpus": "core", "cores": "core", "gpus": "GPU", "nodes": "node", "nnodes": "node"}
"""What axes count, besides `count`; others count processes."""


def scalings(measured: Sequence[Measured], matching: Matching, effects: Sequence[Effect]) -> list[Scaling]:
    """Return how the speed grows along each axis that is an amount of hardware and has an effect."""
    curves = []
    for axis in dict.fromkeys(effect.axis for effect in effects if effect.efficiency):
        growths, runs = [], []  # of the amount and of the batch, by matched set
        sets: dict[int, dict[float, Sequence[Sample]]] = {}
        for row in (effect for effect in effects if effect.axis == axis):
            for pair in matching.sets(axis, row.value, row.other):
                times = sets.setdefault(pair[1], {float(row.other): measured[pair[1]].times})
                times[float(row.value)] = measured[pair[0]].times
                sides = [measured[index].completed for index in pair]
                batch_size, batch_before = map(_batch, sides)
                batch_growth = batch_size / batch_before if batch_before else 0.0
                growths.append((float(row.value) / float(row.other), batch_growth))
                runs += [run for side in sides for run in side]
        is_strong = all(_is_same(batch, 1.0) for _, batch in growths)
        is_weak = all(_is_same(batch, amount) for amount, batch in growths)
        kind = "" if CORES.fullmatch(short_name(axis)) else "strong" if is_strong else "weak" if is_weak else ""
        varies = kind == "weak" or any(effect.varies for effect in effects if effect.axis == axis)
        serial = None if varies else serial_share(list(sets.values()))
        curves.append(Scaling(axis, _noun(axis, runs), kind, serial))
    return curves


def serial_share(sets: Sequence[Mapping[float, Sequence[Sample]]]) -> Summary | None:
    """Return the part of the time of one that more do not shorten: time = serial + parallel / amount.

    It is fitted to each repeat, and the interval is that of the mean: runs share what happens in a repeat. None with
    fewer than 3 amounts or 2 repeats, with several machines, or if the times do not follow the law.

    Args:
        sets: logs of times by amount, for each matched set of configurations.
    """
    runs = [run for times in sets for samples in times.values() for run in samples]
    amounts = sorted(set.intersection(*(set(times) for times in sets)))
    logs = [[{run.repeat: run.value for run in times[amount]} for times in sets] for amount in amounts]
    repeats = sorted(set.intersection(*(set(by_repeat) for of_amount in logs for by_repeat in of_amount)))
    if len(amounts) < LEAST_AMOUNTS or len(repeats) < 2 or len({run.host for run in runs}) > 1:
        return None
    times = np.exp([[fmean(by_repeat[repeat] for by_repeat in of_amount) for of_amount in logs] for repeat in repeats])
    terms = np.stack([np.ones(len(amounts)), 1 / np.array(amounts)], axis=1)
    parts = [
        np.linalg.lstsq(terms / times_of_repeat[:, None], np.ones(len(times_of_repeat)), rcond=None)[0]
        for times_of_repeat in times
    ]
    misfits = [terms @ fitted / times_of_repeat - 1 for fitted, times_of_repeat in zip(parts, times, strict=True)]
    if np.abs(np.mean(misfits, axis=0)).max() > LARGEST_MISFIT:
        return None
    estimate = at_every_look(mean([float(fitted[0] / fitted.sum()) for fitted in parts]), runs[0].stopping)
    low, high = estimate.interval() or (None, None)
    return Summary(estimate.value, low, high, len(repeats))


def _is_same(growth: float, expected: float) -> bool:
    return expected / SAME_WORK < growth < expected * SAME_WORK


def _batch(runs: Sequence[Run]) -> float:
    """Return the examples of a step, as counted or else as set; 0 if unknown."""
    counts = (zip(*(run.epochs.column(name) for name in ("examples", "steps")), strict=True) for run in runs)
    counted = [examples / steps for of_run in counts for examples, steps in of_run if examples and steps]
    return max(counted, default=float(runs[0].cell.settings.batch_size or 0) if runs else 0.0)


def _noun(axis: str, runs: Sequence[Run]) -> str:
    """Return what an axis counts: `GPU`, `process`, `thread`."""
    if axis != "count":
        return NOUNS.get(short_name(axis), "process")
    kinds = [KINDS[run.cell.device.kind] for run in runs if run.cell.device.kind in KINDS]
    if any(kind.on_host for kind in kinds):
        return "process" if any(run.cell.device.world_size > 1 for run in runs) else "core"
    labels = {kind.label.split()[-1] for kind in kinds}
    return labels.pop() if len(labels) == 1 else "device"

"""How the speed grows with an amount of hardware: devices, processes, cores or threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from raybench.analysis.answer import Effect, Scaling, Serial
from raybench.analysis.intervals import Sample, at_every_look, mean
from raybench.analysis.matching import CORES, Matching, amount
from raybench.analysis.measured import SAME_WORK, Measured
from raybench.core.settings import short_name
from raybench.devices import KINDS

LEAST_AMOUNTS = 3
"""Fewest amounts that show whether times follow Amdahl's law."""

LARGEST_MISFIT = 0.05
"""Largest deviation of a time from Amdahl's law with which its serial share is stated."""

Group = Mapping[float, Measured]
"""Configurations that differ in an amount of hardware alone, by amount."""


def scalings(measured: Sequence[Measured], matching: Matching, effects: Sequence[Effect]) -> list[Scaling]:
    """Return how the speed grows along each axis that is an amount of hardware and has an effect."""
    made = []
    for axis in dict.fromkeys(each.axis for each in effects if each.efficiency):
        rows = [each for each in effects if each.axis == axis]
        groups: dict[int, dict[float, Measured]] = {}
        for row in rows:
            for own, other in matching.sets(axis, row.value, row.other):
                group = groups.setdefault(other, {amount(axis, row.other) or 1.0: measured[other]})
                group[amount(axis, row.value) or 1.0] = measured[own]
        is_fixed, grows = _batches(list(groups.values()))
        kind = "" if CORES.fullmatch(short_name(axis)) else "strong" if is_fixed else "weak" if grows else ""
        varies = kind == "weak" or any(row.varies for row in rows)
        times = [{value: each.times for value, each in group.items()} for group in groups.values()]
        made.append(Scaling(axis, _noun(axis, list(groups.values())), kind, None if varies else serial_share(times)))
    return made


def serial_share(sets: Sequence[Mapping[float, Sequence[Sample]]]) -> Serial | None:
    """Return the part of the time of one that more do not shorten: time = serial + parallel / amount.

    It is fitted to each repeat, and the interval is that of the mean: runs share what happens in a repeat. None with
    fewer than 3 amounts or 2 repeats, with several machines, or if the times do not follow the law.

    Args:
        sets: logs of times by amount, for each matched set of configurations.
    """
    runs = [run for times in sets for own in times.values() for run in own]
    amounts = sorted(set.intersection(*(set(times) for times in sets)))
    logs = [[{run.repeat: run.value for run in times[each]} for times in sets] for each in amounts]
    repeats = sorted(set.intersection(*(set(own) for of_amount in logs for own in of_amount)))
    if len(amounts) < LEAST_AMOUNTS or len(repeats) < 2 or len({run.host for run in runs}) > 1:
        return None
    times = np.exp([[fmean(own[repeat] for own in of_amount) for of_amount in logs] for repeat in repeats])
    terms = np.stack([np.ones(len(amounts)), 1 / np.array(amounts)], axis=1)
    parts = [np.linalg.lstsq(terms / own[:, None], np.ones(len(own)), rcond=None)[0] for own in times]
    misfits = [terms @ fitted / own - 1 for fitted, own in zip(parts, times, strict=True)]
    if np.abs(np.mean(misfits, axis=0)).max() > LARGEST_MISFIT:
        return None
    estimate = at_every_look(mean([float(fitted[0] / fitted.sum()) for fitted in parts]), runs[0].stopping)
    return Serial(estimate.value, *(estimate.interval() or (None, None)))


def _batches(groups: Sequence[Group]) -> tuple[bool, bool]:
    """Return whether the examples of a step are the same for all amounts, and whether they grow with them."""
    sizes = [{value: _batch(each) for value, each in group.items()} for group in groups]
    if not all(size for group in sizes for size in group.values()):
        return False, False
    per_one = [{value: size / value for value, size in group.items()} for group in sizes]
    is_fixed, grows = (all(max(each.values()) < SAME_WORK * min(each.values()) for each in s) for s in (sizes, per_one))
    return is_fixed, grows


def _batch(measured: Measured) -> float:
    """Return the examples of a step, as counted or else as set; 0 if unknown."""
    run = next(iter(measured.completed), None)
    if run is None:
        return 0.0
    counted = [epoch.examples / epoch.steps for epoch in run.epochs if epoch.examples and epoch.steps]
    return max(counted, default=float(run.cell.settings.batch_size or 0))


def _noun(axis: str, groups: Sequence[Group]) -> str:
    """Return what an axis counts: `GPU`, `process`, `thread`."""
    name = short_name(axis)
    devices = [run.cell.device for group in groups for each in group.values() for run in each.completed]
    if name != "count":
        nouns = {"threads": "thread", "cpus": "core", "cores": "core", "gpus": "GPU", "nodes": "node", "nnodes": "node"}
        return nouns.get(name, "process")
    kinds = [KINDS[each.kind] for each in devices if each.kind in KINDS]
    if any(kind.on_host for kind in kinds):
        return "process" if any((each.devices or 1) > 1 for each in devices) else "core"
    labels = {kind.label.split()[-1] for kind in kinds}
    return labels.pop() if len(labels) == 1 else "device"

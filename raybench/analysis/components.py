"""Where the spread of epoch times comes from: machines, processes on one machine, or epochs of one process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from raybench.analysis.welch import CONFIDENCE

DRAWS = 4000
"""Draws behind each interval; the ends of a 95 % interval then move by about a percent from seed to seed."""

SEED = 0
"""So that the same data always give the same digits."""

MEDIAN = math.pi / 2
"""How many times the variance of a mean that of a median is."""

REMEDIES = {"machine": "more machines", "process": "more repeats", "epoch": "more epochs or more repeats"}
"""What makes a level's spread matter less."""


@dataclass(frozen=True)
class Part:
    """One source of spread, as a part of the time: 0.03 is 3 %.

    Attributes:
        sd: standard deviation of the logarithm of seconds.
        low, high: its 95 % interval.
    """

    sd: float
    low: float
    high: float


@dataclass(frozen=True)
class Components:
    """The spread of one epoch's time, taken apart.

    Attributes:
        machine: from machine to machine; None with one machine only.
        process: from process to process on one machine; None where no machine has two.
        epoch: from epoch to epoch of one process; None where no process has two.
        epochs: how many a process has, on average.
    """

    machine: Part | None
    process: Part | None
    epoch: Part | None
    epochs: float = 1.0

    def says(self) -> str:
        """What the largest part asks for."""
        parts = {"machine": self.machine, "process": self.process, "epoch": self.epoch}
        known = {name: part for name, part in parts.items() if part}
        if not known:
            return "one epoch of one run: nothing is known of the spread"
        # What counts of a run is the median of its epochs, which leaves little of what one epoch wavers by.
        left = {"epoch": math.sqrt(MEDIAN / self.epochs) if self.epochs > 2 else 1 / math.sqrt(self.epochs)}
        largest = max(known, key=lambda name: known[name].sd * left.get(name, 1.0))
        sd = known[largest].sd
        if sd == 0:
            return "no spread at all"
        source = f"from {largest} to {largest} (standard deviation {100 * sd:.1f} %)"
        return f"most of what runs differ by is {source}: {REMEDIES[largest]} would narrow it most"


def components(seconds: Mapping[str, Sequence[Sequence[float]]]) -> Components:
    """Take the spread of epoch times apart, by the nested analysis of variance of their logarithms.

    Args:
        seconds: of one cell: for each machine its processes, and for each process its steady epochs, above 0.

    A part is the mean square of its level less what the levels below it put there, and 0 where that is negative. Its
    interval is a parametric bootstrap of the mean squares (draws of χ²), which needs only their degrees of freedom;
    where groups are not of one size it is an approximation.
    """
    nested = [[np.log(np.asarray(epochs, float)) for epochs in runs if len(epochs)] for runs in seconds.values()]
    machines = [runs for runs in nested if runs]
    processes = [run for runs in machines for run in runs]
    count = sum(map(len, processes))
    if not count:
        return Components(None, None, None)
    grand = sum(float(run.sum()) for run in processes) / count
    middles = [float(np.concatenate(runs).mean()) for runs in machines]
    squares = [
        sum(sum(map(len, runs)) * (middle - grand) ** 2 for runs, middle in zip(machines, middles, strict=True)),
        sum(
            len(run) * (float(run.mean()) - middle) ** 2
            for runs, middle in zip(machines, middles, strict=True)
            for run in runs
        ),
        sum(float(((run - run.mean()) ** 2).sum()) for run in processes),
    ]
    df = [len(machines) - 1, len(processes) - len(machines), count - len(processes)]
    sizes = _sizes([[len(run) for run in runs] for runs in machines])
    random = np.random.default_rng(SEED)
    means = [np.array([square / free]) if free else None for square, free in zip(squares, df, strict=True)]
    drawn = [square / random.chisquare(free, DRAWS) if free else None for square, free in zip(squares, df, strict=True)]
    machine, process, epoch = map(_part, _solve(means, sizes), _solve(drawn, sizes))
    return Components(machine, process, epoch, count / len(processes))


def _part(variance: np.ndarray | None, draws: np.ndarray | None) -> Part | None:
    if variance is None or draws is None:
        return None
    low, high = np.quantile(np.sqrt(draws), [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    return Part(math.sqrt(variance[0]), float(low), float(high))


def _sizes(counts: list[list[int]]) -> tuple[float, float, float]:
    """What the expected mean squares multiply the parts with.

    Returns:
        In the mean square of processes, that of processes; in that of machines, that of processes and of machines.
        (The usual ones of the unbalanced nested design.)
    """
    of_machine = [sum(runs) for runs in counts]
    total, machines, processes = sum(of_machine), len(counts), sum(map(len, counts))
    within = sum(sum(run**2 for run in runs) / size for runs, size in zip(counts, of_machine, strict=True))
    every = sum(run**2 for runs in counts for run in runs) / total
    in_process = (total - within) / (processes - machines) if processes > machines else 0.0
    in_machine = (within - every) / (machines - 1) if machines > 1 else 0.0
    own = (total - sum(size**2 for size in of_machine) / total) / (machines - 1) if machines > 1 else 0.0
    return in_process, in_machine, own


def _solve(means: list[np.ndarray | None], sizes: tuple[float, float, float]) -> list[np.ndarray | None]:
    """Machine, process and epoch variances from the mean squares of the three levels.

    A level without degrees of freedom is counted to the one above: epochs that were seen once are part of processes.
    """
    machine, process, epoch = means
    of_process = of_machine = None
    below = 0.0 if epoch is None else epoch
    if process is not None:
        of_process = np.maximum(0.0, process - below) / sizes[0]
    if machine is not None:
        inside = below + sizes[1] * (0.0 if of_process is None else of_process)
        of_machine = np.maximum(0.0, machine - inside) / sizes[2]
    return [of_machine, of_process, epoch]

"""The input of a trial process, and the recipe in its cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from raybench.core.cell import COMMAND, Cell
from raybench.core.settings import Settings

MOST_FRACTION = 1 + 1e-3
"""Largest value of a fraction, as sums of rounded numbers may exceed 1."""

SUM_OVER_REPLICAS = "sum_over_replicas"
"""The decay rule of a published tutorial: each replica adds the decay, and the gradients are summed."""


def is_accuracy(metric: str) -> bool:
    """Return whether a metric is an accuracy, whose differences are in points."""
    return metric.rpartition("/")[2] == "accuracy"


@dataclass(frozen=True)
class Target:
    """A metric and the bound it must reach.

    A user's own training may log accuracy in percent: a bound from 0 to 1 is then compared with a hundredth of it.

    Attributes:
        mean_level: the level of the one-sided test that the mean of runs of fixed length reaches it; None if each run
            tries alone.
    """

    metric: str
    at_least: float | None = None
    at_most: float | None = None
    mean_level: float | None = None

    @property
    def is_accuracy(self) -> bool:
        """Return whether its metric is an accuracy."""
        return is_accuracy(self.metric)

    @property
    def in_percent(self) -> bool:
        """Return whether its bound is one of an accuracy in percent."""
        return self.is_accuracy and (self.bound or 0) > 1

    @property
    def bound(self) -> float | None:
        """Return the value that the metric must reach from below or from above."""
        return self.at_most if self.at_least is None else self.at_least

    def reached(self, metrics: Mapping[str, float]) -> bool:
        """Return whether an epoch's metrics reach the target; without its metric they do not."""
        return self.is_reached_by(metrics.get(self.metric, math.nan))

    def is_reached_by(self, value: float) -> bool:
        """Return whether a value of its metric reaches the target; NaN does not."""
        if math.isnan(value):
            return False
        if value > MOST_FRACTION and self.is_accuracy and not self.in_percent:
            value /= 100
        if self.at_least is not None and value < self.at_least:
            return False
        return self.at_most is None or value <= self.at_most


class StopRule:
    """Says after each epoch whether a training has reached its target, if `stop_at_target` is to end it there.

    An accuracy has to be in the unit of the target: from 0 to 1 nothing else shows its unit, and 1 % of a run that
    learns nothing is not 100 %.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._needs_fraction = target.is_accuracy and not target.in_percent
        self._is_fraction = False

    def ends_with(self, metrics: Mapping[str, float]) -> bool:
        """Return whether an epoch's metrics reach the target; an accuracy of 1 only after one below 1."""
        value = metrics.get(self._target.metric, math.nan)
        if self._needs_fraction and value > MOST_FRACTION:
            at_least, at_most = self._target.at_least, self._target.at_most
            key, bound = ("at_most", at_most or 0.0) if at_least is None else ("at_least", at_least)
            raise ValueError(
                f"{self._target.metric} is {value:g}, so it is in percent, and the target {bound:g} a fraction; with "
                f"stop_at_target both have to be in the same unit: set {key}: {100 * bound:g}, or log a fraction"
            )
        self._is_fraction |= 0 < value < 1
        if self._needs_fraction and value == 1 and not self._is_fraction:
            return False
        return self._target.is_reached_by(value)


@dataclass(frozen=True)
class Budget:
    """What a training may spend: seconds, joules of its device, or work.

    Attributes:
        seconds: of training, by the sections of the ledger: train, input_wait and, if `compile`, compile.
        joules: of the device, from the first epoch on, with evaluations.
        work: of a unit that the training counts, such as tokens, on all ranks.
    """

    seconds: float | None = None
    joules: float | None = None
    work: float | None = None
    unit: str = ""
    compile: bool = True


@dataclass(frozen=True)
class Job:
    """One attempt at a trial, complete: the only input of the trial's process.

    Attributes:
        workload: `WorkloadInfo.to_json()`.
        folder: where the attempt's events, its output and its traceback go.
        cpus: number of CPU cores reserved for the trial on each of its nodes.
        accelerators: number of accelerators reserved for it on each of its nodes.
        cores: these cores on this node.
        visible: these accelerators on this node, as their driver names them.
        exclusive: whether no other trial of the grid shares its node's cores.
        node_rank: the number of this node among those of the trial, from 0; the first one writes the trial's events.
        address, interface: this node's network address, and the interface that has it; empty for a trial on one node.
        master_address, master_port: where the ranks of a trial on several nodes meet.
        relay_port: where the other nodes send the events of their ranks to the first one.
        relay_key: what they prove there that they belong to the trial.
        own_process: whether it has a process of its own, and not that of the command.
        memory_limit: memory limit in bytes of each of its processes (`raybench.core.memory.limit`); 0: none.
        checkpoint_every: epochs from one checkpoint to the next (`raybench.trial.checkpoint`); 0: none.
        resume: number of completed epochs of earlier attempts, from which it may resume; None: start from scratch, even
            if there are checkpoints.
        output_clock: of a command, the clock in the output of an earlier run (`raybench.results.output_clock`).
        labels: names for the user (run name, grid, profile), copied into its first event and otherwise unused.
        python: the interpreter that runs it; empty for raybench's own.
        code: a copy of the folder with the user's files; empty: the folder itself.
        check: the check to run instead of training, by the name of its module in `raybench.checks`; empty: none.
        warnings: about its results, reported at its end.
    """

    trial: str
    attempt: int
    repeat: int
    seed: int
    cell: Cell
    workload: dict[str, Any]
    data_root: str
    folder: str
    cores: list[int] = field(default_factory=list)
    visible: list[str] = field(default_factory=list)
    cpus: int = 0
    accelerators: int = 0
    exclusive: bool = True
    own_process: bool = True
    timeout: float = 0.0
    memory_limit: int = 0
    target: Target | None = None
    checkpoint_every: int = 0
    resume: int | None = None
    output_clock: dict[str, Any] | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    python: str = ""
    code: str = ""
    check: str = ""
    warnings: list[str] = field(default_factory=list)
    node_rank: int = 0
    address: str = ""
    interface: str = ""
    master_address: str = "127.0.0.1"
    master_port: int = 0
    relay_port: int = 0
    relay_key: str = ""

    @property
    def code_folder(self) -> Path:
        """The folder in which a user's workload runs; undefined for a built-in one."""
        return Path(self.code or self.workload["folder"])

    @property
    def budget(self) -> Budget | None:
        """What its training may spend; None without a limit."""
        return Budget(**self.cell.budget) if self.cell.budget else None

    @property
    def is_command(self) -> bool:
        """Whether it runs a command of the user, and not a check."""
        return self.cell.workload.form == COMMAND and not self.check

    @property
    def preloaded(self) -> str:
        """The framework that its process has loaded before; none for a command, whose programs load their own."""
        return "none" if self.is_command else self.cell.framework

    def to_json(self) -> dict[str, Any]:
        """The job as plain values."""
        target = asdict(self.target) if self.target else None
        return {**vars(self), "cell": self.cell.to_json(), "target": target}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the job that `to_json` wrote."""
        target = value.get("target")
        parts = {"cell": Cell.from_json(value["cell"]), "target": Target(**target) if target else None}
        return cls(**{**value, **parts})


@dataclass(frozen=True)
class Recipe(Settings):
    """A cell's settings, replicas and devices, as an engine reads them.

    Attributes:
        replicas: parts of the global batch with their own batch statistics.
        devices: how many devices the trial computes on.
    """

    replicas: int = 1
    devices: int = 1

    @classmethod
    def from_cell(cls, cell: Cell) -> Self:
        """Read the recipe from a cell's settings."""
        return cls(**vars(cell.settings), replicas=cell.device.replicas, devices=cell.device.world_size)

    @property
    def evaluation_batch(self) -> int:
        """Examples in one batch of evaluation: by default what is trained at a time, so that it fits into memory."""
        return self.evaluation_batch_size or self.batch_size // (self.devices * self.gradient_accumulation)

    @property
    def acting_decay(self) -> float:
        """The effective weight decay λ, multiplied by the replicas under `SUM_OVER_REPLICAS`."""
        return self.weight_decay * (self.replicas if self.decay_rule == SUM_OVER_REPLICAS else 1)

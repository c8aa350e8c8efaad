"""What a trial process is told, and the recipe it reads from its cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from raybench.core.cell import Cell
from raybench.core.settings import Settings

EVALUATION_BATCH_SIZE = 1000
"""Pictures in one batch of evaluation, where the grid says nothing. It changes no result, only memory and time."""

GROUPED, DEVICES, SPMD = "grouped", "devices", "spmd"
"""How replicas are made: in one computation on one device, each on a device of its own, or as one program that XLA
spreads over the devices."""

SUM_OVER_REPLICAS = "sum_over_replicas"
"""The decay rule of a published tutorial: each replica adds the decay, and the gradients are summed over them."""


@dataclass(frozen=True)
class Target:
    """A metric and the bound it has to reach."""

    metric: str
    at_least: float | None = None
    at_most: float | None = None

    def reached(self, metrics: Mapping[str, float]) -> bool:
        """Whether an epoch's metrics reach the target; one that is not a number does not.

        Raises:
            LookupError: no such metric, with the ones there are.
        """
        if self.metric not in metrics:
            raise LookupError(f"the target's metric {self.metric!r} is not one of {', '.join(sorted(metrics))}")
        value = metrics[self.metric]
        if math.isnan(value):
            return False
        if self.at_least is not None and value < self.at_least:
            return False
        return self.at_most is None or value <= self.at_most


@dataclass(frozen=True)
class Job:
    """One attempt at a trial, complete: it is all that crosses into the trial's process.

    Attributes:
        cell: everything that can change the result.
        workload: `WorkloadInfo.to_json()`.
        data_root: where the data sets are.
        folder: where the attempt's events, its output and its traceback go.
        cores: the CPU cores the trial owns.
        visible: the accelerators it may see, as their driver names them.
        exclusive: whether no other trial of the grid shares its node's cores.
        host_busy: whether other programs keep the machine busy; then its threads wait without spinning.
        timeout: seconds after which it is ended; 0: never.
        memory_limit: bytes that each of its processes may take (`raybench.core.memory.limit`); 0: all there are.
        checkpoint_every: epochs from one checkpoint to the next (`raybench.trial.checkpoint`); 0: none are made.
        profile_steps: further training steps that are timed by section once the trial is over; 0: none.
        resume: how many epochs of earlier attempts are known to be over, from which it may go on; None: it begins
            afresh, whatever checkpoints there are.
        labels: what a person calls it (run name, grid, profile): carried into its first event, never used.
        versions: what the caller knows of versions (Ray's).
        python: the interpreter that it runs in; empty for the one raybench runs in.
        code: the folder with the snapshot of a user's workload files; empty: they are used where they are.
        check: the check that is made instead of a training run, a folder of `raybench.checks`; empty: none.
        warnings: what its results have to be read with; told at its end.
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
    exclusive: bool = True
    host_busy: bool = False
    timeout: float = 0.0
    memory_limit: int = 0
    target: Target | None = None
    checkpoint_every: int = 0
    profile_steps: int = 0
    resume: int | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    python: str = ""
    code: str = ""
    check: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def code_folder(self) -> Path:
        """The folder from which a user's workload files are run; of no meaning for a shipped workload."""
        return Path(self.code) if self.code else Path(self.workload["file"] or "").absolute().parent

    def to_json(self) -> dict[str, Any]:
        """The job as plain values."""
        target = asdict(self.target) if self.target else None
        return {**vars(self), "cell": self.cell.to_json(), "target": target}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The job that `to_json` wrote."""
        target = value.get("target")
        parts = {"cell": Cell.from_json(value["cell"]), "target": Target(**target) if target else None}
        return cls(**{**value, **parts})


@dataclass(frozen=True)
class Recipe(Settings):
    """The settings of a cell as an engine reads them, with the replicas and devices that it has.

    Attributes:
        replicas: groups of the global batch with batch statistics of their own.
        replication: how they are made: `grouped` (one computation on one device), `devices` (each on a device of its
            own), `spmd` (one program that a compiler spreads over the devices); empty for one replica on one device.
        devices: how many devices the trial computes on.
        stop_at_target: whether training ends when it reaches the target.
    """

    replicas: int = 1
    replication: str = ""
    devices: int = 1
    stop_at_target: bool = False

    @classmethod
    def from_cell(cls, cell: Cell) -> Self:
        """The recipe in a cell's settings."""
        return cls(
            **vars(cell.settings),
            replicas=cell.device.replicas,
            replication=cell.device.replication or "",
            devices=cell.device.devices or 1,
            stop_at_target=cell.stop_at_target is not None,
        )

    @property
    def evaluation_batch(self) -> int:
        """Examples in one batch of evaluation."""
        return self.evaluation_batch_size or EVALUATION_BATCH_SIZE

    @property
    def acting_decay(self) -> float:
        """λ as it acts: times the replicas where each of them adds it and the sum is taken."""
        return self.weight_decay * (self.replicas if self.decay_rule == SUM_OVER_REPLICAS else 1)

"""What a trial process is told, and the recipe it reads from its cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

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
        """Whether an epoch's metrics reach the target; a metric that is not there does not.

        Raises:
            LookupError: no such metric, with the ones there are.
        """
        if self.metric not in metrics:
            raise LookupError(f"the target's metric {self.metric!r} is not one of {', '.join(sorted(metrics))}")
        value = metrics[self.metric]
        if self.at_least is not None and value < self.at_least:
            return False
        return self.at_most is None or value <= self.at_most


@dataclass(frozen=True)
class Job:
    """One attempt at a trial, complete: it is all that crosses into the trial's process.

    Attributes:
        cell: everything that can change the result (see `raybench.identity`).
        workload: `WorkloadInfo.to_json()`, with the source of a person's own file.
        data_root: where the data sets are.
        folder: where the attempt's events, its output and its traceback go.
        cores: the CPU cores the trial owns.
        visible: the accelerators it may see, as their driver names them.
        exclusive: whether no other trial of the grid shares its node's cores.
        timeout: seconds after which it is ended; 0: never.
        memory_limit: bytes that each of its processes may take (`raybench.trial.memory.limit`); 0: all there are.
        checkpoint_every: epochs from one checkpoint to the next (`raybench.trial.checkpoint`); 0: none are made.
        resume: how many epochs of earlier attempts are known to be over, from which it may go on; None: it begins
            afresh, whatever checkpoints there are.
        labels: what a person calls it (run name, grid, profile): carried into its first event, never used.
        versions: what the caller knows of versions (Ray's).
        python: the interpreter that it runs in; empty for the one raybench runs in.
        check: the check that is made instead of a training run (`raybench.trial.check`); empty: none.
        warnings: what its results have to be read with; told at its end.
    """

    trial: str
    attempt: int
    repeat: int
    seed: int
    cell: dict[str, Any]
    workload: dict[str, Any]
    data_root: str
    folder: str
    cores: list[int] = field(default_factory=list)
    visible: list[str] = field(default_factory=list)
    exclusive: bool = True
    timeout: float = 0.0
    memory_limit: int = 0
    target: Target | None = None
    checkpoint_every: int = 0
    resume: int | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    python: str = ""
    check: str = ""
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The job as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The job that `to_json` wrote."""
        target = value.get("target")
        return cls(**{**value, "target": Target(**target) if target else None})


@dataclass(frozen=True)
class Recipe:
    """The settings of a cell as an engine reads them; what a cell leaves out stands at its default here.

    Attributes:
        epochs: a whole number, or else the last epoch is shorter (`raybench.engines.order.total_steps`).
        decay_rule: `mean`, or `SUM_OVER_REPLICAS`.
        label_smoothing: the part of each target that is spread over all classes, in training.
        lookahead: `every`, `decay` and `power`; None where there are no slow weights.
        master_weights: whether weights are float32 whatever the precision.
        parameter_groups: each with `match`, `rate_factor`, `decay_factor` and, where it stops, `epochs`.
        test_time_augmentation: the further views of a picture in evaluation (`raybench.engines.pictures.Views`).
        steps_per_execution: steps that one call of a compiled function takes, where a framework has that.
        sections: whether the sections of every step are timed apart, which makes it slower.
        replicas: groups of the global batch with batch statistics of their own.
        replication: how they are made: `grouped` (one computation on one device), `devices` (each on a device of its
            own), `spmd` (one program that a compiler spreads over the devices); empty for one replica on one device.
        devices: how many devices the trial computes on.
    """

    epochs: float
    batch_size: int
    optimizer: Mapping[str, Any]
    weight_decay: float
    decay: str
    schedule: str | Mapping[str, Any]
    precision: str
    input: str
    compile: bool
    augmentation: tuple[Any, ...]
    steps_per_epoch: int | None
    channels_last: bool = False
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
    stop_at_target: bool = False
    decay_rule: str = "mean"
    steps_per_execution: int = 1
    sections: bool = False
    replicas: int = 1
    replication: str = ""
    devices: int = 1
    label_smoothing: float = 0.0
    lookahead: Mapping[str, Any] | None = None
    master_weights: bool = True
    parameter_groups: tuple[Mapping[str, Any], ...] = ()
    test_time_augmentation: tuple[Any, ...] = ()

    @classmethod
    def from_cell(cls, cell: Mapping[str, Any]) -> Self:
        """The recipe in a cell's settings."""
        settings = dict(cell["settings"])
        lists = ("augmentation", "parameter_groups", "test_time_augmentation")
        settings |= {name: tuple(settings[name]) for name in lists if name in settings}
        settings["stop_at_target"] = "stop_at_target" in settings
        settings.pop("model", None)  # what is trained, not how: `raybench.trial.run.workload_of`
        device = cell["device"]
        return cls(
            **settings,
            replicas=device["replicas"],
            replication=device.get("replication", ""),
            devices=device.get("devices", 1),
        )

    @property
    def acting_decay(self) -> float:
        """λ as it acts: times the replicas where each of them adds it and the sum is taken."""
        return self.weight_decay * (self.replicas if self.decay_rule == SUM_OVER_REPLICAS else 1)

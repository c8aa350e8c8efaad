"""Epoch record of an attempt, with the declaration of each measured field.

A field of `Epoch` made by `measured` is read from events, combined over ranks, and shown in tables as
declared. To add a measurement, add one field here and its value to the event (`raybench.trial.run`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from raybench.core.events import Event

if TYPE_CHECKING:
    from raybench.results.epochs import Epochs


class Combine(Enum):
    """Rule to combine several values of one field into one."""

    FIRST = "the first"
    SUM = "the sum"
    MAX = "the highest"

    def __call__(self, values: Sequence[Any]) -> Any:
        """The combined value; None if all values are None."""
        present = [value for value in values if value is not None]
        if not present or self is Combine.FIRST:
            return present[0] if present else None
        if self is Combine.MAX:
            return max(present)
        value = sum(present)
        return round(value, 9) if isinstance(value, float) else value


@dataclass(frozen=True)
class Quantity:
    """One number of an epoch, as the tables show it.

    Attributes:
        column: its column in the table of epochs.
        unit, meaning: unit of the number, empty if it has none, and a one-line description.
        key: its key, if the field is a map; `missing`: its value if the map lacks it.
        over_epochs: rule to combine a run's epochs for the table of trials; None if that table has no such column.
        total: the name of that column.
        mlflow: its metric in MLflow; empty if it has none.
        field, type: the field of `Epoch` that holds it, and its annotation.
    """

    column: str
    unit: str
    meaning: str
    key: str = ""
    missing: float | None = None
    over_epochs: Combine | None = None
    total: str = ""
    mlflow: str = ""
    field: str = ""
    type: str = ""

    @property
    def dtype(self) -> str:
        """The type of its columns, as pandas names it."""
        return {"int": "Int64", "int | None": "Int64", "bool": "boolean"}.get(self.type, "float64")

    def of(self, epochs: Epochs) -> Sequence[Any]:
        """Its value in each epoch; None if it is not known, as 0 of a count."""
        values = epochs.column(self.field, self.key, self.missing)
        return [value or None for value in values] if self.type == "int" else values


@dataclass(frozen=True)
class EpochField:
    """The declaration of a measured field.

    Attributes:
        name, type: name in the event and of the attribute, and its annotation.
        over_ranks: rule to combine the values of a trial's ranks.
        quantities: the numbers in it that tables show.
    """

    name: str
    type: str
    over_ranks: Combine
    quantities: tuple[Quantity, ...]

    @property
    def is_map(self) -> bool:
        """Return whether its value maps names to numbers."""
        return self.type.startswith("Mapping")

    def combine(self, values: Sequence[Any]) -> Any:
        """Combine the values of all ranks; for a map, per key."""
        if not self.is_map or self.over_ranks is Combine.FIRST:
            return self.over_ranks(values)
        return {name: self.over_ranks([value.get(name) for value in values]) for name in values[0]}


_NOTHING: Mapping[str, float] = MappingProxyType({})


def measured(default: Any, *quantities: Quantity, over_ranks: Combine = Combine.FIRST) -> Any:
    """Declare a measured field of `Epoch` with its value if it is not known."""
    metadata = {"declared": EpochField("", "", over_ranks, quantities)}
    if default is _NOTHING:  # a dataclass refuses it as a default
        return field(default_factory=lambda: _NOTHING, metadata=metadata)
    return field(default=default, metadata=metadata)


def _section(name: str, meaning: str, missing: float | None = 0.0, mlflow: str = "") -> Quantity:
    return Quantity(f"{name}_s", "s", meaning, name, missing, Combine.SUM, mlflow=mlflow)


UNITS = "units/"  # the beginning of the names of columns of what is counted, such as `units/tokens`


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of an attempt, read from its `epoch_ended` event.

    Attributes:
        epoch: its number, from 1.
        t: when it ended, UTC.
    """

    epoch: int
    t: str | None = None
    steps: int = measured(0, Quantity("steps", "steps", "optimizer steps; of a training function, batches"))
    examples: int = measured(
        0,
        Quantity("examples", "examples", "examples trained on", over_epochs=Combine.SUM, total="examples_done"),
        over_ranks=Combine.SUM,
    )
    ledger: Mapping[str, float] = measured(
        _NOTHING,
        _section("train", "time in training steps"),
        # Some loops do not measure it.
        _section("input_wait", "waiting for the next batch; missing if not measured", missing=None),
        _section(
            "compile", "extra time of the first step of each new shape over a steady one", mlflow="time/compile_s"
        ),
        _section("evaluate", "time in evaluation", 0.0, "time/evaluate_s"),
        _section("compile_evaluate", "compiling for evaluation"),
    )
    cpu_s: float | None = measured(
        None,
        Quantity("cpu_s", "s", "processor time of all threads of the process"),
        over_ranks=Combine.SUM,
    )
    metrics: Mapping[str, float] = measured(_NOTHING)
    """Such as `val/accuracy`; each has a column, and a metric in MLflow."""
    memory_peak_bytes: int | None = measured(
        None,
        Quantity(
            "peak_memory_bytes",
            "bytes",
            "peak memory of the device since the trial began, as the framework counts it; of the process if the device "
            "is the CPU",
            over_epochs=Combine.MAX,
            mlflow="memory/peak_bytes",
        ),
        over_ranks=Combine.MAX,
    )
    alloc_retries: int | None = measured(
        None,
        Quantity(
            "alloc_retries",
            "",
            "how often PyTorch's allocator ran out, freed what it had kept and tried again, since the trial began",
            over_epochs=Combine.MAX,
            mlflow="memory/alloc_retries",
        ),
        over_ranks=Combine.MAX,
    )
    # Graphs of torch.compile and of XLA, TensorFlow's traces; None without a compiler.
    recompiles: int | None = measured(
        None, Quantity("recompiles", "", "compilations, as the framework counts them", over_epochs=Combine.SUM)
    )
    # From the first mark in its stream to the last, with what it waited for in between and with compilation.
    device_s: Mapping[str, float] = measured(
        _NOTHING,
        Quantity("device_train_s", "s", "train_s by the device's own clock, if it has one", key="train"),
        Quantity("device_evaluate_s", "s", "evaluate_s by the device's own clock, if it has one", key="evaluate"),
    )
    settle_s: Mapping[str, float] = measured(_NOTHING)
    """Seconds that fetching a value which depends on the last training step took after `train` was closed: microseconds
    if the clock had waited for the work, the rest of the queue if it had not. Evaluation has none, because its sums are
    fetched inside its section."""
    step_s: Sequence[float] = measured(())
    """Mean seconds of a step (forward, backward and update, and its batch if the device makes it) in each of at most 64
    consecutive blocks of steps of equal length, the last of which may be shorter, without the first step of a new
    shape; empty if single steps are not timed."""
    partial: bool = measured(False, Quantity("partial", "", "whether the trial's budget ended it early"))
    optimizer_steps: int = measured(0)
    """Of a training function: steps of its optimizer, fewer than batches if gradients are accumulated; of several
    optimizers, those of the one that took most."""
    epochs_in_read: int | None = measured(None)
    """Of a command: the epochs whose lines arrived together, if several; their times are not known singly."""
    units: Mapping[str, float] = measured(_NOTHING, over_ranks=Combine.SUM)
    """Of a training function: what it counts, such as tokens."""
    optimizers: tuple[Mapping[str, Any], ...] = measured(())
    """Of a training function: `class`, `lr` and `weight_decay` of each optimizer and parameter group in its first step
    of the epoch."""

    @property
    def counts(self) -> Mapping[str, float]:
        """What it counted, by unit: `examples` if they are known, and units such as `tokens`."""
        return {"examples": self.examples, **self.units} if self.examples else self.units


def _declared(entry: Field[Any]) -> EpochField:
    declared: EpochField = entry.metadata["declared"]
    name, kind = entry.name, str(entry.type)
    quantities = tuple(replace(q, total=q.total or q.column, field=name, type=kind) for q in declared.quantities)
    return replace(declared, name=name, type=kind, quantities=quantities)


EPOCH_FIELDS = tuple(_declared(entry) for entry in fields(Epoch) if "declared" in entry.metadata)
"""Every measured field of an epoch."""

QUANTITIES = tuple(quantity for entry in EPOCH_FIELDS for quantity in entry.quantities)
"""Every number of an epoch that tables show, except metrics and values derived from these numbers."""


def is_steady(number: int, warmup: int, gaps: Collection[int] = (), epochs: float = 0) -> bool:
    """Return whether an epoch (from 1) is a full one after the warm-up.

    Args:
        warmup: epochs that steady times leave out.
        gaps: epochs after which another process went on: it warms up too, in one epoch or more.
        epochs: those of the run; if it is not a whole number, the last one is shorter. 0 if it is not known.
    """
    is_cold = number <= warmup or (bool(gaps) and any(gap < number <= gap + max(1, warmup) for gap in gaps))
    return not is_cold and not (epochs % 1 and number > epochs)


def over_ranks(events: Sequence[Event]) -> Event:
    """Combine the events of all ranks into one: rank 0's, with the measured fields and the warnings of all ranks."""
    combined = {
        entry.name: entry.combine([event[entry.name] for event in events if entry.name in event])
        for entry in EPOCH_FIELDS
        if entry.name in events[0] and entry.over_ranks is not Combine.FIRST
    }
    if "warnings" in events[0]:
        combined["warnings"] = list(dict.fromkeys(text for event in events for text in event["warnings"]))
    return events[0] | combined

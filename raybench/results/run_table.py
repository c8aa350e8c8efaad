"""One table of runs: a row for each attempt at a trial, from its file or from a log of others.

    attempt files  ─► attempt_file ─┐            ┌─► analysis ─► reporting
    logs of others ─► sources      ─┴─► Run ─────┼─► tables of pandas
                                                 └─► MLflow

A `Run` has in its fields what was recorded, and in its columns what follows from that. A column is a function of the
run alone, declared once, with type, unit and meaning. From the declaration come the column of `raybench.load` and its
description, its metric in MLflow (`mlflow`) and, with a heading (`head`), a column of the report: in text, page, JSON
and `comparison`. So a new measurement is one line here, and the time of training, the price of a duration or the
epochs that count have one definition.

What follows from several runs, such as a finding or an interval, is not in this table; analysis adds it. What is not
known is None. A reader of logs makes a run from values by the names of columns
(`raybench.sources.runs`).

Times are sums over sections of ledgers, which have a resolution of a microsecond; they are rounded to the nanosecond,
so that they have no noise of floating point. Rules over epochs also count the epochs of a run that did not finish.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from statistics import fmean, median
from typing import Any

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.job import Target
from raybench.core.ledger import STEADY, TRAINING
from raybench.core.settings import MISSING, PARAM, Setting
from raybench.core.settings import TRAINING as SETTINGS
from raybench.core.status import TrialStatus
from raybench.results import columns as c
from raybench.results.columns import NUMBER, TEXT, TIME, WHOLE, YES_NO, Column, number, stored, text
from raybench.results.epoch import QUANTITIES, UNITS, Combine, Epoch, Quantity, is_steady
from raybench.results.epochs import Epochs
from raybench.results.output_clock import OF_TRAINING, OutputClock
from raybench.results.parsing import mapping_in, number_in
from raybench.results.utilization import Roofline, Utilization, roofline_of, utilization_of, waiting_share

Key = tuple[str, int]  # key of a run: its trial's id and the number of the attempt, from 1
DIGITS = 9  # decimals of a time
GIB = 2**30
MODEL = "model"  # the setting with a column per option: the names and types of options depend on the workload

DEVICE, HOST = "device_j", "host_j"
"""Joules in the summary of a run's counters (`raybench.monitoring.energy_summary`): of the device, and of its host."""


ACCURACY = "val/accuracy"

SHORT_EPOCH_S = 0.05  # least seconds of an epoch that the arrival of a program's output can time
DISTINCT = 3  # fewest different numbers that are the same in two runs by no coincidence
OF_A_TABLE = "table"  # the clock of runs that a table gives as a whole


def price_of(seconds: float | None, per_hour: float | None) -> float | None:
    """Return the price of a duration; None if either is not known."""
    return None if per_hour is None or seconds is None else per_hour * seconds / 3600


def seconds_in(epochs: Epochs, sections: Iterable[str]) -> list[float]:
    """Return the seconds of each epoch in some sections together."""
    columns = (epochs.column("ledger", name, 0.0) for name in sections)
    return [round(sum(parts), DIGITS) for parts in zip(*columns, strict=True)]


def training_s(epochs: Epochs) -> float | None:
    """Return the seconds of training of epochs together: compile + train + input_wait; None without epochs."""
    return round(sum(seconds_in(epochs, TRAINING)), DIGITS) if epochs else None


def joules_in(stretch: Any, part: str = DEVICE) -> float | None:
    """Return the joules in a summary of counters; None if they were not measured, never 0."""
    joules = number_in(mapping_in(stretch).get(part))
    return joules if joules is not None and joules > 0 else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value that a share of them does not exceed; None without any."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if len(values) else None


def _of_cell(name: str, dtype: str, unit: str, meaning: str, leaf: str) -> Column[Any]:
    return Column(dtype, unit, meaning, lambda run: cell_row(run.cell)[name], name=name, leaf=leaf)


def _of_setting(setting: Setting) -> Column[Any]:
    """The column of a setting; a value that is not a number, a name or a boolean is JSON."""
    kinds = [{bool: YES_NO, int: WHOLE, float: NUMBER}.get(type_, TEXT) for type_ in setting.types]
    kind = next((kind for kind in (NUMBER, TEXT) if kind in kinds), kinds[0])
    return _of_cell(setting.name, kind, setting.unit, setting.description, ".".join(("settings", *setting.path)))


def _total(quantity: Quantity, combine: Combine) -> Column[Any]:
    """The column that combines all epochs of a run."""
    meaning = quantity.meaning + (": the highest of its epochs" if combine is Combine.MAX else ", over all its epochs")

    def of(run: Run) -> Any:
        return combine(quantity.of(run.epochs)) if run.epochs else None

    return Column(quantity.dtype, quantity.unit, meaning, of, name=quantity.total)


def _last(unit: str, meaning: str, metric: str) -> Column[float | None]:
    """The last value of a metric; that of a run that diverged is not that of a trained model."""
    return number(unit, meaning, lambda run: None if run.is_diverged else run.last_metrics.get(metric))


def _joules(meaning: str, stretch: str, part: str = DEVICE, **declared: Any) -> Column[float | None]:
    """The joules of a stretch of a run; of the steady one per epoch, if it was long enough to be measured."""

    def of(run: Run) -> float | None:
        summary = mapping_in(run.energy.get(stretch))
        joules = joules_in(summary, part)
        if stretch != "steady":
            return joules
        count = number_in(summary.get("count"))
        return round(joules / count, DIGITS) if joules is not None and count else None

    return number("J", meaning, of, **declared)


def _quotient(value: float | None, divisor: float | None) -> float | None:
    return value / divisor if value is not None and divisor else None


def _rounded(reduce: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    return round(reduce(values), DIGITS) if values else None


@dataclass(kw_only=True)
class Run:
    """One attempt at a trial, as recorded, with the columns that follow from it.

    A field that was not recorded keeps its empty value: a run whose start was lost still has its epochs.

    Attributes:
        name: of its trial in its source, if that is not its id.
        cell: everything that can change the result; falsy if it is not known.
        run: a UUID, the name of its file; None if it is from a different source.
        request_id: the digest of its cell's request, the same on machines on which the cells differ.
        origin: the id of the results folder that it was run for.
        execution: the name of the execution that ran it; None if it is not known.
        machine: `cores`: number of the node's cores for trials; this trial may have used only some of them.
        target: the target metric value, if one was set.
        decay_check: result of the weight-decay check (`raybench.checks.weight_decay`); empty if there was none.
        roofline: measured peaks of its device and cost of its model (`raybench.checks.roofline`); empty if there was no
            measurement.
        all_reduce: the network's rate between its nodes (`raybench.checks.all_reduce`); empty without several nodes.
        clock: what timed its epochs: `trial`, `table` (whose row is a whole run), or of a command also `output`,
            `program` or `run` (`raybench.workloads.command.Command`); empty if it is not known.
        command: the command as it was started, `matched`: the first line that each of its patterns matched, and
            `unmatched`: a message for each that matched none.
        output_clock: the lines that count a command's work (`raybench.results.output_clock`); None without a command.
        holds_evaluation: whether the time of its epochs includes evaluations.
        first_metric_s: seconds from the start of a command to its first line with a metric.
        ledger: seconds in each section, over the whole process.
        hardware: `memory_bytes` of its device, and `driver` if it has one.
        audit: summary of the run conditions (`raybench.monitoring`); None if they were not monitored.
        gaps: the epochs after which another process resumed training from a checkpoint.
        epochs: in order.
        communication: the share of a step's time in which ranks exchange gradients; None if it is not known.
        error: type, message and, if there is one, traceback; for a skipped trial the message is the reason.
    """

    name: str | None = None
    cell: Cell = UNKNOWN_CELL
    run: str | None = None
    request_id: str | None = None
    origin: str | None = None
    execution: str | None = None
    profile: str | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    decay_check: Mapping[str, Any] = field(default_factory=dict)
    roofline: Mapping[str, Any] = field(default_factory=dict)
    all_reduce: Mapping[str, Any] = field(default_factory=dict)
    clock: str = ""
    output_clock: OutputClock | None = None
    holds_evaluation: bool = False
    first_metric_s: float | None = None
    command: str = ""
    matched: Mapping[str, Any] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)
    host: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    runtime_conditions: Mapping[str, Any] = field(default_factory=dict)
    audit: Mapping[str, Any] | None = None
    ledger: Mapping[str, float] = field(default_factory=dict)
    communication: float | None = None
    warnings: list[str] = field(default_factory=list)
    error: Mapping[str, Any] | None = None
    gaps: tuple[int, ...] = ()
    epochs: Epochs = field(default_factory=Epochs, repr=False)

    # Which run it is

    grid: str | None = stored(TEXT, "the grid's name; for other sources, the name of the source")
    trial: str = stored(TEXT, "id of the trial: its configuration and its repeat", "")

    @cached_property
    def cell_id(self) -> str:
        """The identity of its cell, taken from the trial's id."""
        return self.trial.rpartition("-r")[0] or self.trial

    @cached_property
    def repeat(self) -> int:
        """The repeat (from 0), taken from the trial's id."""
        digits = self.trial.rpartition("-r")[2]
        return int(digits) if digits.isdecimal() else 0

    _identity = (
        text("id of its configuration, the same for all repeats", "cell_id", name="cell"),
        c.whole("", "the number of the repeat, from 1", lambda run: run.repeat + 1, name="repeat"),
    )
    attempt: int = stored(WHOLE, "the number of the attempt, from 1", 1)
    status: str | None = stored(TEXT, "how it ended, such as completed, oom, diverged; missing while it runs")
    current: bool | None = stored(YES_NO, "whether the last command ran its configuration, with the code of that time")
    label: str | None = stored(TEXT, "a short name")
    runs = c.whole("runs", "number of runs in the row: 1, or more for published means and counts", lambda run: 1)
    started: str | None = stored(TIME, "start of its process", unit="UTC")
    ended: str | None = stored(TIME, "end of its process", unit="UTC")
    host_name = text("the name of its machine", "host.name", name="host")
    device = text(
        "the device's name in the grid: the axis `device`", lambda run: run.profile or run.cell.device.kind or None
    )
    seed: int | None = stored(WHOLE, "the seed of this trial")
    order: int | None = stored(WHOLE, "the place of its version in a chain, as a CSV says it")
    of_cell = (
        _of_cell("workload", TEXT, "", "the workload's name", "workload.name"),
        _of_cell("workload_version", TEXT, "", "the version of a shipped workload", "workload.version"),
        _of_cell("data", TEXT, "", "the data set", "data.name"),
        _of_cell("data_digest", TEXT, "", "the digest of its content", "data.digest"),
        _of_cell("train_examples", WHOLE, "examples", "number of training examples", "data.examples.train"),
        _of_cell("val_examples", WHOLE, "examples", "number of validation examples", "data.examples.val"),
        _of_cell("framework", TEXT, "", "torch, torch_xla, tensorflow, or a different one in a CSV", "framework"),
        _of_cell("framework_version", TEXT, "", "its major and minor version", "engine.framework_version"),
        _of_cell("environment", TEXT, "", "its Python environment, if it is not raybench's own", "engine.environment"),
        _of_cell("device_kind", TEXT, "", "its kind, such as cpu or cuda", "device.kind"),
        _of_cell("device_model", TEXT, "", "the hardware's own model name", "device.model"),
        _of_cell("device_count", WHOLE, "", "number of accelerators, or of cores of a CPU", "device.count"),
        _of_cell("replicas", WHOLE, "", "parts of each batch with separate batch-norm statistics", "device.replicas"),
        _of_cell("devices", WHOLE, "", "devices that share each batch, if there are several", "device.devices"),
        _of_cell("nodes", WHOLE, "", "nodes of its devices, if there are several", "device.nodes"),
        _of_cell("threads", WHOLE, "threads", "CPU threads of the framework", "device.threads"),
        _of_cell("power_limit", WHOLE, "W", "power limit of each GPU, if the grid set it", "device.power_limit"),
        *(_of_setting(setting) for name, setting in SETTINGS.items() if name != MODEL),
        _of_cell(
            "budget_s", NUMBER, "s", "the training time that its budget of time or price allows", "budget.seconds"
        ),
        _of_cell("budget_j", NUMBER, "J", "the energy that its budget allows", "budget.joules"),
        _of_cell("warmup_epochs", WHOLE, "epochs", "first epochs that do not count as steady", "warmup_epochs"),
        _of_cell(
            "version",
            TEXT,
            "",
            "of the code: base or new in `raybench compare --interleave`, or as a CSV says it",
            "compared.version",
        ),
    )

    # Seconds in the sections of its process

    of_sections = tuple(_total(q, q.over_epochs) for q in QUANTITIES if q.over_epochs and q.key)
    setup_s = number("s", "from the start of its process to its data", "ledger.setup")
    startup_s = number(
        "s",
        "of a command: from its start to that of its training",
        lambda run: run.ledger.get("startup") or None,  # none is known of a whole run
        head="start-up, s",
        drop=7,
    )
    data_s = number("s", "loading and preparing the data", "ledger.data")
    build_s = number("s", "building the model and the optimizer", "ledger.build")
    other_s = number("s", "all other time of its process", "ledger.other")
    wall: float | None = stored(NUMBER, "from the start of its process to its end", unit="s", name="wall_s")
    template_import: float | None = stored(
        NUMBER, "loading the framework, before its process began", unit="s", name="template_import_s"
    )

    # Which of its epochs count

    @property
    def warmup_epochs(self) -> int:
        """Number of epochs at the beginning that do not count as steady."""
        return 1 if self.cell.warmup_epochs is MISSING else self.cell.warmup_epochs

    @property
    def are_passes(self) -> bool:
        """Whether a command's epochs are passes over its data, as it calls them epochs; not iterations."""
        is_named = "epoch" in f"{self.matched.get('epoch')} {self.matched.get('begin')}".lower()
        return is_named or bool(self.output_clock and self.output_clock.are_passes)

    @cached_property
    def ends_partial(self) -> bool:
        """Whether its budget ended its last epoch."""
        return any(self.epochs.column("partial")[-1:])

    @cached_property
    def full_epochs(self) -> Epochs:
        """Its epochs without a shorter last one: of a fractional number of epochs, or at the end of its budget."""
        epochs = self.cell.settings.epochs
        is_shorter = epochs and epochs % 1 and max(self.epochs.column("epoch"), default=0) > epochs
        return self.epochs[:-1] if is_shorter or self.ends_partial else self.epochs

    @cached_property
    def steady(self) -> Epochs:
        """Its full epochs after the warm-up, and after a new warm-up if another process resumed."""
        warmup, gaps, full = self.warmup_epochs, self.gaps, self.full_epochs
        numbers = full.column("epoch")
        if not gaps:
            return full[bisect_right(numbers, warmup) :]
        return full.at(place for place, number in enumerate(numbers) if is_steady(number, warmup, gaps))

    @cached_property
    def timed(self) -> Epochs:
        """The steady epochs or, without any, the last full one or the only one; a part that a budget ended is none."""
        return self.steady or self.full_epochs[-1:] or self.epochs[: 0 if self.ends_partial else 1]

    @cached_property
    def timed_s(self) -> Sequence[float]:
        """Train + input_wait of each of these epochs."""
        return _shared(self.timed, seconds_in(self.timed, STEADY))

    @cached_property
    def paced(self) -> tuple[Epochs, Sequence[float]]:
        """The steady epochs for a rate, a budget's partial epoch joined to the last one, and the seconds of each."""
        partial = self._partial_epoch
        steady = self.steady if partial else self.timed or self.epochs[-1:]
        if partial is None:
            return steady, self.timed_s or seconds_in(steady, STEADY)
        last = steady[-1] if steady else None
        if not last or last.counts.keys() - partial.counts.keys():
            return self.epochs[-1:], seconds_in(self.epochs[-1:], STEADY)
        sums: dict[str, Any] = {}
        for name in ("units", "ledger", "device_s"):
            sums[name] = _added(getattr(last, name), getattr(partial, name))
        steps, examples = last.steps + partial.steps, last.examples + partial.examples
        epochs = Epochs([*steady, replace(last, steps=steps, examples=examples, **sums)])
        return epochs, seconds_in(epochs, STEADY)

    @property
    def _partial_epoch(self) -> Epoch | None:
        """The epoch after the warm-up that its budget ended, if its work was counted."""
        last = self.epochs[-1] if self.ends_partial else None
        return last if last and last.counts and is_steady(last.epoch, self.warmup_epochs, self.gaps) else None

    @property
    def is_whole(self) -> bool:
        """Whether its only epoch is the whole run, of which no part was timed."""
        return self.clock in ("run", OF_A_TABLE)

    @property
    def length(self) -> int:
        """The number of its epochs; of a whole run of a table that of its only one."""
        return max(self.epochs.column("epoch"), default=0) if self.is_whole else len(self.epochs)

    @property
    def is_part(self) -> bool:
        """Whether a table gives the time of a part of it alone, such as a step."""
        return self.clock == OF_A_TABLE and self.output_clock not in (None, OF_TRAINING)

    @property
    def is_timed_by_warmup(self) -> bool:
        """Whether its times are of a warm-up epoch because there is no other."""
        return bool(self.epochs) and not self.steady and not self._partial_epoch and not self.is_whole

    @property
    def is_too_short(self) -> bool:
        """Whether the epochs of a command are too short for when lines of its output arrive."""
        return self.clock in ("output", "run") and self.steady_s is not None and self.steady_s < SHORT_EPOCH_S

    @cached_property
    def span(self) -> tuple[float | None, float | None]:
        """Its start and its end in seconds since 1970; None if not known."""
        return moment(self.started), moment(self.ended)

    # Its times

    steady_s = number(
        "s",
        "the headline: the median of train + input_wait over the epochs after the warm-up, a time for one epoch",
        lambda run: _rounded(median, run.timed_s),
        mlflow="summary/steady_epoch_s",
    )
    mean_steady_s = number("s", "the same with the mean", lambda run: _rounded(fmean, run.timed_s))
    first_s = number(
        "s",
        "the first, cold epoch: its compile + train + input_wait",
        lambda run: training_s(run.epochs[:1]) if 1 in run.epochs.column("epoch") else None,
    )
    epochs_s = number(
        "s",
        "training alone: compile + train + input_wait of every epoch",
        lambda run: None if run.is_part else training_s(run.epochs),
    )
    total_s = number(
        "s",
        "everything: loading the framework, and the process from its start to its end",
        lambda run: None if run.wall is None else round((run.template_import or 0.0) + run.wall, DIGITS),
        mlflow="summary/total_s",
    )
    steady_cpu_s = number(
        "s",
        "processor time of a steady epoch, the mean: a cross-check",
        lambda run: None if None in (cpu_s := run.timed.column("cpu_s")) else _rounded(fmean, cpu_s),
    )

    # Its rates

    @cached_property
    def counted(self) -> list[str]:
        """What all epochs of its rates count, such as examples and tokens."""
        epochs, _ = self.paced
        return [unit for unit in epochs.counted if epochs and min(epochs.counts(unit)) > 0]

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """Units per second by unit: the inverse of the median seconds per unit; without a unit that an epoch lacks."""
        (epochs, seconds), rates = self.paced, {}
        for unit in epochs.counted:
            paces = [own_s / count for own_s, count in zip(seconds, epochs.counts(unit), strict=True) if count]
            if paces and len(paces) == len(seconds) and (pace := median(paces)) > 0:
                rates[unit] = 1 / pace
        return rates

    @cached_property
    def steps_s(self) -> Sequence[float]:
        """The times of its steps in these epochs, in parts of an epoch; empty if steps were not timed."""
        return list(chain.from_iterable(self.paced[0].column("step_s")))

    examples_per_s = number(
        "examples/s",
        "examples per second of training; of a trial, in steady epochs; a unit such as tokens has `tokens_per_s`",
        "rates.examples",
    )
    steps_per_s = number(
        "steps/s",
        "steps per second of training, without compilation",
        lambda run: sum(run.paced[0].column("steps")) / spent or None if (spent := sum(run.paced[1])) > 0 else None,
    )
    step_median_s = number(
        "s",
        "median time of a step, over at most 64 parts of an epoch; if steps are timed",
        lambda run: quantile(run.steps_s, 0.5),
    )
    step_p95_s = number("s", "time that 95% of these do not exceed", lambda run: quantile(run.steps_s, 0.95))
    epochs_done = c.whole(
        "epochs", "number of completed epochs", lambda run: len(run.epochs) - sum(run.epochs.column("partial"))
    )

    @property
    def peak_bytes(self) -> int | None:
        """Its peak memory: that of the device, or of the process on a CPU."""
        return max((peak for peak in self.epochs.column("memory_peak_bytes") if peak), default=None)

    of_epochs = tuple(_total(q, q.over_epochs) for q in QUANTITIES if q.over_epochs and not q.key)

    memory_bytes = number("bytes", "memory of a device, or the `memory_limit`", "hardware.memory_bytes")
    memory_gib = number(
        "GiB",
        "peak memory of the device that held most",
        lambda run: (run.peak_bytes or 0) / GIB or None,
        head="memory",
    )
    memory_used = number(
        "fraction",
        "the same, relative to what the device has",
        lambda run: _quotient(run.peak_bytes, number_in(run.hardware.get("memory_bytes"))),
        mlflow="summary/memory_used",
        head="memory used",
    )

    # Its quality

    @cached_property
    def last_metrics(self) -> Mapping[str, float]:
        """The metrics after training: the last value of each, because an evaluation may not follow every epoch."""
        columns = {name: self.epochs.column("metrics", name) for name in self.epochs.names("metrics")}
        return {name: next(last for last in reversed(column) if last is not None) for name, column in columns.items()}

    @cached_property
    def distinct_metrics(self) -> Mapping[str, Any]:
        """The metrics of all epochs, without speeds; empty if they are too few to be the same by no coincidence."""
        names = (name for name in self.epochs.names("metrics") if not name.startswith("speed/"))
        metrics = {name: self.epochs.column("metrics", name) for name in names}
        return metrics if len({*chain(*metrics.values())} - {None}) >= DISTINCT else {}

    @property
    def accuracies(self) -> Sequence[float]:
        """The accuracy after each epoch, NaN without one; empty if it diverged."""
        return () if self.is_diverged else self.epochs.column("metrics", ACCURACY, math.nan)

    @property
    def is_diverged(self) -> bool:
        """Whether its training diverged, so that its metrics are not those of a trained model."""
        return self.status == TrialStatus.DIVERGED

    @property
    def stops(self) -> bool:
        """Whether it stops at its target, which its last accuracy then only confirms."""
        return bool(self.cell.stop_at_target)

    def whole(self) -> Run:
        """Return the same run with one epoch: of its whole time, if that is known, or of its training."""
        if not self.epochs:
            return self
        columns: dict[str, Sequence[Any]] = {name: [value] for name, value in self.last_metrics.items()}
        columns |= {f"{UNITS}{unit}": [sum(self.epochs.counts(unit))] for unit in self.epochs.names("units")}
        columns |= {
            "epoch": [1],
            "train_s": [self.total_s or self.epochs_s],
            "examples": [sum(self.epochs.column("examples")) or None],
        }
        return self.changed(epochs=Epochs.of_columns(columns), clock=OF_A_TABLE, output_clock=None, gaps=())

    def epochs_to(self, target: Target | None) -> Epochs:
        """Return the epochs up to the first one that reaches a target; empty if none does."""
        for place, value in enumerate(self.epochs.column("metrics", target.metric) if target else (), 1):
            if value is not None and target and target.is_reached_by(value):
                return self.epochs[:place]
        return Epochs()

    best_val_accuracy = number(
        "fraction",
        "the highest accuracy of its epochs; missing if it diverged",
        lambda run: max((value for value in run.accuracies if math.isfinite(value)), default=None),
        mlflow="summary/best_val_accuracy",
    )
    last_val_accuracy = _last("fraction", "the last validation accuracy; missing if it diverged", ACCURACY)
    last_val_loss = _last("", "the last validation loss", "val/loss")
    last_train_accuracy = _last("fraction", "the last training accuracy", "train/accuracy")
    last_train_loss = _last("", "the last training loss", "train/loss")
    target_metric = text("the metric of the target; missing without a target", "target.metric")
    target_at_least = number("", "the target is reached at this value or more", "target.at_least")
    target_at_most = number("", "the target is reached at this value or less", "target.at_most")
    metric: str | None = stored(TEXT, "the metric of quality, as a CSV says it")
    lower_is_better: str | None = stored(TEXT, "metrics of which less is better, with spaces between, as a CSV says it")
    higher_is_better: str | None = stored(TEXT, "metrics of which more is better")
    target_reached = c.flag(
        "whether an epoch reached it; missing without a target",
        lambda run: bool(run.epochs_to(run.target)) if run.target else None,
    )
    time_to_target_s = number(
        "s",
        "training time until the target, without evaluation; missing if it was not reached",
        lambda run: training_s(run.epochs_to(run.target)),
        mlflow="summary/time_to_target_s",
    )
    epochs_to_target = c.whole(
        "epochs", "epochs until the target", lambda run: max(run.epochs_to(run.target).column("epoch"), default=None)
    )

    # How it uses its device

    waiting = cached_property[float | None](waiting_share)
    utilization = cached_property[Utilization | None](utilization_of)
    limit = cached_property[Roofline | None](roofline_of)
    bottleneck = text(
        "the bottleneck: compute, memory, input, communication or overhead; missing without evidence",
        "limit.bottleneck",
    )
    flop_rate = number("FLOP/s", "FLOPs of the model per second of steady epochs", "utilization.flops_per_s")
    mfu = number("fraction", "flop_rate over the measured peak of its devices", "utilization.mfu", mlflow="summary/mfu")
    datasheet_mfu = number(
        "fraction", "the same over the peak of the vendor's data sheet, if it is known", "utilization.datasheet_mfu"
    )
    memory_share = number("fraction", "memory traffic, relative to the probe on its device", "limit.memory")
    all_reduce_gb_per_s = number(
        "GB/s",
        "rate of a sum of 64 MiB over its nodes before training",
        "all_reduce.gb_per_s",
        head="network GB/s",
        drop=10,
    )
    input_share = number("fraction", "fraction of the steady time that it waited for input", "limit.input")

    # What it costs, and what went wrong

    @cached_property
    def energy(self) -> Mapping[str, Any]:
        """The summary of its energy counters; empty without one.

        Unlike times, the energy of an epoch includes its evaluation, because counters are read outside of the trial.
        """
        return mapping_in((self.audit or {}).get("energy"))

    @cached_property
    def unmetered(self) -> list[str]:
        """The reasons why some energy was not measurable; empty if it was not monitored."""
        reasons = self.energy.get("missing")
        return [text for text in reasons if isinstance(text, str)] if isinstance(reasons, list) else []

    findings: str | None = stored(TEXT, "codes of its cautions and notes, separated by commas")
    decay_result = text("result of the weight-decay check", "decay_check.says", name="decay_check")
    decay_factor = number("", "the effective decay as a multiple of the declared one", "decay_check.factor")
    price_per_hour: float | None = stored(NUMBER, "price of its device, in the currency of its grid", unit="currency/h")
    total_price = number("currency", "price of the whole run", lambda run: price_of(run.total_s, run.price_per_hour))
    energy_j = _joules("energy of the device in all its epochs, with evaluation; missing if not measured", "epochs")
    steady_energy_j = _joules(
        "energy of the device in a steady epoch, with its evaluation", "steady", mlflow="summary/steady_energy_j"
    )
    example_energy_j = number(
        "J",
        "the same per training example",
        lambda run: _quotient(run.steady_energy_j, sum(run.timed.column("examples")[-1:])),
    )
    target_energy_j = _joules("energy of the device until the target; missing if it was not reached", "target")
    host_energy_j = _joules(
        "energy of an accelerator's host, its sockets and memory, in all its epochs", "epochs", HOST
    )
    steady_host_energy_j = _joules("the same in a steady epoch", "steady", HOST)
    energy_missing = text("why energy was not measurable", lambda run: "; ".join(run.unmetered) or None)
    error_text = text(
        "type and message of its error, or the reason why it was skipped",
        lambda run: (
            ": ".join(str(part) for name in ("type", "message") if (part := (run.error or {}).get(name))) or None
        ),
        name="error",
    )
    error_where = text("file and line of its error, in the user's own code if it was raised there", "error.where")
    warning_text = text(
        "warnings about its results, one per line", lambda run: "\n".join(run.warnings), name="warnings"
    )

    def forget(self) -> None:
        """Forget what was computed, before a field changes."""
        for name in vars(self).keys() - FIELDS:
            delattr(self, name)

    def changed(self, **values: Any) -> Run:
        """Return a copy with these values of fields; `dataclasses.replace` takes five times as long."""
        run = object.__new__(Run)
        vars(run).update({name: value for name, value in vars(self).items() if name in FIELDS}, **values)
        return run

    # Where it ran, and whether it counts

    @property
    def key(self) -> Key:
        """Trial id and attempt number."""
        return self.trial, self.attempt

    @property
    def machine_name(self) -> str:
        """The name and the id of its machine; two machines may have the same name."""
        return " ".join(str(self.host[name]) for name in ("name", "machine_id") if self.host.get(name))

    @property
    def precedence(self) -> tuple[bool, int]:
        """Sort key of the attempts at a trial, of which the highest one counts: the last one that ended by itself."""
        status = TrialStatus.parse(self.status)
        return self.status is not None and not (status and status.is_rerun), self.attempt


FIELDS = frozenset(entry.name for entry in fields(Run))
TRIALS = c.columns_of(Run)
"""Columns of the table of trials. Other values of a cell have columns by their dotted names, with text as JSON."""


REPORTED = tuple(column for column in TRIALS if column.head)
"""Those that the table of configurations of a report has, too: their medians over runs."""

CELL = {column.name: column for column in Run.of_cell}  # columns of a cell, by name

_LEAVES = {column.leaf for column in Run.of_cell} | {"engine.name", "seed"}
_OF_A_SETTING = ("stop_at_target.", *(f"settings.{name}." for name in SETTINGS if name not in (MODEL, "optimizer")))
"""Prefixes of a cell's fields that are in the columns of their parents."""


def cell_row(cell: Cell) -> dict[str, Any]:
    """Return the columns of a cell, with its other fields by their dotted names."""
    leaves, settings = cell.leaves, cell.settings.to_json()
    row: dict[str, Any] = {}
    for name, declared in CELL.items():
        value = settings[name] if isinstance(settings.get(name), Mapping) else leaves.get(declared.leaf)
        is_plain = isinstance(value, (str, int, float)) and not (isinstance(value, bool) and declared.dtype == TEXT)
        row[name] = value if is_plain or value is None else as_json(value)
    for leaf, value in leaves.items():
        if leaf not in _LEAVES and not leaf.startswith(_OF_A_SETTING):
            is_plain = isinstance(value, str) or (leaf.startswith(PARAM) and type(value) in (int, float))
            row[leaf] = value if is_plain or value is None else as_json(value)
    return row


def as_json(value: Any) -> str:
    """Return a value as JSON, with sorted keys and readable spacing."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def latest(runs: Iterable[Run]) -> dict[str, Run]:
    """Return the run that counts for each trial: the last one that ended by itself, else the last of all.

    So a second attempt that was killed or lost does not hide a result.
    """
    by_trial: dict[str, Run] = {}
    for run in runs:
        if run.trial not in by_trial or run.precedence > by_trial[run.trial].precedence:
            by_trial[run.trial] = run
    return by_trial


def _shared(epochs: Epochs, seconds: list[float]) -> list[float]:
    """Give epochs of a command whose lines arrived together equal parts of their time, which the first has alone."""
    separate = [place for place, together in enumerate(epochs.column("epochs_in_read")) if not together]
    if len(separate) in (0, len(epochs)):
        return seconds
    parts = [fmean(seconds[place:end]) for place, end in pairwise([*separate, len(epochs)]) for _ in range(place, end)]
    return [median(parts)] * separate[0] + parts  # those before came together with an epoch of the warm-up


@lru_cache(2**16)
def moment(text: str | None) -> float | None:
    """Return a time in seconds since 1970; None if it is not known."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except (ValueError, OverflowError):
        return None


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {**first, **second}}

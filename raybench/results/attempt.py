"""An attempt at a trial, built from the events in its file."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.events import Event
from raybench.core.job import Target
from raybench.core.settings import MISSING
from raybench.core.status import TrialStatus
from raybench.results.epoch import Epoch, Kind, is_steady
from raybench.results.epoch_decoding import epoch_of, epoch_of_line, valid
from raybench.results.epochs import Epochs
from raybench.results.folder import DAMAGED, event_of, lines_of
from raybench.results.output_clock import OutputClock
from raybench.results.parsing import (
    cell_in,
    error_in,
    flat_in,
    mapping_in,
    shared_values_in,
    target_in,
    text_in,
    time_in,
    valid_values_in,
    whole_in,
)

Key = tuple[str, int]
"""Key of an attempt: its trial's id and its number, from 1."""

_NAME = re.compile(r"\w[\w.-]{0,99}")
"""Valid names of trials, which are names of folders."""

SHARED = ("cell", "machine", "decay_check", "roofline", "versions", "hardware", "runtime_conditions")
"""Maps of a start that many attempts have; its event may have their JSON instead."""

_STARTED, _EPOCH_ENDED = (b'{"v":1,"event":"%b",' % kind for kind in (b"trial_started", b"epoch_ended"))
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OF_AN_ATTEMPT = ("trial_started", "trial_resumed", "epoch_ended", "trial_audited", "trial_ended")
_ENVELOPE = frozenset({"v", "event", "t", "trial", "attempt"})


P = ParamSpec("P")
R = TypeVar("R")


def kept(compute: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of an attempt: it computes once until the next event, because a report asks a dozen times."""

    @wraps(compute)
    def once(*arguments: P.args, **named: P.kwargs) -> R:
        attempt: Any = arguments[0]
        results: dict[Any, R] = attempt.computed
        key = (compute, *arguments[1:])
        if key not in results:
            results[key] = compute(*arguments, **named)
        return results[key]

    return once


@dataclass(slots=True)
class Attempt:
    """One attempt at a trial, as recorded in its events.

    A field that occurs in no event keeps its empty value: an attempt whose start was lost still has its epochs.

    Attributes:
        attempt: its number among the attempts at the trial, from 1.
        cell: everything that can change the result; falsy if it is not known.
        run: a UUID, the name of its file; None if it is from a different source.
        request_id: the digest of its cell's request, the same on machines on which the cells differ.
        origin: the id of the results folder that it was run for.
        label: display name.
        grid: the grid for which it ran.
        profile: the device profile's name.
        machine: `cores`: number of the node's cores for trials; this trial may have used only some of them.
        target: the target metric value, if one was set.
        decay_check: result of the weight-decay check (`raybench.checks.weight_decay`); empty if there was
            none.
        roofline: measured peaks of its device and cost of its model (`raybench.checks.roofline`); empty if
            there was no measurement.
        clock: what timed its epochs: `trial`, or of a command also `output`, `program` or `run`
            (`raybench.workloads.command.Command`); empty if it is not known.
        command: the command as it was started, `matched`: the first line that each of its patterns matched, and
            `unmatched`: a message for each that matched none.
        output_clock: the lines that count a command's work (`raybench.results.output_clock`); None without a command.
        holds_evaluation: whether the time of its epochs includes evaluations.
        first_output_s: seconds from the start of a command to its first line.
        started, ended: times in UTC.
        status: final status; None while it runs or if its end was not recorded.
        ledger: seconds in each section, over the whole process.
        wall: seconds from the start of the process to its end.
        template_import: seconds spent loading the framework before the process began.
        hardware: `memory_bytes` of its device, and `driver` if it has one.
        audit: summary of the run conditions (`raybench.monitoring`); None if they were not monitored.
        gaps: the epochs after which another process resumed training from a checkpoint.
        epochs: in order.
        communication: the share of a step's time in which ranks exchange gradients; None if it is not known.
        error: type, message and, if there is one, traceback; for a skipped trial the message is the reason.
        computed: what functions have computed of it (`kept`).
    """

    trial: str
    attempt: int
    cell: Cell = UNKNOWN_CELL
    run: str | None = None
    request_id: str | None = None
    origin: str | None = None
    seed: int | None = None
    label: str | None = None
    grid: str | None = None
    profile: str | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    decay_check: Mapping[str, Any] = field(default_factory=dict)
    roofline: Mapping[str, Any] = field(default_factory=dict)
    clock: str = ""
    output_clock: OutputClock | None = None
    holds_evaluation: bool = False
    first_output_s: float | None = None
    command: str = ""
    matched: Mapping[str, Any] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)
    host: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    runtime_conditions: Mapping[str, Any] = field(default_factory=dict)
    audit: Mapping[str, Any] | None = None
    started: str | None = None
    ended: str | None = None
    status: str | None = None
    ledger: Mapping[str, float] = field(default_factory=dict)
    wall: float | None = None
    template_import: float | None = None
    communication: float | None = None
    warnings: list[str] = field(default_factory=list)
    error: Mapping[str, Any] | None = None
    gaps: tuple[int, ...] = ()
    epochs: Epochs = field(default_factory=Epochs, repr=False)
    computed: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def key(self) -> Key:
        """Trial id and attempt number."""
        return self.trial, self.attempt

    @property
    def cell_id(self) -> str:
        """The identity of its cell, taken from the trial's id."""
        return self.trial.rpartition("-r")[0] or self.trial

    @property
    def repeat(self) -> int:
        """The repeat (from 0), taken from the trial's id."""
        number = self.trial.rpartition("-r")[2]
        return int(number) if number.isdecimal() else 0

    @property
    def warmup_epochs(self) -> int:
        """Number of epochs at the beginning that do not count as steady."""
        return 1 if self.cell.warmup_epochs is MISSING else self.cell.warmup_epochs

    @property
    @kept
    def steady(self) -> Epochs:
        """Its steady epochs: full ones after the warm-up, and after a new warm-up if another process resumed."""
        warmup, gaps, full = self.warmup_epochs, self.gaps, self.full_epochs
        numbers = full.column("epoch")
        if not gaps:
            return full[bisect_right(numbers, warmup) :]
        return full.at(place for place, number in enumerate(numbers) if is_steady(number, warmup, gaps))

    @property
    def full_epochs(self) -> Epochs:
        """Its epochs without a shorter last one: of a fractional number of epochs, or at the end of its budget."""
        epochs = self.cell.settings.epochs
        is_shorter = epochs and epochs % 1 and max(self.epochs.column("epoch"), default=0) > epochs
        return self.epochs[:-1] if is_shorter or self.ends_partial else self.epochs

    @property
    def ends_partial(self) -> bool:
        """Return whether its budget ended its last epoch."""
        return any(self.epochs.column("partial")[-1:])

    @property
    def partial_epoch(self) -> Epoch | None:
        """The epoch after the warm-up that its budget ended, if its work was counted."""
        last = self.epochs[-1] if self.ends_partial else None
        return last if last and last.counts and is_steady(last.epoch, self.warmup_epochs, self.gaps) else None

    @property
    @kept
    def last_metrics(self) -> Mapping[str, float]:
        """The metrics after training: the last value of each, because an evaluation may not follow every epoch."""
        columns = {name: self.epochs.column("metrics", name) for name in self.epochs.names("metrics")}
        return {
            name: next(value for value in reversed(column) if value is not None) for name, column in columns.items()
        }

    @property
    def are_passes(self) -> bool:
        """Return whether a command's epochs are passes over its data, as it calls them epochs; not iterations."""
        is_named = "epoch" in f"{self.matched.get('epoch')} {self.matched.get('begin')}".lower()
        return is_named or bool(self.output_clock and self.output_clock.are_passes)

    @property
    def stops(self) -> bool:
        """Return whether it stops at its target, which its last accuracy then only confirms."""
        return bool(self.cell.stop_at_target)

    @property
    def error_text(self) -> str:
        """The type and the message of its error; empty if it has none."""
        error = self.error or {}
        return ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))

    def metric(self, name: str) -> float | None:
        """A metric after training; None if there is none."""
        return self.last_metrics.get(name)

    def best(self, name: str) -> float | None:
        """The highest value of a metric over all epochs; None if there is none."""
        return max(filter(math.isfinite, self.epochs.column("metrics", name, math.nan)), default=None)

    def take(self, event: Event) -> None:
        """Apply one of its events; unknown events are ignored."""
        self.computed.clear()
        kind = event.get("event")
        if kind == "trial_started":
            self._start(event)
        elif kind == "trial_resumed":
            gaps = event.get("gaps")
            self.gaps = tuple(sorted(set(filter(whole_in, gaps)))) if isinstance(gaps, list) else ()
        elif kind == "epoch_ended":
            number = whole_in(event.get("epoch")) or 0
            if number > 0:
                self.epochs.add(epoch_of(number, event))
        elif kind == "trial_audited":
            self.audit = {name: value for name, value in valid_values_in(event).items() if name not in _ENVELOPE}
        elif kind == "trial_ended" and self.status is None:
            self._end(event)

    def _start(self, event: Event) -> None:
        self.cell = cell_in(event.get("cell"))
        self.run, self.seed = text_in(event.get("run")) or self.run, whole_in(event.get("seed"))
        self.request_id, self.origin = text_in(event.get("request_id")), text_in(event.get("origin"))
        self.label, self.grid = text_in(event.get("label")), text_in(event.get("grid"))
        self.profile, self.machine = text_in(event.get("profile")), shared_values_in(event.get("machine"))
        self.target = target_in(event.get("target")) or target_in(self.cell.stop_at_target)
        self.decay_check = shared_values_in(event.get("decay_check"))
        self.roofline = shared_values_in(event.get("roofline"))
        self.host, self.versions = flat_in(event.get("host")), flat_in(shared_values_in(event.get("versions")))
        self.hardware = shared_values_in(event.get("hardware"))
        self.runtime_conditions = shared_values_in(event.get("runtime_conditions"))
        self.clock, self.started = text_in(event.get("clock")) or "", text_in(event.get("t"))

    def _end(self, event: Event) -> None:
        self.status = text_in(event.get("status")) or TrialStatus.FAILED
        self.clock = text_in(event.get("clock")) or self.clock
        clock = mapping_in(event.get("output_clock"))
        self.output_clock = OutputClock.from_json(clock) if clock else None
        self.holds_evaluation = event.get("holds_evaluation") is True
        self.first_output_s = time_in(event.get("first_output_s"))
        self.command, self.matched = text_in(event.get("command")) or "", flat_in(event.get("matched"))
        self.ended = text_in(event.get("t"))
        self.ledger = valid(event.get("ledger"), Kind.SECONDS) or {}
        self.wall, self.template_import = time_in(event.get("wall")), time_in(event.get("template_import"))
        self.communication = time_in(event.get("communication"))
        lists = (event.get(name) for name in ("warnings", "unmatched"))
        self.warnings, self.unmatched = (list(map(str, each)) if isinstance(each, list) else [] for each in lists)
        self.error = error_in(event.get("error")) or None


def key_of(event: Event) -> Key | None:
    """The attempt of an event; None for an event that concerns no attempt."""
    trial, number = event.get("trial"), whole_in(event.get("attempt")) or 0
    is_of_attempt = number > 0 and event.get("event") in _OF_AN_ATTEMPT
    return (trial, number) if is_of_attempt and isinstance(trial, str) and _NAME.fullmatch(trial) else None


def attempt_in(data: bytes, name: str, damaged: list[str]) -> Attempt | None:
    """Return the attempt in its file; None if no line is of one.

    Args:
        data: the content of the file.
        name: of the file.
        damaged: gets the place of each line that is not an event.
    """
    attempt, own = None, b""
    for number, line in enumerate(lines_of(data), 1):
        if attempt and line.startswith(_EPOCH_ENDED) and own in line:
            try:
                attempt.epochs.add(epoch_of_line.decode(line))
                continue
            except DAMAGED:  # some of its values may be valid
                pass
        event = _start_in(line) if line.startswith(_STARTED) else event_of(line)
        if event is None and line.strip():
            damaged.append(f"{name}:{number}")
        key = key_of(event) if event else None
        if event and key and attempt is None:
            attempt, own = Attempt(*key), b'"trial":"%b","attempt":%d,' % (key[0].encode(), key[1])
        if event and key and attempt and key[0] == attempt.trial:
            attempt.take(event)
    if attempt:
        attempt.epochs.compact()
    return attempt


def _start_in(line: bytes) -> Event | None:
    """The start of an attempt, with the JSON of the maps that attempts share; None if it is damaged."""
    try:
        parts = _PARTS.decode(line).items()
        return {name: bytes(part) if name in SHARED else msgspec.json.decode(part) for name, part in parts}
    except DAMAGED:
        return None


def main_metric(names: Collection[str], requested: str = "") -> str:
    """The quality metric: as requested, else a reward, an accuracy, an error of validation or test, or of training.

    Args:
        names: the available metrics, in their order; if there are none, the result is empty.
        requested: the metric of a request (`raybench.results.grid_request.GridRequest`).
    """

    def order(name: str) -> tuple[int, int, bool]:
        part, word = PARTS.get(name.partition("/")[0], 2), name.partition("/")[2]
        if part == PARTS["speed"] or _NO_QUALITY.search(word):
            return 5 + (part == PARTS["speed"]), part, False
        rank = next((rank for rank, pattern in enumerate(_QUALITIES) if pattern.search(word)), 3 if part < 2 else 4)
        return rank, part, (word == "loss") == (part < 2)

    return requested if requested in names else min(names, key=order, default="")


PARTS = {"val": 0, "test": 1, "train": 2, "speed": 3}
"""The parts of the data that a metric may be of, from the one that says most of the quality; and speeds."""

_QUALITIES = (
    re.compile("reward|return"),
    re.compile(r"^accuracy$"),
    re.compile(r"accuracy|f1|auc|auroc|map|iou|bleu|rouge|score|dice|ndcg|psnr|ssim"),
)
"""Metrics of quality, before errors such as a loss."""

_NO_QUALITY = re.compile("entropy|policy|value|kl|surrogate|actor|critic|baseline|pi_loss|std")
"""Words of metrics that a training is guided by, and that say nothing of its quality."""


def latest(records: Iterable[Attempt]) -> dict[str, Attempt]:
    """The attempt that counts for each trial: the last one that ended by itself, else the last of all.

    So a second attempt that was killed or lost does not hide a result.
    """
    by_trial: dict[str, Attempt] = {}
    for record in records:
        if record.trial not in by_trial or precedence(record) > precedence(by_trial[record.trial]):
            by_trial[record.trial] = record
    return by_trial


def precedence(record: Attempt) -> tuple[bool, int]:
    """Sort key of attempts at a trial; the highest one counts."""
    status = TrialStatus.parse(record.status)
    return record.status is not None and not (status and status.is_rerun), record.attempt

"""The file of an attempt at a trial: its events as a run of the table.

Only readers of results import this module: processes of trials may have an environment without msgspec.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, Raw

from raybench.core.events import OF_LINE
from raybench.core.job import Target
from raybench.results.epoch import EPOCH_FIELDS, Epoch
from raybench.results.folder import DAMAGED, event_of, is_intact, lines_of
from raybench.results.parsing import LARGEST_FLOAT, cell_in, map_in
from raybench.results.run_table import Run

_Number = Annotated[float, Meta(gt=-LARGEST_FLOAT, lt=LARGEST_FLOAT)]
_SHARED = ("machine", "decay_check", "roofline", "all_reduce", "versions", "hardware", "runtime_conditions")
"""Maps that many attempts have in common."""


class _OfAttempt(msgspec.Struct, tag_field="event", kw_only=True, gc=False):
    trial: str
    attempt: int
    t: str | None = None
    at: int | None = None


def _event(kind: str, names: str, *more: tuple[Any, ...]) -> Any:
    """The struct of a kind of event, with fields of a run by their names and types, and further ones."""
    types, empty = get_type_hints(Run), Run()
    declared = [(name, types[name], getattr(empty, name)) for name in names.split()]
    return msgspec.defstruct(kind, [*declared, *more], bases=(_OfAttempt,), tag=kind, kw_only=True)


_PLAIN = "seed request_id origin execution label grid profile target"
_OF_COMMAND = "command matched unmatched output_clock holds_evaluation first_metric_s"
_OF_END = f"ledger wall template_import communication warnings error {_OF_COMMAND}"
_Started = _event(
    "trial_started",
    f"run clock {_PLAIN}",
    ("host", dict[str, Any], {}),
    *((name, Raw, Raw(b"{}")) for name in ("cell", *_SHARED)),
)
_Resumed = _event("trial_resumed", "", ("gaps", list[int], ()))
_Audited = _event("trial_audited", "")
_Ended = _event("trial_ended", f"clock {_OF_END}", ("status", str))
_OF_EPOCH = get_type_hints(Epoch) | {"metrics": dict[str, _Number]}
_EpochEnded = _event(
    "epoch_ended",
    "",
    ("epoch", int),
    *((entry.name, _OF_EPOCH[entry.name], getattr(Epoch(0), entry.name)) for entry in EPOCH_FIELDS),
)
"""A row of `Epochs`; it is made in half the time of an `Epoch`."""

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Started | _Resumed | _EpochEnded | _Audited | _Ended)
_KINDS = ("trial_started", "trial_resumed", "epoch_ended", "trial_audited", "trial_ended")


@lru_cache(4)  # successive lines have the same
def _is_name(trial: str) -> bool:
    """Return whether a text can be the name of a trial, which is that of a folder, too."""
    return re.fullmatch(r"\w[\w.-]{0,99}", trial) is not None


def decoded(line: bytes) -> Any:
    """The event of a line, for `take`; None if it is damaged, or concerns no attempt."""
    try:
        event = _decoder.decode(line)
    except DAMAGED:
        return None
    return event if _is_name(event.trial) else None


def run_in(data: bytes, name: str, damaged: list[str]) -> Run | None:
    """Return the run in the file of an attempt; None if no line is of one.

    Args:
        damaged: gets the place of each line that is not an event, or one with a value that it cannot have, and else of
            the first one in front of which lines are missing.
    """
    run, place, intact = None, 0, len(damaged)
    for number, line in enumerate(lines_of(data), 1):
        event, at = decoded(line) if is_intact(line) else None, place
        place += len(line) + 1
        if event is None:
            # A later version may have other events.
            if line.strip() and ((unknown := event_of(line)) is None or unknown["event"] in _KINDS):
                damaged.append(f"{name}:{number}")
            continue
        if event.at != at and len(damaged) == intact:
            damaged.append(f"{name}:{number} (lines before it are missing)")
        run = run or Run(trial=event.trial, attempt=event.attempt)
        if event.trial == run.trial and type(event) is _EpochEnded:  # nothing has been computed yet
            run.epochs.add(event)
        elif event.trial == run.trial:
            take(run, event, line)
    if run:
        run.epochs.compact()
    return run


def take(run: Run, event: Any, line: bytes) -> None:
    """Apply an event of an attempt to its run.

    Args:
        event: as `decoded`.
        line: its line.
    """
    run.forget()
    names, is_first_end = "", isinstance(event, _Ended) and run.status is None
    if isinstance(event, _EpochEnded):
        run.epochs.add(event)
    elif isinstance(event, _Resumed):
        run.gaps = tuple(sorted(set(event.gaps)))
    elif isinstance(event, _Audited):
        run.audit = {name: value for name, value in msgspec.json.decode(line).items() if name not in OF_LINE}
    elif isinstance(event, _Started):
        names, run.run, run.clock, run.started = _PLAIN, event.run or run.run, event.clock, event.t
        run.cell = cell_in(bytes(event.cell))
        run.host = event.host
        for name in _SHARED:
            setattr(run, name, map_in(bytes(getattr(event, name))))
    elif is_first_end:
        names, run.status, run.ended, run.clock = _OF_END, event.status, event.t, event.clock or run.clock
    for name in names.split():
        setattr(run, name, getattr(event, name))
    if run.target is None and run.stops:
        with suppress(msgspec.ValidationError):
            run.target = msgspec.convert(run.cell.stop_at_target, Target)

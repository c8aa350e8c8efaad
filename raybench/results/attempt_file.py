"""The file of an attempt at a trial: its events as a run of the table.

Only readers of results import this module: processes of trials may have an environment without msgspec.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, Raw

from raybench.core.job import Target
from raybench.results.epoch import EPOCH_FIELDS, Epoch
from raybench.results.folder import DAMAGED, event_of, lines_of
from raybench.results.parsing import LARGEST, LARGEST_FLOAT, cell_in, map_in
from raybench.results.run_table import Run

_Whole = Annotated[int, Meta(gt=-LARGEST, le=LARGEST - 1)]
_Number = Annotated[float, Meta(gt=-LARGEST_FLOAT, lt=LARGEST_FLOAT)]

_From1 = Annotated[int, Meta(ge=1, le=LARGEST - 1)]
_TYPES: Mapping[str, Any] = {
    "int": _Whole,
    "int | None": _Whole | None,
    "bool": bool,
    "float | None": _Number | None,
    "Mapping[str, float]": dict[str, _Number],
    "Sequence[float]": list[_Number],
    "tuple[Mapping[str, Any], ...]": tuple[dict[str, Any], ...],
}
"""The types of values of the fields of `Epoch`, by their annotations."""


class _OfAttempt(msgspec.Struct, tag_field="event", kw_only=True, gc=False):
    trial: str
    attempt: _From1
    t: str | None = None


def _event(kind: str, names: str, *more: tuple[Any, ...]) -> Any:
    """The struct of a kind of event, with fields of a run by their names and types, and further ones."""
    types, empty = get_type_hints(Run), Run()
    listed = [(name, types[name], getattr(empty, name)) for name in names.split()]
    return msgspec.defstruct(kind, [*listed, *more], bases=(_OfAttempt,), tag=kind, kw_only=True)


_PLAIN = "seed request_id origin execution label grid profile target host"
_SHARED = "machine decay_check roofline all_reduce versions hardware runtime_conditions"  # many attempts have the same
_OF_COMMAND = "command matched unmatched output_clock holds_evaluation first_metric_s"
_OF_END = f"ledger wall template_import communication warnings error {_OF_COMMAND}"
_Started = _event(
    "trial_started",
    f"run clock {_PLAIN}",
    *((name, Raw, Raw(b"{}")) for name in ("cell", *_SHARED.split())),
)
_Resumed = _event("trial_resumed", "", ("gaps", list[_Whole], ()))
_Audited = _event("trial_audited", "")
_Ended = _event("trial_ended", f"clock {_OF_END}", ("status", str))
_EpochEnded = _event(
    "epoch_ended",
    "",
    ("epoch", _From1),
    *((entry.name, _TYPES[entry.type], getattr(Epoch(0), entry.name)) for entry in EPOCH_FIELDS),
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
        data: the content of the file.
        name: of the file.
        damaged: gets the place of each line that is not an event, or one with a value that it cannot have.
    """
    run = None
    for number, line in enumerate(lines_of(data), 1):
        event = decoded(line)
        if event is None:
            # A later version may have other events.
            if line.strip() and ((unknown := event_of(line)) is None or unknown["event"] in _KINDS):
                damaged.append(f"{name}:{number}")
            continue
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
        run.audit = map_in.__wrapped__(line)
    elif isinstance(event, _Started):
        names, run.run, run.clock, run.started = _PLAIN, event.run or run.run, event.clock, event.t
        run.cell = cell_in(bytes(event.cell))
        for name in _SHARED.split():
            setattr(run, name, map_in(bytes(getattr(event, name))))
    elif is_first_end:
        names, run.status, run.ended, run.clock = _OF_END, event.status, event.t, event.clock or run.clock
    for name in names.split():
        setattr(run, name, getattr(event, name))
    if run.target is None and run.stops:
        with suppress(msgspec.ValidationError):
            run.target = msgspec.convert(run.cell.stop_at_target, Target)

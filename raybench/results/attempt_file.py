"""The file of an attempt at a trial: its events as a run of the table.

Only readers of results import this module: processes of trials may have an environment without msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from raybench.core.job import Target
from raybench.results.epoch import EPOCH_FIELDS, Epoch
from raybench.results.folder import DAMAGED, event_of, lines_of
from raybench.results.parsing import LARGEST, LARGEST_FLOAT, cell_in, map_in
from raybench.results.run_table import Run

_Whole = Annotated[int, Meta(gt=-LARGEST, le=LARGEST - 1)]
_Number = Annotated[float, Meta(gt=-LARGEST_FLOAT, lt=LARGEST_FLOAT)]
_Seconds = Annotated[float, Meta(ge=0, lt=LARGEST_FLOAT)]
_From1 = Annotated[int, Meta(ge=1, le=LARGEST - 1)]
_TrialName = Annotated[str, Meta(pattern=r"^\w[\w.-]{0,99}$")]  # which is the name of a folder, too
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
_EMPTY, _MAP = Epoch(0), Raw(b"{}")


class _OfAttempt(msgspec.Struct, tag_field="event", kw_only=True, gc=False):
    trial: _TrialName
    attempt: _From1
    t: str | None = None


class _Started(_OfAttempt, tag="trial_started", kw_only=True):
    run: str | None = None
    seed: _Whole | None = None
    request_id: str | None = None
    origin: str | None = None
    label: str | None = None
    grid: str | None = None
    profile: str | None = None
    target: Target | None = None
    clock: str | None = None
    host: dict[str, Any] = {}
    # Many attempts have the same maps, which are decoded once.
    cell: Raw = _MAP
    machine: Raw = _MAP
    decay_check: Raw = _MAP
    roofline: Raw = _MAP
    versions: Raw = _MAP
    hardware: Raw = _MAP
    runtime_conditions: Raw = _MAP


class _Resumed(_OfAttempt, tag="trial_resumed", kw_only=True):
    gaps: list[_Whole] = []


class _Audited(_OfAttempt, tag="trial_audited"):
    pass


class _Ended(_OfAttempt, tag="trial_ended", kw_only=True):
    status: str
    ledger: dict[str, _Seconds] = {}
    wall: _Seconds | None = None
    template_import: _Seconds | None = None
    communication: _Seconds | None = None
    warnings: list[str] = []
    unmatched: list[str] = []
    error: dict[str, Any] | None = None
    clock: str | None = None
    known_output: str = ""
    command: str = ""
    matched: dict[str, str] = {}
    are_passes: bool = False


_EpochEnded: Any = msgspec.defstruct(
    "_EpochEnded",
    [("epoch", _From1), *((each.name, _TYPES[each.type], getattr(_EMPTY, each.name)) for each in EPOCH_FIELDS)],
    bases=(_OfAttempt,),
    tag="epoch_ended",
    kw_only=True,
)
"""A row of `Epochs`; it is made in half the time of an `Epoch`."""

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Started | _Resumed | _EpochEnded | _Audited | _Ended)
_KINDS = ("trial_started", "trial_resumed", "epoch_ended", "trial_audited", "trial_ended")


def decoded(line: bytes) -> Any:
    """The event of a line, for `take`; None if it is damaged, or concerns no attempt."""
    try:
        return _decoder.decode(line)
    except DAMAGED:
        return None


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
            if line.strip() and ((other := event_of(line)) is None or other["event"] in _KINDS):
                damaged.append(f"{name}:{number}")
            continue
        run = run or Run(trial=event.trial, attempt=event.attempt)
        if event.trial == run.trial:
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
    run.computed.clear()
    if isinstance(event, _EpochEnded):
        run.epochs.add(event)
    elif isinstance(event, _Started):
        run.run = event.run or run.run
        for name in ("seed", "request_id", "origin", "label", "grid", "profile", "host"):
            setattr(run, name, getattr(event, name))
        for name in ("machine", "decay_check", "roofline", "versions", "hardware", "runtime_conditions"):
            setattr(run, name, map_in(bytes(getattr(event, name))))
        run.cell, run.clock, run.started = cell_in(bytes(event.cell)), event.clock or "", event.t
        run.target = event.target
        if run.target is None and run.stops:
            with suppress(msgspec.ValidationError):
                run.target = msgspec.convert(run.cell.stop_at_target, Target)
    elif isinstance(event, _Resumed):
        run.gaps = tuple(sorted(set(event.gaps)))
    elif isinstance(event, _Audited):
        run.audit = map_in.__wrapped__(line)
    elif run.status is None:
        for name in set(event.__struct_fields__) - {"trial", "attempt", "t", "clock"}:
            setattr(run, name, getattr(event, name))
        run.ended, run.clock = event.t, event.clock or run.clock
        marks = "" if event.known_output else f"{event.matched.get('epoch')} {event.matched.get('epoch_begins')}"
        run.are_passes = event.are_passes or "epoch" in marks.lower()

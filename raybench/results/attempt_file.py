"""The file of an attempt at a trial: its events as a run of the table."""

from __future__ import annotations

import re

import msgspec

from raybench.core.events import Event
from raybench.core.status import TrialStatus
from raybench.results.epoch import Kind
from raybench.results.epoch_decoding import epoch_of, epoch_of_line, valid
from raybench.results.folder import DAMAGED, event_of, lines_of
from raybench.results.parsing import (
    cell_in,
    error_in,
    flat_in,
    shared_values_in,
    target_in,
    text_in,
    time_in,
    valid_values_in,
    whole_in,
)
from raybench.results.run_table import Key, Run

_NAME = re.compile(r"\w[\w.-]{0,99}")
"""Valid names of trials, which are names of folders."""

SHARED = ("cell", "machine", "decay_check", "roofline", "versions", "hardware", "runtime_conditions")
"""Maps of a start that many attempts have; its event may have their JSON instead."""

_STARTED, _EPOCH_ENDED = (b'{"v":1,"event":"%b",' % kind for kind in (b"trial_started", b"epoch_ended"))
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OF_AN_ATTEMPT = ("trial_started", "trial_resumed", "epoch_ended", "trial_audited", "trial_ended")
_ENVELOPE = frozenset({"v", "event", "t", "trial", "attempt"})


def take(run: Run, event: Event) -> None:
    """Apply an event to its run; unknown events are ignored."""
    run.computed.clear()
    kind = event.get("event")
    if kind == "trial_started":
        _start(run, event)
    elif kind == "trial_resumed":
        gaps = event.get("gaps")
        run.gaps = tuple(sorted(set(filter(whole_in, gaps)))) if isinstance(gaps, list) else ()
    elif kind == "epoch_ended":
        number = whole_in(event.get("epoch")) or 0
        if number > 0:
            run.epochs.add(epoch_of(number, event))
    elif kind == "trial_audited":
        run.audit = {name: value for name, value in valid_values_in(event).items() if name not in _ENVELOPE}
    elif kind == "trial_ended" and run.status is None:
        _end(run, event)


def _start(run: Run, event: Event) -> None:
    run.cell, run.seed = cell_in(event.get("cell")), whole_in(event.get("seed"))
    run.run = text_in(event.get("run")) or run.run
    for name in ("request_id", "origin", "label", "grid", "profile"):
        setattr(run, name, text_in(event.get(name)))
    for name in ("machine", "decay_check", "roofline", "hardware", "runtime_conditions"):
        setattr(run, name, shared_values_in(event.get(name)))
    run.target = target_in(event.get("target")) or target_in(run.cell.stop_at_target)
    run.host, run.versions = flat_in(event.get("host")), flat_in(shared_values_in(event.get("versions")))
    run.clock, run.started = text_in(event.get("clock")) or "", text_in(event.get("t"))


def _end(run: Run, event: Event) -> None:
    run.status, run.ended = text_in(event.get("status")) or TrialStatus.FAILED, text_in(event.get("t"))
    run.clock = text_in(event.get("clock")) or run.clock
    run.known_output, run.command = (text_in(event.get(name)) or "" for name in ("known_output", "command"))
    run.matched = flat_in(event.get("matched"))
    marks = "" if run.known_output else f"{run.matched.get('epoch')} {run.matched.get('epoch_begins')}"
    run.are_passes = event.get("are_passes") is True or "epoch" in marks.lower()
    run.ledger = valid(event.get("ledger"), Kind.SECONDS) or {}
    for name in ("wall", "template_import", "communication"):
        setattr(run, name, time_in(event.get(name)))
    for name in ("warnings", "unmatched"):
        texts = event.get(name)
        setattr(run, name, list(map(str, texts)) if isinstance(texts, list) else [])
    run.error = error_in(event.get("error")) or None


def key_of(event: Event) -> Key | None:
    """The key of an event's run; None for an event that concerns no attempt."""
    trial, number = event.get("trial"), whole_in(event.get("attempt")) or 0
    is_of_attempt = number > 0 and event.get("event") in _OF_AN_ATTEMPT
    return (trial, number) if is_of_attempt and isinstance(trial, str) and _NAME.fullmatch(trial) else None


def run_in(data: bytes, name: str, damaged: list[str]) -> Run | None:
    """Return the run in the file of an attempt; None if no line is of one.

    Args:
        data: the content of the file.
        name: of the file.
        damaged: gets the place of each line that is not an event.
    """
    run, marks = None, b""
    for number, line in enumerate(lines_of(data), 1):
        if run and line.startswith(_EPOCH_ENDED) and marks in line:
            try:
                run.epochs.add(epoch_of_line.decode(line))
                continue
            except DAMAGED:  # some of its values may be valid
                pass
        event = _start_in(line) if line.startswith(_STARTED) else event_of(line)
        if event is None and line.strip():
            damaged.append(f"{name}:{number}")
        key = key_of(event) if event else None
        if event and key and run is None:
            run, marks = Run(trial=key[0], attempt=key[1]), b'"trial":"%b","attempt":%d,' % (key[0].encode(), key[1])
        if event and key and run and key[0] == run.trial:
            take(run, event)
    if run:
        run.epochs.compact()
    return run


def _start_in(line: bytes) -> Event | None:
    """The start of an attempt, with the JSON of the maps that attempts share; None if it is damaged."""
    try:
        parts = _PARTS.decode(line).items()
        return {name: bytes(part) if name in SHARED else msgspec.json.decode(part) for name, part in parts}
    except DAMAGED:
        return None

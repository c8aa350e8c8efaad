"""Decode the lines of a file of events straight into an attempt, without a dictionary for each epoch.

Only readers of results import this module: processes of trials may have an environment without msgspec.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any

import msgspec

from raybench.results.attempt import Attempt, key_of
from raybench.results.epoch import EPOCH_FIELDS, Epoch, Kind
from raybench.results.parsing import LARGEST, LARGEST_FLOAT, records_in

DAMAGED = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors of `attempt_of_lines` for a file that has to be read line by line instead."""

_EPOCH_ENDED = b'{"v":1,"event":"epoch_ended",'

_WHOLE = Annotated[int, msgspec.Meta(gt=-LARGEST, le=LARGEST - 1)]
_NUMBER = Annotated[float, msgspec.Meta(gt=-LARGEST_FLOAT, lt=LARGEST_FLOAT)]
_SECONDS = Annotated[float, msgspec.Meta(ge=0, lt=LARGEST_FLOAT)]
_TYPES: Mapping[Kind, Any] = {
    Kind.WHOLE: _WHOLE | None,
    Kind.COUNT: _WHOLE,
    Kind.FLAG: bool,
    Kind.NUMBER: _NUMBER | None,
    Kind.NUMBERS: dict[str, _NUMBER],
    Kind.SECONDS: dict[str, _SECONDS],
    Kind.SEQUENCE: list[_NUMBER],
    Kind.RECORDS: list[dict[str, Any]],
}
_KINDS = {each.name: each.kind for each in EPOCH_FIELDS}
_EMPTY = Epoch(1, None)


def _field(name: str) -> tuple[str, Any, Any]:
    """The field of an event for a measured field of an epoch."""
    return name, _TYPES[_KINDS[name]], getattr(_EMPTY, name)


_EVENT = msgspec.defstruct(
    "EpochEnded",
    [
        ("trial", str),
        ("attempt", int),
        ("epoch", Annotated[int, msgspec.Meta(ge=1, le=LARGEST - 1)]),
        ("t", str),
        *(_field(each.name) for each in fields(Epoch) if each.name in _KINDS),
    ],
    gc=False,
)
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_EVENT)


def attempt_of_lines(lines: Sequence[bytes]) -> Attempt:
    """Return the attempt in a file without damage.

    Raises:
        ValueError, msgspec.MsgspecError, RecursionError: a line is damaged, or of a different attempt (`DAMAGED`).
    """
    attempt = None
    for line in lines:
        if attempt and line.startswith(_EPOCH_ENDED):
            trial, number, *values = msgspec.structs.astuple(_DECODER.decode(line))
            if (trial, number) != attempt.key:
                raise ValueError(line)
            attempt.add_epoch(_epoch(values))
        else:
            event = msgspec.json.decode(line)
            key = key_of(event) if isinstance(event, dict) else None
            if key is None or (attempt and key != attempt.key):
                raise ValueError(line)
            attempt = attempt or Attempt(*key)
            attempt.take(event)
    if attempt is None:
        raise ValueError("no event")
    return attempt


def _epoch(values: Sequence[Any]) -> Epoch:
    epoch = Epoch(*values)
    if epoch.step_s:
        epoch.step_s = array("d", epoch.step_s)  # a third of the memory of a list
    if epoch.optimizers:
        epoch.optimizers = records_in(epoch.optimizers)
    return epoch

"""Lines of a journal about epochs, which are most of its lines, read into typed values.

A line whose values all have the types and sizes that raybench writes is parsed and checked in one step. Any other line
is left to the general reader, for which a damaged value counts as missing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from raybench.results.epoch import EPOCH_FIELDS, Epoch, Kind
from raybench.results.parsing import records_in

KIND = b'"epoch_ended"'
FIRST_BYTES = 48
"""The kind of the event, which raybench writes among the first bytes of a line."""

LARGEST_WHOLE = 2**53 - 1
"""Largest whole number that is exact in a float."""

LARGEST_FLOAT = 2.0**63
"""Limit of other numbers; a larger one may have been written as a whole number that counts as damage."""

_WHOLE = Annotated[int, msgspec.Meta(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)]
_POSITIVE = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
_NUMBER = Annotated[float, msgspec.Meta(gt=-LARGEST_FLOAT, lt=LARGEST_FLOAT)]
_SECONDS = Annotated[float, msgspec.Meta(ge=0.0, lt=LARGEST_FLOAT)]
_TYPES: dict[Kind, Any] = {
    Kind.WHOLE: _WHOLE,
    Kind.COUNT: _WHOLE,
    Kind.NUMBER: _NUMBER,
    Kind.NUMBERS: dict[str, _NUMBER],
    Kind.SECONDS: dict[str, _SECONDS],
    Kind.SEQUENCE: list[_NUMBER],
    Kind.RECORDS: list[dict[str, Any]],
}

EpochLine: Any = msgspec.defstruct(
    "EpochLine",
    [
        ("v", int),
        ("event", Literal["epoch_ended"]),
        ("trial", str),
        ("attempt", _POSITIVE),
        ("epoch", _POSITIVE),
        ("t", str | None, None),
        ("of_attempt", int | None, None),
        ("precision", dict[str, str] | None, None),
        *((each.name, _TYPES[each.kind] | None, None) for each in EPOCH_FIELDS),
    ],
    forbid_unknown_fields=True,  # their content would not be checked
    gc=False,
)
"""An epoch's line: trial, attempt, number, time, and the measured fields of `Epoch`; None for each that it lacks."""

_DECODER = msgspec.json.Decoder(EpochLine)


def epoch_line(text: bytes) -> Any:
    """Parse a line; None for another event, and if a value is not as raybench writes it."""
    if text.find(KIND, 0, FIRST_BYTES) < 0:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError):
        return None


def value_in(line: Any, name: str, kind: Kind) -> Any:
    """The value of a measured field, as `Epoch` has it; None if the line lacks it."""
    value = getattr(line, name)
    if value is None:
        return None
    if kind is Kind.SEQUENCE:
        return tuple(value)
    return records_in(value) if kind is Kind.RECORDS else value


def epoch_of_line(line: Any) -> Epoch:
    """The epoch of a line."""
    values = {each.name: value_in(line, each.name, each.kind) for each in EPOCH_FIELDS}
    return Epoch(line.epoch, line.t, **{name: value for name, value in values.items() if value is not None})

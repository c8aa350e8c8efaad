"""Decode epochs and their values: from an event, or straight from its line, without a dictionary of all its fields.

Only readers of results import this module: processes of trials may have an environment without msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from raybench.core.events import Event
from raybench.results.epoch import EPOCH_FIELDS, Epoch, Kind
from raybench.results.parsing import LARGEST, LARGEST_FLOAT, number_in, text_in, valid_values_in

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
    Kind.RECORDS: tuple[dict[str, Any], ...],
}
_EMPTY = Epoch(0)


def _check(epoch: Any) -> None:
    if epoch.optimizers:
        epoch.optimizers = tuple(filter(valid_values_in, epoch.optimizers))


_DecodedEpoch = msgspec.defstruct(
    "_DecodedEpoch",
    [
        ("epoch", Annotated[int, msgspec.Meta(ge=1, le=LARGEST - 1)]),
        ("t", str | None),
        *((each.name, _TYPES[each.kind], getattr(_EMPTY, each.name)) for each in EPOCH_FIELDS),
    ],
    namespace={"__post_init__": _check},
    gc=False,
)
"""A row of `Epochs` whose values are in their limits; it is made in half the time of an `Epoch`."""

epoch_of_line: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_DecodedEpoch)


def epoch_of(number: int, event: Event) -> Any:
    """The same from the number of an epoch and its event; a damaged value counts as missing."""
    values = {each.name: valid(event.get(each.name), each.kind) for each in EPOCH_FIELDS}
    known = {name: value for name, value in values.items() if value is not None}
    return _DecodedEpoch(number, text_in(event.get("t")), **known)


def valid(value: Any, kind: Kind) -> Any:
    """A value of an event, of a map without damaged entries; None if it is damaged."""
    if kind.is_map and isinstance(value, dict):
        least = 0.0 if kind is Kind.SECONDS else -LARGEST_FLOAT
        numbers = {name: number_in(item) for name, item in value.items()}
        value = {name: number for name, number in numbers.items() if number is not None and number >= least}
    try:
        return msgspec.convert(value, _TYPES[kind])
    except msgspec.ValidationError:
        return None

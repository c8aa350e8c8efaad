"""Decode epochs and their values: from an event, or straight from its line, without a dictionary for each epoch.

Only readers of results import this module: processes of trials may have an environment without msgspec.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
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
    Kind.RECORDS: list[dict[str, Any]],
}
_DEFAULTS = {each.name: field(default=each.default, default_factory=each.default_factory) for each in fields(Epoch)}


def _compact(epoch: Epoch) -> None:
    if epoch.step_s:
        epoch.step_s = array("d", epoch.step_s)  # a third of the memory of a list
    if epoch.optimizers:
        epoch.optimizers = tuple(filter(valid_values_in, epoch.optimizers))


_DecodedEpoch: type[Epoch] = make_dataclass(
    "Epoch",
    [
        ("epoch", Annotated[int, msgspec.Meta(ge=1, le=LARGEST - 1)]),
        ("t", str | None),
        *((each.name, _TYPES[each.kind], _DEFAULTS[each.name]) for each in EPOCH_FIELDS),
    ],
    bases=(Epoch,),
    namespace={"__post_init__": _compact},
    slots=True,
)
"""An epoch whose values are in their limits."""

epoch_of_line: msgspec.json.Decoder[Epoch] = msgspec.json.Decoder(_DecodedEpoch)


def epoch_of(number: int, event: Event) -> Epoch:
    """Build an epoch from its number and its event; a damaged value counts as missing."""
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

"""Decode the lines of a file of events straight into an attempt, without a dictionary for each epoch.

Only readers of results import this module: processes of trials may have an environment without msgspec.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from typing import Annotated, Any

import msgspec

from raybench.core.events import Event
from raybench.results.attempt import SHARED, Attempt, key_of
from raybench.results.epoch import EPOCH_FIELDS, Epoch, Kind
from raybench.results.parsing import LARGEST, LARGEST_FLOAT, records_in

DAMAGED = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors of `attempt_of_lines` for a file that has to be read line by line instead."""

_STARTED, _EPOCH_ENDED = (b'{"v":1,"event":"%b",' % kind for kind in (b"trial_started", b"epoch_ended"))

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
        epoch.optimizers = records_in(epoch.optimizers)


_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EPOCH: msgspec.json.Decoder[Epoch] = msgspec.json.Decoder(
    make_dataclass(
        "Epoch",
        [
            ("epoch", Annotated[int, msgspec.Meta(ge=1, le=LARGEST - 1)]),
            ("t", str),
            *((each.name, _TYPES[each.kind], _DEFAULTS[each.name]) for each in EPOCH_FIELDS),
        ],
        bases=(Epoch,),
        namespace={"__post_init__": _compact},
        slots=True,
    )
)
"""Reads an epoch whose values are in their limits."""


def attempt_of_lines(lines: Sequence[bytes]) -> Attempt:
    """Return the attempt in a file without damage.

    Raises:
        ValueError, msgspec.MsgspecError, RecursionError: a line is damaged, or of a different attempt (`DAMAGED`).
    """
    attempt, own = None, b""
    for line in lines:
        if attempt and line.startswith(_EPOCH_ENDED) and own in line:
            attempt.add_epoch(_EPOCH.decode(line))
            continue
        event = _event(line)
        key = key_of(event)
        if key is None or (attempt and key != attempt.key):
            raise ValueError(line)
        if attempt is None:
            attempt, own = Attempt(*key), b'"trial":"%b","attempt":%d,' % (key[0].encode(), key[1])
        attempt.take(event)
    if attempt is None:
        raise ValueError("no event")
    return attempt


def _event(line: bytes) -> Event:
    """An event; of a start, the text of the values that attempts share."""
    if not line.startswith(_STARTED):
        return msgspec.json.decode(line, type=dict[str, Any])
    parts = _PARTS.decode(line).items()
    return {name: bytes(part) if name in SHARED else msgspec.json.decode(part) for name, part in parts}

"""The accelerators whose own sensors can be read from outside a trial, by their kind."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from raybench.devices import KINDS


class Unavailable(Exception):
    """The sensors cannot be read, and why."""


class Sensors(Protocol):
    """The sensors of the accelerators that a trial was given."""

    def read(self) -> list[dict[str, Any]]:
        """What each of them says now, with its `id`; what one does not say is left out."""

    def close(self) -> None:
        """Let go of the driver."""


def open_sensors(kind: str, visible: Sequence[str]) -> Sensors | None:
    """The sensors of a trial's accelerators; None for a kind that has none.

    Args:
        kind: the device kind.
        visible: what the trial was given, as the driver names them; none: all there are.

    Raises:
        Unavailable: there should be sensors, and they cannot be read.
    """
    if kind not in KINDS or not KINDS[kind].sensors:
        return None
    module, name = KINDS[kind].sensors.split(":")
    sensors: Sensors = getattr(import_module(module), name)(visible)
    return sensors

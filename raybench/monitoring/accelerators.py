"""External sensors of accelerators, by device kind."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from raybench.devices import KINDS


class Unavailable(Exception):
    """The sensors cannot be read; the message is the reason."""


class Sensors(Protocol):
    """The sensors of the accelerators assigned to a trial."""

    def read(self) -> list[dict[str, Any]]:
        """The current values of each accelerator, with its `id`.

        Values that it does not report are left out.
        """

    def close(self) -> None:
        """Release the driver."""


def open_sensors(kind: str, visible: Sequence[str]) -> Sensors | None:
    """The sensors of a trial's accelerators; None for a kind without sensors.

    Args:
        kind: the device kind.
        visible: the assigned accelerators, by the driver's names; empty for all.

    Raises:
        Unavailable: the kind has sensors, but they cannot be read.
    """
    if kind not in KINDS or not KINDS[kind].sensors:
        return None
    module, name = KINDS[kind].sensors.split(":")
    sensors: Sensors = getattr(import_module(module), name)(visible)
    return sensors

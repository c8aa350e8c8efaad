"""A factored study: what has to be trained in full, what is only timed, and what needs neither.

How many epochs a setting takes to its target does not depend on the device, as long as the numerics (precision,
replicas) are the same; how long an epoch takes does not depend on the weight decay or the learning rate.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.identity import canonical

FULL, TIMING, PREDICTED = "full", "timing", "predicted"

TIMED_FOR = "timed_for"
"""In the content of a cell that is only timed: the epochs of the full training for which it stands."""

TIMED_EPOCHS = 3
"""Epochs after the warm-up that a timing takes: the least whose median is not moved by one that was disturbed."""

LEARNING = frozenset({"weight_decay", "schedule", "epochs", "stop_at_target"})
"""Settings that do not bear on how long an epoch takes; the learning rate, inside the optimiser, is another."""

SPEED = frozenset(
    {"compile", "input", "channels_last", "steps_per_execution", "evaluation_batch_size", "stop_at_target", "sections"}
)
"""Settings that do not bear on how many epochs a target takes."""


@dataclass(frozen=True)
class Setting:
    """A cell of the grid.

    Attributes:
        device: where it runs; the best setting is sought on each.
        name: what it is called, such as "batch 128, decay 5e-4"; with the device, the only one of its name.
        timed: what decides its start and its epoch time: device, batch, precision, replicas, …
        learned: what decides how many epochs it takes: batch, decay, numerics, …; but not the device.
        borrowed: whether `learned` was measured under other numerics than this device has.
    """

    device: str
    name: str
    timed: Hashable
    learned: Hashable
    borrowed: bool = False


def setting_of(device: str, name: str, cell: Mapping[str, Any]) -> Setting:
    """Where a cell lies in a factored study.

    Args:
        device: the device profile's name.
        name: what the cell is called, beside its device.
        cell: its content (`raybench.cell.make_cell`); one that is only timed stands for its full training.
    """
    settings = {**cell["settings"], "epochs": cell.get(TIMED_FOR, cell["settings"]["epochs"])}
    optimizer = {key: value for key, value in settings["optimizer"].items() if key != "learning_rate"}
    timed = {key: value for key, value in settings.items() if key not in LEARNING} | {"optimizer": optimizer}
    learned = {key: value for key, value in settings.items() if key not in SPEED}
    job = {"workload": cell["workload"], "data": cell["data"]}
    place = {"profile": device, "device": cell["device"], "framework": cell["framework"], "engine": cell["engine"]}
    # Of a device what decides how a batch is learned: in how many parts its statistics are taken.
    numerics = {"replicas": cell["device"]["replicas"], "spmd": cell["device"].get("replication") == "spmd"}
    return Setting(device, name, canonical({**job, **place, **timed}), canonical({**job, **numerics, **learned}))


def study(settings: Sequence[Setting], fastest_first: Sequence[str]) -> dict[Setting, str]:
    """What to do with each cell of a grid.

    Args:
        settings: the cells; `learned` of two is the same where they learn alike, whatever the device.
        fastest_first: devices in the order in which they are to be given full trainings; one that is not named comes
            last.

    Returns:
        `FULL`: trained to the target, one cell for each thing to be learned, on the fastest device that has it.
        `TIMING`: a few epochs, one cell for each place that no full training times. `PREDICTED`: neither.
    """
    ranks = {device: rank for rank, device in enumerate(fastest_first)}
    by_speed = sorted(settings, key=lambda setting: ranks.get(setting.device, len(ranks)))
    learned: dict[Hashable, Setting] = {}
    for setting in by_speed:
        learned.setdefault(setting.learned, setting)
    full = set(learned.values())
    timed = {setting.timed for setting in full}
    found = {}
    for setting in settings:
        if setting in full:
            found[setting] = FULL
        elif setting.timed not in timed:
            timed.add(setting.timed)
            found[setting] = TIMING
        else:
            found[setting] = PREDICTED
    return found

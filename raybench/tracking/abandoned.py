"""Which runs in a store have nobody left who would end them."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from raybench.tracking import projection as p
from raybench.tracking.driver import Driver
from raybench.tracking.found import Open

HEARTBEAT = 60.0
"""Seconds between two signs of life of an execution in the store."""

STALE = 900.0
"""Seconds after the last one in which an execution that cannot be seen from here is gone.

A store that was away is tried again after `raybench.tracking.writer.LONGEST_PAUSE` at most, and the clocks of two hosts
differ. Who was only held up takes back what another has ended.
"""


def abandoned(runs: Sequence[Open], ours: Collection[str]) -> list[Open]:
    """Of the runs that are told of as running, those whose execution has gone; none of a driver that lives.

    An execution has gone where its driver is a process of this host that is no more; where its last sign of life is
    old; or where one of its attempts is in the journal of the results folder that this process holds, for nobody else
    can be running on it. Runs of trials without a known execution are left alone, and so are `ours`.

    Args:
        runs: every run of the experiment that is told of as running.
        ours: the attempts (`raybench.tracking.projection.attempt_id`) of the journal whose folder this process holds.
    """
    held = {run.tags.get(p.EXECUTION) for run in runs if run.tags.get(p.ATTEMPT_ID) in ours}
    gone = {
        execution: run for run in runs if (execution := run.tags.get(p.SUMMARY)) and (execution in held or _gone(run))
    }
    trials = [run for run in runs if run.tags.get(p.EXECUTION) in gone and run.tags.get(p.ATTEMPT_ID, "") not in ours]
    return [*trials, *gone.values()]


def _gone(run: Open) -> bool:
    driver = Driver.from_json(run.tags.get(p.DRIVER))
    if driver and driver.lives is not None:
        return not driver.lives
    heard = p.milliseconds(run.tags.get(p.HEARTBEAT)) or run.started
    return time.time() - heard / 1000 > STALE

"""Calls with a timeout, also for servers that answer very slowly."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

REQUEST = 60.0
"""Timeout of a whole request, in seconds. MLflow's own limit is per read, so a slow server may never reach it."""

TRANSFER = 600.0
"""Timeout of the transfer of a run's files in either direction, in seconds."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """Run a call in its own thread and return its result.

    A thread cannot be terminated: a late one continues until the process ends.

    Raises:
        TimeoutError: the call takes longer.
        BaseException: any error of the call.
    """
    results: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            results.put((call(), None))
        except BaseException as error:
            results.put((None, error))

    Thread(target=partial(copy_context().run, work), name="raybench-request", daemon=True).start()
    try:
        value, error = results.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no complete answer within {seconds:g} s") from None
    if error:
        raise error
    return value  # type: ignore[return-value]


class Bounded:
    """A client of a server with a deadline for each method."""

    def __init__(self, client: Any) -> None:
        self._bounded = client

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._bounded, name)
        if not callable(attribute):
            return attribute
        seconds = TRANSFER if name.startswith(("log_artifact", "download_artifacts")) else REQUEST
        return lambda *arguments, **named: within(seconds, partial(attribute, *arguments, **named))

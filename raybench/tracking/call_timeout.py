"""Calls that end in time, also those that wait for a server which sends a byte a second."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

REQUEST = 60.0
"""Seconds for a whole request. MLflow's own limit is for each single read, which a server can satisfy for ever."""

TRANSFER = 600.0
"""Seconds for files of a run, to the server or from it."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call, made in a thread of its own.

    A thread cannot be ended: one that is late goes on, and ends with the process.

    Raises:
        TimeoutError: the call takes longer.
        BaseException: whatever the call raises.
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
        raise TimeoutError(f"no whole answer within {seconds:g} s") from None
    if error:
        raise error
    return value  # type: ignore[return-value]


class Bounded:
    """A client of a server with a deadline for each of its methods."""

    def __init__(self, client: Any) -> None:
        self._bounded = client

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._bounded, name)
        if not callable(attribute):
            return attribute
        seconds = TRANSFER if name.startswith(("log_artifact", "download_artifacts")) else REQUEST
        return lambda *arguments, **named: within(seconds, partial(attribute, *arguments, **named))

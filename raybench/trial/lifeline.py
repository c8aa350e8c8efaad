"""Processes that end with whoever wanted them: nothing of a trial outlives the one who asked for it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent goes (Linux; `watch` serves everywhere)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def watch(descriptor: int) -> None:
    """End this process's group when the other end of a pipe is closed: whoever wanted the result is gone."""

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # hang-up and error are always reported; nothing is read
        while not poll.poll():
            pass
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()

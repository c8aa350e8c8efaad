"""Executors by the options of a command."""

from __future__ import annotations

from raybench.execution.base import Executor


def make_executor(address: str | None = None, inline: bool = False) -> Executor:
    """Return the executor: Ray on this machine or on a cluster, or this process."""
    if inline:
        from raybench.execution.inline import InlineExecutor

        return InlineExecutor()
    from raybench.execution.ray_executor import RayExecutor

    return RayExecutor(address)

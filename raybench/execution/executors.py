"""Executors by the options of a command."""

from __future__ import annotations

from raybench.errors import UsageError
from raybench.execution.base import Executor


def make_executor(address: str | None = None, inline: bool = False) -> Executor:
    """Return the executor: Ray on this machine or on a cluster, or this process.

    Args:
        address: the address of a Ray cluster; None for this machine.
        inline: whether trials run in this process, without Ray.
    """
    if inline and address:
        raise UsageError("inline runs trials in this process, not on a cluster; leave out one of inline and address")
    if inline:
        from raybench.execution.inline import InlineExecutor

        return InlineExecutor()
    from raybench.execution.ray_executor import RayExecutor

    return RayExecutor(address)

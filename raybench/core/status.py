"""The status of a trial and its consequences."""

from __future__ import annotations

from enum import StrEnum

KILLED = "Killed"  # type of the error of a trial whose process was ended by SIGKILL without a sign of memory pressure


class TrialStatus(StrEnum):
    """Status at the end of a trial, as in files and tables.

    Files of other programs may contain other words, which are kept as text (`parse`).
    """

    COMPLETED = "completed"  # all epochs are done, or the target is reached with `stop_at_target`
    OOM = "oom"  # the framework raised an error for it, or the process was killed at its memory limit
    DIVERGED = "diverged"  # the loss is not finite
    TIMEOUT = "timeout"  # the trial took longer than its timeout
    FAILED = "failed"  # the user's code raised an exception or ended its process
    LOST = "lost"  # the worker or its node was lost, or the process was killed without a sign of memory pressure
    SKIPPED = "skipped"  # no node can run the trial; it never started
    KILLED = "killed"  # the user stopped it

    @classmethod
    def parse(cls, word: str | None) -> TrialStatus | None:
        """Parse a status word; None for any other word and for an unfinished trial."""
        return next((status for status in cls if status == word), None)

    @property
    def is_result(self) -> bool:
        """Return whether it is shown and counted, and neither run again nor a failure of the command."""
        return self in (TrialStatus.COMPLETED, TrialStatus.OOM, TrialStatus.DIVERGED, TrialStatus.TIMEOUT)

    @property
    def is_rerun(self) -> bool:
        """Return whether the next command with the same grid runs the trial again."""
        return self in (TrialStatus.LOST, TrialStatus.SKIPPED, TrialStatus.KILLED)

    @property
    def is_failure(self) -> bool:
        """Return whether `raybench grid` exits with status 1."""
        return self in (TrialStatus.FAILED, TrialStatus.LOST)

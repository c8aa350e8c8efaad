"""Statuses: how a trial ended, and what follows from it."""

from __future__ import annotations

from enum import StrEnum


class TrialStatus(StrEnum):
    """How a trial ended; the journal and every table have the word.

    Journals of other programs may hold other words, which stay text (`parse`).
    """

    COMPLETED = "completed"
    """All epochs are done, or the target is reached with `stop_at_target`."""

    OOM = "oom"
    """Memory ran out: the framework's error, or the process was killed at its memory limit."""

    DIVERGED = "diverged"
    """The loss is not finite."""

    TIMEOUT = "timeout"
    """The trial took longer than its timeout."""

    FAILED = "failed"
    """The user's code raised an exception or ended its process."""

    LOST = "lost"
    """The worker or its node went away, or the process was killed without a sign of memory pressure."""

    SKIPPED = "skipped"
    """No node can run the trial; it never started."""

    KILLED = "killed"
    """The user stopped it."""

    @classmethod
    def parse(cls, word: str | None) -> TrialStatus | None:
        """The status with that word; None for any other word and for a trial that has not ended."""
        return next((status for status in cls if status == word), None)

    @property
    def is_result(self) -> bool:
        """Whether it is a result: shown, counted, not tried again, and no failure of the command."""
        return self in (TrialStatus.COMPLETED, TrialStatus.OOM, TrialStatus.DIVERGED, TrialStatus.TIMEOUT)

    @property
    def is_rerun(self) -> bool:
        """Whether the next command with the same grid runs the trial again."""
        return self in (TrialStatus.LOST, TrialStatus.SKIPPED, TrialStatus.KILLED)

    @property
    def is_failure(self) -> bool:
        """Whether `raybench grid` exits with status 1."""
        return self in (TrialStatus.FAILED, TrialStatus.LOST)

    @property
    def mlflow_status(self) -> str:
        """MLflow's own status of the run."""
        if self.is_result:
            return "FINISHED"
        return "KILLED" if self is TrialStatus.KILLED else "FAILED"

"""Listeners to the progress of a grid."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from raybench.core.events import Event
from raybench.core.repeats import Progress
from raybench.datasets import DataSet
from raybench.monitoring.host import HostLoad
from raybench.planning.plan import Plan, WorkItem
from raybench.results.history import GridHistory


class ProgressListener:
    """Receives progress callbacks; this one fetches missing data and shows nothing, for scripts and notebooks."""

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch a missing data set."""
        from raybench.datasets.fetch import fetch

        fetch(dataset, root)

    def begin(self, plan: Plan, todo: Sequence[WorkItem], history: GridHistory, awaited: Collection[str] = ()) -> None:
        """Trials are about to start; the history contains each of their events before `event` is called.

        Args:
            awaited: the devices for which the cluster starts nodes.
        """

    def more(self, progress: Sequence[Progress], todo: Sequence[WorkItem]) -> None:
        """A repeat has ended, and these trials follow."""

    def seconds_to_wait(self, load: HostLoad) -> float:
        """Return how long to wait, at most, for other programs that use the cores before the first trial."""
        return 0.0

    def waiting(self, what: str) -> None:
        """Nodes are awaited for a device, or a quiet machine."""

    def checking(self, what: str) -> None:
        """A check is running before the trials that need it; `check_ended` marks its end."""

    def event(self, event: Event) -> None:
        """An event of a trial or the end of a check."""

    def warn(self, words: str) -> None:
        """A problem that the user may want to fix; from any thread."""

    def no_browser(self, address: str) -> None:
        """The report could not be opened in a browser."""

    def stopping(self) -> None:
        """The user pressed Ctrl-C."""

    def end(self, words: str = "") -> None:
        """No trial is running any more; `words` describes remaining work, and is empty when all is done."""

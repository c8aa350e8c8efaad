"""A command whose processes report by `raybench.current_trial()`, through files of a folder."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from raybench.core.events import Event
from raybench.core.ledger import NANO
from raybench.core.status import TrialStatus
from raybench.results.epoch import over_ranks
from raybench.trial.channel import Reader
from raybench.trial.command_run import CommandRun, End, wrong_use
from raybench.trial.program import TERMINATION_SECONDS, Program
from raybench.trial.run import drop_unmeasured


class ReportedRun(CommandRun):
    """A command whose processes report by `raybench.current_trial()`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._reader = Reader(self._channel)
        self._queue: deque[Event] = deque()
        """Events of rank 0 that wait for those of other ranks."""
        self._epochs: dict[int, dict[int, Event]] = defaultdict(dict)
        """The epochs of each rank by their number."""
        self._ends: dict[int, Mapping[str, Any]] = {}
        self._ledger: Mapping[str, float] = {}
        self._provisional: Event | None = None

    def _look(self) -> None:
        for rank, message in self._reader.read():
            event = message.get("event") or message.get("provisional") or {}
            if "epoch" in event and event["event"] == "epoch_ended":
                self._epochs[rank][event["epoch"]] = event
            if rank == 0 and "event" in message:
                self._queue.append(event)
            elif rank == 0 and event:
                self._provisional = event
            if "end" in message:
                self._ends[rank] = message["end"]
            if rank == 0 and "ledger" in message:
                self._ledger = message["ledger"]
        self._forward(final=False)
        if self._reader.conflict:
            raise End(TrialStatus.FAILED, {"type": "RankConflict", "message": self._reader.conflict})
        failed_ns = min((end["at"] for end in self._ends.values() if end["error"]), default=math.inf)
        if time.time_ns() - failed_ns > TERMINATION_SECONDS / NANO and (error := self._error()):
            raise error  # other ranks wait for that one

    def _forward(self, final: bool) -> None:
        """Send the events of rank 0, with the numbers of other ranks added once they are there."""
        while self._queue:
            event = self._queue[0]
            same = [event]
            for rank in range(1, self._reader.world_size) if event["event"] == "epoch_ended" else ():
                if of_rank := self._epochs[rank].get(event["epoch"]):
                    same.append(of_rank)
                elif rank not in self._ends and not final:
                    return
            self._queue.popleft()
            self._send(over_ranks(same))

    def _error(self) -> End | None:
        self._forward(final=True)
        failed = {rank: end for rank, end in self._ends.items() if end["error"]}
        if not failed:
            return None
        self._warn()
        rank = min(failed, key=lambda rank: failed[rank]["at"])  # others may follow from it
        of_rank = {"rank": rank} if len(self._reader.processes) > 1 else {}
        return End(TrialStatus(failed[rank]["status"]), failed[rank]["error"] | of_rank)

    def _check(self, program: Program) -> None:
        self._warn()
        silent = self._reader.world_size - len(self._reader.processes)
        if 0 < silent < self._reader.world_size:
            self._warnings.append(
                f"{silent} of {self._reader.world_size} ranks reported nothing, so what was counted is that of the "
                "others; call raybench.current_trial() in every rank"
            )
        if self._provisional and 0 not in self._ends:
            self._queue.append(self._provisional)
            self._forward(final=True)
            self._warnings.append("rank 0 ended by os._exit: what it logged after its last epoch is missing")
        reached = {rank: max(self._epochs[rank], default=0) for rank in self._reader.processes}
        message, of_rank = "", {}
        if not self._reader.processes:
            message = "ended without an epoch: write `for epoch in trial.epochs():` around its loop"
        elif 0 not in self._reader.processes:
            message = f"has reports of rank {', '.join(map(str, sorted(reached)))}, and none of rank 0"
        elif 0 not in self._ends and not self._provisional:
            message = "ended before its training did: rank 0 has reported neither its last epoch nor its end"
        elif len(set(reached.values())) > 1:
            first = min(reached, key=lambda rank: reached[rank])
            message = f"ended in rank {first} after epoch {reached[first]}, in others after {max(reached.values())}"
            of_rank = {"rank": first}
        if message:
            raise wrong_use(f"{self._info.name} {message}", **of_rank)

    def _warn(self) -> None:
        for end in self._ends.values():
            self._warnings.extend(text for text in end["warnings"] if text not in self._warnings)

    def close(self) -> None:
        """Kill the program if it runs; send what was reported."""
        super().close()
        with suppress(End):
            self._look()
        self._forward(final=True)

    def sections(self, wall_s: float) -> dict[str, float]:
        """Rank 0's sections; the rest, before and after it, is `other`."""
        sections = dict(self._ledger)
        drop_unmeasured(sections)
        measured = sum(sections.values())
        return sections | {"other": round(sections.get("other", 0.0) + wall_s - measured, 6)}

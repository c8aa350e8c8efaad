"""Scheduling of trials: one for each free device, in the order of the plan."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from operator import itemgetter

from raybench.devices import neighbors
from raybench.planning.node import Node
from raybench.planning.plan import WorkItem


@dataclass(frozen=True)
class AssignedWork:
    """An attempt with its assigned resources: a node, core numbers and accelerator numbers."""

    work: WorkItem
    node: Node
    cores: tuple[int, ...]
    visible: tuple[str, ...]
    exclusive: bool


class _Free:
    """The free resources of one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cores = [int(core) for entry in node.find("cpu") for core in entry.ids]
        self.resources = dict(node.resources)
        self.accelerators = {
            (entry.kind, entry.model): list(entry.ids) for entry in node.hardware if entry.kind != "cpu"
        }


class Dispatcher:
    """Schedules work in the plan's order on every node.

    A trial that has to wait, for a node or for a check, reserves its node: later trials do not overtake it there, even
    if they would fit. This preserves the order of the shuffled repeats, so that a drift of the machine affects all
    cells. An absent node (`present`) reserves nothing: its trials, and those that only fit there, wait for it.

    The work that fits the same nodes is one queue, so that only the first of each has to be examined.

    Args:
        work, nodes: what is run, and where.
        retries: of a lost trial.
        more: returns the work that follows from the results when nothing is left; empty if the grid is done.
    """

    def __init__(
        self,
        work: Iterable[WorkItem],
        nodes: Sequence[Node],
        retries: int = 0,
        more: Callable[[], Iterable[WorkItem]] = tuple,
    ) -> None:
        self._waiting: dict[tuple[str, ...], deque[tuple[int, WorkItem]]] = {}
        self._last, self._first = count(), count(-1, -1)
        self._checks: set[str] = set()
        self._blocked = False  # until something changes
        for each in work:
            self.add(each)
        self._free = {node.name: _Free(node) for node in nodes}
        self._present = set(self._free)
        self._retries, self._more = retries, more
        self._running: dict[str, AssignedWork] = {}
        self._losses = Counter[str]()

    def _is_stranded(self, nodes: Iterable[str]) -> bool:
        return self._present.isdisjoint(nodes)

    def add(self, work: WorkItem) -> None:
        """Append an item that follows from the results of other work."""
        self._queue(work).append((next(self._last), work))
        self._blocked = False
        if work.check:
            self._checks.add(work.key)

    def _add_first(self, work: WorkItem) -> None:
        self._queue(work).appendleft((next(self._first), work))

    def _queue(self, work: WorkItem) -> deque[tuple[int, WorkItem]]:
        """The items that fit the same nodes, each with a number: the lower, the earlier."""
        fit = work.trial.cell.fit
        assert fit is not None, "a trial that fits nowhere is never dispatched"
        return self._waiting.setdefault(fit.nodes, deque())

    @property
    def nodes(self) -> list[Node]:
        """The nodes on which it places trials."""
        return [free.node for free in self._free.values()]

    def present(self, names: Iterable[str]) -> None:
        """Set the nodes that are available now; initially all are."""
        self._present = set(names) & self._free.keys()
        self._blocked = False

    def give_up(self) -> list[WorkItem]:
        """Remove the items that wait only for absent nodes."""
        stranded = [self._waiting.pop(nodes) for nodes in list(self._waiting) if self._is_stranded(nodes)]
        given_up = [work for _, work in sorted(chain(*stranded), key=itemgetter(0))]
        self._checks.difference_update(work.key for work in given_up)
        self._blocked = False
        return given_up

    def stop(self) -> int:
        """Remove everything that waits; return the number of trials."""
        trials = sum(not work.check for queue in self._waiting.values() for _, work in queue)
        self._more = tuple
        self._waiting.clear()
        return trials

    @property
    def stranded(self) -> bool:
        """Return whether items wait that only absent nodes can run, and nothing runs."""
        if self._running or not self._waiting:
            return False
        return all(map(self._is_stranded, self._waiting))

    @property
    def finished(self) -> bool:
        """Return whether nothing waits and nothing runs."""
        return not self._waiting and not self._running

    @property
    def running(self) -> list[AssignedWork]:
        """The items that were placed and not yet released."""
        return list(self._running.values())

    def next(self) -> AssignedWork | None:
        """Place the first trial that may start now; None if every trial has to wait."""
        if self._blocked:
            return None
        reserved: set[str] = set()
        for nodes, queue in sorted(self._waiting.items(), key=lambda each: each[1][0][0]):
            _, work = queue[0]
            available = self._present - reserved
            for name in nodes:
                if name in available and self._is_ready(work) and self._has_room(name, work):
                    queue.popleft()
                    if not queue:
                        del self._waiting[nodes]
                    return self._take(name, work)
            reserved.update(nodes)
        self._blocked = True
        return None

    def _is_ready(self, work: WorkItem) -> bool:
        return self._checks.isdisjoint(work.needs)

    def _has_room(self, name: str, work: WorkItem) -> bool:
        fit, free = work.trial.cell.fit, self._free[name]
        assert fit is not None
        pool = free.accelerators.get((fit.hardware.kind, fit.hardware.model), [])
        accelerators = neighbors(fit.hardware.kind, pool, fit.accelerators)
        enough = all(free.resources.get(resource, 0.0) >= amount for resource, amount in fit.resources)
        return enough and len(free.cores) >= fit.cpus and accelerators is not None

    def _take(self, name: str, work: WorkItem) -> AssignedWork:
        fit, free = work.trial.cell.fit, self._free[name]
        assert fit is not None
        cores, free.cores = free.cores[: fit.cpus], free.cores[fit.cpus :]
        pool = free.accelerators.get((fit.hardware.kind, fit.hardware.model), [])
        visible = neighbors(fit.hardware.kind, pool, fit.accelerators) or ()
        pool[:] = [each for each in pool if each not in visible]
        for resource, amount in fit.resources:
            free.resources[resource] -= amount
        exclusive = fit.cpus >= free.node.cores
        placement = AssignedWork(work, free.node, tuple(cores), visible, exclusive)
        self._running[work.name] = placement
        return placement

    def release(self, name: str, attempt: int, lost: bool = False, begun: bool = True) -> AssignedWork | None:
        """Release the resources of an ended attempt.

        A lost trial is put at the front again while retries remain; one that was not begun, as the same attempt.
        """
        if name not in self._running or self._running[name].work.attempt != attempt:
            return None
        placement = self._running.pop(name)
        self._blocked = False
        fit, free = placement.work.trial.cell.fit, self._free[placement.node.name]
        assert fit is not None
        free.cores = sorted([*free.cores, *placement.cores])
        for resource, amount in fit.resources:
            free.resources[resource] += amount
        if placement.visible:
            pool = free.accelerators[fit.hardware.kind, fit.hardware.model]
            pool[:] = sorted([*pool, *placement.visible], key=lambda each: (len(each), each))
        if not begun:
            self._add_first(placement.work)
        elif placement.work.check:
            self._checks.remove(placement.work.key)
        elif lost and self._losses[name] < self._retries:
            self._losses[name] += 1
            self._add_first(replace(placement.work, attempt=placement.work.attempt + 1))
        if self.finished:
            for each in self._more():
                self.add(each)
        return placement

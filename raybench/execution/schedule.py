"""The order of trials: which one runs next on each node, in the order of the plan."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from operator import itemgetter

from raybench.devices import KINDS
from raybench.planning.node import Node
from raybench.planning.placement import Placement, ResourceRequest
from raybench.planning.plan import Check, WorkItem


@dataclass(frozen=True)
class ScheduledTrial:
    """An attempt at a trial, with the checks before it, and the nodes on which it runs; the first one leads."""

    work: WorkItem
    nodes: tuple[Node, ...]

    @property
    def fit(self) -> Placement:
        """The resources that it takes on each of its nodes."""
        return placement_of(self.work)

    @property
    def exclusive(self) -> bool:
        """Return whether no other trial may use its nodes' cores meanwhile."""
        return len(self.nodes) > 1 or self.fit.cpus >= self.nodes[0].cores


def placement_of(work: WorkItem) -> Placement:
    """The placement of a trial that can run."""
    fit = work.trial.cell.fit
    assert fit is not None, "a trial that fits nowhere is never scheduled"
    return fit


def demand(fit: Placement, node: Node) -> Counter[str]:
    """The amount of each resource that a trial takes on a node.

    A trial on several nodes takes whole nodes, since they share a network. A trial on a TPU takes all chips of its
    host: which of them it may use depends on how they are wired (`raybench.devices.neighbors`).
    """
    if fit.node_count > 1:
        return capacity(node)
    used = Counter({"cpu": fit.cpus, **dict(fit.resources)})
    if fit.accelerators:
        used[pool(fit)] = fit.hardware.count if KINDS[fit.hardware.kind].counts else fit.accelerators
    return used


def capacity(node: Node) -> Counter[str]:
    """The amount of each resource that trials may take on a node."""
    accelerators = {f"{e.kind}: {e.model}": e.count for e in node.hardware if e.kind != "cpu"}
    return Counter({"cpu": node.cores, **accelerators, **node.resources})


def pool(fit: Placement) -> str:
    """The name of the accelerators that a trial uses."""
    return f"{KINDS[fit.hardware.kind].hardware or fit.hardware.kind}: {fit.hardware.model}"


class Schedule:
    """The trials that wait and run, in the plan's order on every node.

    A trial that has to wait, for a node or for the check of another, reserves its nodes: later trials do not overtake
    it there, even if they would fit. This keeps the order of the shuffled repeats, so that a drift of the machine
    affects all configurations. An absent node (`present`) reserves nothing: its trials wait for it.

    The trials that fit the same nodes are one queue, so that only the first of each has to be examined.

    Args:
        work, nodes: what is run, and where.
        retries: of a lost trial.
        more: returns the work that follows from the results when nothing is left; empty if the grid is done.
        wanted: the resources of devices for which nodes are awaited.
        patience_s: seconds to wait for such nodes.
        arrived: takes the name of such a device and its new nodes, which may be none, and returns their work.
        pauses: whether the executor does something between the trials of a node, so that none is handed out ahead.

    Attributes:
        nodes: all nodes so far.
    """

    def __init__(
        self,
        work: Iterable[WorkItem],
        nodes: Sequence[Node],
        retries: int = 0,
        more: Callable[[], Iterable[WorkItem]] = tuple,
        wanted: Mapping[str, ResourceRequest] | None = None,
        patience_s: float = 0.0,
        arrived: Callable[[str, Sequence[Node]], Iterable[WorkItem]] = lambda device, nodes: (),
        pauses: bool = False,
    ) -> None:
        self._pauses = pauses
        self.wanted, self.patience_s, self._arrived = dict(wanted or {}), patience_s, arrived
        self.nodes = list(nodes)
        self._waiting: dict[tuple[str, ...], deque[tuple[int, WorkItem]]] = {}
        self._last, self._first = count(), count(-1, -1)
        self._checks: set[str] = set()  # that have not ended
        self._blocked = False  # until something changes
        self._nodes = {node.name: node for node in nodes}
        self._free = {node.name: capacity(node) for node in nodes}
        self._present = set(self._nodes)
        self._retries, self._more = retries, more
        self._running: dict[str, ScheduledTrial] = {}
        self._ahead: dict[str, ScheduledTrial] = {}  # by node
        self._losses = Counter[str]()
        self.add(work)

    def add(self, work: Iterable[WorkItem]) -> None:
        """Append work to the end of the order."""
        for item in work:
            self._queue(item).append((next(self._last), item))
            self._checks.update(check.key for check in item.checks)
        self._blocked = False

    def _add_first(self, work: WorkItem) -> None:
        self._queue(work).appendleft((next(self._first), work))
        self._blocked = False

    def _queue(self, work: WorkItem) -> deque[tuple[int, WorkItem]]:
        """The items that fit the same nodes, each with a number: the lower, the earlier."""
        return self._waiting.setdefault(self._places(work), deque())

    def _places(self, work: WorkItem) -> tuple[str, ...]:
        """The nodes on which a trial may run: those that were chosen for it, or all that fit if these are not there."""
        return work.nodes if work.nodes and self._present.issuperset(work.nodes) else placement_of(work).nodes

    def present(self, names: Iterable[str]) -> None:
        """Set the nodes that are available now; initially all are."""
        before, self._present = self._present, set(names) & self._nodes.keys()
        if self._present != before:
            waiting = sorted(chain(*self._waiting.values()), key=itemgetter(0))
            self._waiting.clear()
            for entry in waiting:
                self._queue(entry[1]).append(entry)
        self._blocked = False

    def arrive(self, device: str, nodes: Sequence[Node]) -> None:
        """Add the nodes that were started for a device, and their work; without any, the device is given up."""
        del self.wanted[device]
        for node in nodes:
            self.nodes.append(node)
            self._nodes[node.name], self._free[node.name] = node, capacity(node)
            self._present.add(node.name)
        self.add(self._arrived(device, nodes))
        if self.finished:
            self.add(self._more())

    def needs(self, name: str) -> bool:
        """Return whether a trial runs on a node or may still run there."""
        assignments = chain(self._running.values(), self._ahead.values())
        return any(name in nodes for nodes in self._waiting) or any(
            node.name == name for assignment in assignments for node in assignment.nodes
        )

    def give_up(self) -> list[WorkItem]:
        """Remove the trials that wait only for absent nodes."""
        stranded = [self._waiting.pop(nodes) for nodes in list(self._waiting) if self._is_stranded(nodes)]
        works = [work for _, work in sorted(chain(*stranded), key=itemgetter(0))]
        self._checks.difference_update(check.key for work in works for check in work.checks)
        self._blocked = False
        return works

    def stop(self) -> int:
        """Remove everything that waits; return its number."""
        self._more = tuple
        self.wanted.clear()
        number = self.waiting
        self._waiting.clear()
        return number

    def _is_stranded(self, nodes: Iterable[str]) -> bool:
        return self._present.isdisjoint(nodes)

    @property
    def stranded(self) -> bool:
        """Return whether trials wait that only absent nodes can run, and nothing runs."""
        if self._running or not self._waiting:
            return False
        return all(map(self._is_stranded, self._waiting))

    @property
    def waiting(self) -> int:
        """The number of trials that wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        """The number of trials that run or are about to."""
        return len(self._running) + len(self._ahead)

    @property
    def finished(self) -> bool:
        """Return whether nothing waits and nothing runs."""
        return not self._waiting and not self._running and not self._ahead and not self.wanted

    def next(self) -> ScheduledTrial | None:
        """Start the first trial that may start now; None if every trial has to wait."""
        if self._blocked:
            return None
        available = set(self._present)
        for key, queue in self._in_order():
            work = queue[0][1]
            if self._is_ready(work) and (nodes := self._with_room(work, available.intersection(key))):
                assignment = ScheduledTrial(self._pop(key), nodes)
                self._begin(assignment)
                return assignment
            available.difference_update(key)
        self._blocked = True
        return None

    def ahead(self) -> ScheduledTrial | None:
        """The trial that follows a running one on the same node with the same resources; None if there is none.

        An executor that has it before the running one ends loses no time between the two. Only a trial that fits no
        other node is handed out like this, since another node may be free earlier.
        """
        if self._pauses:
            return None
        for running in self._running.values():
            node = running.nodes[0]
            if node.name in self._ahead or node.name not in self._present:
                continue
            key, queue = next(((k, q) for k, q in self._in_order() if node.name in k), ((), deque()))
            if key != (node.name,) or not self._is_ready(work := queue[0][1]):
                continue
            if demand(placement_of(work), node) == demand(running.fit, node):
                self._ahead[node.name] = ScheduledTrial(self._pop(key), running.nodes)
                return self._ahead[node.name]
        return None

    def _in_order(self) -> list[tuple[tuple[str, ...], deque[tuple[int, WorkItem]]]]:
        return sorted(self._waiting.items(), key=lambda entry: entry[1][0][0])

    def _pop(self, key: tuple[str, ...]) -> WorkItem:
        _, work = self._waiting[key].popleft()
        if not self._waiting[key]:
            del self._waiting[key]
        return work

    def _is_ready(self, work: WorkItem) -> bool:
        return (self._checks - {check.key for check in work.checks}).isdisjoint(work.needs)

    def _with_room(self, work: WorkItem, names: Iterable[str]) -> tuple[Node, ...]:
        """As many nodes as a trial needs; empty if too few are free."""
        fit = placement_of(work)
        nodes = [self._nodes[name] for name in fit.nodes if name in names]
        free = [node for node in nodes if demand(fit, node) <= self._free[node.name]]
        return tuple(free[: fit.node_count]) if len(free) >= fit.node_count else ()

    def _begin(self, assignment: ScheduledTrial) -> None:
        for node in assignment.nodes:
            self._free[node.name] -= demand(assignment.fit, node)
        self._running[assignment.work.trial.trial_id] = assignment

    def check_ended(self, key: str) -> None:
        """Let the trials start that wait for a check."""
        self._checks.discard(key)
        self._blocked = False

    def release(self, name: str, attempt: int, lost: bool = False) -> None:
        """Release the resources of an ended attempt; a lost trial is first in the order while retries remain."""
        if assignment := self._remove(name, attempt):
            work, checks = assignment.work, self._missing(assignment.work)
            if lost and self._losses[name] < self._retries:
                self._losses[name] += 1
                self._add_first(replace(work, attempt=work.attempt + 1, checks=checks, nodes=()))
            else:
                self._checks.difference_update(check.key for check in checks)
            if self.finished:
                self.add(self._more())

    def put_back(self, name: str, attempt: int, counts: bool) -> bool:
        """Put an attempt that has not begun at the front again; return False if it counts and is out of retries."""
        if counts and self._losses[name] >= self._retries:
            return False
        if assignment := self._remove(name, attempt):
            self._losses[name] += counts
            self._add_first(replace(assignment.work, checks=self._missing(assignment.work)))
        return True

    def _missing(self, work: WorkItem) -> tuple[Check, ...]:
        return tuple(check for check in work.checks if check.key in self._checks)

    def _remove(self, name: str, attempt: int) -> ScheduledTrial | None:
        """Take an attempt off its nodes, and begin the one that was handed out ahead; None if it is not there."""
        held = (*self._running.values(), *self._ahead.values())
        assignment = next((a for a in held if (a.work.trial.trial_id, a.work.attempt) == (name, attempt)), None)
        if assignment is None:
            return None
        nodes = [node.name for node in assignment.nodes]
        if self._running.pop(name, None):
            for node in assignment.nodes:
                self._free[node.name] += demand(assignment.fit, node)
        else:
            del self._ahead[nodes[0]]
        for following in [self._ahead[node] for node in nodes if node in self._ahead]:
            if self._with_room(following.work, nodes):
                self._begin(self._ahead.pop(following.nodes[0].name))
        self._blocked = False
        return assignment

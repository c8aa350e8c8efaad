"""One trial for each device that is free, in the plan's order on every node."""

import random
from dataclasses import replace

import pytest
from support.jobs import resolved_cell

from raybench.core.cell import Cell, CellDevice
from raybench.core.job import Job
from raybench.devices import Hardware
from raybench.execution.host_resources import HostResources
from raybench.execution.schedule import Schedule
from raybench.planning.node import Node
from raybench.planning.placement import Placement
from raybench.planning.plan import Check, PlannedTrial, WorkItem

CPU = Hardware("cpu", "EPYC", 8, ids=tuple("01234567"))
GPU = Hardware("cuda", "T4", 2, ids=("0", "1"))
TPU = Hardware("tpu", "TPU v5e", 4, ids=("0", "1", "2", "3"))
BOX = Node("box", (CPU, GPU, TPU), resources={"big": 2.0})
OTHER = Node("other", (CPU,))
BOTH = ("box", "other")


def work(name, cpus=8, accelerators=0, nodes=("box",), checks=(), needs=(), node_count=1, chip=GPU, **resources):
    hardware = chip if accelerators else CPU
    fit = Placement(
        hardware, nodes, cpus, accelerators, "2.13", resources=tuple(resources.items()), node_count=node_count
    )
    checks = tuple(Check("weight_decay", key) for key in checks)
    keys = frozenset([*needs, *(check.key for check in checks)])
    return WorkItem(PlannedTrial(resolved_cell(name, fit=fit), 0, 0), checks=checks, needs=keys)


def gpu(name, cpus=4, **more):
    return work(name, cpus, 1, **more)


def job_on(hardware, **numbers):
    cell = Cell(device=CellDevice(kind=hardware.kind, model=hardware.model))
    return Job("t-r0", 1, 0, 0, cell, {}, "", "", **numbers)


def name_of(work):
    return work.trial.cell.cell_id


def start_all(schedule, ahead=False):
    started = []
    while assignment := schedule.next() or (schedule.ahead() if ahead else None):
        started.append(assignment)
    return started


CASES = {
    "CPU trials own the node": ([work("a"), work("b")], ["starts a", "end a", "starts b", "end b", "finished"]),
    "a trial for each GPU": ([gpu("a"), gpu("b"), gpu("c")], ["starts a b", "end b", "starts c"]),
    "a trial takes all chips of a TPU's host": (
        [gpu("a", 2, chip=TPU), gpu("b", 2, chip=TPU)],
        ["starts a", "end a", "starts b"],
    ),
    "small ones do not overtake a large one": (
        [gpu("small"), work("large"), gpu("later")],
        ["starts small", "end small", "starts large", "end large", "starts later"],
    ),
    "a waiting one holds its node against other queues": (
        [gpu("small"), work("large"), work("later", cpus=4, nodes=BOTH)],
        ["starts small later@other"],
    ),
    "another node goes on meanwhile": (
        [*(work(name, nodes=BOTH) for name in "abc"), work("d", nodes=("other",))],
        ["starts a@box b@other", "end b", "starts c"],
    ),
    "a lost one comes again first, three times": (
        [work("a"), work("b")],
        ["starts a", "lose a", "starts a", "lose a", "starts a", "lose a", "starts b"],
    ),
    "earlier attempts do not count as retries": (
        [replace(work("a"), attempt=9)],
        ["starts a", "lose a", "starts a", "lose a", "starts a", "lose a", "finished"],
    ),
    "trials wait for the check of an earlier one and hold the node": (
        [gpu("a", 2, checks="k"), gpu("b", 2, needs="k"), gpu("other", 2)],
        ["starts a", "check k", "starts b", "end a", "starts other"],
    ),
    "checks on different nodes run side by side": (
        [work("a", checks="k"), work("b", nodes=("other",), checks="l")],
        ["starts a b", "end b"],
    ),
    "a trial waits for all checks of others": (
        [gpu("a", checks=["k", "l"]), gpu("b", needs=["k", "l", "made before"])],
        ["starts a", "check k", "check l", "starts b"],
    ),
    "a check that was lost runs again, the last time with the last attempt": (
        [work("a", checks="k"), work("b", needs="k")],
        ["starts a", "lose a", "starts a", "lose a", "starts a", "lose a", "starts b"],
    ),
    "trials on two nodes take both, and hold both": (
        [work("a"), work("b", cpus=2, nodes=BOTH, node_count=2), work("c", cpus=2, nodes=BOTH)],
        ["starts a", "end a", "starts b@box+other", "end b", "starts c"],
    ),
    "a user's own resource is counted": (
        [work(name, cpus=1, big=1.0) for name in "abc"],
        ["starts a b", "end a", "starts c"],
    ),
    "an absent node holds up nothing else": (
        [work("only"), work("either", nodes=BOTH), work("last", nodes=("other",))],
        [
            "present other",
            "starts either",
            "end either",
            "starts last",
            "end last",
            "stranded",
            "present box other",
            "starts only",
        ],
    ),
    "chosen nodes are waited for, unless they are absent": (
        [replace(work(name, nodes=BOTH), nodes=("box",)) for name in "abc"],
        [
            "starts a@box",
            "end a",
            "starts b@box",
            "present other",
            "lose b",
            "starts b@other",
            "end b",
            "starts c@other",
        ],
    ),
    "what waits for absent nodes is given up": (
        [work("a", checks="k")],
        ["present", "stranded", "give up a", "finished"],
    ),
    "the check of what is given up is not waited for": (
        [work("a", checks="k"), work("b", nodes=("other",), needs="k")],
        ["present other", "give up a", "starts b", "end b", "finished"],
    ),
    "the order is kept over several nodes": (
        [work("a"), work("b", nodes=BOTH), work("c", nodes=("other",)), work("d", nodes=BOTH), work("e")],
        [
            "starts a b",
            "lose b",
            "starts b",
            "end b",
            "starts c",
            "end a",
            "starts d",
            "present",
            "end c",
            "end d",
            "give up e",
        ],
    ),
}


@pytest.mark.parametrize(("order", "steps"), CASES.values(), ids=CASES)
def test_order(order, steps):
    schedule, running = Schedule(order, [BOX, OTHER], retries=2), {}
    for step in steps:
        verb, *names = step.removeprefix("give ").split()
        if verb == "starts":
            started = start_all(schedule)
            for assignment, name in zip(started, names, strict=True):
                nodes = "+".join(node.name for node in assignment.nodes)
                assert name in (name_of(assignment.work), f"{name_of(assignment.work)}@{nodes}")
            running |= {name_of(assignment.work): assignment.work for assignment in started}
        elif verb in ("end", "lose"):
            schedule.release(running[names[0]].trial.trial_id, running[names[0]].attempt, lost=verb == "lose")
        elif verb == "check":
            schedule.check_ended(names[0])
        elif verb == "present":
            schedule.present(names)
        elif verb == "up":
            assert [name_of(given) for given in schedule.give_up()] == names
        else:
            assert getattr(schedule, verb)


def names_of(assignments):
    return [name_of(assignment.work) for assignment in assignments]


def test_the_next_trial_is_handed_out_while_one_runs():
    schedule = Schedule([work(name) for name in "abc"], [BOX])
    assert names_of(start_all(schedule, ahead=True)) == ["a", "b"]
    schedule.release("a-r0", 1)
    schedule.present([])
    assert not start_all(schedule, ahead=True), "its node is absent"
    schedule.present(["box"])
    assert names_of(start_all(schedule, ahead=True)) == ["c"], "b runs now"
    assert schedule.put_back("c-r0", 1, counts=False)
    schedule.release("b-r0", 1)
    assert names_of(start_all(schedule, ahead=True)) == ["c"], "it was taken back"
    schedule.release("c-r0", 1)
    assert schedule.finished


@pytest.mark.parametrize(
    "later",
    [gpu("b"), work("b", cpus=4), work("b", nodes=BOTH), work("b", needs="k")],
    ids=["another device", "other resources", "another node may be free earlier", "a check has not ended"],
)
def test_what_is_not_handed_out_ahead(later):
    schedule = Schedule([work("a", checks="k"), later], [BOX, replace(OTHER, hardware=())])
    assert names_of(start_all(schedule, ahead=True)) == ["a"]


def test_nothing_is_handed_out_ahead_if_there_are_pauses():
    assert names_of(start_all(Schedule([work("a"), work("b")], [BOX], pauses=True), ahead=True)) == ["a"]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_device_whose_node_is_awaited(arrives):
    more = iter([[work("more")]])
    follows = lambda device, nodes: [work(device, nodes=("late",)) for _ in nodes]  # noqa: E731
    schedule = Schedule([], [BOX], more=lambda: next(more, ()), wanted={"new": None}, arrived=follows)
    assert not schedule.finished and not schedule.needs("late")
    schedule.arrive("new", [replace(OTHER, name="late")] if arrives else [])
    for name in ["new", "more"] if arrives else ["more"]:
        assert names_of(start_all(schedule)) == [name] and schedule.needs("late") == (name == "new")
        schedule.release(f"{name}-r0", 1)
    assert schedule.finished


def test_nothing_is_awaited_after_a_stop():
    schedule = Schedule([work("a")], [BOX], wanted={"new": None}, more=lambda: [work("more")])
    assert schedule.stop() == 1 and schedule.finished


def test_exclusive_trials():
    (whole,) = start_all(Schedule([work("a")], [BOX]))
    assert whole.exclusive
    first, second = start_all(Schedule([gpu("a"), gpu("b")], [BOX]))
    assert not first.exclusive and not second.exclusive


def test_attempts_that_did_not_begin():
    schedule = Schedule([work("a")], [BOX], retries=1)
    schedule.release("a-r0", 1)  # it does not run
    start_all(schedule)
    schedule.release("a-r0", 2)  # another attempt
    for counts, is_back in ((False, True), (True, True), (False, True), (True, False)):
        assert schedule.put_back("a-r0", 1, counts) is is_back
        assert names_of(start_all(schedule)) == (["a"] if is_back else [])


def test_everything_is_given_back_whatever_the_order():
    random_order = random.Random(0)
    order = [gpu(f"g{number}", cpus=random_order.choice([1, 2, 4])) for number in range(60)]
    schedule, host = Schedule(order, [BOX]), HostResources(BOX)
    running, seen = {}, set()
    while not schedule.finished:
        for assignment in start_all(schedule):
            job = job_on(GPU, cpus=assignment.fit.cpus, accelerators=1)
            running[assignment.work.trial.trial_id] = host.take(job)
        held = [core for job in running.values() for core in job.cores]
        gpus = [name for job in running.values() for name in job.visible]
        assert len(held) == len(set(held)) and len(gpus) == len(set(gpus)) == len(running)
        ended = random_order.choice([*running])
        seen.add(ended)
        host.give_back(running.pop(ended))
        schedule.release(ended, 1)
    assert len(seen) == 60
    schedule.add([work("all")])
    assert names_of(start_all(schedule)) == ["all"]
    assert host.take(job_on(CPU, cpus=8)).cores == [*range(8)]

"""One trial for each device that is free, in the plan's order on every node."""

import random
from dataclasses import replace

import pytest
from support.cells import resolved_cell

from raybench.devices import Hardware
from raybench.execution.scheduler import Dispatcher
from raybench.planning.node import Node
from raybench.planning.placement import Placement
from raybench.planning.plan import Trial, WorkItem

CPU = Hardware("cpu", "EPYC", 8, ids=tuple("01234567"))
GPU = Hardware("cuda", "T4", 2, ids=("0", "1"))
BOX = Node("box", (CPU, GPU), resources={"big": 2.0})
OTHER = Node("other", (CPU,))
BOTH = ("box", "other")


def work(name, cpus=8, accelerators=0, nodes=("box",), needs=(), **resources):
    hardware = GPU if accelerators else CPU
    fit = Placement(hardware, nodes, cpus, accelerators, "2.13", resources=tuple(resources.items()))
    return WorkItem(Trial(resolved_cell(name, fit=fit), 0, 0), needs=frozenset(needs))


def gpu(name, cpus=4, **more):
    return work(name, cpus, 1, **more)


def check(key, before):
    return WorkItem(before.trial, check="weight_decay", key=key)


def name_of(work):
    return work.key if work.check else work.trial.cell.cell_id


def start_all(dispatcher):
    started = []
    while placement := dispatcher.next():
        started.append(placement)
    return started


CASES = {
    "CPU trials own the node": ([work("a"), work("b")], ["starts a", "end a", "starts b", "end b", "finished"]),
    "a trial for each GPU": ([gpu("a"), gpu("b"), gpu("c")], ["starts a b", "end b", "starts c"]),
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
    "trials wait for their check and hold the node": (
        [check("k", gpu("a", 2)), *(gpu(name, 2, needs="k") for name in "ab"), gpu("other", 2)],
        ["starts k", "end k", "starts a b", "end a", "starts other"],
    ),
    "checks on different nodes run side by side": (
        [
            *(check("k", work("a")), work("a", needs="k")),
            *(check("l", work("b", nodes=("other",))), work("b", nodes=("other",), needs="l")),
        ],
        ["starts k l", "end l", "starts b"],
    ),
    "a trial waits for all its checks": (
        [check("k", work("a")), check("l", work("a")), work("a", needs=["k", "l", "made before"])],
        ["starts k", "end k", "starts l", "end l", "starts a"],
    ),
    "a check that was lost is over": (
        [check("k", work("a")), work("a", needs="k")],
        ["starts k", "lose k", "starts a", "lose a", "starts a", "end a", "finished"],
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
    "what waits for absent nodes is given up": (
        [check("k", work("a")), work("a", needs="k")],
        ["present", "stranded", "give up k a", "finished"],
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
    dispatcher, running = Dispatcher(order, [BOX, OTHER], retries=2), {}
    for step in steps:
        verb, *names = step.removeprefix("give ").split()
        if verb == "starts":
            started = start_all(dispatcher)
            for placement, name in zip(started, names, strict=True):
                assert name in (name_of(placement.work), f"{name_of(placement.work)}@{placement.node.name}")
            running |= {name_of(placement.work): placement.work for placement in started}
        elif verb in ("end", "lose"):
            dispatcher.release(running[names[0]].name, running[names[0]].attempt, lost=verb == "lose")
        elif verb == "present":
            dispatcher.present(names)
        elif verb == "up":
            assert [name_of(given) for given in dispatcher.give_up()] == names
        else:
            assert getattr(dispatcher, verb)


def test_resources_of_a_trial():
    (whole,) = start_all(Dispatcher([work("a")], [BOX]))
    assert (whole.cores, whole.exclusive) == (tuple(range(8)), True)
    first, second = start_all(Dispatcher([gpu("a"), gpu("b")], [BOX]))
    assert (first.visible, second.visible, first.exclusive) == (("0",), ("1",), False)
    assert not set(first.cores) & set(second.cores)


def test_release_of_attempts_that_do_not_run():
    dispatcher = Dispatcher([work("a")], [BOX])
    assert dispatcher.release("a-r0", 1) is None
    start_all(dispatcher)
    assert dispatcher.release("a-r0", 2) is None, "another attempt"
    assert dispatcher.release("a-r0", 1, begun=False) is not None
    assert start_all(dispatcher)[0].work.attempt == 1, "it was not begun, so that no attempt is over"


def test_everything_is_given_back_whatever_the_order():
    random_order = random.Random(0)
    order = [gpu(f"g{number}", cpus=random_order.choice([1, 2, 4])) for number in range(60)]
    dispatcher = Dispatcher(order, [BOX])
    running, seen = [], set()
    while not dispatcher.finished:
        running += start_all(dispatcher)
        held = [core for placement in running for core in placement.cores]
        assert len(held) == len(set(held))
        ended = running.pop(random_order.randrange(len(running))).work
        seen.add(ended.name)
        dispatcher.release(ended.name, 1)
    assert len(seen) == 60
    dispatcher.add(replace(work("all"), attempt=1))
    assert start_all(dispatcher)[0].cores == tuple(range(8))

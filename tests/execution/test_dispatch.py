"""One trial for each device that is free, in the plan's order on every node."""

import random
from dataclasses import replace

from raybench.devices import Hardware
from raybench.devices.node import Node
from raybench.execution.dispatch import Dispatcher, Work
from raybench.plan import Trial
from raybench.preflight import Fit
from raybench.resolve import Cell

CPU = Hardware("cpu", "EPYC", 8, ids=tuple("01234567"))
GPU = Hardware("cuda", "T4", 2, ids=("0", "1"))
BOX = Node("box", (CPU, GPU))
OTHER = Node("other", (CPU,))


def work(name, cpus=8, accelerators=0, nodes=("box",), hardware=CPU):
    cell = Cell(name, {}, "x", {}, Fit(hardware, nodes, cpus, accelerators, "2.13"), None, 0.0, None)
    return Work(Trial(f"{name}-r0", cell, 0, 0))


def gpu(name, accelerators=1, cpus=4):
    return work(name, cpus, accelerators, hardware=GPU)


def names(placements):
    return [placement.work.trial.cell.cell_id for placement in placements]


def start_all(dispatcher):
    started = []
    while placement := dispatcher.next():
        started.append(placement)
    return started


def test_a_cpu_trial_owns_the_node():
    dispatcher = Dispatcher([work("a"), work("b")], [BOX])
    (first,) = start_all(dispatcher)
    assert first.cores == tuple(range(8))
    assert first.exclusive
    assert dispatcher.next() is None
    dispatcher.release("a-r0")
    assert names(start_all(dispatcher)) == ["b"]
    dispatcher.release("b-r0")
    assert dispatcher.finished


def test_each_gpu_gets_a_trial_with_cores_and_a_number_of_its_own():
    dispatcher = Dispatcher([gpu("a"), gpu("b"), gpu("c")], [BOX])
    started = start_all(dispatcher)
    assert [placement.visible for placement in started] == [("0",), ("1",)]
    assert not set(started[0].cores) & set(started[1].cores)
    assert not started[0].exclusive
    dispatcher.release("b-r0")
    (third,) = start_all(dispatcher)
    assert third.visible == ("1",)


def test_a_large_trial_is_not_overtaken_by_small_ones():
    dispatcher = Dispatcher([gpu("small"), work("large"), gpu("later")], [BOX])
    assert names(start_all(dispatcher)) == ["small"]
    dispatcher.release("small-r0")
    assert names(start_all(dispatcher)) == ["large"]
    dispatcher.release("large-r0")
    assert names(start_all(dispatcher)) == ["later"]


def test_another_node_goes_on_meanwhile():
    both = ("box", "other")
    dispatcher = Dispatcher([work(name, nodes=both) for name in "abc"] + [work("d", nodes=("other",))], [BOX, OTHER])
    assert [(p.work.trial.cell.cell_id, p.node.name) for p in start_all(dispatcher)] == [("a", "box"), ("b", "other")]
    dispatcher.release("b-r0")
    assert names(start_all(dispatcher)) == ["c"]


def test_a_lost_trial_comes_again_first_and_not_for_ever():
    dispatcher = Dispatcher([work("a"), work("b")], [BOX], retries=2)
    attempts = []
    for _ in range(3):
        placement = dispatcher.next()
        attempts.append((placement.work.trial.trial_id, placement.work.attempt))
        dispatcher.release("a-r0", lost=True)
    assert attempts == [("a-r0", 1), ("a-r0", 2), ("a-r0", 3)]
    assert names(start_all(dispatcher)) == ["b"]


def check(key, before):
    return Work(before.trial, check="decay", key=key)


def waiting_for(key, work):
    return replace(work, needs=frozenset({key}))


def works(placements):
    return [placement.work.name for placement in placements]


def test_trials_wait_for_the_check_with_their_key_and_hold_their_node():
    first = gpu("a", cpus=2)
    order = [check("k", first), *(waiting_for("k", gpu(name, cpus=2)) for name in "ab"), gpu("other", cpus=2)]
    dispatcher = Dispatcher(order, [BOX])
    assert works(start_all(dispatcher)) == ["k"], "and what comes later does not overtake those that wait"
    dispatcher.release("k")
    assert works(start_all(dispatcher)) == ["a-r0", "b-r0"]
    dispatcher.release("a-r0")
    assert works(start_all(dispatcher)) == ["other-r0"]


def test_checks_on_different_nodes_run_side_by_side():
    here, there = work("a"), work("b", nodes=("other",))
    order = [check("k", here), waiting_for("k", here), check("l", there), waiting_for("l", there)]
    dispatcher = Dispatcher(order, [BOX, OTHER])
    assert works(start_all(dispatcher)) == ["k", "l"]
    dispatcher.release("l")
    assert works(start_all(dispatcher)) == ["b-r0"]


def test_a_trial_waits_for_all_the_checks_it_needs():
    trial = work("a")
    needs = replace(trial, needs=frozenset({"k", "l", "made before"}))
    dispatcher = Dispatcher([check("k", trial), check("l", trial), needs], [BOX])
    assert works(start_all(dispatcher)) == ["k"]
    dispatcher.release("k")
    assert works(start_all(dispatcher)) == ["l"]
    dispatcher.release("l")
    assert works(start_all(dispatcher)) == ["a-r0"]


def test_a_check_that_was_lost_is_over():
    trial = work("a")
    dispatcher = Dispatcher([check("k", trial), waiting_for("k", trial)], [BOX], retries=2)
    start_all(dispatcher)
    dispatcher.release("k", lost=True)
    assert works(start_all(dispatcher)) == ["a-r0"]
    dispatcher.release("a-r0", lost=True)
    assert works(start_all(dispatcher)) == ["a-r0"], "a second attempt waits for nothing"
    dispatcher.release("a-r0")
    assert dispatcher.finished


def test_releasing_what_does_not_run_is_nothing():
    dispatcher = Dispatcher([work("a")], [BOX])
    assert dispatcher.release("a-r0") is None
    assert not dispatcher.finished


def test_everything_is_given_back_whatever_the_order():
    random_order = random.Random(0)
    dispatcher = Dispatcher([gpu(f"g{n}", cpus=random_order.choice([1, 2, 4])) for n in range(60)], [BOX])
    running, seen = [], []
    while not dispatcher.finished:
        running += start_all(dispatcher)
        held = [core for placement in running for core in placement.cores]
        assert len(held) == len(set(held))
        ended = running.pop(random_order.randrange(len(running)))
        seen.append(ended.work.trial.trial_id)
        dispatcher.release(ended.work.trial.trial_id)
    assert len(seen) == len(set(seen)) == 60
    free = dispatcher._free["box"]
    assert free.cores == list(range(8))
    assert free.accelerators["cuda", "T4"] == ["0", "1"]

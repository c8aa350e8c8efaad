"""One trial for each device that is free, in the plan's order on every node."""

import random
from collections import Counter
from dataclasses import replace

from support.cells import resolved_cell

from raybench.devices import Hardware
from raybench.execution.scheduler import Dispatcher
from raybench.planning.node import Node
from raybench.planning.placement import Placement
from raybench.planning.plan import Trial, WorkItem

CPU = Hardware("cpu", "EPYC", 8, ids=tuple("01234567"))
GPU = Hardware("cuda", "T4", 2, ids=("0", "1"))
BOX = Node("box", (CPU, GPU))
OTHER = Node("other", (CPU,))


def work(name, cpus=8, accelerators=0, nodes=("box",), hardware=CPU, **resources):
    fit = Placement(hardware, nodes, cpus, accelerators, "2.13", resources=tuple(resources.items()))
    return WorkItem(Trial(resolved_cell(name, fit=fit), 0, 0))


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
    dispatcher.release("a-r0", 1)
    assert names(start_all(dispatcher)) == ["b"]
    dispatcher.release("b-r0", 1)
    assert dispatcher.finished


def test_each_gpu_gets_a_trial_with_cores_and_a_number_of_its_own():
    dispatcher = Dispatcher([gpu("a"), gpu("b"), gpu("c")], [BOX])
    started = start_all(dispatcher)
    assert [placement.visible for placement in started] == [("0",), ("1",)]
    assert not set(started[0].cores) & set(started[1].cores)
    assert not started[0].exclusive
    dispatcher.release("b-r0", 1)
    (third,) = start_all(dispatcher)
    assert third.visible == ("1",)


def test_a_large_trial_is_not_overtaken_by_small_ones():
    dispatcher = Dispatcher([gpu("small"), work("large"), gpu("later")], [BOX])
    assert names(start_all(dispatcher)) == ["small"]
    dispatcher.release("small-r0", 1)
    assert names(start_all(dispatcher)) == ["large"]
    dispatcher.release("large-r0", 1)
    assert names(start_all(dispatcher)) == ["later"]


def test_waiting_trial_holds_its_node_against_other_queues():
    later = work("later", cpus=4, nodes=("box", "other"))
    dispatcher = Dispatcher([gpu("small"), work("large"), later], [BOX, OTHER])
    started = start_all(dispatcher)
    assert [(p.work.trial.cell.cell_id, p.node.name) for p in started] == [("small", "box"), ("later", "other")]


def test_another_node_goes_on_meanwhile():
    both = ("box", "other")
    dispatcher = Dispatcher([work(name, nodes=both) for name in "abc"] + [work("d", nodes=("other",))], [BOX, OTHER])
    assert [(p.work.trial.cell.cell_id, p.node.name) for p in start_all(dispatcher)] == [("a", "box"), ("b", "other")]
    dispatcher.release("b-r0", 1)
    assert names(start_all(dispatcher)) == ["c"]


def test_a_lost_trial_comes_again_first_and_not_for_ever():
    dispatcher = Dispatcher([work("a"), work("b")], [BOX], retries=2)
    attempts = []
    for _ in range(3):
        placement = dispatcher.next()
        attempts.append((placement.work.trial.trial_id, placement.work.attempt))
        dispatcher.release("a-r0", placement.work.attempt, lost=True)
    assert attempts == [("a-r0", 1), ("a-r0", 2), ("a-r0", 3)]
    assert names(start_all(dispatcher)) == ["b"]


def check(key, before):
    return WorkItem(before.trial, check="weight_decay", key=key)


def waiting_for(key, work):
    return replace(work, needs=frozenset({key}))


def works(placements):
    return [placement.work.name for placement in placements]


def test_trials_wait_for_the_check_with_their_key_and_hold_their_node():
    first = gpu("a", cpus=2)
    order = [check("k", first), *(waiting_for("k", gpu(name, cpus=2)) for name in "ab"), gpu("other", cpus=2)]
    dispatcher = Dispatcher(order, [BOX])
    assert works(start_all(dispatcher)) == ["k"], "and what comes later does not overtake those that wait"
    dispatcher.release("k", 1)
    assert works(start_all(dispatcher)) == ["a-r0", "b-r0"]
    dispatcher.release("a-r0", 1)
    assert works(start_all(dispatcher)) == ["other-r0"]


def test_checks_on_different_nodes_run_side_by_side():
    here, there = work("a"), work("b", nodes=("other",))
    order = [check("k", here), waiting_for("k", here), check("l", there), waiting_for("l", there)]
    dispatcher = Dispatcher(order, [BOX, OTHER])
    assert works(start_all(dispatcher)) == ["k", "l"]
    dispatcher.release("l", 1)
    assert works(start_all(dispatcher)) == ["b-r0"]


def test_a_trial_waits_for_all_the_checks_it_needs():
    trial = work("a")
    needs = replace(trial, needs=frozenset({"k", "l", "made before"}))
    dispatcher = Dispatcher([check("k", trial), check("l", trial), needs], [BOX])
    assert works(start_all(dispatcher)) == ["k"]
    dispatcher.release("k", 1)
    assert works(start_all(dispatcher)) == ["l"]
    dispatcher.release("l", 1)
    assert works(start_all(dispatcher)) == ["a-r0"]


def test_a_check_that_was_lost_is_over():
    trial = work("a")
    dispatcher = Dispatcher([check("k", trial), waiting_for("k", trial)], [BOX], retries=2)
    start_all(dispatcher)
    dispatcher.release("k", 1, lost=True)
    assert works(start_all(dispatcher)) == ["a-r0"]
    dispatcher.release("a-r0", 1, lost=True)
    assert works(start_all(dispatcher)) == ["a-r0"], "a second attempt waits for nothing"
    dispatcher.release("a-r0", 2)
    assert dispatcher.finished


def test_releasing_what_does_not_run_is_nothing():
    dispatcher = Dispatcher([work("a")], [BOX])
    assert dispatcher.release("a-r0", 1) is None
    start_all(dispatcher)
    assert dispatcher.release("a-r0", 2) is None, "another attempt"
    assert dispatcher.release("a-r0", 1, begun=False) is not None
    assert start_all(dispatcher)[0].work.attempt == 1, "it was not begun, so that no attempt is over"
    dispatcher.release("a-r0", 1, begun=False)
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
        dispatcher.release(ended.work.trial.trial_id, 1)
    assert len(seen) == len(set(seen)) == 60
    free = dispatcher._free["box"]
    assert free.cores == list(range(8))
    assert free.accelerators["cuda", "T4"] == ["0", "1"]


def test_a_resource_of_ones_own_is_counted():
    owner = replace(BOX, resources={"big": 2.0})
    dispatcher = Dispatcher([work(name, cpus=1, big=1.0) for name in "abc"], [owner])
    assert names(start_all(dispatcher)) == ["a", "b"]
    dispatcher.release("a-r0", 1)
    assert names(start_all(dispatcher)) == ["c"]


def test_what_a_node_that_is_away_would_hold_waits_for_it_and_holds_up_nothing_else():
    either, only_box = work("either", nodes=("box", "other")), work("only", nodes=("box",))
    dispatcher = Dispatcher([only_box, either, work("last", nodes=("other",))], [BOX, OTHER])
    dispatcher.present(["other"])
    assert names(start_all(dispatcher)) == ["either"]
    assert not dispatcher.stranded
    dispatcher.release("either-r0", 1)
    assert names(start_all(dispatcher)) == ["last"]
    dispatcher.release("last-r0", 1)
    assert dispatcher.stranded
    dispatcher.present(["box", "other"])
    assert not dispatcher.stranded
    assert names(start_all(dispatcher)) == ["only"]


def test_what_waits_for_nodes_that_stay_away_is_given_up():
    trial = work("a")
    dispatcher = Dispatcher([check("k", trial), waiting_for("k", trial)], [BOX])
    dispatcher.present([])
    assert dispatcher.stranded
    assert [given.name for given in dispatcher.give_up()] == ["k", "a-r0"]
    assert dispatcher.finished


def test_what_has_to_wait_is_examined_again_only_after_a_change(monkeypatch):
    dispatcher = Dispatcher([work("a"), work("b")], [BOX])
    start_all(dispatcher)
    examined = []
    has_room = dispatcher._has_room
    monkeypatch.setattr(dispatcher, "_has_room", lambda *place: examined.append(place) or has_room(*place))
    assert dispatcher.next() is None
    assert not examined
    dispatcher.present(["box"])
    assert dispatcher.next() is None
    assert len(examined) == 1
    dispatcher.release("a-r0", 1)
    assert names(start_all(dispatcher)) == ["b"]


def test_work_that_waits_is_not_looked_through():
    looks = Counter()

    class Nodes(tuple):
        def __iter__(self):
            looks[self] += 1
            return super().__iter__()

    only_box, only_other = Nodes(["box"]), Nodes(["other"])
    order = [work(f"box {n}", nodes=only_box) for n in range(1000)] + [work("last", nodes=only_other)]
    dispatcher = Dispatcher(order, [BOX, OTHER])
    assert names(start_all(dispatcher)) == ["box 0", "last"]
    looks.clear()
    assert dispatcher.next() is None
    dispatcher.release("last-r0", 1)
    assert dispatcher.next() is None
    dispatcher.present(["other"])
    assert not dispatcher.stranded
    dispatcher.release("box 0-r0", 1)
    assert dispatcher.stranded
    assert sum(looks.values()) < 20
    assert names_of(dispatcher.give_up()) == [f"box {n}" for n in range(1, 1000)]


def test_the_order_is_kept_over_work_for_different_nodes():
    both = ("box", "other")
    order = [work("a"), work("b", nodes=both), work("c", nodes=("other",)), work("d", nodes=both), work("e")]
    dispatcher = Dispatcher(order, [BOX, OTHER], retries=1)
    assert [(p.work.trial.cell.cell_id, p.node.name) for p in start_all(dispatcher)] == [("a", "box"), ("b", "other")]
    dispatcher.release("b-r0", 1, lost=True)
    assert names(start_all(dispatcher)) == ["b"], "again, before what comes later"
    dispatcher.release("b-r0", 2)
    assert names(start_all(dispatcher)) == ["c"]
    dispatcher.release("a-r0", 1)
    assert names(start_all(dispatcher)) == ["d"]
    dispatcher.present([])
    dispatcher.release("c-r0", 1)
    dispatcher.release("d-r0", 1)
    dispatcher.add(work("f", nodes=both))
    assert names_of(dispatcher.give_up()) == ["e", "f"]


def names_of(works):
    return [work.trial.cell.cell_id for work in works]

"""Which idle actors Tune keeps."""

import pytest
from ray.tune import PlacementGroupFactory

from raybench.execution.tune_state import LONGEST_IDLE, IdleActors


def place(node, **resources):
    return PlacementGroupFactory([{"CPU": 1.0, f"node:{node}": 0.001, **resources}])


LOCAL = PlacementGroupFactory([{"CPU": 0.001}])


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def idle(clock):
    return IdleActors(clock)


def ended(idle):
    return list(idle.flush_cached_objects())


def test_each_node_keeps_its_actor_while_another_starts(idle):
    idle.increase_max(place("c"))  # a trial waits for an actor there
    for node in "ab":
        assert idle.cache_object(place(node), f"actor on {node}")
    assert ended(idle) == []
    assert idle.num_cached_objects == 2
    assert [idle.pop_cached_object(place(node)) for node in "ba"] == ["actor on b", "actor on a"]
    assert idle.num_cached_objects == 0
    assert idle.pop_cached_object(place("a")) is None


def test_an_actor_ends_if_a_trial_on_its_node_waits_for_other_resources(idle):
    for node in "ab":
        idle.cache_object(place(node), f"actor on {node}")
    idle.increase_max(place("a", GPU=1.0))
    assert ended(idle) == ["actor on a"]
    assert not idle.cache_object(place("a"), "another that ends meanwhile")
    idle.decrease_max(place("a", GPU=1.0))
    assert idle.cache_object(place("a"), "the next")


def test_an_actor_of_an_absent_node_ends(idle):
    for node in "ab":
        idle.cache_object(place(node), f"actor on {node}")
    idle.absent = {"b"}
    assert ended(idle) == ["actor on b"]
    assert not idle.cache_object(place("b"), "lost with its node")


def test_an_actor_that_nobody_needs_ends_after_a_while(idle, clock):
    idle.cache_object(LOCAL, "first")
    clock.now = LONGEST_IDLE / 2
    idle.cache_object(LOCAL, "second")
    assert ended(idle) == []
    clock.now = LONGEST_IDLE + 1
    assert ended(idle) == ["first"]
    assert list(idle.flush_cached_objects(force_all=True)) == ["second"]

"""Which hardware a cell belongs to, and which of a node's accelerators a trial gets."""

from dataclasses import replace

import pytest

from raybench.devices import Hardware, neighbors
from raybench.planning.node import Node
from raybench.planning.placement import ResourceRequest, find_placements

CPU = Hardware("cpu", "EPYC", 16, ids=tuple(map(str, range(16))))


def node(name, model):
    hardware = (Hardware("cpu", model, 2, ids=("0", "1")), Hardware("cuda", model, 1, ids=("0",)))
    return Node(name, hardware, {"torch": "2.13.0"})


def test_nodes_of_two_models_are_two_placements_in_an_order_of_their_own():
    need = ResourceRequest("cuda", "torch", "fp32")
    nodes = [node("a", "T4"), node("b", "V100"), node("c", "T4")]
    for order in (nodes, nodes[::-1]):
        places = find_placements(need, order)
        assert [(fit.hardware.model, sorted(fit.nodes)) for fit in places] == [("T4", ["a", "c"]), ("V100", ["b"])]


def test_trials_over_nodes_need_nodes_of_one_model():
    nodes = [node("a", "T4"), node("b", "V100"), node("c", "T4")]
    need = ResourceRequest("cuda", "torch", "fp32", nodes=2)
    (fit,) = find_placements(need, nodes)
    assert (fit.hardware.model, fit.node_count, fit.devices, fit.cpus) == ("T4", 2, 2, 2)
    reason = "needs 3 nodes of one model; the cluster has 2 with T4"
    assert find_placements(replace(need, nodes=3), nodes) == reason


SLICES = Hardware("cuda", "A100 MIG 1g.5gb", 2, ids=("MIG-1", "MIG-2"))
WHOLE = Hardware("cuda", "A100", 2, ids=("2", "3"))


@pytest.mark.parametrize(
    ("hardware", "accelerator_type", "count", "placed"),
    [
        ((SLICES,), "", 1, SLICES),
        ((SLICES,), "", 2, "count 2 is not possible on A100 MIG 1g.5gb; use 1"),
        ((SLICES, WHOLE), "", 2, WHOLE),
        ((SLICES, WHOLE), "1g.5gb", 1, SLICES),
        ((SLICES, WHOLE), "1g.5gb", 2, "count 2 is not possible on A100 MIG 1g.5gb; use 1"),
        ((SLICES, WHOLE), "", 3, "needs 3 x CUDA GPU; a has 2"),
    ],
)
def test_a_trial_takes_one_slice_of_a_gpu(hardware, accelerator_type, count, placed):
    need = ResourceRequest("cuda", "torch", "fp32", count=count, replicas=count, accelerator_type=accelerator_type)
    found = find_placements(need, [Node("a", (CPU, *hardware), {"torch": "2.13.0"})])
    assert (found if isinstance(found, str) else found[0].hardware) == placed


@pytest.mark.parametrize(
    ("kind", "free", "count", "chosen"),
    [
        ("tpu", "0123", 2, "01"),
        ("tpu", "123", 2, "23"),
        ("tpu", "12", 2, None),
        ("tpu", "034567", 4, "4567"),
        ("tpu", "3", 1, "3"),
        ("tpu", "", 1, None),
        ("cuda", "03", 2, "03"),
        ("cuda", "0", 2, None),
        ("cpu", "", 0, ""),
    ],
)
def test_tpu_chips_are_assigned_as_neighbors(kind, free, count, chosen):
    assert neighbors(kind, tuple(free), count) == (None if chosen is None else tuple(chosen))

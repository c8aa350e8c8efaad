"""What a roofline is made of: counts of the shipped models, and rates of this machine, under every framework."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from support.checks import cell
from support.frameworks import call
from support.sides import roofline_side

from raybench.checks import roofline
from raybench.checks.pretrial import check_key
from raybench.core.cell import Cell, CellDevice, CellWorkload
from raybench.core.job import Job
from raybench.core.rank import Rank

KINDS = {"torch": "cpu", "tensorflow": "cpu", "torch_xla": "xla_cpu"}
SHAPES = {
    "davidnet": (32, 32, 3),
    "katnoria_cnn": (32, 32, 3),
    "mnist_cnn": (28, 28, 1),
    "digits_cnn": (8, 8, 1),
}
TORCH = pytest.param("torch", marks=pytest.mark.slow)
TENSORFLOW = pytest.param("tensorflow", marks=[pytest.mark.slow, pytest.mark.tensorflow])
XLA = pytest.param("torch_xla", marks=[pytest.mark.slow, pytest.mark.xla])
FORWARD = {"davidnet": 758_523_904, "katnoria_cnn": 6_818_304, "mnist_cnn": 2_591_200, "digits_cnn": 4_166_912}
PARAMETERS = {"davidnet": 6_573_120, "katnoria_cnn": 111_498, "mnist_cnn": 250_698, "digits_cnn": 75_114}


@pytest.mark.parametrize("framework", [TORCH, TENSORFLOW])  # torch_xla counts as torch
def test_every_framework_counts_the_same_work(framework):
    found = call(framework, "roofline_side:count", on=framework, shapes=SHAPES)
    assert {name: work["flops"] for name, work in found.items()} == FORWARD
    assert {name: work["parameters"] for name, work in found.items()} == PARAMETERS


# conv: 4·4·2 in, 4·4·3 out; relu: as much in as out; flatten moves nothing in torch; dense: 48 in, 5 out
# Backward, the convolution has no gradient of its input, as it is the first layer.
OF_A_SMALL_MODEL = {
    "flops": 2 * (48 * 9 * 2 + 48 * 5),
    "train_flops": 2 * (2 * 48 * 9 * 2 + 3 * 48 * 5),
    "values": 32 + 48 + 96 + 53,
    "parameters": 57 + 245,
}


def test_values_moved_are_those_of_each_operation():
    """By hand, of digits_cnn's like: what each layer of a small model reads and writes."""
    assert roofline_side.count_small("torch") == OF_A_SMALL_MODEL


@pytest.mark.slow
@pytest.mark.tensorflow
def test_values_moved_by_keras_include_flatten():
    found = call("tensorflow", "roofline_side:count_small", on="tensorflow")
    assert found == OF_A_SMALL_MODEL | {"train_flops": None, "values": 32 + 48 + 96 + 96 + 53}


SMALL = {"layers": 4, "width": 128, "heads": 4, "context": 64, "vocabulary": 256}
GPT_2 = {"layers": 12, "width": 768, "heads": 12, "context": 1024, "vocabulary": 50_257}


@pytest.mark.parametrize(("sizes", "reentrant"), [(SMALL, None), (SMALL, True), (SMALL, False), (GPT_2, None)], ids=str)
def test_gpt_flops_are_those_of_the_formula(sizes, reentrant):
    """Every pair of positions counts; activations that are recomputed do not."""
    width, context = sizes["width"], sizes["context"]
    of_token = sizes["layers"] * (24 * width**2 + 4 * context * width) + 2 * width * sizes["vocabulary"]
    found = roofline_side.count_gpt(reentrant, **sizes)
    assert (found["flops"], found["train_flops"]) == (context * of_token, 3 * context * of_token)


LSTM = 10 * 2 * 2 * (8 * 64 + 16 * 64)


def test_an_lstm_is_counted():
    assert roofline_side.count_torch_lstm() == LSTM


@pytest.mark.slow
@pytest.mark.tensorflow
def test_layers_of_keras_beside_convolutions_and_dense_ones():
    assert call("tensorflow", "roofline_side:count_keras_kinds") == [2 * 6 * 6 * 8 * 9, LSTM]


@pytest.mark.parametrize("framework", [TENSORFLOW, XLA])  # with torch in tests/test_run.py
def test_the_check_on_this_machine(framework, tmp_path):
    found = call(framework, "roofline_side:measure", on=framework, kind=KINDS[framework], folder=str(tmp_path))
    assert found["work"]["flops"] == FORWARD["digits_cnn"]
    assert set(found["probes"]) == {"product", "convolution", "memory"}
    # Any processor of this century: between 10^8 and 10^14 operations or bytes a second.
    assert all(1e8 < rate < 1e14 for rate in found["probes"].values()), found["probes"]


@pytest.mark.parametrize(
    ("kind", "devices", "ranks", "times"), [("cuda", 4, 1, 4), ("cuda", 4, 4, 4), ("cpu", 4, 1, 1), ("cpu", 4, 4, 4)]
)
def test_peak_of_several_devices(monkeypatch, kind, devices, ranks, times):
    """One process with several accelerators, a rank for each, virtual devices that share the cores, a part of them."""
    content = Cell(
        framework="jax", device=CellDevice(kind, count=devices), workload=CellWorkload("own", form="function")
    )
    monkeypatch.setattr(roofline, "open_assigned", lambda job: SimpleNamespace(kind=kind))
    monkeypatch.setattr(roofline, "open_module", lambda *_: SimpleNamespace(Operations=lambda *_: None))
    monkeypatch.setattr(roofline, "probe", lambda device, operations: {"product": 1e12})
    monkeypatch.setattr(roofline, "current_rank", lambda: Rank(0, ranks))
    found = roofline.measure(Job("r", 1, 0, 0, content, {}, "", "", check="roofline"))
    assert found == {"probes": {"product": times * 1e12}}


def test_cells_with_equal_work_share_a_check():
    plain, key = cell(), partial(check_key, "roofline")
    assert key(plain) == key(cell(batch_size=128, weight_decay=1e-3))
    others = [cell(precision="bf16"), cell(channels_last=True), cell("tensorflow")]
    others += [replace(plain, workload=CellWorkload("davidnet", 1))]
    others += [replace(plain, device=replace(plain.device, threads=1))]
    assert len({key(other) for other in [plain, *others]}) == 6

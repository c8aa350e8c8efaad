"""Rooflines, by hand: what a run achieved beside its device's probes, and what held it up."""

from dataclasses import replace

import pytest
from support.attempts import attempts

from raybench.core.cell import Cell
from raybench.results.epochs import Epochs
from raybench.results.utilization import PASSES, STATED, TRIPLED, train_bytes

TRIAL = "e5728b716bd9-r0"
WORK = {"flops": 6_818_304, "train_flops": 20_000_000, "values": 257_246, "parameters": 111_498}
"""katnoria_cnn's: the golden journal's workload."""


@pytest.fixture
def told(golden_events):
    """The golden attempt on a device with these probes, its steady epoch with that much waiting for input."""

    def make(product=1e12, convolution=1e11, memory=1e11, waited=None, model=None, label=None, **changes):
        events = [dict(event) for event in golden_events]
        probes = {"product": product, "convolution": convolution, "memory": memory}
        measured = {"key": "roofline-1", "work": WORK, "probes": probes, "precision": "tf32"}
        events[0]["roofline"] = label or measured | changes
        if model:
            device = {**events[0]["cell"]["device"], "model": model, "count": 2}
            events[0]["cell"] = {**events[0]["cell"], "device": device}
        if waited is not None:
            events[2]["ledger"] = {**events[2]["ledger"], "input_wait": waited}
        return attempts(events)[TRIAL, 1]

    return make


def test_what_was_achieved(told):
    found = told().limit
    # SGD with momentum, float32, 256 examples: 3 passes over the values; 8 moves of each weight for all examples.
    bytes_moved = 3 * 4 * 257_246 + 4 * 8 * 111_498 / 256
    assert found.memory == pytest.approx(bytes_moved * 39_936 / 3.921 / 1e11)
    assert found.input == pytest.approx(0.009 / 3.921)


def test_a_host_that_waits_while_the_device_works_is_no_wait_for_input(told):
    run = told(waited=1.5)
    by_device = {"train": 5.4, "input_wait": 0.04}
    run = run.changed(epochs=Epochs(replace(epoch, device_s=by_device) for epoch in run.epochs))
    assert run.waiting == pytest.approx(0.04 / (3.912 + 1.5))


RATE = 39_936 / 3.921


@pytest.mark.parametrize(
    ("changes", "flops", "datasheet"),
    [
        ({}, 20_000_000, None),
        ({"model": "NVIDIA A100-SXM4-80GB"}, 20_000_000, 2 * 156e12),
        ({"model": "NVIDIA A100-SXM4-80GB MIG 1g.10gb"}, 20_000_000, None),
        ({"work": WORK | {"train_flops": None}}, PASSES * 6_818_304, None),
        ({"stated": {"unit": "examples", "flops": 5e6}}, 5e6, None),
    ],
)
def test_share_of_the_peaks(told, changes, flops, datasheet):
    found = told(**changes).utilization
    assert (found.basis.flops, found.basis.peak, found.basis.probe, found.basis.precision) == (
        flops,
        1e12,
        "product",
        "tf32",
    )
    assert found.mfu == pytest.approx(flops * RATE / 1e12)
    assert found.datasheet_mfu == (pytest.approx(flops * RATE / datasheet) if datasheet else None)


@pytest.mark.parametrize(
    ("changes", "source", "problem"),
    [
        ({"product": 1e11}, "counted", "204 GFLOP/s exceed the measured peak of 100 GFLOP/s in tf32"),
        ({"product": 1e11, "work": WORK | {"train_flops": None}}, TRIPLED, "208 GFLOP/s exceed"),
        ({"stated": {"unit": "tokens", "flops": 5e6}}, STATED, "no tokens are counted: add `work: {tokens: …}`"),
    ],
)
def test_no_share_above_100_percent_or_of_uncounted_units(told, changes, source, problem):
    run = told(**changes)
    found = run.utilization
    assert (found.mfu, found.datasheet_mfu, found.basis.source) == (None, None, source)
    assert found.problem.startswith(problem)


def test_peak_of_tokens_is_that_of_products(told):
    run = told(convolution=5e12, stated={"unit": "tokens", "flops": 1e6})
    assert run.utilization.basis.probe == "convolution"
    *others, last = run.epochs
    run = replace(run, epochs=Epochs([*others, replace(last, units={"tokens": 1000})]))
    found = run.utilization
    assert (found.basis.probe, found.basis.peak) == ("product", 1e12) and found.mfu < 1


@pytest.mark.parametrize(
    ("device", "bound", "share"),
    [
        ({"product": 4e11}, "compute", 0.5093),
        ({"product": 1e11, "convolution": 2.5e11}, "compute", 0.8148),
        ({"product": 8e11, "memory": 4e10}, "memory", 0.7896),
        ({}, "memory", 0.3158),
        ({"memory": 1e12}, "", 0.2037),  # both cores were busy, with what is not known
        ({"product": 3e11, "waited": 3.912}, "input", 0.5),
        ({"memory": 1e12, "product": 1e14, "waited": 2.0}, "input", 0.3383),
    ],
)
def test_what_held_it_up(told, device, bound, share):
    found = told(**device).limit
    assert (found.bottleneck, found.share) == (bound, pytest.approx(share, abs=1e-4))


@pytest.mark.parametrize(
    ("kind", "cpu_s", "busy", "of_much", "of_little"),
    [
        ("cpu", 3.9, None, "memory", "overhead"),
        ("cuda", 3.9, None, "", "overhead"),  # launching, or only waiting for the device
        ("cuda", 1.0, None, "memory", ""),
        ("cuda", 3.9, 0.98, "memory", ""),
        ("cuda", 3.9, 0.4, "", "overhead"),
        ("cuda", None, None, "", ""),
    ],
)
def test_a_bottleneck_needs_evidence(told, kind, cpu_s, busy, of_much, of_little):
    """A third of the peak of the memory, and little of any."""
    for probes, expected in (({}, of_much), ({"memory": 1e13, "product": 1e14}, of_little)):
        run = told(**probes)
        gpus = [] if busy is None else [{"id": "0", "busy": busy}]
        cell = replace(run.cell, device=replace(run.cell.device, kind=kind))
        epochs = Epochs(replace(epoch, cpu_s=cpu_s) for epoch in run.epochs)
        run = replace(run, cell=cell, epochs=epochs, audit={"gpus": gpus})
        assert run.limit.bottleneck == expected
        assert run.bottleneck == (expected or None)
    assert replace(run, communication=0.3).limit.bottleneck == "communication"


@pytest.mark.parametrize(
    ("changes", "moves"),
    [
        ({"name": "sgd", "momentum": 0.0}, 6),
        ({"name": "sgd", "momentum": 0.9}, 8),
        ({"name": "adam", "betas": [0.9, 0.999]}, 10),
        ({"name": "adamw", "betas": [0.9, 0.999]}, 10),
    ],
)
def test_the_optimizer_s_state_moves_too(changes, moves):
    cell = {"settings": {"batch_size": 10, "precision": "bf16", "optimizer": changes}, "device": {"replicas": 1}}
    work = {"values": 100, "parameters": 1000}
    assert train_bytes(work, Cell.from_json(cell)) == 3 * 2 * 100 + 4 * moves * 1000 / 10
    spread = {**cell, "device": {"replicas": 8, "devices": 8}}
    assert train_bytes(work, Cell.from_json(spread)) == 3 * 2 * 100 + 8 * 4 * moves * 1000 / 10, (
        "each device has all weights"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"label": {"missing": "TypeError: it is not known what the Keras layer up (Conv2DTranspose) computes"}},
        {"product": 0.0, "convolution": 0.0},
        {"product": "fast", "convolution": 0.0},
        {"work": {**WORK, "train_flops": "many"}},
        {"probes": None},
        {"precision": None, "work": None, "stated": {"unit": "examples", "flops": 5e6}},
    ],
)
def test_no_bottleneck_without_its_inputs(told, changes):
    assert told(**changes).limit is None

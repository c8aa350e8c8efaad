"""Rooflines, by hand: what a run achieved beside its device's probes, and what held it up."""

import pytest

from raybench.analysis.bottleneck import roofline, train_bytes
from raybench.core.cell import Cell
from raybench.results.attempt import attempts

TRIAL = "e5728b716bd9-r0"
WORK = {"flops": 6_818_304, "values": 257_246, "parameters": 111_498}
"""katnoria_cnn's: the golden journal's workload."""


@pytest.fixture
def told(golden_events):
    """The golden attempt on a device with these probes, its steady epoch with that much waiting for input."""

    def make(product=1e12, convolution=1e11, memory=1e11, waited=None, **label):
        events = [dict(event) for event in golden_events]
        probes = {"product": product, "convolution": convolution, "memory": memory}
        events[0]["roofline"] = label or {"key": "roofline-1", "work": WORK, "probes": probes}
        if waited is not None:
            events[2]["ledger"] = {**events[2]["ledger"], "input_wait": waited}
        return attempts(events)[TRIAL, 1]

    return make


def test_what_was_achieved(told):
    found = roofline(told())
    assert found.train_flops == 3 * 6_818_304
    # SGD with momentum, float32, 256 examples: 3 passes over the values; 8 moves of each weight for all examples.
    assert found.train_bytes == 3 * 4 * 257_246 + 4 * 8 * 111_498 / 256
    assert found.flops_per_s == pytest.approx(3 * 6_818_304 * 39_936 / 3.921)
    assert found.bytes_per_s == pytest.approx(found.train_bytes * 39_936 / 3.921)
    assert found.compute == found.flops_per_s / 1e12, "of the better probe"
    assert found.memory == found.bytes_per_s / 1e11
    assert found.input == pytest.approx(0.009 / 3.921)


@pytest.mark.parametrize(
    ("device", "bound", "share"),
    [
        ({"product": 4e11}, "compute", 0.5208),
        ({"product": 1e11, "convolution": 1e11}, "compute", 2.0833),
        ({"product": 8e11, "memory": 4e10}, "memory", 0.7896),
        ({}, "memory", 0.3158),
        ({"memory": 1e12}, "overhead", 0.2083),
        ({"memory": 1e12, "product": 1e14}, "overhead", 0.0316),
        ({"product": 3e11, "waited": 3.912}, "input", 0.5),
        ({"memory": 1e12, "product": 1e14, "waited": 2.0}, "input", 0.3383),
    ],
)
def test_what_held_it_up(told, device, bound, share):
    found = roofline(told(**device))
    assert (found.bottleneck, found.share) == (bound, pytest.approx(share, abs=1e-4))


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
    "label",
    [
        {"missing": "TypeError: it is not known what the Keras layer up (Conv2DTranspose) computes"},
        {"work": WORK, "probes": {"product": 0.0, "convolution": 0.0, "memory": 1e9}},
        {"work": WORK, "probes": {"product": "fast", "convolution": 0.0, "memory": 1e9}},
        {"work": {**WORK, "flops": "many"}, "probes": {"product": 1.0, "convolution": 1.0, "memory": 1.0}},
        {"work": WORK, "probes": None},
    ],
)
def test_no_bottleneck_without_its_inputs(told, label):
    assert roofline(told(**label)) is None


def test_an_attempt_without_an_epoch_has_none(golden_events):
    started, *_, ended = golden_events
    (attempt,) = attempts([{**started, "roofline": {"work": WORK, "probes": {}}}, ended]).values()
    assert roofline(attempt) is None

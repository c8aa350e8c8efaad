"""Drift of a machine: what canaries before and after each block of trials tell of it."""

import numpy as np
import pytest

from raybench.checks.canary.judge import drifts
from raybench.core.cell import Cell
from raybench.results.attempt import Attempt

DEVICE = {"kind": "cpu", "model": "EPYC", "count": 2, "threads": 2, "replicas": 1}


def clock(minute):
    return f"2026-11-21T09:{minute:02d}:00.000Z"


def canary(minute, call_s, noise=0.01, calls=100, host="node", framework="torch"):
    subject = {"framework": framework, "device": DEVICE}
    return {
        "event": "check_ended",
        "check": "canary",
        "t": clock(minute),
        "subject": subject,
        "host": host,
        "visible": [],
        "call_s": call_s,
        "noise": noise,
        "calls": calls,
    }


def ran(name, start, end, host="node", framework="torch", **device):
    cell = {"framework": framework, "device": {**DEVICE, **device}}
    return Attempt(
        name, 1, cell=Cell.from_json(cell), label=name, host={"name": host}, started=clock(start), ended=clock(end)
    )


RUNS = [ran("a", 1, 9), ran("b", 11, 19), ran("c", 21, 29)]


def test_a_quiet_machine_has_none():
    assert drifts([canary(0, 0.0100), canary(10, 0.0102), canary(20, 0.0104), canary(30, 0.0101)], RUNS) == []


def test_what_ran_beside_a_slow_canary_is_touched():
    (drift,) = drifts([canary(0, 0.010), canary(10, 0.010), canary(20, 0.010), canary(30, 0.013)], RUNS)
    assert (drift.about, drift.slower, drift.trials) == ("torch on cpu", pytest.approx(1.3), ("c",))
    assert drift.excess == {("c", 1): pytest.approx(1.3 / (1 + drift.noise) - 1)}, "what noise does not explain"
    (drift,) = drifts([canary(0, 0.010), canary(10, 0.013), canary(20, 0.010), canary(30, 0.010)], RUNS)
    assert drift.trials == ("a", "b"), "before it and after it"


def test_canaries_that_are_noisy_themselves_have_to_differ_by_more():
    loud = {"noise": 0.5, "calls": 25}
    assert drifts([canary(0, 0.010, **loud), canary(10, 0.013, **loud)], RUNS) == []
    (drift,) = drifts([canary(0, 0.010, **loud), canary(10, 0.018, **loud)], RUNS)
    (quiet,) = drifts([canary(0, 0.010), canary(10, 0.018)], RUNS)
    assert drift.noise > 3 * quiet.noise


def test_devices_are_compared_with_themselves():
    told = [canary(0, 0.010), canary(0, 0.030, host="other"), canary(0, 0.020, framework="tensorflow")]
    assert drifts([*told, *({**event, "t": clock(30)} for event in told)], RUNS) == []
    others = [ran("there", 1, 9, host="other"), ran("keras", 1, 9, framework="tensorflow"), ran("one", 1, 9, threads=1)]
    (drift,) = drifts([canary(0, 0.010), canary(30, 0.020)], [*RUNS, *others])
    assert drift.trials == ("a", "b", "c")


@pytest.mark.parametrize(("framework", "about"), [("torch", "torch on cpu"), ("none", "cpu")])
def test_a_drift_names_what_was_measured(framework, about):
    runs = [ran("a", 1, 9, framework=framework)]
    (drift,) = drifts([canary(0, 0.010, framework=framework), canary(30, 0.020, framework=framework)], runs)
    assert drift.about == about


@pytest.mark.parametrize(
    "strange", [{"call_s": None}, {"call_s": 0.0}, {"calls": 0}, {"noise": "much"}, {"subject": None}, {"t": None}]
)
def test_a_canary_that_tells_nothing_changes_nothing(strange):
    told = [canary(0, 0.010), canary(5, 0.050) | strange, canary(10, 0.010)]
    found = drifts(told, RUNS)
    assert found == [] or strange == {"t": None}


def test_one_canary_alone_is_no_comparison():
    assert drifts([canary(0, 0.010)], RUNS) == []


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.005, 0.01, 0.02, 0.03])
@pytest.mark.parametrize("count", [3, 5, 11, 21, 41])
def test_quiet_machines_are_seldom_taken_for_changed_ones_and_changed_ones_are_found(count, spread):
    random = np.random.default_rng(count)

    def found(slower):
        return np.mean([
            bool(drifts([canary(minute, 0.01 * float(value)) for minute, value in enumerate(values)], []))
            for values in np.exp(random.normal(0, spread, (400, count))) * slower
        ])  # fmt: skip

    assert found(np.ones(count)) <= 0.05 + 0.03
    assert found(np.where(np.arange(count) < count / 2, 1.0, 1.15)) >= 0.9 - 0.03, "slow in the second half"
    assert found(np.where(np.arange(count) % 2, 1.0, 1.15)) >= 0.9 - 0.03, "slow every other time"

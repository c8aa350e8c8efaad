"""The checks that a grid makes before its trials, and the labels that its trials get from them."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.checks import cell, work

from raybench.checks import roofline, weight_decay
from raybench.checks.pretrial import PretrialChecks, check_key, describe
from raybench.core import events
from raybench.core.job import Job, Target
from raybench.execution.jobs import TIMEOUT
from raybench.planning.plan import PlannedTrial, WorkItem
from raybench.planning.resolve import ModelFlops
from raybench.results.run_table import Run
from raybench.results.utilization import unknown_mfu

PASSED = {"passed": True, "factor": 0.99999, "says": "passed"}
FAILED = {"passed": False, "factor": 8.0, "says": "failed: acts as 8 × λ on a weight"}
RATES = {"work": {"flops": 10, "values": 5, "parameters": 2}, "probes": {"product": 1.0}}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No checks of earlier tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def ended(check, content, **fields):
    module = {"weight_decay": weight_decay, "roofline": roofline}[check]
    about = {"subject": module.subject(content), "about": module.describe(content)}
    return events.check_ended(check_key(check, content), 1, check=check, **about, **{"error": None, **fields})


def job(content, **fields):
    return Job("a-r0", 2, 0, 0, content, {}, "/data", "/a", labels={"grid": "g"}, **fields)


def labels_of(content, *checks):
    made = PretrialChecks(checks).complete(job(content), work("a", content), None, Path("/grid"))
    assert made.warnings == [], "a failed check is reported once, not per trial"
    return made.labels


BOTH = ["weight_decay", "roofline"]


def test_each_check_once_before_its_first_trial():
    todo = [work("a", cell()), work("b", cell(batch_size=32)), work("c", cell(precision="bf16"))]
    made = PretrialChecks().with_checks(todo)
    assert [[check.name for check in one.checks] for one in made] == [BOTH, [], BOTH]
    assert [len(one.needs) for one in made] == [2, 2, 2]
    assert made[0].needs == made[1].needs != made[2].needs
    assert {describe(one, check) for one in made for check in one.checks} == {
        "weight decay: torch on cpu, sgd",
        "peak speed: torch on cpu, fp32",
        "peak speed: torch on cpu, bf16",
    }


NO_DEVICE = {"error": {"type": "OSError", "message": "no device"}}


@pytest.mark.parametrize(
    ("decay", "rates", "missing"),
    [
        (PASSED, RATES, []),
        (FAILED, RATES, []),
        (NO_DEVICE, RATES, ["weight_decay"]),
        (PASSED, NO_DEVICE, ["roofline"]),
    ],
)
def test_only_checks_without_a_result_are_made_again(decay, rates, missing):
    known = [{**ended("weight_decay", cell()), **decay}, ended("roofline", cell(), **rates)]
    (made,) = PretrialChecks(known).with_checks([work("a", cell())])
    assert [check.name for check in made.checks] == missing


@pytest.mark.parametrize("result", [PASSED, FAILED, NO_DEVICE])
def test_decay_that_passed_is_not_checked_for_another_grid(result, monkeypatch):
    missing = ["weight_decay"] if result is not PASSED else []
    PretrialChecks().take(ended("weight_decay", cell(), **result))
    (made,) = PretrialChecks().with_checks([work("a", cell(batch_size=8))])
    assert [check.name for check in made.checks] == [*missing, "roofline"]
    labels = PretrialChecks().complete(job(cell()), made, None, Path("/grid")).labels
    assert ("decay_check" in labels) == (not missing)
    monkeypatch.setattr(weight_decay, "VERSION", "99")
    (made,) = PretrialChecks().with_checks([work("a", cell())])
    assert len(made.checks) == 2, "another version"


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (PASSED, "passed"),
        (FAILED, "failed: acts as 8 × λ on a weight"),
        (NO_DEVICE, "not proven: OSError: no device"),
        ({"error": {"type": "E", "message": f"one line {'x' * 900}\nanother"}}, "not proven: E: one"),
    ],
)
def test_trial_has_the_result_of_its_decay_check(result, says):
    event = ended("weight_decay", cell(replicas=8), **result)
    label = labels_of(cell(replicas=8), event)["decay_check"]
    assert label["says"].startswith(says) and len(label["says"]) < 300
    warnings = PretrialChecks([event]).warnings([cell(replicas=8), cell(replicas=8), cell()])
    assert warnings == ([] if "passed" in result else [f"weight decay: torch on cpu, sgd, 8 replicas: {label['says']}"])


def test_trial_has_the_measured_rates():
    found = ended("roofline", cell(), **RATES)
    assert labels_of(cell(), found) == {
        "grid": "g",
        "roofline": {"key": check_key("roofline", cell()), **RATES, "precision": "fp32"},
    }
    assert labels_of(cell(precision="bf16"), found) == {"grid": "g"}


@pytest.mark.parametrize(
    ("form", "framework", "flops", "checks"),
    [
        ("function", "torch", None, []),
        ("function", "torch", 6e6, ["peak speed: torch on cpu, bf16"]),
        ("command", "tensorflow", 6e6, ["peak speed: tensorflow on cpu, bf16"]),
        ("command", "jax", 6e6, ["peak speed: torch on cpu, bf16"]),
    ],
)
def test_own_loop_gets_the_peak_if_its_flops_are_stated(form, framework, flops, checks):
    content = cell(framework)
    content = replace(content, workload=replace(content.workload, form=form))
    stated = ModelFlops("tokens", flops, "bf16") if flops else None
    todo = WorkItem(PlannedTrial(replace(work("a", content).trial.cell, flops=stated), 0, 0))
    (made,) = PretrialChecks().with_checks([todo])
    assert [describe(made, check) for check in made.checks] == checks
    for check in made.checks:
        checked = PretrialChecks().complete(job(content), made, check, Path("/grid")).cell
        found = ended("roofline", checked, probes=RATES["probes"])
        label = PretrialChecks([found]).complete(job(content), made, None, Path("/grid")).labels["roofline"]
        key = check_key("roofline", checked)
        stated = {"unit": "tokens", "flops": flops}
        assert label == {"key": key, "probes": RATES["probes"], "precision": "bf16", "stated": stated}


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ({"type": "TypeError", "message": "not known\nwhere"}, "TypeError: not known"),
        ({"type": "Killed", "message": ""}, "Killed"),
        ("text", "no result"),
    ],
)
def test_missing_rates_are_reported_once(error, why):
    label = labels_of(cell(), ended("roofline", cell(), error=error))["roofline"]
    runs = [Run(trial="a-r0", roofline=label, status=status) for status in ("completed", "completed", "failed")]
    assert unknown_mfu(runs) == [f"no MFU: {why}"]
    assert unknown_mfu(runs[2:]) == []


@pytest.mark.parametrize(("own", "timeout"), [(0.0, TIMEOUT), (9.0, 9.0), (10 * TIMEOUT, TIMEOUT)])
def test_check_runs_as_its_trial(own, timeout):
    (trial,) = PretrialChecks().with_checks([work("a", cell())])
    for check in trial.checks:
        target = Target("val/accuracy", at_least=0.9)
        made = PretrialChecks().complete(job(cell(), timeout=own, target=target), trial, check, Path("/grid"))
        assert (made.check, made.trial, made.cell, made.target) == (check.name, check.key, cell(), None)
        assert Path(made.folder).parent == Path("/grid/checks") / check.key
        assert made.timeout == timeout

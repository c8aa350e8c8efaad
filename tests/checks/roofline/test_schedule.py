"""Which devices a grid probes before its trials, and what its trials are told of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.checks import cell, work

from raybench.checks.pretrial import PretrialChecks, describe
from raybench.checks.roofline import measure
from raybench.checks.roofline.schedule import TIMEOUT, Rooflines, warnings
from raybench.core import events
from raybench.core.job import Job
from raybench.results.attempt import Attempt

FOUND = {"work": {"flops": 10, "values": 5, "parameters": 2}, "probes": {"product": 1.0}}


def ended(content, **fields):
    return events.check_ended(measure.key(content), 1, check="roofline", **{"error": None, **fields})


def job(content):
    return Job("a-r0", 1, 0, 0, content, {}, "/data", "/a", labels={"grid": "g"})


def test_a_trial_waits_for_a_proof_and_a_roofline_each_made_once():
    todo = [work("a", cell()), work("b", cell(batch_size=32)), work("c", cell(precision="bf16"))]
    made = PretrialChecks().with_checks(todo)
    names = ["weight_decay", "roofline", "a-r0", "b-r0", "weight_decay", "roofline", "c-r0"]
    assert [one.check or one.name for one in made] == names
    assert [len(one.needs) for one in made if not one.check] == [2, 2, 2]
    assert {describe(one) for one in made if one.check} == {
        "weight decay: torch on cpu, sgd",
        "peak speed: torch on cpu, fp32",
        "peak speed: torch on cpu, bf16",
    }


@pytest.mark.parametrize(("fields", "again"), [(FOUND, 0), ({"error": {"type": "OSError", "message": "no"}}, 1)])
def test_what_was_found_out_is_not_looked_for_again_and_what_was_not_is(fields, again):
    made = Rooflines([ended(cell(), **fields)]).with_checks([work("a", cell())])
    assert sum(bool(one.check) for one in made) == again


def test_a_trial_is_told_what_is_known():
    known = PretrialChecks([ended(cell(), **FOUND)])
    trial = known.complete(job(cell()), work("a", cell()), Path("/grid"))
    assert trial.labels == {"grid": "g", "roofline": {"key": measure.key(cell()), **FOUND}}
    other = cell(precision="bf16")
    assert known.complete(job(other), work("a", other), Path("/grid")) == job(other)


def test_the_job_of_a_check_is_that_of_its_trial():
    check, _ = Rooflines().with_checks([work("a", cell())])
    made = PretrialChecks().complete(job(cell()), check, Path("/grid"))
    assert (made.check, made.trial, made.cell) == ("roofline", measure.key(cell()), cell())
    assert Path(made.folder) == Path("/grid/checks") / measure.key(cell())
    assert made.timeout == TIMEOUT
    short = replace(job(cell()), timeout=7.0)
    assert PretrialChecks().complete(short, check, Path("/grid")).timeout == 7.0, "a trial's own timeout holds for it"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ({"type": "TypeError", "message": "not known\nwhere"}, "TypeError: not known"),
        ({"type": "Killed", "message": ""}, "Killed"),
        (None, "the check gave no result"),
        ("text", "the check gave no result"),
    ],
)
def test_why_there_is_none_is_said_once_and_only_of_what_ran(error, why):
    told = Rooflines([ended(cell(), error=error)])
    label = told.complete(job(cell()), work("a", cell()), Path("/grid")).labels["roofline"]
    assert label == {"key": measure.key(cell()), "missing": why}
    runs = [Attempt("a-r0", 1, roofline=label, status=status) for status in ("completed", "completed", "failed")]
    assert warnings(runs) == [f"no roofline: {why}"]
    assert warnings(runs[2:]) == []

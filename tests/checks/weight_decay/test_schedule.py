"""What a grid's proofs of weight decay say, which of them are made, and what its trials are told of them."""

from pathlib import Path

import pytest
from support.checks import cell, work

from raybench.checks.weight_decay import measure
from raybench.checks.weight_decay.schedule import DecayCheckResult, DecayChecks
from raybench.core import events
from raybench.core.job import Job, Target
from raybench.execution.jobs import TIMEOUT


def ended(content, **fields):
    return events.check_ended(
        measure.key(content), 1, check="weight_decay", subject=measure.subject(content), **{"error": None, **fields}
    )


PASSED = {"passed": True, "factor": 0.99999, "expected": 1.0, "follows": "coupled", "deviation": 1e-5}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "passed"),
        ({"factor": 7.99998, "expected": 8.0}, "passed: acts as 8 × λ, as declared"),
        ({"passed": False, "factor": 7.99998}, "failed: acts as 8 × λ"),
        ({"passed": False, "expected": 8.0}, "failed: acts as 1 × λ, declared 8 × λ"),
        ({"passed": False, "factor": 0.0}, "failed: acts as 0 × λ"),
        ({"passed": False, "follows": "decoupled"}, "failed: declared coupled, acts decoupled"),
        (
            {"passed": False, "follows": "decoupled", "factor": 8.0},
            "failed: declared coupled, acts decoupled with 8 × λ",
        ),
        (
            {"passed": False, "follows": None, "factor": 0.3},
            "failed: follows neither rule; coupled with 0.3 × λ comes nearest",
        ),
    ],
)
def test_what_a_proof_says(changes, says):
    proof = DecayCheckResult.of(ended(cell(), **PASSED | changes))
    assert proof.says == says
    assert proof.label() == {"key": proof.key, "passed": proof.passed, "factor": proof.factor, "says": says}
    assert proof.warning == (None if proof.passed else f"weight decay: torch on cpu, sgd: {says}")


def test_a_proof_that_could_not_be_made_says_why_in_a_line():
    error = {"type": "OSError", "message": f"no device\nat all {'x' * 9000}"}
    proof = DecayCheckResult.of(ended(cell(replicas=8), error=error))
    assert (proof.passed, proof.factor) == (None, None)
    assert proof.warning == "weight decay: torch on cpu, sgd, 8 replicas: not proven: OSError: no device"
    assert len(DecayCheckResult.of(ended(cell(), error={"type": "E", "message": "y" * 9000})).says) == 250


@pytest.mark.parametrize(
    "strange",
    [
        {"event": "trial_ended", "trial": "a-r0", "attempt": 1, "status": "completed"},
        {"event": "check_ended", "check": "parity", "trial": "parity-torch"},
        {"event": "check_ended", "check": "weight_decay"},
        ended(cell(), passed=False),
        ended(cell(), **PASSED | {"factor": "eight"}),
        ended(cell(), **PASSED) | {"subject": 7},
        ended(cell(), **PASSED) | {"subject": {}},
        ended(cell(), **PASSED) | {"error": "text", "passed": None},
    ],
)
def test_what_makes_no_sense_proves_nothing(strange):
    proofs = DecayChecks([strange])
    assert proofs.of([cell()]) == []
    assert [made.check for made in proofs.with_checks([work("a", cell())])] == ["weight_decay", ""]


def test_a_check_before_the_first_trial_of_each_kind():
    todo = [
        work("a", cell()),
        work("b", cell(optimizer="adam")),
        work("c", cell(weight_decay=5e-4)),
        work("d", cell(replicas=8)),
    ]
    made = DecayChecks().with_checks(todo)
    kinds = [measure.key(content) for content in (cell(), cell(optimizer="adam"), cell(replicas=8))]
    names = [kinds[0], "a-r0", kinds[1], "b-r0", "c-r0", kinds[2], "d-r0"]
    assert [one.name for one in made] == names
    assert [one.needs for one in made if not one.check] == [{kinds[number]} for number in (0, 1, 0, 2)]


@pytest.mark.parametrize(("fields", "again"), [(PASSED, 0), (PASSED | {"passed": False}, 0), ({}, 1)])
def test_what_was_found_is_not_looked_for_again_and_what_was_not_is(fields, again):
    made = DecayChecks([ended(cell(), **fields)]).with_checks([work("a", cell())])
    assert sum(bool(one.check) for one in made) == again


def job(content):
    target = Target("val/accuracy", at_least=0.9)
    labels = {"grid": "g"}
    return Job("a-r0", 2, 0, 0, content, {}, "/data", "/a", timeout=9.0, target=target, labels=labels)


def test_a_trial_is_told_of_its_proof():
    proofs = DecayChecks(
        [ended(cell(), **PASSED), ended(cell(replicas=8), **PASSED | {"passed": False, "factor": 8.0})]
    )
    right, wrong, unknown = (
        proofs.complete(job(content), proofs.with_checks([work("a", content)])[-1], Path("/grid"))
        for content in (cell(), cell(replicas=8), cell(optimizer="adam"))
    )
    assert right.labels["decay_check"]["says"] == "passed"
    assert right.labels["grid"] == "g"
    assert wrong.labels["decay_check"]["factor"] == 8.0
    assert wrong.labels["decay_check"]["says"] == "failed: acts as 8 × λ"
    assert right.warnings == wrong.warnings == [], "the result is reported once"
    assert unknown == job(cell(optimizer="adam"))


def test_the_job_of_a_check_is_that_of_its_trial_on_the_same_device():
    content = cell()
    check, _ = DecayChecks().with_checks([work("a", content)])
    made = DecayChecks().complete(job(content), check, Path("/grid"))
    assert (made.check, made.trial, made.cell) == ("weight_decay", measure.key(content), content)
    assert Path(made.folder) == Path("/grid/checks") / measure.key(content)
    assert (made.timeout, made.target) == (TIMEOUT, None)
    assert made.labels == {"subject": measure.subject(content)}

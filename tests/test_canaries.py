"""When a grid looks whether its machines are still the same."""

from dataclasses import replace
from pathlib import Path

from raybench.canaries import Canaries
from raybench.execution.dispatch import Work
from raybench.plan import Trial
from raybench.resolve import Cell
from raybench.trial import events
from raybench.trial.job import Job


def cell(framework="torch", kind="cpu", precision="fp32"):
    device = {"kind": kind, "model": "EPYC", "count": 2, "replicas": 1, "threads": 2}
    return {"framework": framework, "device": device, "settings": {"precision": precision}}


def work(name, repeat, content):
    return Work(Trial(f"{name}-r{repeat}", Cell(name, {}, "x", content, None, None, 0.0, None), repeat, 0))


def shown(works):
    return ["*" if one.check else one.name for one in works]


def test_before_the_first_trial_before_each_repeat_and_after_the_last():
    todo = [work(name, repeat, cell()) for repeat in range(2) for name in "ab"]
    made = Canaries().with_checks(todo)
    assert shown(made) == ["*", "a-r0", "b-r0", "*", "a-r1", "b-r1", "*"]
    canaries = [one for one in made if one.check]
    assert {one.check for one in canaries} == {"canary"}
    assert len({one.key for one in canaries}) == 3
    assert [one.needs for one in made if not one.check] == [{canaries[0].key}, set(), {canaries[1].key}, set()]


def test_each_device_and_framework_has_its_own_whatever_the_precision():
    todo = [work("a", 0, cell()), work("b", 0, cell("tensorflow")), work("c", 0, cell(precision="bf16"))]
    made = Canaries().with_checks(todo)
    assert shown(made) == ["*", "a-r0", "*", "b-r0", "c-r0", "*", "*"]
    assert len({one.key for one in made if one.check}) == 4


def test_what_checks_ask_for_stays_where_it_was():
    check, trial = Work(work("a", 0, cell()).trial, check="decay", key="k"), work("a", 0, cell())
    made = Canaries().with_checks([check, replace(trial, needs=frozenset({"k"}))])
    assert [one.check for one in made] == ["decay", "canary", "", "canary"]
    assert made[2].needs == {"k", made[1].key}


def test_a_later_session_goes_on_counting():
    first = Canaries().with_checks([work("a", 0, cell())])
    told = [events.check_ended(one.key, 1, check="canary") for one in first if one.check]
    second = Canaries(told).with_checks([work("b", 0, cell())])
    assert not {one.key for one in first if one.check} & {one.key for one in second if one.check}


def test_the_job_of_a_canary_computes_in_its_own_precision():
    content = cell(precision="bf16")
    canary, trial, _ = Canaries().with_checks([work("a", 0, content)])
    job = Job("a-r0", 1, 0, 0, content, {}, "/data", "/a", visible=["1"])
    made = Canaries().complete(job, canary, Path("/grid"))
    assert (made.check, made.trial, made.visible) == ("canary", canary.key, ["1"])
    assert made.cell["settings"]["precision"] == "fp32"
    assert Path(made.folder) == Path("/grid/checks") / canary.key
    assert Canaries().complete(job, trial, Path("/grid")) == job
    assert content["settings"]["precision"] == "bf16"

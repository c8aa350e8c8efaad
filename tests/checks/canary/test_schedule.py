"""When a grid looks whether its machines are still the same."""

from dataclasses import replace
from pathlib import Path

from support.checks import cell, work

from raybench.checks.canary.schedule import Canaries
from raybench.core import events
from raybench.core.cell import Role
from raybench.core.job import Job
from raybench.planning.plan import WorkItem


def shown(works):
    return ["*" if one.check else one.name for one in works]


def test_before_the_first_trial_before_each_repeat_and_after_the_last():
    todo = [work(name, cell(), repeat) for repeat in range(2) for name in "ab"]
    made = Canaries().with_checks(todo)
    assert shown(made) == ["*", "a-r0", "b-r0", "*", "a-r1", "b-r1", "*"]
    canaries = [one for one in made if one.check]
    assert {one.check for one in canaries} == {"canary"}
    assert len({one.key for one in canaries}) == 3
    assert [one.needs for one in made if not one.check] == [{canaries[0].key}, set(), {canaries[1].key}, set()]


def test_each_device_and_framework_has_its_own_whatever_the_precision():
    todo = [work("a", cell()), work("b", cell("tensorflow")), work("c", cell(precision="bf16"))]
    made = Canaries().with_checks(todo)
    assert shown(made) == ["*", "a-r0", "*", "b-r0", "c-r0", "*", "*"]
    assert len({one.key for one in made if one.check}) == 4


def test_all_canaries_of_a_comparison_run_in_one_environment():
    role = {version: Role(compared={"version": version, "pair": "p"}) for version in ("base", "new")}
    order = ["new", "base", "base", "new"]
    todo = [work(version, replace(cell(), role=role[version]), number // 2) for number, version in enumerate(order)]
    made = Canaries().with_checks(todo)
    assert shown(made) == ["*", "new-r0", "base-r0", "*", "base-r1", "new-r1", "*"]
    assert {one.trial.trial_id.partition("-")[0] for one in made if one.check} == {"base"}


def test_what_checks_ask_for_stays_where_it_was():
    check, trial = WorkItem(work("a", cell()).trial, check="weight_decay", key="k"), work("a", cell())
    made = Canaries().with_checks([check, replace(trial, needs=frozenset({"k"}))])
    assert [one.check for one in made] == ["weight_decay", "canary", "", "canary"]
    assert made[2].needs == {"k", made[1].key}


def test_a_later_session_goes_on_counting():
    first = Canaries().with_checks([work("a", cell())])
    told = [events.check_ended(one.key, 1, check="canary") for one in first if one.check]
    second = Canaries(told).with_checks([work("b", cell())])
    assert not {one.key for one in first if one.check} & {one.key for one in second if one.check}


def test_the_job_of_a_canary_computes_in_its_own_precision():
    content = cell(precision="bf16")
    canary, trial, _ = Canaries().with_checks([work("a", content)])
    job = Job("a-r0", 1, 0, 0, content, {}, "/data", "/a", visible=["1"])
    made = Canaries().complete(job, canary, Path("/grid"))
    assert (made.check, made.trial, made.visible) == ("canary", canary.key, ["1"])
    assert made.cell.settings.precision == "fp32"
    assert Path(made.folder) == Path("/grid/checks") / canary.key
    assert Canaries().complete(job, trial, Path("/grid")) == job
    assert content.settings.precision == "bf16"

"""Runs compared with those of another machine: each finding on both sides of its rule."""

import pytest
from support.machines import results_of

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.diagnostics.other_machines import compare_machines
from raybench.analysis.grid_results import GridResults
from raybench.core.cell import Cell
from raybench.reporting import build
from raybench.results.attempt import Attempt


def ran(of, host, version="2.13", digest="sha256:5d3f0a1c", day=21, hour=9, framework="torch", data="cifar10"):
    cell = {
        "framework": framework,
        "engine": {"framework_version": version},
        "data": {"name": data, "digest": digest},
    }
    begin, end = (f"2026-11-{day}T{hour:02}:{minute:02}:00.000Z" for minute in (0, 5))
    name = f"{of:0<12}-r0"
    return Attempt(
        name, 1, cell=Cell.from_json(cell), host={"name": host}, started=begin, ended=end, status="completed"
    )


def codes(host="gpu-box", **fields):
    runs = [ran("base", "vm"), ran("other", host, **fields)]
    cells = [PlannedCell(f"{name:0<12}", {"device": name}, 1) for name in ("base", "other")]
    results = GridResults("made up", "net", cells, {run.trial: run for run in runs}, {"device": "base"})
    observations = compare_machines(results)
    assert observations.keys() <= {("other0000000-r0", 1)}
    return {code: observation.says for each in observations.values() for code, observation in each.items()}


def test_two_machines_alike_have_none():
    assert codes() == {}


@pytest.mark.parametrize(
    "fields", [{"version": "2.9"}, {"digest": "sha256:aaaa0000"}, {"day": 23}], ids=["version", "data", "day"]
)
def test_one_machine_has_none(fields):
    assert codes(host="vm", **fields) == {}


def test_another_version():
    assert codes(version="2.9") == {
        "other_version": "it used torch 2.9 on gpu-box, the run it is compared with 2.13 on vm"
    }
    assert codes(version="2.9", framework="tensorflow") == {}, "that is compared on purpose"
    assert codes(version=None) == {}


def test_other_data():
    says = "its data have the digest aaaa0000 on gpu-box, those of the run it is compared with 5d3f0a1c on vm"
    assert codes(digest="sha256:aaaa0000ffff") == {"other_data": says}
    assert codes(digest="sha256:aaaa0000", data="mnist") == codes(digest=None) == {}


@pytest.mark.parametrize(("day", "hour", "words"), [(22, 9, None), (22, 10, "1 day after"), (19, 9, "2 days before")])
def test_another_day(day, hour, words):
    found = codes(day=day, hour=hour)
    assert bool(found) == bool(words)
    if words:
        assert found["other_day"].startswith(
            f"it started on gpu-box {words} the run it is compared with on vm (2026-11-"
        )


def test_a_report_of_two_machines_has_them(tmp_path):
    results_of(tmp_path / "a", "vm")
    results_of(tmp_path / "b", "box", "Intel Xeon", torch="2.13.1", digest="sha256:aaaa0000", started="2026-11-20")
    sources = [str(tmp_path / name) for name in "ab"]
    baseline = ["cpu (AMD EPYC)"]
    report = build.from_sources(sources, tmp_path, baseline=baseline)
    found = {finding.code for findings in report.results.findings.values() for finding in findings}
    assert {"different_session", "other_data", "other_day"} <= found
    assert any("One machine per side" in remark.says for remark in report.remarks)

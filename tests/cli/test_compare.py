"""`raybench compare`: a grid before and after a change."""

import json
import shutil

import pytest
from click.testing import CliRunner
from support.machines import GRID, results_of

from raybench.cli import group


def run(*arguments):
    done = CliRunner().invoke(group, list(map(str, arguments)))
    return done.return_value if done.exit_code == 0 else done.exit_code, done.output


@pytest.fixture
def here(tmp_path, monkeypatch):
    results_of(tmp_path / "before")
    results_of(tmp_path / "after", slower=1.6, torch="2.14.0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def status_of(*arguments):
    done = CliRunner().invoke(group, list(map(str, arguments)), standalone_mode=False)
    return done.return_value


def test_slower_version_does_not_pass(here):
    assert status_of("compare", "before", "after") == 4
    _, output = run("compare", "before", "after")
    assert output.startswith("Discard: ") and "slower by more than 5%" in output.splitlines()[0]
    assert "torch: 2.13.0+cpu → 2.14.0" in output


def test_result_is_not_slower_than_itself(here):
    assert status_of("compare", "before", "before") == 0
    _, output = run("compare", "before", "before")
    assert output.startswith("Keep: these are the same runs")
    assert "Differences" not in output


def test_as_json(here):
    status_of("compare", "before", "after", "--max-slowdown", "100%", "--json", "out.json")
    written = json.loads((here / "out.json").read_text())
    assert written["limits"]["slowdown"] == 1.0
    assert {change["verdict"] for change in written["changes"]} <= {"within the limit", "inconclusive"}
    assert (written["version"], written["decision"] == "discard") == (1, False)
    assert [each["name"] for each in written["differences"]] == ["torch"]


def test_missing_configuration_does_not_pass(here):
    for attempt in (here / "after" / GRID / "attempts").glob("*"):
        if attempt.name.startswith(
            sorted(path.name for path in (here / "after" / GRID / "attempts").iterdir())[0][:12]
        ):
            shutil.rmtree(attempt)
    assert status_of("compare", "before", "after", "--max-slowdown", "900%") == 4
    assert "no completed run in new" in run("compare", "before", "after")[1]


@pytest.mark.parametrize("limit", ["5x", "-1", "nan"])
def test_a_limit_that_is_no_percentage(here, limit):
    status, output = run("compare", "before", "after", "--max-slowdown", limit)
    assert status == 2
    assert "is not a percentage; write, for example, 5%" in output


def test_a_source_that_does_not_exist(here):
    done = CliRunner().invoke(group, ["compare", "before", "gone"])
    assert "gone" in str(done.exception)

"""`raybench compare`: a grid before and after a change."""

import json

import pytest
from click.testing import CliRunner
from raybench.results.bundle import bundle_of, import_bundle, read_bundle, write_bundle
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


def test_what_has_become_slower(here):
    assert status_of("compare", "before", "after") == 4
    _, output = run("compare", "before", "after")
    assert "slower by more than 5%." in output.splitlines()[0]
    assert "torch: 2.13.0+cpu → 2.14.0" in output
    assert max(map(len, output.splitlines())) <= 80


def test_a_result_is_not_slower_than_itself(here):
    assert status_of("compare", "before", "before") == 0
    _, output = run("compare", "before", "before")
    assert output.startswith("No cell is ")
    assert "Differences" not in output


def test_as_json(here):
    status_of("compare", "before", "after", "--max-slowdown", "100%", "--json", "out.json")
    written = json.loads((here / "out.json").read_text())
    assert written["max_slowdown"] == 1.0
    assert {cell["verdict"] for cell in written["cells"]} <= {"within the limit", "inconclusive"}
    assert [each["name"] for each in written["differences"]] == ["torch"]


def test_an_imported_result_of_another_machine_is_not_compared(here):
    output = run("compare", "before", "after")[1]
    results_of(here / "notebook", host="colab", slower=3.0)
    write_bundle(bundle_of(here / "notebook" / GRID)[0], here / "colab.zip")
    import_bundle(read_bundle(here / "colab.zip"), here / "before")
    assert run("compare", "before", "after")[1] == output


@pytest.mark.parametrize("limit", ["5x", "-1", "nan"])
def test_a_limit_that_is_no_percentage(here, limit):
    status, output = run("compare", "before", "after", "--max-slowdown", limit)
    assert status == 2
    assert "is not a percentage; write, for example, 5%" in output


def test_a_source_that_does_not_exist(here):
    done = CliRunner().invoke(group, ["compare", "before", "gone"])
    assert "gone" in str(done.exception)

"""`raybench env`, and what `plan` and `grid` say of environments."""

import sys

import pytest

from raybench.environments import RECIPES, Recipe, build, recipes
from raybench.environments.built import STAMP


@pytest.fixture
def nothing(monkeypatch):
    """A recipe of nothing: its environment is there in seconds."""
    monkeypatch.setattr(recipes, "TRIALS", ())
    monkeypatch.setitem(RECIPES, "nothing", Recipe("nothing", "torch", ("cpu",), ("pip",), "a test"))
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)


def states(raybench):
    said = raybench("env", "list")
    assert (said.status, said.err) == (0, "")
    return {line.split()[0]: line for line in said.lines[2:]}


def test_environments_are_listed_and_built(raybench, nothing, tmp_path):
    assert raybench("env", "list").lines[0] == f"environments in {tmp_path / 'environments'}"
    before = states(raybench)
    assert list(before) == ["xla", "tpu", "tensorflow", "nothing"]
    assert "not built" in before["nothing"]
    assert not (tmp_path / "environments").exists(), "looking makes nothing"
    made = raybench("env", "create", "nothing")
    assert (made.status, made.err) == (0, "building nothing …\n")
    assert made.out.startswith("nothing: built in ")
    assert made.out.endswith(f" MB, in {tmp_path / 'environments' / 'nothing'}\n")
    after = states(raybench)["nothing"]
    assert f"  ready      {sys.version.split()[0]}  pip " in after
    again = raybench("env", "create", "nothing")
    assert again.lines == [f"nothing: ready in {tmp_path / 'environments' / 'nothing'}"]
    (tmp_path / "environments" / "nothing" / STAMP).write_text(
        (tmp_path / "environments" / "nothing" / STAMP).read_text().replace('"recipe": "', '"recipe": "old')
    )
    assert "stale: its recipe has changed" in states(raybench)["nothing"]


def test_nothing_is_built_where_one_name_is_wrong(raybench, nothing, tmp_path):
    said = raybench("env", "create", "nothing", "tensorfolw")
    assert (said.status, said.lines) == (2, ["unknown environment 'tensorfolw'; did you mean tensorflow?"])
    assert not (tmp_path / "environments").exists()


def test_what_pip_cannot_do_is_one_clear_message(raybench, nothing, tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, "nothing", Recipe("nothing", "torch", ("cpu",), ("no such/thing",), "a test"))
    said = raybench("env", "create", "nothing")
    assert said.status == 1
    assert said.lines[1] == "environment nothing was not built: pip ended with status 1"
    assert said.lines[-1] == f"All of its output: {tmp_path / 'environments' / 'nothing' / 'install.log'}"
    assert "Traceback" not in said.err


def test_ctrl_c_is_130(raybench, nothing, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "_run", interrupted)
    assert raybench("env", "create", "nothing").status == 130


def test_fresh_builds_what_is_ready(raybench, nothing, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(build, "create", lambda *arguments: asked.append(arguments) or look())

    def look():
        from raybench.environments import look

        return look("xla")

    raybench("env", "create", "nothing", "--fresh")
    assert [(name, fresh) for name, _, fresh in asked] == [("nothing", True)]


def test_a_plan_says_what_makes_an_environment(raybench, digits):
    digits.write_text(digits.read_text() + "devices: {cpu: {kind: cpu, environment: xla}}\n")
    for more in ([], ["--inline"]):
        said = raybench("plan", digits, *more)
        assert (said.status, said.err) == (0, "")
        reason = "trials in this process cannot run in environment xla" if more else "raybench env create xla"
        assert reason in said.out
    ran = raybench("grid", digits)
    assert ran.status == 3
    assert ": raybench env create xla" in ran.out

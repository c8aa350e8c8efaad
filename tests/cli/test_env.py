"""`raybench env`, and what `plan` and `grid` say of environments."""

import pytest

from raybench.environments import RECIPES, EnvironmentRecipe, recipes
from raybench.environments.recipes import STAMP


@pytest.fixture
def nothing(monkeypatch):
    """A recipe of nothing: its environment is there in seconds."""
    monkeypatch.setattr(recipes, "NEEDED_BY_TRIALS", ())
    monkeypatch.setitem(RECIPES, "nothing", EnvironmentRecipe("nothing", "torch", ("pip",), "a test"))
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)


def states(raybench):
    said = raybench("env")
    assert (said.status, said.err) == (0, "")
    return {line.split()[0]: line for line in said.lines[3:]}


@pytest.mark.slow
def test_environments_are_listed_and_built(raybench, nothing, tmp_path):
    assert raybench("env").lines[0] == f"Environments in {tmp_path / 'environments'}"
    before = states(raybench)
    assert list(before) == ["xla", "tpu", "torch_tpu", "tensorflow", "nothing"]
    assert "not built" in before["nothing"]
    assert not (tmp_path / "environments").exists(), "looking makes nothing"
    made = raybench("env", "create", "nothing")
    folder = tmp_path / "environments" / "nothing"
    assert (made.status, made.lines[-1]) == (0, f"nothing: built in {folder}")
    assert " ready " in states(raybench)["nothing"]
    assert raybench("env", "create", "nothing").lines == [f"nothing: ready in {folder}"]
    (folder / STAMP).write_text("old")
    assert " stale " in states(raybench)["nothing"]


def test_nothing_is_built_where_one_name_is_wrong(raybench, nothing, tmp_path):
    said = raybench("env", "create", "nothing", "tensorfolw")
    assert (said.status, said.lines) == (2, ["unknown environment 'tensorfolw'; did you mean tensorflow?"])
    assert not (tmp_path / "environments").exists()


def test_a_plan_says_what_makes_an_environment(raybench, digits):
    digits.write_text(digits.read_text() + "devices: {cpu: {kind: cpu, environment: xla}}\n")
    for more in ([], ["--inline"]):
        said = raybench("plan", digits, *more)
        assert (said.status, said.err) == (0, "")
        reason = "--inline cannot use environment xla" if more else "run `raybench env create xla`"
        assert reason in said.out
    ran = raybench("grid", digits)
    assert ran.status == 3
    assert "; run `raybench env create xla`" in ran.out

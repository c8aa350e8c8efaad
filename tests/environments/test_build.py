"""Environments are built once, whole or not at all, and known to be stale."""

import shutil
import subprocess
import threading
import tomllib
from dataclasses import replace

import pytest
from support import ROOT

from raybench import environments
from raybench.environments import RECIPES, python_of, recipe_for
from raybench.errors import ExecutionError, UsageError

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALLERS = ["pip", pytest.param("uv", marks=pytest.mark.skipif(not shutil.which("uv"), reason="uv is missing"))]


@pytest.mark.exhaustive
@pytest.mark.parametrize("installer", INSTALLERS)
def test_built_once_until_recipe_changes(tiny, monkeypatch, tmp_path, installer):
    if installer == "pip":
        monkeypatch.setattr("raybench.environments.recipes.shutil.which", lambda name: None)
    for name in ("PYTHONPATH", "PIP_TARGET", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, str(tmp_path / "leak"))
    tiny.create()
    assert not (tmp_path / "leak").exists()
    python = python_of("tiny")
    subprocess.run([python, "-P", "-c", "import tiny"], check=True)
    built = python.lstat().st_ino
    tiny.create()
    assert python.lstat().st_ino == built
    monkeypatch.setitem(RECIPES, "tiny", replace(tiny, extra=("tiny @ file:///nowhere/tiny-1.0-py3-none-any.whl",)))
    assert (RECIPES["tiny"].state, python_of("tiny")) == ("stale", None)
    with pytest.raises(ExecutionError, match="environment tiny could not be built: exit status"):
        RECIPES["tiny"].create()
    assert RECIPES["tiny"].state == "not built", "also if it was ready before"


def test_unwritable_folder(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RAYBENCH_ENVIRONMENTS", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"file/tiny: cannot write there \(File exists\); change RAYBENCH_ENV"):
        tiny.create()


def test_two_at_once_build_one(tiny, monkeypatch):
    commands = []

    def install(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", install)
    threads = [threading.Thread(target=tiny.create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tiny.state, len(commands)) == ("ready", 2)


@pytest.mark.slow
def test_interrupted_installation_leaves_nothing(tiny, monkeypatch):
    def interrupt(command, **_):
        (tiny.folder / "venv").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tiny.create()
    assert not tiny.folder.exists()


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "tiny"])
def test_recipe_is_the_extra_of_its_name(name, monkeypatch):
    monkeypatch.undo()
    recipe = RECIPES[name]
    assert list(recipe.extra) == PYPROJECT["optional-dependencies"][name]
    assert recipe.requirements == recipe.extra + environments.recipes.NEEDED_BY_TRIALS
    assert set(environments.recipes.NEEDED_BY_TRIALS) <= set(PYPROJECT["dependencies"])


def test_unknown_name():
    with pytest.raises(UsageError, match="unknown environment 'xlaa'; did you mean xla\\?"):
        python_of("xlaa")
    with pytest.raises(UsageError, match="unknown environment 'q'; use one of xla, tpu, torch_tpu, tensorflow"):
        python_of("q")


@pytest.mark.parametrize(
    ("framework", "kind", "name"),
    [
        ("torch_xla", "tpu", "tpu"),
        ("torch_xla", "xla_cpu", "xla"),
        ("torch_tpu", "tpu", "torch_tpu"),
        ("tensorflow", "cuda", "tensorflow"),
    ],
)
def test_recipe_for_a_framework(framework, kind, name):
    assert recipe_for(framework, kind).name == name
    assert recipe_for("torch", kind) is None

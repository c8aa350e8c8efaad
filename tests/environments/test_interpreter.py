"""What a profile's environment means, what it comes to on a node, and why it cannot be used."""

import json
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from raybench.devices import Hardware
from raybench.environments import (
    Interpreter,
    find,
    interpreter,
    key_of,
    link_package,
)
from raybench.environments.build import STAMP
from raybench.planning.node import Node, probe_node
from raybench.planning.placement import ResourceRequest, find_placement

HERE = Node("server", (Hardware("cpu", "AMD EPYC", 2, 1 << 34, ids=("0", "1")),), {"torch": "2.13.0"}, "3.11.7")


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def bare(tmp_path):
    """A virtual environment with nothing in it."""
    folder = tmp_path / "home" / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


@pytest.mark.parametrize(
    ("said", "key"),
    [
        (None, ""),
        ("xla", "xla"),
        ("./xla", "/grids/xla"),
        ("../venv/bin/python", "/grids/../venv/bin/python"),
        ("~/venv", "~/venv"),
        ("/opt/venv", "/opt/venv"),
    ],
)
def test_one_key_for_each_way_to_say_it(said, key):
    assert key_of(said, Path("/grids")) == key


def test_an_interpreter_says_what_it_has(bare):
    found = find(str(bare), "server", ["torch"])
    assert found == Interpreter(str(bare / "bin" / "python"), ".".join(map(str, sys.version_info[:3])))
    assert find(str(bare / "bin" / "python"), "server", ["torch"]) == found
    site = next((bare / "lib").glob("python3*/site-packages"))
    for name in ("numpy", "torch"):
        about = site / f"{name}-2.9.1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.9.1\n")
        (site / f"{name}.py").write_text("raise SystemExit('it was imported')")
    assert find(str(bare), "server", ["torch"]).packages == {"torch": "2.9.1", "numpy": "2.9.1"}


def test_the_one_raybench_runs_in_is_no_other_one():
    found = find(sys.executable, "server", ["torch"])
    assert (found.python, found.problem) == ("", "")
    assert found.packages["torch"] == probe_node().packages["torch"]
    assert find(sys.prefix, "server", []).python == ""


def test_what_is_no_python_that_works(tmp_path, monkeypatch):
    def problem(path):
        return find(str(path), "server", ["torch"]).problem

    assert problem(tmp_path / "python") == f"{tmp_path}/python on server: no such file"
    assert problem(tmp_path) == f"{tmp_path} on server: not a virtual environment: it has no bin/python"
    (tmp_path / "text").write_text("")
    assert problem(tmp_path / "text") == f"{tmp_path}/text on server: cannot be run (Permission denied)"
    garbage = script(tmp_path / "garbage", "\x7fELF no program")
    assert problem(garbage) == f"{garbage} on server: cannot be run (Exec format error)"
    other = script(tmp_path / "other", "#!/bin/sh\necho 'not what you think' >&2; echo hello\n")
    assert problem(other) == f"{other} on server: not a working Python: not what you think"
    old = script(tmp_path / "old", '#!/bin/sh\necho \'{"python": "3.9.2", "prefix": "/usr", "packages": {}}\'\n')
    assert problem(old) == f"{old} on server has Python 3.9.2; trials need 3.11 or later"
    monkeypatch.setattr(interpreter, "ANSWER_TIMEOUT_S", 0.2)
    hung = script(tmp_path / "hung", "#!/bin/sh\nexec sleep 60\n")
    assert problem(hung) == f"{hung} on server: no answer within 0.2 s"


def test_a_built_one_and_what_makes_it(tiny, tmp_path):
    assert (
        find("tiny", "server", []).problem == "environment tiny is not built on server; run `raybench env create tiny`"
    )
    folder = tmp_path / "environments" / "tiny"
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    stamp = {"recipe": tiny.digest, "version": "3.11.7", "packages": {}, "size": 1}
    (folder / STAMP).write_text(json.dumps({**stamp, "recipe": "another"}))
    says = "environment tiny is stale on server; run `raybench env create tiny`"
    assert find("tiny", "server", []).problem == says
    (folder / STAMP).write_text(json.dumps(stamp))
    assert find("tiny", "server", []).problem == ""


def test_the_version_is_that_of_the_environment():
    old = Interpreter("/old/python", "3.12.1", {"torch": "2.9.1", "numpy": "2.0"})
    node = replace(HERE, environments={"/old/python": old})
    assert find_placement(ResourceRequest("cpu", "torch", "fp32"), [node]).framework_version == "2.13.0"
    found = find_placement(ResourceRequest("cpu", "torch", "fp32", environment="/old/python"), [node])
    assert (found.framework_version, found.environment) == ("2.9.1", "/old/python")


@pytest.mark.parametrize(
    ("packages", "reason"),
    [
        ({"numpy": "2.0"}, "torch is not installed in /v on server"),
        ({"torch": "2.9.1"}, "numpy is not installed in /v on server"),
    ],
)
def test_what_an_environment_lacks(packages, reason):
    node = replace(HERE, environments={"/v": Interpreter("/v/bin/python", "3.11.7", packages)})
    assert find_placement(ResourceRequest("cpu", "torch", "fp32", environment="/v"), [node]) == reason


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (
            ResourceRequest("cpu", "tensorflow", "fp32"),
            "tensorflow is not installed on server; run `pip install 'tensorflow>=2.20'` or "
            "`raybench env create tensorflow`",
        ),
        (
            ResourceRequest("xla_cpu", "torch_xla", "fp32"),
            "torch_xla is not installed on server; run `raybench env create xla`",
        ),
    ],
)
def test_a_framework_that_is_missing_is_told_with_what_brings_it(need, reason):
    assert find_placement(need, [HERE]) == reason


@pytest.mark.parametrize("links", [True, False])
def test_another_interpreter_finds_raybench_and_nothing_else_of_ours(bare, tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(Path, "symlink_to", lambda *_, **__: (_ for _ in ()).throw(OSError("no links here")))
    (tmp_path / "only").mkdir()
    link_package(tmp_path / "only")
    assert [path.name for path in (tmp_path / "only").iterdir()] == ["raybench"]
    code = "import raybench.core.job, importlib.util as u; print(raybench.__version__, u.find_spec('pytest'))"
    environ = {**interpreter.clean_environ(), "PYTHONPATH": str(tmp_path / "only")}
    done = subprocess.run(
        [bare / "bin" / "python", "-c", code], env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[1] == "None"

"""What a profile's environment means, what it comes to on a node, and why it cannot be used."""

import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from raybench.devices import Hardware
from raybench.environments import Interpreter, clean_environ, find, interpreter, key_of, link_package
from raybench.environments.recipes import STAMP
from raybench.planning.node import Node, probe_node
from raybench.planning.placement import ResourceRequest, find_placements

HERE = Node("server", (Hardware("cpu", "AMD EPYC", 2, 1 << 34, ids=("0", "1")),), {"torch": "2.13.0"}, "3.11.7")


@pytest.fixture
def bare(tmp_path):
    """A virtual environment with nothing in it."""
    folder = tmp_path / "home" / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        (None, ""),
        ("xla", "xla"),
        ("./xla", "/grids/xla"),
        ("../venv/bin/python", "/grids/../venv/bin/python"),
        ("~/venv", "~/venv"),
        ("/opt/venv", "/opt/venv"),
    ],
)
def test_key(environment, key):
    assert key_of(environment, Path("/grids")) == key


def test_interpreter_and_its_packages(bare, monkeypatch):
    found = find(str(bare), "server", ["torch"])
    version = ".".join(map(str, sys.version_info[:3]))
    assert found == Interpreter(str(bare / "bin" / "python"), version, lock=found.lock)
    monkeypatch.setenv("HOME", str(bare.parent))
    assert find("~/venv/bin/python", "server", ["torch"]) == found
    site = next((bare / "lib").glob("python3*/site-packages"))
    for name in ("numpy", "torch"):
        about = site / f"{name}-2.9.1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.9.1\n")
        (site / f"{name}.py").write_text("raise SystemExit('it was imported')")
    installed = find(str(bare), "server", ["torch"])
    assert installed.packages == {"torch": "2.9.1", "numpy": "2.9.1"}
    assert installed.lock != found.lock


def test_own_interpreter():
    found = find(sys.executable, "server", ["torch"])
    assert (found.python, found.problem) == ("", "")
    assert found.packages["torch"] == probe_node().packages["torch"]


OLD = '#!/bin/sh\necho \'{"python": "3.9.2", "prefix": "/usr", "packages": {}}\'\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, ": {path} cannot be run (No such file or directory)"),
        ("\x7fELF no program", ": {path} cannot be run (Exec format error)"),
        ("#!/bin/sh\necho 'not what you think' >&2; echo hello\n", ": not a working Python: not what you think"),
        (OLD, " has Python 3.9.2; trials need 3.11 or later"),
        ("#!/bin/sh\nexec sleep 60\n", ": no answer within 0.2 s"),
    ],
    ids=["missing", "garbage", "another program", "too old", "hung"],
)
def test_unusable_interpreter(tmp_path, monkeypatch, text, problem):
    path = tmp_path / "python"
    if text:
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    if "sleep" in (text or ""):
        monkeypatch.setattr(interpreter, "ANSWER_TIMEOUT_S", 0.2)
    assert find(str(path), "server", ["torch"]).problem == f"{path} on server{problem.format(path=path)}"


def test_built_environment(tiny, tmp_path):
    remedy = "on server; run `raybench env create tiny`"
    assert find("tiny", "server", []).problem == f"environment tiny is not built {remedy}"
    folder = tmp_path / "environments" / "tiny"
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "python").symlink_to(sys.executable)
    (folder / STAMP).write_text("another")
    assert find("tiny", "server", []).problem == f"environment tiny is stale {remedy}"
    (folder / STAMP).write_text(tiny.stamp)
    assert find("tiny", "server", []).problem == ""


def test_node_has_the_asked_environments():
    node = probe_node("10.0.0.1", [sys.executable, "/nowhere"])
    assert [not node.interpreter(path).problem for path in (sys.executable, "/nowhere")] == [True, False]
    assert node.interpreter("tpu").problem == f"environment tpu was not inspected on {node.name}"


@pytest.mark.parametrize(
    ("packages", "reason"),
    [
        ({"numpy": "2.0"}, "torch is not installed in /v on server"),
        ({"torch": "2.9.1"}, "numpy is not installed in /v on server"),
        ({"torch": "2.9.1", "numpy": "2.0"}, None),
    ],
)
def test_placement_in_an_environment(packages, reason):
    node = replace(HERE, environments={"/v": Interpreter("/v/bin/python", "3.11.7", packages)})
    found = find_placements(ResourceRequest("cpu", "torch", "fp32", environment="/v"), [node])
    assert (found if reason else (found[0].framework_version, found[0].environment)) == (reason or ("2.9.1", "/v"))


@pytest.mark.parametrize(
    ("need", "remedy"),
    [
        (
            ResourceRequest("cpu", "tensorflow", "fp32"),
            "run `pip install 'tensorflow>=2.20'` or `raybench env create tensorflow`",
        ),
        (ResourceRequest("xla_cpu", "torch_xla", "fp32"), "run `raybench env create xla`"),
    ],
)
def test_remedy_for_a_missing_framework(need, remedy):
    assert find_placements(need, [HERE]) == f"{need.framework} is not installed on server; {remedy}"


def test_other_interpreter_finds_raybench_alone(bare, tmp_path):
    (tmp_path / "only").mkdir()
    link_package(tmp_path / "only")
    code = "import raybench.core.job, importlib.util as u; print(raybench.__version__, u.find_spec('pytest'))"
    environ = {**clean_environ(), "PYTHONPATH": str(tmp_path / "only")}
    command = [bare / "bin" / "python", "-c", code]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "None"

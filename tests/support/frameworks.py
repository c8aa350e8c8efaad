"""Tests of a framework that pytest must not load: functions called in a process of that framework's own.

    from support.frameworks import call

    def test_something():
        assert call("tensorflow", "keras_side:the_sum", values=[1.0, 2.0]) == 3.0

`keras_side.py` is a file somewhere below tests/ (its name unique there) whose function `the_sum` takes and returns
plain JSON values. It runs in a fresh process, forked from one that has the framework loaded, in the interpreter that
has it: a call costs milliseconds, and what it sets (threads, devices, environment variables) dies with it. A test that
needs an interpreter that is not there skips and names it. An error in the function is an AssertionError with its
traceback.
"""

from __future__ import annotations

import atexit
import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
USERS_OWN = "RAYBENCH_TESTS_USERS_OWN"
"""Environment variable: the user's variables about accelerators, as JSON, before tests/conftest.py hid them."""

_REQUESTS = itertools.count(1)
"""Numbers of requests, by which answers are matched."""

FOR_ACCELERATORS = ("CUDA_", "PJRT_", "XLA_", "RAYBENCH_ACCELERATORS")
"""Beginnings of the names of these variables."""

LOADED = {
    "tensorflow": ["tensorflow", "keras"],
    "torch_xla": ["torch", "torch_xla"],
    "torch_tpu": ["torch"],
    "torch": ["torch"],
    "transformers": ["torch", "transformers.trainer"],
    "lightning": ["torch", "lightning.pytorch"],
    "jax": [],  # it starts threads
}


def interpreter(framework: str, environment: str | None = None) -> str:
    """The Python that has a framework; skips the test where there is none.

    Args:
        environment: the recipe of the Python environment for `torch_xla`; None: `xla`. `torch_tpu` has its own.
    """
    import importlib.util

    import pytest

    if framework in ("torch_xla", "torch_tpu"):
        from raybench.environments import python_of

        name = environment or framework.replace("torch_xla", "xla")
        found = python_of(name)
        if found is None:
            pytest.skip(f"environment {name} is not built; run `raybench env create {name}`")
        return str(found)
    if framework != "none" and importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    return sys.executable


@cache
def _server(framework: str, python: str, with_accelerators: bool = False) -> subprocess.Popen[str]:
    package = Path(tempfile.mkdtemp(prefix="raybench-only-"))
    (package / "raybench").symlink_to(TESTS.parent / "raybench")
    # Without TESTS itself, whose folders would hide modules of their names, such as `datasets`.
    (package / "support").symlink_to(TESTS / "support")
    folders = sorted({str(path.parent) for path in TESTS.rglob("*.py")} - {str(TESTS)})
    environ = accelerators_shown() if with_accelerators else os.environ
    kept = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "OMP_NUM_THREADS")}
    kept["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # as in a fork template
    environment = kept | {"PYTHONPATH": os.pathsep.join([str(package), *folders])}
    server = subprocess.Popen(
        [python, str(Path(__file__)), framework],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    atexit.register(shutil.rmtree, package, ignore_errors=True)
    atexit.register(server.kill)
    return server


def accelerators_shown() -> dict[str, str]:
    """The environment of this process, but with the accelerators that its user sees."""
    own = json.loads(os.environ.get(USERS_OWN, "null"))
    if own is None:  # without tests/conftest.py, which hides them
        return dict(os.environ)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOR_ACCELERATORS)}
    return kept | own


def call(framework: str, function: str, **arguments: Any) -> Any:
    """What `module:function` returns for plain arguments, called in a process of that framework's own."""
    return _ask(_server(framework, interpreter(framework)), framework, function, arguments)


def call_on(kind: str, framework: str, function: str, **arguments: Any) -> Any:
    """As `call`, for a device kind under a framework, with the accelerators that the user sees."""
    from raybench.devices import KINDS

    python = interpreter(framework, KINDS[kind].environments.get(framework))
    arguments = {"kind": kind, "framework": framework, **arguments}
    return _ask(_server(framework, python, True), framework, function, arguments)


def _ask(server: subprocess.Popen[str], framework: str, function: str, arguments: dict[str, Any]) -> Any:
    assert server.stdin and server.stdout
    request = next(_REQUESTS)
    server.stdin.write(json.dumps([request, function, arguments]) + "\n")
    server.stdin.flush()
    result = {"request": 0}
    while result["request"] != request:  # a test that was interrupted leaves its answer unread
        answer = server.stdout.readline()
        assert answer, f"the process of {framework} is gone"
        result = json.loads(answer)
    assert "error" not in result, result["error"]
    return result["value"]


def remember(framework: str, function: str, **arguments: Any) -> Any:
    """What `call` returns, from one call for the same arguments: for functions that always return the same."""
    return json.loads(_first_answer(framework, function, json.dumps(arguments, sort_keys=True)))


@cache
def _first_answer(framework: str, function: str, arguments: str) -> str:
    return json.dumps(call(framework, function, **json.loads(arguments)))


def _answer(function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        module, name = function.split(":")
        return {"value": getattr(importlib.import_module(module), name)(**arguments)}
    except BaseException:
        return {"error": traceback.format_exc()}


def _serve(framework: str) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for module in LOADED[framework]:
        importlib.import_module(module)
    for line in sys.stdin:
        request, function, arguments = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            with os.fdopen(writing, "w") as pipe:
                json.dump({"request": request, **_answer(function, arguments)}, pipe)
            sys.stderr.flush()
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
        died = json.dumps({"request": request, "error": f"the process ended with {os.waitstatus_to_exitcode(status)}"})
        print((text if text else died).replace("\n", " "), file=out, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])

"""The interpreter of an environment on a node, tested there before use."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from raybench.datasets.paths import user_path
from raybench.environments.recipes import RECIPES
from raybench.environments.status import environment_status
from raybench.environments.subprocess_python import NoPythonError, query_python

OLDEST = (3, 11)
"""The oldest Python version that raybench's trial layer supports."""

NEEDED = ("numpy",)
"""Distributions that a trial needs in addition to its framework."""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter for trials, as tested on its node.

    Attributes:
        python: its path; empty for raybench's own interpreter there.
        version: of Python.
        packages: the installed ones of the requested distributions, with their versions.
        problem: why it cannot be used, as a sentence with the remedy; empty if it can.
    """

    python: str = ""
    version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The interpreter with these fields."""
        return cls(**value)


def find(key: str, node: str, distributions: Iterable[str]) -> Interpreter:
    """Test the environment of a key on this machine, which is called `node`.

    The key must not be a `runtime_env`.
    """
    if key in RECIPES:
        env = environment_status(key)
        if env.state != "ready":
            reason = f" ({env.reason})" if env.reason else ""
            return Interpreter(
                problem=f"environment {key} is {env.state} on {node}{reason}; run `raybench env create {key}`"
            )
        path = env.python
    else:
        path = user_path(key)
        try:
            if path.is_dir():
                path = path / "bin" / "python"
                if not path.exists():
                    problem = "not a virtual environment: it has no bin/python"
                    return Interpreter(problem=f"{key} on {node}: {problem}")
        except OSError as error:  # for example a name that is too long
            return Interpreter(problem=f"{key[:200]} on {node}: {error.strerror}")
    try:
        answer = query_python(path, (*distributions, *NEEDED))
    except NoPythonError as error:
        return Interpreter(problem=f"{key} on {node}: {error}")
    version = answer["python"]
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return Interpreter(problem=f"{key} on {node} has Python {version}; trials need {oldest} or later")
    is_own = answer["prefix"] == sys.prefix
    return Interpreter("" if is_own else str(path), version, answer["packages"])

"""Files as damage, mistakes and malice make them, drawn by Hypothesis; and a command that must bear them.

A mutation begins with a good file and changes a few bytes, a few lines, or a few parts of its values.
"""

from __future__ import annotations

import io
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock
from zlib import crc32

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from raybench.cli import main

STATUSES = {0, 1, 2, 3}
"""How a command may end, whatever it reads."""

LIMIT = 30.0
"""Processor seconds that a command may take, the same on a busy machine; a file that is read for ever takes more."""

TEXTS = (
    "",
    "cpu",
    "é\x1b[2J\u202e",
    "\ud800",
    "a\0b",
    "../../x",
    "nan",
    "1e999",
    "completed",
    "trial_ended",
    "val/accuracy",
    "<script>",
    "{{ 1 }}",
    "[bold]",
    "`",
    "a\nb\rc",
    "x" * 3_000,
)
NUMBERS = (0, -1, 1, 2, 3.5, -0.0, 10**18, 10**400, 1e308, 5e-324, math.nan, math.inf, -math.inf)


def _deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


CHANCE = st.randoms(use_true_random=True)
"""Where something is changed: anywhere with the same chance, while Hypothesis prefers beginnings."""

ODD = st.one_of(
    st.sampled_from([None, True, False]),
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.sampled_from([[], {}, [[]], [None], {"device": "cpu"}, {"": ""}, _deep(40), [0] * 300]),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
)
"""Values where another is expected."""

JUNK = (
    b"",
    b"\0" * 64,
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"{}",
    b"[]",
    b"null",
    b'{"event":"trial_ended"}',
    b'{"event":"trial_started","trial":"a-r0","attempt":1}',
    b"[" * 20_000,
    b'{"a":' * 5_000,
    b"9" * 5_000,
    b'"\\ud800"',
    b"\r\n",
    b"\x1b[2J",
    b",,,,,",
    b'"',
    b"NaN",
    b"&a [*a]",
    b"*sizes",
    b"<<: *sizes",
    b"!!python/object/apply:os.system [ls]",
    b"---",
    b"? [a]",
    b"%YAML 1.2",
    b"|",
    b"- ",
)
"""Pieces that are special to JSON, CSV or YAML, or to nobody."""


@st.composite
def changed_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes replaced, put in, taken away, copied elsewhere; or the end cut off."""
    made, chance = bytearray(content), draw(CHANCE)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(made) + 1)
        match chance.choice(("replace", "insert", "insert", "junk", "delete", "copy", "cut")):
            case "replace":
                made[at : at + 1] = chance.randbytes(1)
            case "insert":
                made[at:at] = bytes([chance.choice(b"\t \n:-[]{}&*!|>'\"%@`#,?~<=0129eE.+\\\0\x1b\xff")])
            case "junk":
                made[at:at] = chance.choice(JUNK)
            case "delete":
                del made[at : at + chance.randint(1, 12)]
            case "copy":
                begin = chance.randrange(len(made) + 1)
                made[at:at] = made[begin : begin + chance.randint(1, 60)]
            case _:
                del made[at:]
    return bytes(made)


@st.composite
def changed_lines(draw: st.DrawFn, content: bytes) -> bytes:
    """Lines taken away, doubled, moved, torn, joined; and lines that belong to no such file."""
    lines, chance = content.splitlines(keepends=True), draw(CHANCE)
    for _ in range(chance.choice((1, 1, 2, 3))):
        if not lines:
            break
        at, to = (chance.randrange(len(lines)) for _ in range(2))
        match chance.choice(("delete", "double", "move", "tear", "join", "junk")):
            case "delete":
                del lines[at]
            case "double":
                lines.insert(to, lines[at])
            case "move":
                lines.insert(to, lines.pop(at))
            case "tear":
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case "join":
                lines[at] = lines[at].rstrip(b"\n")
            case _:
                lines.insert(at, chance.choice(JUNK) + b"\n")
    return b"".join(lines)


@st.composite
def changed_value(draw: st.DrawFn, tree: Any) -> Any:
    """A tree of plain values with a few parts replaced, renamed, doubled, wrapped or left out."""
    tree, chance = [deepcopy(tree)], draw(CHANCE)
    for _ in range(chance.choice((1, 1, 2, 3))):
        node, step = tree, 0
        while isinstance(node[step], (dict, list)) and node[step] and (node is tree or chance.random() < 0.8):
            node = node[step]
            step = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        match chance.choice(("likely", "likely", "replace", "replace", "delete", "rename", "double", "wrap", "swap")):
            case "likely":
                node[step] = deepcopy(_likely(node[step], chance))
            case "delete" if node is not tree:
                del node[step]
            case "rename" if isinstance(node, dict):
                node[chance.choice((*TEXTS, *[f"{step}x"] * 9))] = node.pop(step)
            case "double" if isinstance(node, list) and node is not tree:
                node.append(deepcopy(node[step]))
            case "wrap":
                node[step] = chance.choice(([node[step]], {"a": node[step]}, json.dumps(node[step])[:200]))
            case "swap" if isinstance(node, dict):
                other = chance.choice(list(node))
                node[step], node[other] = node[other], node[step]
            case _:
                node[step] = deepcopy(draw(ODD))
    return tree[0]


def _likely(value: Any, chance: Random) -> Any:
    """Another value of the same type, which may well be right there."""
    match value:
        case bool():
            return not value
        case int():
            return chance.choice((0, 1, 2, 7, 64, 1000, value + 1, value * 1000))
        case float():
            return chance.choice((0.0, 1.0, value * chance.random(), value * 1e6, -value))
        case str():
            return chance.choice(("cpu", "tpu", "xla", "torch", "val/loss", "adam", "null", value[:-1], value * 2))
        case list():
            return [*value[chance.randrange(len(value) + 1) :], *value[:1]]
    return value


@dataclass
class Tally:
    """What the commands of a test came to."""

    statuses: Counter[int] = field(default_factory=Counter)
    longest: float = 0.0

    def run(self, *arguments: object) -> str:
        """Run a command as its script does; returns what it printed.

        Whatever it raises but the end of the process is the traceback that a user would see.
        """
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
        begun = time.process_time()
        with mock.patch("sys.argv", ["raybench", *map(str, arguments)]), redirect_stdout(out), redirect_stderr(err):
            try:
                main()
                status = 0
            except SystemExit as ended:
                status = int(ended.code or 0)
        seconds = time.process_time() - begun
        self.longest = max(self.longest, seconds)
        self.statuses[status] += 1
        for stream in (out, err):
            stream.flush()
        printed = out.buffer.getvalue().decode() + err.buffer.getvalue().decode()  # type: ignore[attr-defined]
        assert status in STATUSES, printed
        assert "Traceback" not in printed
        assert seconds < LIMIT, f"{seconds:.0f} s"
        assert not set(printed) & set(FORBIDDEN), printed
        assert status == 0 or 0 < len(printed) < 20_000, printed[:2000]
        return printed

    def __str__(self) -> str:
        ends = ", ".join(f"{count} × status {status}" for status, count in sorted(self.statuses.items()))
        return f"{ends}; the longest took {self.longest:.1f} s"


FORBIDDEN = "\0\x07\x08\x0d\x1b\x7f\x9b\u202e\u2066"
"""Characters that command a terminal."""


def cases(number: int) -> Callable[[Any], Any]:
    """Hypothesis' settings for so many cases, the same in each run."""
    return settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,  # `Tally` measures the command alone
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


def one_of(choices: Sequence[Any], content: bytes) -> Any:
    """One of several options for a case: by its content, as Hypothesis prefers the first ones."""
    return choices[crc32(content) % len(choices)]


def json_lines(values: Iterable[Any]) -> bytes:
    """Values as lines of JSON, with NaN and lone surrogates as Python's reader takes them."""
    return "".join(f"{json.dumps(value)}\n" for value in values).encode()


def report(tally: Tally, what: str) -> None:
    """Say what a test came to, for whoever runs it with `-s`."""
    print(f"\n{what}: {tally}", file=sys.__stdout__)

"""Damaged versions of a good file, drawn by Hypothesis, and a command that must report them in one message."""

import io
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from typing import Any
from unittest import mock
from zlib import crc32

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from raybench.cli import main

MAX_CPU_S = 30.0
"""Processor seconds that a command may take; one that reads a file for ever takes more."""

TERMINAL_CODES = "\0\x07\x08\x0d\x1b\x7f\x9b\u202e\u2066"
"""Characters that control a terminal."""

TEXTS = (
    "",
    "cpu",
    "é\x1b[2J\u202e",
    "\ud800",
    "a\0b",
    "../../x",
    "nan",
    "1e999",
    "val/accuracy",
    "<script>",
    "{{ 1 }}",
)
NUMBERS = (0, -1, 1, 2, 3.5, 64, 10**18, 10**400, 1e308, 5e-324, math.nan, math.inf, -math.inf)
ODD_VALUES = (None, True, False, [], {}, [[]], [None], {"device": "cpu"}, [0] * 300, "x" * 3_000, *TEXTS, *NUMBERS)
ODD_BYTES = (
    *(b"\0" * 64, b"\xff\xfe", b"\xef\xbb\xbf", b"{}", b"[]", b"null", b"[" * 20_000, b'{"a":' * 5_000, b"9" * 5_000),
    *(b'"\\ud800"', b"\r\n", b"\x1b[2J", b",,,,,", b'"', b"NaN", b"&a [*a]", b"<<: *a", b"---", b"? [a]", b"|", b"- "),
    b"!!python/object/apply:os.system [ls]",
)


def _changed_sequence(parts: list[Any], chance: Any, odd: Sequence[Any]) -> list[Any]:
    """A list with a few parts left out, doubled, moved or replaced, or with its end cut off."""
    for _ in range(chance.randint(1, 3)):
        at, to = (chance.randrange(len(parts) + 1) for _ in range(2))
        match chance.choice(("insert", "insert", "replace", "delete", "copy", "cut")):
            case "insert":
                parts[at:at] = [chance.choice(odd)]
            case "replace":
                parts[at : at + 1] = [chance.choice(odd)]
            case "delete":
                del parts[at : at + chance.randint(1, 12)]
            case "copy":
                parts[to:to] = parts[at : at + chance.randint(1, 60)]
            case _:
                del parts[at:]
    return parts


@st.composite
def changed_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """A file in which bytes were changed."""
    chance = draw(st.randoms(use_true_random=True))
    odd = (*ODD_BYTES, *(bytes([byte]) for byte in b"\t \n:-[]{}&*!|>'\"%@`#,?~<=0129eE.+\\"))
    return b"".join(_changed_sequence([bytes([byte]) for byte in content], chance, odd))


@st.composite
def changed_lines(draw: st.DrawFn, content: bytes) -> bytes:
    """A file in which lines were changed."""
    chance = draw(st.randoms(use_true_random=True))
    return b"".join(_changed_sequence(content.splitlines(keepends=True), chance, [odd + b"\n" for odd in ODD_BYTES]))


@st.composite
def changed_value(draw: st.DrawFn, tree: Any) -> Any:
    """A tree of plain values in which a few were replaced, renamed or left out."""
    chance, root = draw(st.randoms(use_true_random=True)), [deepcopy(tree)]
    for _ in range(chance.randint(1, 3)):
        node: Any = root
        step: Any = 0
        while isinstance(node[step], dict | list) and node[step] and (node is root or chance.random() < 0.8):
            node = node[step]
            step = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        match chance.choice(("replace", "replace", "number", "delete", "rename", "wrap")):
            case "number" if isinstance(node[step], int | float):
                node[step] = chance.choice((0, 1, 7, 1000, node[step] * 1000, -node[step]))
            case "delete" if node is not root:
                del node[step]
            case "rename" if isinstance(node, dict):
                node[chance.choice((*TEXTS, f"{step}x"))] = node.pop(step)
            case "wrap":
                node[step] = chance.choice(([node[step]], {"a": node[step]}))
            case _:
                node[step] = deepcopy(chance.choice(ODD_VALUES))
    return root[0]


class Tally:
    """Runs commands and counts their exit statuses."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()

    def run(self, *arguments: object) -> str:
        """Run a command and return what it prints.

        An exception other than the end of the process is the traceback that a user would see.
        """
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace"))
        start_s = time.process_time()
        with mock.patch("sys.argv", ["raybench", *map(str, arguments)]), redirect_stdout(out), redirect_stderr(err):
            try:
                main()
                status = 0
            except SystemExit as end:
                status = int(end.code or 0)
        assert time.process_time() - start_s < MAX_CPU_S
        self.statuses[status] += 1
        for stream in (out, err):
            stream.flush()
        printed = out.buffer.getvalue().decode() + err.buffer.getvalue().decode()  # type: ignore[attr-defined]
        assert status in (0, 1, 2, 3) and "Traceback" not in printed, printed
        assert not set(printed) & set(TERMINAL_CODES), printed
        assert status == 0 or 0 < len(printed) < 20_000, printed[:2000]
        return printed


def cases(number: int) -> Callable[[Any], Any]:
    """Hypothesis' settings for so many cases, the same in each run."""
    checks = list(HealthCheck)
    return settings(max_examples=number, derandomize=True, database=None, deadline=None, suppress_health_check=checks)


def one_of(choices: Sequence[Any], content: bytes) -> Any:
    """One of several options, chosen by the content of the case."""
    return choices[crc32(content) % len(choices)]

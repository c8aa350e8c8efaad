"""Whatever is done to a file of an attempt or a request: the same answer, or a message about what cannot be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mutations import Tally, cases, changed_bytes, changed_lines, changed_value

from raybench.results.folder import json_object

RECORDED = Path(__file__).parents[2] / "notebooks" / "recorded" / "quickstart"


@pytest.fixture(params=["attempts/*/*.jsonl", "executions/*.json"], ids=["attempt", "request"])
def file(request, tmp_path):
    shutil.copytree(RECORDED, tmp_path / "quickstart")
    return next((tmp_path / "quickstart").glob(request.param))


@st.composite
def changed_event(draw, content):
    """A file in which values of a line were changed; the line has its old checksum or none."""
    lines = content.splitlines(keepends=True)
    place = draw(st.integers(0, len(lines) - 1))
    tree = draw(changed_value(json_object(lines[place])))
    line = json.dumps(tree)
    if draw(st.booleans()) and isinstance(tree, dict):
        line = json.dumps({name: value for name, value in tree.items() if name not in ("at", "crc")})
    return b"".join([*lines[:place], line.encode() + b"\n", *lines[place + 1 :]])


MUTATIONS = {"bytes": changed_bytes, "lines": changed_lines, "values": changed_event}


@pytest.mark.parametrize("number", [10, pytest.param(334, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", MUTATIONS)
def test_only_ever_the_same_answer_or_a_message(tmp_path, file, kind, number):
    tally, good = Tally(), file.read_bytes()
    answer = tally.run("report", "quickstart", "--results", tmp_path)

    @cases(number)
    @given(MUTATIONS[kind](good))
    def check(content):
        file.write_bytes(content)
        printed = tally.run("report", "quickstart", "--results", tmp_path)
        is_whole = good.startswith(content)  # a file that ends early is one that is being written
        is_said = printed.startswith(("The grid has damaged files", "Not finished"))
        assert printed == answer or is_said or is_whole, printed

    check()
    assert tally.statuses.keys() == {0}

"""docs/tutorial/adding_a_workload.md, followed word for word: its files, its commands and what it says they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from support import ROOT
from support.frameworks import interpreter

from raybench.analysis.run_counts import RunCounts
from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid

PAGE = (ROOT / "docs" / "tutorial" / "adding_a_workload.md").read_text()

BLOCK = re.compile(r"(?:^`(?P<file>[\w.]+)`[^\n]*\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"^[0-9a-f]{12}\b|\d+ cores?|\d+(?:\.\d+)?e[-+]?\d+|\d*\.\d+", re.MULTILINE)
"""What differs from machine to machine: the name of a cell, cores, and numbers with a point or an exponent."""


def followed(folder: Path) -> list[tuple[str, str, str]]:
    """What the page has one do, in order: each command or piece of code, what it printed, and what the page shows."""
    blocks = [match.groupdict() for match in BLOCK.finditer(PAGE)]
    done = []
    for place, block in enumerate(blocks):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"])
        elif block["kind"] in ("sh", "python"):
            shown = blocks[place + 1]["text"] if blocks[place + 1]["kind"] == "text" else ""
            done.append((block["text"].strip(), run(block["kind"], block["text"], folder), shown))
    return done


def run(kind: str, text: str, folder: Path) -> str:
    """What a command of raybench, or some Python, prints in that folder; it has to end well."""
    program, *words = text.split() if kind == "sh" else ["python"]
    arguments = ["-m", "raybench", *words] if program == "raybench" else ["-c", text]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAYBENCH_DATA": str(folder / "data"), "COLUMNS": "120"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def plain(text: str) -> list[str]:
    """Its lines without what was measured, and without space that only lines up."""
    return [line for line in (" ".join(MEASURED.sub("#", row).split()) for row in text.splitlines()) if line]


def test_its_files_and_its_plan_are_as_shown(tmp_path: Path) -> None:
    """Also that its workload trains, in this process: the whole page is followed in the exhaustive layer."""
    blocks = [match.groupdict() for match in BLOCK.finditer(PAGE)]
    for block in blocks:
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["text"])
    ((shown, command),) = [
        (after["text"], block["text"])
        for block, after in pairwise(blocks)
        if block["kind"] == "sh" and block["text"].startswith("raybench plan")
    ]
    wanted = plain(shown)
    printed = plain(run("sh", command, tmp_path))
    if find_spec("tensorflow"):
        assert [line for line in printed if line in wanted] == wanted
    options = Options(tmp_path / "results", where=[("device", "pytorch")], checks=False, tracking=None, report=False)
    outcome = run_grid(load_grid(tmp_path / "tumours.yaml", ["repeats=1"]), InlineExecutor(), options=options)
    assert [row.counts for row in outcome.rows] == [RunCounts(1, 1)] * 2
    assert all("val/missed" in attempt.epochs[-1].metrics for attempt in outcome.latest.values())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    interpreter("tensorflow")
    folder = tmp_path_factory.mktemp("newcomer")
    return {command: (printed, shown) for command, printed, shown in followed(folder)}


@pytest.mark.exhaustive
@pytest.mark.tensorflow
def test_the_page_has_what_is_followed_here(page: dict[str, tuple[str, str]]) -> None:
    assert [command.split()[:2] for command in page] == [
        ["raybench", "parity"],
        ["raybench", "plan"],
        ["raybench", "grid"],
        ["import", "raybench"],
    ]
    assert all(shown for _, shown in page.values())


@pytest.mark.exhaustive
@pytest.mark.tensorflow
def test_parity_comes_to_the_lines_of_the_page(page: dict[str, tuple[str, str]]) -> None:
    """Each comparison with its tolerance and verdict; the difference and where it is largest are the processor's."""
    row = re.compile(r"^(\S.*?)  +\S+  +(\S+)  (same|differs)\b", re.MULTILINE)
    ((printed, shown),) = [told for command, told in page.items() if command.startswith("raybench parity")]
    wanted = row.findall(shown)
    assert len(wanted) == 7 and row.findall(printed) == wanted
    assert printed.splitlines()[0] == shown.splitlines()[0]


@pytest.mark.exhaustive
@pytest.mark.tensorflow
@pytest.mark.parametrize("what", ["raybench plan", "import raybench"])
def test_it_prints_what_the_page_shows(page: dict[str, tuple[str, str]], what: str) -> None:
    ((printed, shown),) = [told for command, told in page.items() if command.startswith(what)]
    wanted, found = plain(shown), plain(printed)
    assert [line for line in found if line in wanted] == wanted


@pytest.mark.exhaustive
@pytest.mark.tensorflow
def test_the_grid_comes_to_the_rows_of_the_page(page: dict[str, tuple[str, str]]) -> None:
    """Each device, its runs and, within two points, what it learned: the rest of a row is the machine's."""
    row = re.compile(r"^ +\d +(pytorch|keras) +\d+ +(\S+) .* (\d+\.\d)%", re.MULTILINE)
    ((printed, shown),) = [told for command, told in page.items() if command.startswith("raybench grid")]
    wanted, found = sorted(row.findall(shown)), sorted(row.findall(printed))
    assert [rows[:2] for rows in found] == [rows[:2] for rows in wanted] == [("keras", "3/3"), ("pytorch", "3/3")]
    assert [float(rows[2]) for rows in found] == pytest.approx([float(rows[2]) for rows in wanted], abs=2.0)

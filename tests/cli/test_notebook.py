"""The progress in a cell of a notebook: one output that is drawn again and again."""

import re
import time

import pytest

from raybench import datasets
from raybench.cli import notebook
from raybench.cli.live import Display
from raybench.cli.notebook import NotebookConsole
from raybench.config import load_grid
from raybench.core import events
from raybench.planning.node import probe_node
from raybench.planning.plan import WorkItem, make_plan
from raybench.results.history import GridHistory


@pytest.fixture
def cell():
    """The texts and the HTML that the output of a cell has had."""
    return []


@pytest.fixture
def display(cell):
    return Display(NotebookConsole(lambda html, text: cell.append((text, html))))


def test_a_grid_in_one_output_that_is_redrawn(digits, tmp_path, display, cell, monkeypatch):
    monkeypatch.setattr(notebook, "REDRAW", 0.0)
    monkeypatch.setenv("TERM", "dumb")
    plan = make_plan(load_grid(digits), [probe_node()], datasets.data_root())
    history = GridHistory(tmp_path)
    display.begin(plan, [WorkItem(trial) for trial in plan.trials], history)
    trial = plan.trials[0]
    try:
        for event in (
            events.trial_started(trial.trial_id, 1, cell=trial.cell.content.to_json(), label="<first>"),
            events.trial_ended(trial.trial_id, 1, "failed", error={"type": "ValueError", "message": "<no>"}),
        ):
            history.take(event)
            display.event(event)
        display.warn("a <b>warning</b>")
        text, html = cell[-1]
        assert "1/2 trials" in text and "Trial failed" in text and "<no>" in text and "a <b>warning</b>" in text
        assert "a &lt;b&gt;warning" in html and "<b>" not in html and "\x1b" not in html + text
    finally:
        display.end()
    text, _ = cell[-1]
    assert "Trial failed" in text and not re.search(r"\d/\d trials", text), "the bar is gone, the lines stay"


def test_a_redraw_without_news_waits(display, cell):
    console = display._console
    console.print("one")
    count = len(cell)
    for _ in range(20):
        console.print(notebook.Control())
    assert len(cell) == count
    console.print("two")
    assert cell[-1][0].split() == ["one", "two"] and len(cell) == count + 1


def test_long_output_keeps_its_last_lines(display, cell):
    for number in range(notebook.LINES + 10):
        display._console.print(f"line {number}")
    lines = cell[-1][0].splitlines()
    assert len(lines) == notebook.LINES and lines[-1] == f"line {notebook.LINES + 9}"


def test_a_download_has_its_progress_in_the_cell(display, cell, tmp_path, monkeypatch):
    monkeypatch.setattr(notebook, "REDRAW", 0.0)

    def fetch(dataset, root, progress):
        progress(1_000_000, 4_000_000)
        deadline = time.monotonic() + 10
        while "1.0/4.0 MB" not in cell[-1][0] and time.monotonic() < deadline:
            time.sleep(0.05)

    monkeypatch.setattr("raybench.datasets.fetch.fetch", fetch)
    display._console.print("before")
    display.fetch(datasets.get("cifar10"), tmp_path)
    assert any("Downloading cifar10" in text and "1.0/4.0 MB" in text for text, _ in cell)
    assert cell[-1][0].split() == ["before"], "the bar is gone, the line stays"

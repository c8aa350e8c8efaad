"""The progress in a cell of a notebook: one output that is drawn again and again."""

import re

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
    monkeypatch.setattr(notebook, "REDRAW_SECONDS", 0.0)
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

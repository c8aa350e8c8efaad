"""Memory really exhausted in one grid, in training and in evaluation, in two frameworks."""

import importlib.util
import json
import shutil
import sys

import pytest
from support import WORKLOADS
from support.executors import ForkingExecutor

from raybench.config import load_grid
from raybench.reporting.comparison_table import text
from raybench.reporting.sentences import render_phrase
from raybench.run import Options, run_grid
from raybench.tracking.tracker import MemoryTracker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.tensorflow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a limit on memory"),
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("jax") is not None, reason="tensorflow loads jax, which needs memory"),
]

MIB = 1 << 20
GRID = """
name: hungry
workload: hungry_in_both.py:hungry
epochs: 1
memory_limit: 1GiB
threads: 1
axes:
  device: [cpu]
  framework: [torch, tensorflow]
  batch_size: [100]
  evaluation_batch_size: [1000, 32]
include:
- {batch_size: 1000, evaluation_batch_size: 1000}
overrides:
# TensorFlow itself takes about 400 MiB: beside it 1000 MiB do not fit, and 500 do.
- {when: {framework: tensorflow}, set: {memory_limit: 1280MiB}}
"""
HALVED = "evaluation batch halved to 500: 1000 did not fit"


@pytest.fixture(scope="module")
def tracker():
    return MemoryTracker()


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, fork_server, tracker):
    folder = tmp_path_factory.mktemp("hungry")
    shutil.copy(WORKLOADS / "hungry_in_both.py", folder)
    (folder / "grid.yaml").write_text(GRID)
    options = Options(folder / "results", tracking=tracker, checks=False, report=False)
    return run_grid(load_grid(folder / "grid.yaml"), ForkingExecutor(fork_server), options=options)


def by_cell(outcome):
    """From framework, batch and evaluation batch to what the cell's one run came to."""
    names = ("framework", "batch_size", "evaluation_batch_size")
    return {tuple(t.cell.axes[n] for n in names): outcome.latest[t.trial_id] for t in outcome.plan.trials}


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_every_cell_ends_as_it_should_and_the_grid_goes_on(outcome, framework):
    assert outcome.exit_status == 0
    runs = by_cell(outcome)
    saved, floor, train = (runs[framework, *rest] for rest in ((100, 1000), (100, 32), (1000, 1000)))
    assert (saved.status, saved.warnings) == ("completed", [HALVED])
    assert (train.status, train.error["phase"], train.error["asked_bytes"]) == ("oom", "train", 1000 * MIB)
    assert (floor.status, floor.error["phase"], floor.error["asked_bytes"]) == ("oom", "evaluate", 32 * 64 * MIB)
    limit = 1024 * MIB if framework == "torch" else 1280 * MIB
    assert 0 < floor.error["peak_bytes"] < limit + 1024 * MIB
    assert floor.error["limit_bytes"] == limit


def test_the_table_says_where_and_how_much(outcome):
    assert sorted({render_phrase("run_counts", row.counts) for row in outcome.rows}) == [
        "0/1 completed, 1 oom in evaluate, asked 2.0 GiB",
        "0/1 completed, 1 oom in train, asked 1000.0 MiB",
        "1/1 completed",
    ]
    assert "0/1 oom" in text(outcome.rows, width=200)
    assert f"{HALVED} (2 trials)" in outcome.warnings


def test_the_journal_has_it(outcome):
    told = map(json.loads, outcome.journal.read_text().splitlines())
    ends = [event for event in told if event["event"] == "trial_ended"]
    phases = sorted((event["error"] or {}).get("phase", "") for event in ends if event["status"] == "oom")
    assert phases == ["evaluate"] * 2 + ["train"] * 2


def test_a_tracker_is_given_it(outcome, tracker):
    ended = [recorded for recorded in tracker.runs if recorded.tags["raybench.status"] == "oom"]
    found = sorted((run.tags["raybench.error_phase"], run.metrics["oom/asked_bytes", 0]) for run in ended)
    assert found == [("evaluate", 2048.0 * MIB)] * 2 + [("train", 1000.0 * MIB)] * 2
    assert {run.status for run in ended} == {"FINISHED"}
    saved = [recorded for recorded in tracker.runs if recorded.tags["raybench.status"] == "completed"]
    assert {run.tags["raybench.warnings"] for run in saved} == {HALVED}

"""Whatever is done to a journal: what is whole of it is read, and no finished trial is lost whose lines are."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from support.mutations import cases, changed_bytes, changed_lines, changed_value, json_lines

from raybench.analysis.grid_request import request_of
from raybench.checks.pretrial import PretrialChecks
from raybench.config import load_grid
from raybench.datasets import data_root
from raybench.execution.inline import InlineExecutor
from raybench.planning.estimate import Estimator
from raybench.planning.plan import make_plan
from raybench.planning.resume import missing_work
from raybench.reporting.build import from_history
from raybench.reporting.comparison_table import text
from raybench.results.attempt import latest
from raybench.results.executions import read_execution
from raybench.results.history import GridHistory
from raybench.run import Options, run_grid
from raybench.tracking import mapping

pytestmark = pytest.mark.slow

GRID = """
name: digits
workload: digits_cnn
epochs: 2
steps_per_epoch: 3
examples: {train: 256, val: 64}
threads: 1
target: {metric: val/accuracy, at_least: 0.1}
axes:
  device: [cpu, tpu]
  batch_size: [32, 64]
repeats: 2
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The journal of a real grid, with its plan."""
    folder = tmp_path_factory.mktemp("real")
    (folder / "grid.yaml").write_text(GRID)
    spec = load_grid(folder / "grid.yaml")
    executor = InlineExecutor()
    outcome = run_grid(spec, executor, options=Options(folder / "results", tracking=None, report=False))
    plan = make_plan(spec, executor.nodes(), data_root())
    # Times differ from run to run, and the mutations are to be the same.
    told = [same_times(json.loads(line)) for line in outcome.journal.read_bytes().splitlines()]
    return json_lines(told).splitlines(keepends=True), plan


def same_times(value):
    """An event with the same number in place of each that was measured."""
    if isinstance(value, dict):
        return {name: "2026-11-21T09:00:00.000Z" if name == "t" else same_times(part) for name, part in value.items()}
    if isinstance(value, list):
        return [same_times(part) for part in value]
    return 0.25 if isinstance(value, float) and value not in (0.1, 0.9, 0.005) else value


def everything_of(plan, earlier, journal, also_without_plan):
    """All that a grid's command does with what it read, but to run trials."""
    known = earlier.attempts
    todo = missing_work(plan, known.values())
    evidence = PretrialChecks(earlier.events)
    evidence.with_checks(todo)
    for wanted in [request_of(plan), None][: 1 + also_without_plan]:
        report = from_history("digits", earlier, wanted)
        text(report.results.rows)
    Estimator(known.values())
    for attempt in known.values():
        assert mapping.run_name(attempt)
        mapping.parameters(attempt), mapping.tags(attempt, "digits"), mapping.data_set(attempt)
        mapping.summary_metrics(attempt)
        for epoch in attempt.epochs:
            mapping.epoch_metrics(epoch)
    for event in earlier.events:
        read_execution(journal, event)
    return {work.trial.trial_id for work in todo}


def mutations(lines):
    content = b"".join(lines)
    return {
        "bytes": changed_bytes(content),
        "lines": changed_lines(content),
        "values": changed_value(list(map(json.loads, lines))).map(
            lambda tree: json_lines(tree if isinstance(tree, list) else [tree])
        ),
    }


@pytest.mark.parametrize("number", [10, pytest.param(167, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", ["bytes", "lines", "values"])
def test_nothing_that_is_whole_is_lost_and_nothing_breaks(real, tmp_path, kind, number):
    lines, plan = real
    own: dict[str, set[bytes]] = {}
    for line in lines:
        event = json.loads(line)
        if event["event"] in ("trial_started", "epoch_ended", "trial_ended"):
            own.setdefault(event["trial"], set()).add(json.dumps(event).encode())
    assert len(own) == 4
    journal = tmp_path / "digits" / "journal.jsonl"
    journal.parent.mkdir()
    whole = 0

    @cases(number)
    @given(mutations(lines)[kind])
    def check(content):
        nonlocal whole
        journal.write_bytes(content)
        earlier = GridHistory.recover(journal)
        todo = everything_of(plan, earlier, journal, kind != "bytes")
        there = {canonical for line in content.splitlines() if (canonical := as_written(line))}
        stands = latest(earlier.attempts.values())
        events = [event for event in map(json.loads, there) if isinstance(event, dict)]
        ends = Counter(str(event.get("trial")) for event in events if event.get("event") == "trial_ended")
        for trial, needed in own.items():
            if needed <= there and ends[trial] == 1:  # a changed copy of an end may be first, which counts
                whole += 1
                assert stands[trial].status == "completed", trial
                assert len(stands[trial].epochs) == 2, trial
                assert trial not in todo, f"{trial} would run again"
        again = GridHistory.recover(journal)
        assert again.warnings == [], "told once"
        assert again.attempts.keys() == earlier.attempts.keys()

    check()
    assert whole > number, "most mutations leave most trials whole"


def as_written(line):
    try:
        return json.dumps(json.loads(line)).encode()
    except (ValueError, RecursionError):
        return None

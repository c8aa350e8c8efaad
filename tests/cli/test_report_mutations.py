"""Whatever is done to the files of a grid, `raybench report` shows a report or one message, and soon."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
from hypothesis import given
from support.made_up_grids import cell_of, contract_events, told
from support.mutations import Tally, cases, changed_bytes, changed_lines, changed_value, json_lines, one_of

from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.identity import cell_id
from raybench.core.job import Target
from raybench.results.executions import Execution
from raybench.results.folder import ATTEMPTS
from raybench.results.grid_request import GridRequest, PlannedCell

OUTPUTS = ((), ("--full",), ("--all",), ("--json", "-"))
PAGE = ("--html", "-")
"""Its figures take a second, so only many cases draw them."""


def made_up():
    """The events of a grid in which most went well, and its request."""
    made = contract_events()
    cells = {event["trial"]: event["cell"] for event in made if event["event"] == "trial_started"}
    failed = cell_of("gpu", 512, stop_at_target={"metric": "val/accuracy", "at_least": 0.5})
    error = {"type": "RuntimeError", "message": "out of memory", "phase": "train", "where": "x.py:1", "asked_bytes": 9}
    for repeat, status in enumerate(("oom", "failed", "timeout")):
        made += told(failed, repeat, [1.0], [0.4], status, error, "gpu")
        cells[made[-1]["trial"]] = failed
    audit = {"host": {"other_cpu_s": 0.1}, "cores": [0, 1], "seconds": 8.0}
    made.insert(3, events.trial_audited(made[3]["trial"], 1, **audit))
    planned = {
        cell_id(cell): PlannedCell(
            cell_id(cell), {"device": cell["device"]["model"]}, 3, None, 0.5, Cell.from_json(cell)
        )
        for cell in cells.values()
    }
    target = Target("val/accuracy", 0.5)
    return made, GridRequest(
        "made_up", list(planned.values()), {"device": "a cpu"}, "katnoria_cnn", target, description="Made up."
    )


EVENTS, REQUEST = made_up()
TRIAL = EVENTS[0]["trial"]
OWN = [event for event in EVENTS if event["trial"] == TRIAL]
EXECUTION = {"host": "node-1", "grid": "name: made_up\n", "request": REQUEST.to_json(), "order_seed": 0}
MUTATIONS = {
    "bytes": changed_bytes(json_lines(OWN)),
    "lines": changed_lines(json_lines(OWN)),
    "values": changed_value(OWN).map(lambda made: json_lines(made if isinstance(made, list) else [made])),
    "requests": changed_value(json.loads(json.dumps(EXECUTION, default=str))).map(
        lambda made: json.dumps(made).encode()
    ),
}


@pytest.fixture
def grid(tmp_path):
    """The folder of a grid."""
    trials = defaultdict(list)
    for event in EVENTS:
        trials[event["trial"]].append(event)
    for trial, own in trials.items():
        path = tmp_path / "made_up" / ATTEMPTS / trial / f"{trial}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(json_lines(own))
    Execution("now", "node-1", "name: made_up\n", REQUEST.to_json(), 0).write(tmp_path / "made_up")
    return tmp_path / "made_up"


@pytest.mark.parametrize("number", [8, pytest.param(125, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", MUTATIONS)
def test_only_ever_a_report_or_a_message(grid, kind, number):
    tally, outputs = Tally(), (*OUTPUTS, PAGE) if number > 100 else OUTPUTS
    changed = grid / "executions" / "now.json" if kind == "requests" else grid / ATTEMPTS / TRIAL / f"{TRIAL}.jsonl"

    @cases(number)
    @given(MUTATIONS[kind])
    def check(made):
        changed.write_bytes(made)
        tally.run("report", grid, *one_of(outputs, made))

    check()


def test_the_files_they_begin_with_are_right(grid):
    tally = Tally()
    for options in OUTPUTS:
        assert "katnoria_cnn" in tally.run("report", grid, "--json", "-", *options)
    assert "Made up." in tally.run("report", grid, "--json", "-"), "the request is read"
    assert tally.statuses == {0: len(OUTPUTS) + 1}

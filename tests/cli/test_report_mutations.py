"""Whatever is done to a file, `raybench report` shows a report or one message, and soon."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from support.grid_files import write_events
from support.made_up_grids import cell_of, contract_events, told
from support.mutations import Tally, cases, changed_bytes, changed_lines, changed_value, json_lines, one_of

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_request import GridRequest, to_dict
from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.identity import cell_id
from raybench.core.job import Target
from raybench.results.executions import Execution

OUTPUTS = ((), ("--full",), ("--all",), ("--json", "-"))
PAGE = ("--html", "-")
"""Its figures take a second, so only many cases draw them."""


def made_up():
    """The events of a grid in which most went well, and what it asked for."""
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
            cell_id(cell), {"device": cell["device"]["model"]}, 3, None, 0.5, content=Cell.from_json(cell)
        )
        for cell in cells.values()
    }
    target = Target("val/accuracy", 0.5)
    wanted = GridRequest(
        list(planned.values()), {"device": "a cpu"}, "katnoria_cnn", target, "Made up.", "name: made_up\n"
    )
    return made, asdict(Execution.begin("here", wanted.text, to_dict(wanted), 0))


EVENTS, PLAN = made_up()
LINES = json_lines(EVENTS)
MUTATIONS = {
    "bytes": changed_bytes(LINES),
    "lines": changed_lines(LINES),
    "values": changed_value(EVENTS).map(lambda made: json_lines(made if isinstance(made, list) else [made])),
    "plans": changed_value(PLAN).map(lambda plan: json.dumps(plan).encode()),
}


@pytest.fixture
def journal(tmp_path):
    """The folder of a grid."""
    folder = write_events(tmp_path / "made_up", EVENTS)
    (folder / "executions").mkdir()
    (folder / "executions" / "now.json").write_text(json.dumps(PLAN))
    return folder


@pytest.mark.parametrize("number", [8, pytest.param(125, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", MUTATIONS)
def test_only_ever_a_report_or_a_message(journal, kind, number):
    tally, outputs = Tally(), (*OUTPUTS, PAGE) if number > 100 else OUTPUTS
    attempts = sorted(journal.glob("attempts/*/*.jsonl"))
    changed = journal / "executions" / "now.json" if kind == "plans" else attempts[-1]

    @cases(number)
    @given(MUTATIONS[kind])
    def check(made):
        changed.write_bytes(made)
        tally.run("report", journal, *one_of(outputs, made))

    check()


def test_the_journal_they_begin_with_is_right(journal):
    tally = Tally()
    for options in OUTPUTS:
        assert "katnoria_cnn" in tally.run("report", journal, *options)
    assert "Made up." in tally.run("report", journal, "--json", "-"), "what was asked for is read"
    assert tally.statuses == {0: len(OUTPUTS) + 1}

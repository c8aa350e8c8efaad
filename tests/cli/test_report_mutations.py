"""Whatever is done to a journal, `raybench report` shows a report or one message, and soon."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from support.made_up_grids import cell_of, contract_events, told
from support.mutations import Tally, cases, changed_bytes, changed_lines, changed_value, json_lines, one_of

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_request import GridRequest, to_dict
from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.identity import cell_id
from raybench.core.job import Target
from raybench.results.executions import FOLDER

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
    made.append(events.trial_skipped("0123456789ab-r0", "0123456789ab", "no node has a tpu"))
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
    made.append({"v": 1, "event": "grid_ended", "execution": "now", "counts": {"completed": 6}, "folder": "now"})
    return made, {"order_seed": 0, "trials": [], "wanted": to_dict(wanted)}


EVENTS, PLAN = made_up()
JOURNAL = json_lines(EVENTS)
MUTATIONS = {
    "bytes": changed_bytes(JOURNAL),
    "lines": changed_lines(JOURNAL),
    "values": changed_value(EVENTS).map(lambda made: json_lines(made if isinstance(made, list) else [made])),
    "plans": changed_value(PLAN).map(lambda plan: json.dumps(plan).encode()),
}


@pytest.fixture
def journal(tmp_path):
    """The journal of a grid, beside what its execution left."""
    folder = tmp_path / "made_up"
    (folder / FOLDER / "now").mkdir(parents=True)
    (folder / FOLDER / "now" / "plan.json").write_text(json.dumps(PLAN))
    (folder / "journal.jsonl").write_bytes(JOURNAL)
    return folder / "journal.jsonl"


@pytest.mark.parametrize("number", [8, pytest.param(125, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", MUTATIONS)
def test_only_ever_a_report_or_a_message(journal, kind, number):
    tally, outputs = Tally(), (*OUTPUTS, PAGE) if number > 100 else OUTPUTS
    changed = journal.parent / FOLDER / "now" / "plan.json" if kind == "plans" else journal

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

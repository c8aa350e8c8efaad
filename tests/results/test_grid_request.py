"""What was asked of a grid, saved, united with that of other machines, or derived from its attempts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.made_up_runs import MadeUpGrid

from raybench.core.cell import Cell
from raybench.core.job import Target
from raybench.results.executions import Execution
from raybench.results.grid_request import GridRequest, PlannedCell, latest_request, request_of_runs, unite
from raybench.results.history import GridHistory
from raybench.results.run_table import Run


def planned(cell_id, model, repeats=3, skip=None, **axes):
    content = Cell.from_json({"device": {"kind": "cpu", "model": model}})
    return PlannedCell(cell_id, {"device": "cpu", **axes}, repeats, skip, 0.5, content)


def request(*cells):
    return GridRequest("grid", cells, {"device": "cpu"}, "net", Target("val/accuracy", 0.9), text="name: grid")


def test_saved_request_is_read_back():
    wanted = replace(request(planned("a", "EPYC", batch_size=32)), cells=[planned("a", "EPYC", batch_size=32)])
    assert GridRequest.from_json(json.loads(json.dumps(wanted.to_json())), "name: grid") == wanted


@pytest.mark.parametrize(
    "damage",
    [
        *({"cells": None}, {"cells": [{"axes": 1}]}, {"baseline": 3}, {"other": 1}, {"target": 4}, {"currency": 1}),
        *({"target": {"metric": "a", "at_least": "9"}}, {"limits": []}, {"price_per_hour": "2"}, {"skip": 1}),
    ],
)
def test_damaged_request_is_none(damage):
    tree = request(planned("a", "EPYC")).to_json()
    assert GridRequest.from_json(tree)
    (name,) = damage
    (tree if name in tree else tree["cells"][0] if name in tree["cells"][0] else tree).update(damage)
    assert GridRequest.from_json(tree) is None


def test_cell_that_runs_elsewhere_is_not_skipped():
    united = unite(request(planned("a", "EPYC", skip="no device")), [request(planned("b", "Xeon"))])
    assert [cell.cell_id for cell in united.cells] == ["b"]


def test_runs_of_a_node_that_is_gone_stay():
    """A cell that cannot run now has no model and so another id; it is found by what was asked for."""
    history = GridHistory(Path())
    there = [replace(planned(name, "EPYC", batch_size=name), request_id=name) for name in "ab"]
    gone = replace(planned("x", None, skip="no node", batch_size="b"), request_id="b")
    for name, cells in (("1", there), ("2", [there[0], gone])):
        history.executions.append(Execution(name, "folder", "", request(*cells).to_json()))
    assert [cell.skip for cell in latest_request(history).cells] == [None, "no node"], "it has no runs"
    history.attempts["b-r0", 1] = Run(trial="b-r0", started="2026-11-28T12:00:00.000Z")
    assert [(cell.cell_id, cell.skip) for cell in latest_request(history).cells] == [("a", None), ("b", None)]


def test_axes_follow_from_attempts():
    grid = MadeUpGrid()
    for device in ("cpu", "gpu"):
        for batch in (32, 64):
            grid.add({"device": device, "batch_size": batch}, [1.0, 1.0])
    derived = request_of_runs("made_up", grid.attempts, {"cell2": 2.0, "cell3": 2.0})
    assert [dict(cell.axes) for cell in derived.cells] == [dict(cell.axes) for cell in grid.cells.values()]
    assert [cell.price_per_hour for cell in derived.cells] == [None, None, 2.0, 2.0]
    assert {cell.repeats for cell in derived.cells} == {2}
    assert derived.is_same(replace(derived, text="other"))
    for change in ({"baseline": {"device": "gpu"}}, {"metric": "val/loss"}, {"description": "other"}):
        assert not derived.is_same(replace(derived, **change))

from dataclasses import replace

import pytest
from support.made_up_grids import cell_of

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_request import GridRequest, latest_request, to_dict
from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.job import Target
from raybench.results.executions import Execution
from raybench.results.history import GridHistory

CONTENT = {**cell_of("gpu", model={"dropout": 0.2})}
REQUEST = GridRequest(
    [
        PlannedCell("a", {"device": "cpu"}, 3, "no node has one", 0.5, content=UNKNOWN_CELL),
        PlannedCell("b", {"device": "gpu"}, 3, aa_of="a", content=Cell.from_json(CONTENT)),
    ],
    {"device": "cpu"},
    "katnoria_cnn",
    Target("val/accuracy", 0.9),
    text="name: g\n",
)


@pytest.fixture
def read_back(tmp_path):
    """What the request in a plan file is read as."""

    def read_back(plan):
        Execution.begin("here", REQUEST.text, plan).write(tmp_path)
        return latest_request(GridHistory.read(tmp_path))

    return read_back


def test_a_request_is_read_as_it_was_written(read_back):
    plan = to_dict(REQUEST)
    assert plan["cells"][1]["content"] == CONTENT and plan["target"]["at_least"] == 0.9
    assert read_back(plan) == REQUEST


def test_the_price_of_energy_is_part_of_a_request_that_has_one(read_back):
    assert not [name for name in to_dict(REQUEST) if name.endswith("_per_kwh")]
    priced = replace(REQUEST, price_per_kwh=0.3, gco2_per_kwh=380.0)
    assert read_back(to_dict(priced)) == priced


@pytest.mark.parametrize("content", [[1], "text", {"settings": 3}, {"device": {"kind": "cpu"}, "data": []}])
def test_a_request_with_a_damaged_cell_is_none(read_back, content):
    plan = to_dict(REQUEST)
    plan["cells"][1]["content"] = content
    assert read_back(plan) is None

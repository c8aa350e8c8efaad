"""Step profiles: in the table, the report, MLflow and tables; they change no time and no ratio."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_up_grids import cell_of, told

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_results import GridResults
from raybench.core.identity import cell_id
from raybench.reporting.comparison_table import text
from raybench.reporting.html import page
from raybench.reporting.report import make_report
from raybench.results.attempt import attempts, latest
from raybench.sources.result_tables import Record, tables

SECONDS = {"input": 0.0005, "forward": 0.008, "loss": 0.001, "backward": 0.014, "optimizer": 0.0025}
EPOCHS = (4.0, 4.0, 4.0)


def results(profiled=True):
    """A grid over two devices, two repeats of each; the first repeat is profiled."""
    cells, made = [], []
    for kind in ("cpu", "gpu"):
        content = cell_of(kind, epochs=3)
        cells.append(PlannedCell(cell_id(content), {"device": kind}, 2, None, 0.1))
        for repeat in range(2):
            made += told(content, repeat, EPOCHS, (0.4, 0.5, 0.6), profile=kind)
            if profiled and not repeat:
                made[-1]["step_profile"] = {"steps": 20, "seconds": SECONDS}
    return GridResults("profiled", "katnoria_cnn", cells, latest(attempts(made).values()), {"device": "cpu"})


@pytest.fixture(scope="module")
def grid():
    return results()


@pytest.fixture
def run(grid):
    return next(run for run in grid.latest.values() if run.repeat == 0)


def test_a_row_has_milliseconds_and_is_compared_like_any_other(grid):
    without = results(profiled=False)
    assert [replace(row, step_profile={}) for row in grid.rows] == without.rows
    assert grid.rows[0].step_profile == pytest.approx({name: 1000 * seconds for name, seconds in SECONDS.items()})
    assert make_report(grid).verdict == make_report(without).verdict


def test_the_table_shows_them(grid):
    shown = " ".join(text(grid.rows, width=250).split())
    assert "input 0.500, forward 8.00, loss 1.00, backward 14.0, optimizer 2.50" in shown
    assert "ms/step: measured after training, with the device synchronized at every section" in shown
    assert "ms/step" not in text(results(profiled=False).rows, width=250)


def test_the_report_has_a_table_of_them(grid):
    (section,) = [section for section in make_report(grid).sections if section.name == "steps"]
    assert [value for _, value in section.cells(section.records[0])] == [
        "cpu", "0.500", "8.00", "1.00", "14.0", "2.50", "26.0",
    ]  # fmt: skip
    assert "Breakdown of a training step" in page(make_report(grid), {})
    assert "steps" not in {section.name for section in make_report(results(profiled=False)).sections}


def test_tables_have_them(run):
    row = tables([Record(run, "profiled")])[0].iloc[0]
    assert row["profile_steps"] == 20
    assert {name: row[f"profile_{name}_s"] for name in SECONDS} == SECONDS

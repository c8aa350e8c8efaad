"""Energy of cells: intervals, ratios, and joules to the target."""

import pytest
from support.report_grids import CPU, GPU, Grid

from raybench.analysis.energy import cell_energy, energy_ratio
from raybench.core.job import Target
from raybench.reporting.comparison_table import cell_columns

TARGET = Target("val/accuracy", 0.6)


def runs(grid):
    report = grid.report()
    return [report.results.runs(cell) for cell in report.results.cells], report


def test_joules_of_a_cell_and_its_ratio_to_the_baseline():
    grid = Grid().add("cpu", CPU, joules=(200.0, 210.0, 190.0)).add("gpu", GPU, joules=(100.0, 101.0, 99.0))
    (baseline, other), report = runs(grid)
    found = cell_energy(other)
    assert (found.low, found.high) == (99, 101) and found.epoch == pytest.approx(100, abs=0.01)
    assert found.host_epoch == pytest.approx(10) and found.target is None
    ratio = energy_ratio(baseline, other)
    assert ratio.low < ratio.ratio == pytest.approx(2, rel=0.01) and ratio.low > 1.5 and ratio.high < 2.5
    assert report.results.rows[1].energy == found and report.results.rows[1].energy_ratio == ratio


def test_a_cell_without_measured_runs_has_none():
    grid = Grid().add("cpu", CPU).add("gpu", GPU, joules=(None, 100.0, None))
    (baseline, other), _ = runs(grid)
    assert cell_energy(baseline) is None and energy_ratio(baseline, other) is None
    assert cell_energy(other).epoch == 100


def test_joules_to_the_target_count_restarts():
    learning = (0.4, 0.65, 0.7, 0.8)
    grid = Grid(target=TARGET).add("cpu", CPU, learning=learning, joules=(50.0, 50.0, 50.0))
    (reached,), _ = runs(grid)
    found = cell_energy(reached, TARGET).target
    assert found.seconds == pytest.approx(100) and found.successes == 3, "two epochs of 50 J"
    grid = Grid(target=TARGET)
    grid.add("cpu", CPU, learning=learning, reached={0: (0.1, 0.2, 0.3, 0.4)}, joules=(50.0, 50.0, 50.0))
    (missed,), _ = runs(grid)
    found = cell_energy(missed, TARGET).target
    assert (found.successes, found.tries) == (2, 3)
    assert found.seconds == pytest.approx(100 + 0.5 * 200), "half a miss of four epochs for each success"


def test_a_run_towards_the_target_that_was_not_measured_leaves_no_estimate():
    grid = Grid(target=TARGET).add("cpu", CPU, learning=(0.4, 0.65, 0.7, 0.8), joules=(50.0, None, 50.0))
    (own,), _ = runs(grid)
    assert cell_energy(own, TARGET).target is None and cell_energy(own, TARGET).epoch == 50


def test_the_price_and_the_co2_of_an_epoch_are_of_the_device_and_its_host():
    grid = Grid(price_per_kwh=0.36, gco2_per_kwh=360.0)
    report = grid.add("cpu", CPU, joules=(10e6, 10e6, 10e6)).add("gpu", GPU).report()
    measured, unmeasured = report.results.rows
    assert measured.energy.price == pytest.approx(0.36 * 11e6 / 3.6e6)
    assert measured.energy.gco2 == pytest.approx(360 * 11e6 / 3.6e6) and unmeasured.energy is None
    columns = {column.head: column.cells for column in cell_columns(report.results.rows)}
    assert columns["energy price/epoch"] == ["1.10", "–"] and columns["gCO2/epoch"] == ["1100", "–"]


def test_without_a_price_of_energy_there_is_no_price_column():
    report = Grid().add("cpu", CPU, joules=(10.0, 10.0, 10.0)).report()
    assert not {"energy price/epoch", "gCO2/epoch"} & {column.head for column in cell_columns(report.results.rows)}

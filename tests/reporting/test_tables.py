"""Tables and sentences of the report on job lengths, prices and the target."""

import dataclasses

import pytest
from support.made_up_grids import SPEED, made_up

from raybench.analysis.pairs import pairs
from raybench.core.job import Target
from raybench.reporting.report import make_report
from raybench.reporting.tables import job_lengths

ONCE = 2.4 + 0.04 + 1.0 + 0.5 + 0.6
"""What a made-up run pays once: import, setup, data, build, compilation."""

WAITED = 0.01
"""Its waiting for input, each epoch."""


def of(grid, made):
    return made(grid, pairs(grid.cells, grid.latest, grid.baseline))


def test_every_length_by_hand():
    """Without noise, a job of n epochs takes what is paid once and n epochs."""
    (record,) = of(made_up(noise=0.0), job_lengths).records
    assert record["cell"] == "gpu"
    cpu, gpu = SPEED["cpu"] + WAITED, SPEED["gpu"] + WAITED
    for epochs in (1, 10, 100):
        told = record[f"epochs_{epochs}"]
        assert told["ratio"] == pytest.approx((ONCE + epochs * cpu) / (ONCE + epochs * gpu), rel=1e-6)
    assert record["long_run"]["ratio"] == pytest.approx(cpu / gpu)
    assert record["step"]["ratio"] == pytest.approx((ONCE + cpu / 156) / (ONCE + gpu / 156), rel=1e-6)
    assert record["sure_from"] == 1, "without noise, from the first step"


def test_a_step_is_compared_where_it_is_the_same_work():
    grid = dataclasses.replace(made_up(("cpu",), (256, 512)), baseline={"batch_size": 256})
    found = of(grid, job_lengths)
    (record,) = found.records
    assert "step" not in record and "turns_at" not in record
    assert [column.key for column in found.shown] == ["cell", "epochs_1", "epochs_10", "epochs_100", "long_run"]


def test_a_price_at_which_it_turns_and_a_step_from_which_it_does():
    """The slower side starts sooner: 3 s less are 156 steps at a difference of 3 s an epoch."""
    grid = made_up(noise=0.001)
    for run in grid.latest.values():
        if run.profile == "gpu":
            run.ledger = {**run.ledger, "data": run.ledger["data"] + 3.0}
    (record,) = of(grid, job_lengths).records
    assert record["turns_at"] == pytest.approx(156, rel=0.02)
    assert record["step"]["ratio"] < 1 < record["epochs_10"]["ratio"]
    assert record["sure_from"] >= record["turns_at"]


def test_nothing_is_compared_without_a_baseline_or_a_start():
    assert of(dataclasses.replace(made_up(), baseline={}), job_lengths).records == []
    grid = made_up()
    for run in grid.latest.values():
        run.ledger = {}
    assert of(grid, job_lengths).records == [], "where nobody told what is paid once"


def test_whether_the_mean_gets_to_the_target():
    def proof(at_least, repeats=3):
        grid = dataclasses.replace(made_up(repeats=repeats), target=Target("val/accuracy", at_least))
        (section,) = [each for each in make_report(grid).sections if each.name == "target"]
        return {record["cell"]: record for record in section.records}["gpu"]

    mean = proof(0.5)["mean"]
    assert proof(0.5)["proof"] == "above"
    assert proof(mean + 0.001)["proof"] == "not significant"
    assert proof(mean - 0.001)["proof"] == "not significant"
    assert proof(0.5, repeats=1)["proof"] == "one run"

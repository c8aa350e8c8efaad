"""Runs by sections: shown as milliseconds of a step, in the table, the report, MLflow and tables; in no ratio."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_grids import cell_of, told

from raybench.analysis import rules
from raybench.analysis.comparison import PlannedCell
from raybench.analysis.page import page
from raybench.analysis.report import make_report
from raybench.analysis.results import attempts, latest
from raybench.analysis.sentences import plain
from raybench.analysis.sides import pairs
from raybench.analysis.standing import Standing
from raybench.analysis.table import text
from raybench.analysis.tables import Record, tables
from raybench.analysis.target import try_of
from raybench.identity import cell_id
from raybench.tracking import projection
from raybench.tracking.stored import StoredRun, record
from raybench.trial.job import Target

MS = {"data": 0.5, "forward": 8.0, "loss": 1.0, "backward": 14.0, "step": 2.5}
STEPS = 156
TARGET = Target("val/accuracy", at_least=0.5)
EPOCHS = (4.0, 4.0, 4.0)


def by_sections(cell, repeat, factor=1.0):
    """A trial whose epochs tell their sections: the first one thrice as slow, which is the warm-up."""
    for event in told(cell, repeat, EPOCHS, (0.4, 0.5, 0.6), profile=cell["device"]["kind"]):
        if event["event"] == "epoch_ended":
            slow = factor * (3 if event["epoch"] == 1 else 1)
            event["sections"] = {name: slow * ms * STEPS / 1000 for name, ms in MS.items()}
        yield event


def standing(*kinds, asked=(False, True)):
    """A grid over devices with whole steps and by sections, two repeats of each."""
    cells, made = [], []
    for kind in kinds:
        for sections in asked:
            content = cell_of(kind, epochs=3, **({"sections": True} if sections else {}))
            cells.append(PlannedCell(cell_id(content), {"device": kind, "sections": sections}, 2, None, 0.1))
            for repeat in range(2):
                if sections:
                    made += by_sections(content, repeat, 1.0 + 0.1 * repeat)
                else:
                    made += told(content, repeat, EPOCHS, (0.4, 0.5, 0.6), profile=kind)
    return Standing(
        "apart", "katnoria_cnn", cells, latest(attempts(made).values()), {"device": kinds[0]}, target=TARGET
    )


@pytest.fixture(scope="module")
def grid():
    return standing("cpu", "gpu")


def runs(grid, sections):
    return [run for run in grid.latest.values() if run.by_sections is sections]


def test_no_rule_of_time_counts_them(grid):
    every = {**rules.RULES, **{name: published.rule for name, published in rules.PUBLISHED.items()}}
    found = {name: {rule(run) for run in runs(grid, True)} for name, rule in every.items()}
    assert found == {name: {None} for name in every}
    assert all(rules.steady(run) == pytest.approx(4.01) for run in runs(grid, False))


def test_nor_is_one_a_try_at_the_target_though_it_learns(grid):
    assert [try_of(run, TARGET) for run in runs(grid, True)] == [None] * 4
    assert all(try_of(run, TARGET).reached for run in runs(grid, False))
    assert {run.metric("val/accuracy") for run in grid.latest.values()} == {0.58}


def test_rows_have_milliseconds_of_a_step_and_no_ratio(grid):
    whole, apart, other, other_apart = grid.rows
    assert (whole.is_baseline, other.speedup.ratio) == (True, pytest.approx(1.0))
    for row in (apart, other_apart):
        assert (row.status, row.steady, row.speedup, row.epoch_price, row.total_price) == (
            "2/2 completed, by sections",
            None,
            None,
            None,
            None,
        )
        assert row.sections == pytest.approx({name: 1.05 * ms for name, ms in MS.items()}), "the median of two runs"
    assert whole.sections == other.sections == {}


def test_no_sentence_compares_them(grid):
    found = pairs(grid.cells, grid.latest, grid.baseline)
    assert [bool(pair.other.times) for pair in found] == [True, False, True, False]
    report = make_report(grid)
    said = [[plain(each) for each in sentences] for _, sentences in report.comparisons]
    assert [len(sentences) for sentences in said[1::2]] == [1, 1], "what they learned is all that is told"
    assert all("has a mean accuracy of" in sentences[0] for sentences in said[1::2])
    assert all("an epoch" in sentences[0] or "as fast" in sentences[0] for sentences in said[::2])


def test_the_table_says_what_they_are(grid):
    shown = " ".join(text(grid.rows, width=250).split())
    assert "data 0.525, forward 8.40, loss 1.05, backward 14.7, step 2.62" in shown
    assert "by sections: the device was waited for at every section of a step." in shown


def test_a_grid_without_them_has_no_such_column():
    without = standing("cpu", asked=(False,))
    assert "ms a step" not in text(without.rows, width=250)
    assert "steps" not in {section.name for section in make_report(without).sections}


def test_the_report_has_a_table_of_them(grid):
    (section,) = [section for section in make_report(grid).sections if section.name == "steps"]
    assert [record["cell"] for record in section.records] == ["cpu sections=True", "gpu sections=True"]
    assert section.records[0]["whole"] == pytest.approx(1.05 * sum(MS.values()))
    assert [value for _, value in section.cells(section.records[0])] == [
        "cpu sections=True",
        "0.525",
        "8.40",
        "1.05",
        "14.7",
        "2.62",
        "27.3",
        "2",
    ]


def test_a_grid_by_sections_alone_has_a_report_too():
    alone = standing("cpu", "gpu", asked=(True,))
    report = make_report(alone)
    assert [section.name for section in report.sections if section.name in ("jobs", "target")] == []
    assert "Where a step goes" in page(report, {})


def test_mlflow_has_seconds_of_an_epoch_and_no_headline(grid):
    run = runs(grid, True)[0]
    found = projection.epoch_metrics(run.epochs[1])
    assert {name: value for name, value in found.items() if name.startswith("sections/")} == pytest.approx(
        {f"sections/{name}_s": ms * STEPS / 1000 for name, ms in MS.items()}
    )
    summary = projection.summary_metrics(run)
    assert [name for name in summary if name.endswith("_s")] == []
    assert "summary/best_val_accuracy" in summary


def test_tables_have_them_from_the_journal_and_from_a_store(grid):
    run = runs(grid, True)[0]
    stored = StoredRun("apart", "a run", params=projection.parameters(run), tags=projection.tags(run, "apart"))
    for epoch in run.epochs:
        for name, value in projection.epoch_metrics(epoch).items():
            stored.add(name, value, epoch.epoch, 0)
    for one in (Record(run), record(stored, {})):
        found = tables([replace(one, grid="apart")])
        assert list(found.trials["sections"]) == [True]
        assert found.trials[["steady_s", "total_s", "examples_per_s"]].isna().all(axis=None)
        last = found.epochs.iloc[-1]
        assert last["section_backward_s"] == pytest.approx(MS["backward"] * STEPS / 1000)
    assert list(tables([Record(runs(grid, False)[0])]).trials["sections"]) == [False]

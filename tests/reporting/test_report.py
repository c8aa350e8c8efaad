"""Reports as data, as tables of pandas, and from sources."""

import json

import pytest
from support.answers import ANSWERS, devices_with_target, three_axes
from support.made_up_runs import MadeUpGrid

from raybench.core.cell import Cell
from raybench.reporting import build, frames
from raybench.reporting.report import VERSION, Report, as_json
from raybench.results.run_table import Run


def grid() -> MadeUpGrid:
    made = MadeUpGrid({"device": "cpu"})
    for device, seconds in (("cpu", 4.0), ("gpu", 1.0)):
        for batch in (32, 64):
            made.add({"device": device, "batch_size": batch}, [seconds, seconds * 1.01, seconds * 0.99])
    return made


@pytest.mark.parametrize("name", ANSWERS)
def test_json_has_the_answer_and_its_sentences(name):
    data = json.loads(as_json(Report(ANSWERS[name](), [])), parse_constant=pytest.fail)
    answer = ANSWERS[name]()
    assert data["version"] == VERSION and data["grid"] == answer.grid
    assert len(data["configurations"]) == len(answer.configurations) and data["sentences"]["best"]
    first = next(iter(answer.best[0].ratios.items()))
    assert data["best"][0]["ratios"][first[0].value]["value"] == first[1].value


def test_machines_and_versions_are_counted():
    cell = Cell.from_json({"device": {"kind": "gpu", "model": "H100", "count": 2}, "framework": "torch"})
    runs = [Run(trial=f"c-r{n}", cell=cell, host={"name": "a"}, versions={"torch": "2.13"}) for n in range(3)]
    report = Report(three_axes(), runs)
    assert report.machines == ["a: 2 x H100, torch: 3 runs"]
    assert report.versions == {"torch": ["2.13"]}


def test_pandas_tables_have_the_answers_numbers():
    answer = devices_with_target()
    table = frames.comparison([answer]).set_index("label")
    assert table.loc["gpu", ["device", "reference"]].tolist() == ["gpu", "cpu"]
    assert table.loc["gpu", ["ratio", "reached", "tried", "to_target_s"]].tolist() == [8.0, 2, 4, 40.6]
    assert table.loc["cpu", ["ratio"]].isna().all()
    effects = frames.effects([answer])
    assert effects[["axis", "value", "other"]].to_numpy().tolist() == [
        ["device", "gpu", "cpu"],
        ["device", "tpu", "cpu"],
    ]
    best = frames.best([answer]).set_index("criterion")
    assert best.loc["first to target", ["label", "other", "not_distinguishable"]].tolist() == ["gpu", "cpu", "tpu"]
    assert best.loc["cheapest", "ratio"] == 4.0


def test_later_warnings_are_notes_once():
    made = grid()
    report = build.from_attempts(made.attempts, made.request(), warnings=["the disk is full."])
    report = build.with_warnings(report, ["the disk is full.", "MLflow is away"])
    assert [note.text for note in report.answer.trust.notes if note.code == "warning"] == [
        "the disk is full",
        "MLflow is away",
    ]

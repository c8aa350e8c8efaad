"""The tables of results: what is in them is what their columns say, and what they say is true."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from support.attempts import attempts
from support.grid_files import write_events

import raybench
from raybench.core import events
from raybench.errors import UsageError
from raybench.reporting.results import Results
from raybench.results.epoch_table import EPOCHS
from raybench.results.executions import Execution
from raybench.results.grid_request import GridRequest, PlannedCell
from raybench.results.run_table import TRIALS
from raybench.sources import GridSource

GOLDEN = Path(__file__).parent.parent / "golden"
TRIAL = "e5728b716bd9-r0"
STEADY_CPU_S = 7.7


def of(told, **known):
    return Results([GridSource("golden", [replace(run, grid="golden", **known) for run in attempts(told).values()])])


@pytest.fixture
def golden(golden_events):
    return of(golden_events)


@pytest.mark.parametrize(("table", "described"), [("trials", TRIALS), ("epochs", EPOCHS)])
def test_described_columns_are_the_columns(golden, table, described):
    frame = getattr(golden, table)
    own = [column for column in frame.columns if "/" not in column]
    assert own == [column.name for column in described]
    assert {name: str(frame[name].dtype) for name in own} == {column.name: column.dtype for column in described}
    told = golden.columns[golden.columns["table"] == table]
    assert list(told["name"]) == own and all(told["meaning"])
    assert len(set(own)) == len(own)


def test_seconds_and_bytes_say_so():
    for column in (*TRIALS, *EPOCHS):
        is_time = column.unit == "s" or column.unit.endswith("/s")
        assert column.name.endswith("_s") == (is_time and column.unit != "FLOP/s")
        assert column.name.endswith("_bytes") == (column.unit == "bytes")


def test_the_contract_s_numbers_are_in_the_tables(golden):
    (row,) = golden.trials.to_dict("records")
    wanted = {
        "grid": "golden",
        "trial": TRIAL,
        "cell": "e5728b716bd9",
        "repeat": 1,
        "attempt": 1,
        "status": "completed",
        "runs": 1,
        "host": "node-1",
        "workload": "katnoria_cnn",
        "data": "cifar10",
        "train_examples": 40000,
        "framework": "torch",
        "framework_version": "2.13",
        "device": "cpu",
        "device_kind": "cpu",
        "device_model": "AMD EPYC",
        "threads": 2,
        "batch_size": 256,
        "weight_decay": 0.0005,
        "learning_rate": 0.1,
        "nesterov": True,
        "schedule": "constant",
        "precision": "fp32",
        "decay_rule": "mean",
        "augmentation": "[]",
        "train_s": 7.904,
        "input_wait_s": 0.020,
        "compile_s": 0.618,
        "evaluate_s": 0.806,
        "other_s": 0.049,
        "wall_s": 9.8,
        "template_import_s": 2.412,
        "steady_s": 3.921,
        "first_s": 4.621,
        "epochs_s": 8.542,
        "total_s": 12.212,
        "steady_cpu_s": STEADY_CPU_S,
        "epochs_done": 2,
        "best_val_accuracy": 0.561,
        "last_train_loss": 1.318,
        "peak_memory_bytes": 612368384,
        "recompiles": 2,
    }
    assert {name: row[name] for name in wanted} == wanted
    assert row["examples_per_s"] == pytest.approx(39936 / 3.921)
    assert str(row["ended"]) == "2026-11-21 09:00:09.800000+00:00"
    assert list(golden.epochs["epoch_s"]) == [4.621, 3.921]
    assert list(golden.epochs["elapsed_s"]) == [4.621, 8.542]
    assert list(golden.epochs["steady"]) == [False, True]
    assert list(golden.epochs["val/accuracy"]) == [0.502, 0.561]


def test_what_is_not_known_has_no_value(golden):
    (row,) = golden.trials.isna().to_dict("records")
    nothing = {"label", "target_metric", "target_reached", "time_to_target_s", "price_per_hour", "total_price", "error"}
    nothing |= {"bottleneck", "findings", "mfu", "decay_factor", "steps_per_epoch", "betas", "eps"}
    assert {name for name in nothing if not row[name]} == set()


def test_rows_of_diverged_and_failed_trials(golden_events):
    end = next(event for event in golden_events if event["event"] == "trial_ended")
    end["status"] = "diverged"
    (row,) = of(golden_events).trials.to_dict("records")
    assert row["status"] == "diverged" and row["epochs_done"] == 2
    assert all(pd.isna(row[name]) for name in ("best_val_accuracy", "last_val_accuracy", "error_where"))
    end["status"], end["error"] = "failed", {"type": "KeyError", "message": "'x'", "where": "/home/me/mine.py:7"}
    (row,) = of(golden_events).trials.to_dict("records")
    assert (row["error"], row["error_where"]) == ("KeyError: 'x'", "/home/me/mine.py:7")
    assert row["best_val_accuracy"] == 0.561, "its epochs before the error"


def test_the_findings_of_a_run(golden_events):
    golden_events[0]["runtime_conditions"] |= {"threads": 1, "niceness": 5}
    assert list(of(golden_events).trials["findings"]) == ["few_threads"]
    assert of(golden_events[:-1]).trials["findings"].isna().all(), "it runs still"


def test_nothing_at_all_are_two_empty_tables():
    empty = Results([])
    assert len(empty.trials) == len(empty.epochs) == 0
    assert list(empty.trials.columns) == [column.name for column in TRIALS]


def test_failed_trial_and_one_that_runs():
    told = [
        events.trial_ended("c-r1", 1, "failed", error={"type": "ValueError", "message": "no"}, warnings=["a", "b"]),
        events.epoch_ended("c-r2", 1, epoch=1, steps=3, examples=24, ledger={"train": 2.0}, metrics={}),
    ]
    frame = of(told).trials.set_index("trial")
    assert list(frame["status"].fillna("none yet")) == ["failed", "none yet"]
    assert list(frame["repeat"]) == [2, 3]
    assert (frame.loc["c-r1", "error"], frame.loc["c-r1", "warnings"]) == ("ValueError: no", "a\nb")
    assert frame["steady_s"].isna().tolist() == [True, False]
    assert frame["train_s"].isna().tolist() == [True, False], "no epoch is no time, and not no seconds"
    assert frame.loc["c-r2", "epochs_s"] == 2.0


@pytest.mark.parametrize(
    ("target", "reached", "seconds", "at"),
    [({"at_least": 0.55}, True, 8.542, 2), ({"at_least": 0.5}, True, 4.621, 1), ({"at_least": 0.9}, False, None, None)],
)
def test_the_way_to_a_target(golden_events, target, reached, seconds, at):
    golden_events[0]["target"] = {"metric": "val/accuracy", **target}
    row = of(golden_events).trials.iloc[0]
    assert row["target_reached"] == reached and row["target_at_least"] == target["at_least"]
    assert (
        (row["time_to_target_s"] == seconds)
        if reached
        else (row[["time_to_target_s", "epochs_to_target"]].isna().all())
    )
    assert not reached or row["epochs_to_target"] == at


def test_a_price_is_that_of_the_whole_run(golden_events):
    row = of(golden_events, price_per_hour=3600.0).trials.iloc[0]
    assert row["total_price"] == 12.212


def test_a_schedule_with_points_is_one_column(golden_events):
    golden_events[0]["cell"]["settings"]["schedule"] = {"name": "piecewise_linear", "points": [[0, 0.0]]}
    frame = of(golden_events).trials
    assert frame["schedule"][0] == '{"name": "piecewise_linear", "points": [[0, 0.0]]}'
    assert not [name for name in frame.columns if name.startswith("settings.schedule")]


def test_values_of_wrong_types_are_missing(golden_events):
    cell = golden_events[0]["cell"]
    cell["settings"] |= {"batch_size": "many", "channels_last": "yes", "weight_decay": [1], "steps_per_epoch": 2.5}
    golden_events[0]["t"] = "yesterday"
    golden_events[1]["metrics"]["epoch"] = 77.0
    found = of(golden_events)
    row = found.trials.iloc[0]
    assert row[["batch_size", "channels_last", "weight_decay", "steps_per_epoch", "started"]].isna().all()
    assert list(found.epochs["epoch"]) == [1, 2], "a metric never stands in the place of a column"


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_sections_add_up_to_wall_time(journal, tmp_path):
    found = raybench.load(write_events(tmp_path / "g", [*map(json.loads, journal.read_text().splitlines())]))
    sections = [
        f"{name}_s" for name in ("setup", "data", "build", "train", "input_wait", "compile", "evaluate", "other")
    ]
    for row in found.trials.to_dict("records"):
        assert sum(row[name] for name in sections) == pytest.approx(row["wall_s"], abs=1e-5)
        assert row["total_s"] == pytest.approx(row["wall_s"] + row["template_import_s"], abs=1e-9)
        mine = found.epochs[found.epochs["trial"] == row["trial"]]
        assert mine["elapsed_s"].iloc[-1] == pytest.approx(row["epochs_s"], abs=1e-9)
        assert len(mine) == row["epochs_done"]


def test_folder_of_results_and_one_grid_of_it(tmp_path, golden_events):
    golden_events[0] |= {"profile": "box"}
    cell = {"cell_id": golden_events[0]["trial"][:12], "axes": {"device": "box"}, "repeats": 1, "price_per_hour": 2.0}
    request = GridRequest("g", [PlannedCell(**cell)]).to_json()
    for grid in ("one", "two"):
        own = [{**event, "grid": grid} if "grid" in event else event for event in golden_events]
        Execution.begin("here", "", request).write(write_events(tmp_path / grid, own))
    both = raybench.load(tmp_path).trials
    assert both["grid"].tolist() == ["one", "two"] and both["price_per_hour"].tolist() == [2.0, 2.0]
    assert both["current"].tolist() == [True, True]
    Execution.begin("here", "", GridRequest("g", []).to_json()).write(tmp_path / "two")  # its code was edited
    assert raybench.load(tmp_path).trials["current"].tolist() == [True, False]
    assert raybench.load(tmp_path, grid="two").trials["grid"].tolist() == ["two"]
    assert raybench.load(tmp_path / "one").trials["grid"].tolist() == ["one"]
    with pytest.raises(UsageError, match=r"no results of a grid tow; did you mean two\?"):
        raybench.load(tmp_path, grid="tow")


def test_invalid_source_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="there is no such file or folder"):
        raybench.load(tmp_path / "missing")
    with pytest.raises(UsageError, match="no results of raybench in it"):
        raybench.load(tmp_path)
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(UsageError, match=r"notes\.txt:2:1: no line counts epochs or steps"):
        raybench.load(tmp_path / "notes.txt")
    with pytest.raises(UsageError, match="attempts: did you mean latest"):
        raybench.load(tmp_path, attempts="lates")

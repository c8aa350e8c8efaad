"""Trackio's database, with the tables that its version 0.43 makes: dates of batches, configurations, damage."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

import raybench
from raybench.errors import FileError
from raybench.reporting import build

COLUMNS = "run_id, timestamp, run_name, step, metrics"


def project(path, step_s, steps=60, batch_s=0.5):
    """Write three runs for each learning rate, whose steps are dated when their batch is written."""
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp TEXT NOT NULL, "
        "run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL)"
    )
    database.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY, run_id TEXT, run_name TEXT, config TEXT)")
    for lr, seconds in step_s.items():
        for seed in range(3):
            name = f"dainty-sunset-{lr}-{seed}"
            for step in range(steps):
                at_s = -(-(step + 1) * seconds // batch_s) * batch_s
                date = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)).isoformat()
                metrics = {"train_loss": 2 / (step + 1) + seed / 100, "val_acc": "NaN" if step < 2 else 0.9 - lr}
                row = f"id-{name}", date, name, step, json.dumps(metrics).encode()
                database.execute(f"INSERT INTO metrics ({COLUMNS}) VALUES (?,?,?,?,?)", row)
            config = json.dumps({"lr": lr, "seed": seed, "model": "mlp", "_Created": date})
            row = f"id-{name}", name, config
            database.execute("INSERT INTO configs (run_id, run_name, config) VALUES (?,?,?)", row)
    database.commit()
    return database


def test_runs_of_a_project(tmp_path):
    project(tmp_path / "digits.db", {0.1: 1.0, 0.3: 1.25}).close()
    answer = build.from_grid(build.one_grid([str(tmp_path / "digits.db")], tmp_path)).answer
    slow, fast = sorted(answer.configurations, key=lambda each: -each.axes["params.lr"])
    assert (fast.axes, fast.completed) == ({"params.lr": 0.1}, 3), "names are no axis if the configurations differ"
    assert fast.seconds.value == pytest.approx(1.0, rel=0.01) and slow.seconds.value == pytest.approx(1.25, rel=0.01)
    trials = raybench.load(tmp_path).trials.set_index("trial")
    assert trials.loc["dainty-sunset-0.3-1", "epochs_s"] == pytest.approx(59 * 1.25, abs=0.5)
    assert set(trials["seed"]) == {0, 1, 2} and trials["last_val_accuracy"].max() == pytest.approx(0.8)


def test_steps_that_are_faster_than_their_dates(tmp_path):
    project(tmp_path / "x.db", {0.1: 0.02, 0.3: 0.03}, steps=4000).close()
    fast, slow = build.from_grid(build.one_grid([str(tmp_path / "x.db")], tmp_path)).answer.configurations
    assert (fast.seconds.value, slow.seconds.value) == (pytest.approx(0.02, rel=0.02), pytest.approx(0.03, rel=0.02))


def test_a_short_run_has_no_times(tmp_path):
    project(tmp_path / "x.db", {0.1: 0.05, 0.3: 0.1}).close()
    answer = build.from_grid(build.one_grid([str(tmp_path / "x.db")], tmp_path)).answer
    assert answer.clock == "No times are known, so the quality alone decides."
    assert answer.configurations[answer.best[0].configuration].axes == {"params.lr": 0.1}


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        ("metrics SET metrics = '{\"train_loss\":' WHERE id = 7", "row 7 of metrics: "),
        ("metrics SET metrics = '[1]' WHERE id = 7", "row 7 of metrics: '[1]' is not a JSON object"),
        ("metrics SET timestamp = 'noon' WHERE id = 8", "row 8 of metrics: 'noon' is not a date and time"),
        ("configs SET config = '3' WHERE id = 2", "config of run dainty-sunset-0.1-1: '3' is not a JSON object"),
    ],
)
def test_damage_is_one_line_with_its_row(tmp_path, damage, place):
    database = project(tmp_path / "x.db", {0.1: 1.0})
    database.execute(f"UPDATE {damage}")
    database.commit()
    with pytest.raises(FileError) as caught:
        raybench.load(tmp_path / "x.db")
    assert str(caught.value).startswith(f"{tmp_path}/x.db: not a database of Trackio, or damaged: {place}")
    database.execute("DELETE FROM metrics")
    database.commit()
    with pytest.raises(FileError, match=r"x\.db: no run in it"):
        raybench.load(tmp_path / "x.db")

"""One report of several machines: from folders, zip files and stores, each the same."""

import shutil
from pathlib import Path

import pytest
from support.grid_files import file_of
from support.machines import GRID, TRIALS, import_archive, results_of

import raybench
from raybench.errors import UsageError
from raybench.reporting.build import from_grid, one_grid
from raybench.results.archive import write_archive
from raybench.results.folder import parse_events
from raybench.results.history import GridHistory
from raybench.tracking.store import store_from_uri
from raybench.tracking.writer import fill


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Two machines of one model and a faster one of a different model, as folders and zip files."""
    folder = tmp_path_factory.mktemp("machines")
    results_of(folder / "a", "vm-a")
    results_of(folder / "b", "vm-b", started="2026-11-24")
    results_of(folder / "c", "colab", "Intel Xeon", slower=0.5, started="2026-11-25")
    for name in "abc":
        write_archive(folder / name / GRID, folder / f"{name}.zip")
    return folder


def summary(sources):
    answer = from_grid(one_grid([str(source) for source in sources], Path("none"))).answer
    return sorted((each.axes.get("device", "cpu"), each.completed) for each in answer.configurations)


def test_runs_of_one_model_are_further_repeats(machines):
    rows = summary([machines / "a", machines / "b"])
    assert [runs for _, runs in rows] == [6] * 4


def test_different_models_are_different_devices(machines):
    rows = summary([machines / "a", machines / "c"])
    assert {device for device, _ in rows} == {"cpu (AMD EPYC)", "cpu (Intel Xeon)"} and len(rows) == 8
    assert [runs for _, runs in rows] == [3] * 8


def test_sources_of_every_kind_give_the_same_report(machines, tmp_path, migrated_database):
    expected = summary([machines / name for name in "abc"])
    assert summary([machines / f"{name}.zip" for name in "abc"]) == expected
    assert summary([machines / "a", machines / "b.zip", machines / "a" / GRID, machines / "c.zip"]) == expected
    for name in "abc":
        import_archive(machines / f"{name}.zip", tmp_path / "all")
    assert summary([tmp_path / "all"]) == expected
    shutil.copy(migrated_database, tmp_path / "runs.db")
    store = store_from_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    assert fill(store, GridHistory.read(tmp_path / "all" / GRID)) == 3 * TRIALS
    assert fill(store, GridHistory.read(tmp_path / "all" / GRID)) == 0
    assert summary([tmp_path / "runs.db"]) == expected


def test_folder_given_twice_is_a_later_attempt(machines, tmp_path):
    again = results_of(tmp_path / "again", "vm-a", started="2026-11-26", digest="sha256:03d55907")
    for file in list(again.glob(f"{GRID}/attempts/*/*.jsonl")):
        run = f"{int(file.stem, 16) ^ 1:032x}"
        events = parse_events(file.read_bytes(), "", [])
        file.with_name(f"{run}.jsonl").write_bytes(file_of([event | {"run": run} for event in events]))
        file.unlink()
    assert [runs for _, runs in summary([machines / "a", again])] == [3] * 4


def test_load_gives_every_attempt_once(machines):
    both = raybench.load([machines / "a", machines / "b.zip", machines / "a.zip"])
    assert len(both.trials) == 2 * TRIALS and both.trials["host"].value_counts().to_dict() == {"vm-a": 12, "vm-b": 12}
    assert len(both.epochs) == 2 * TRIALS * 3


@pytest.mark.parametrize(
    ("sources", "message"),
    {
        "missing": (["nowhere"], "no results of a grid nowhere"),
        "empty folder": (["empty"], "no results of raybench in it"),
        "several grids": (["{}/a", "two"], "results of 2 grids; choose one with --grid: other, quickstart"),
    }.values(),
)
def test_wrong_sources_are_one_message(machines, tmp_path, monkeypatch, sources, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    shutil.copytree(machines / "a" / GRID, tmp_path / "two" / "other")
    with pytest.raises(UsageError, match=message):
        one_grid([each.format(machines) for each in sources], Path("none"))

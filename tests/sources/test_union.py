"""One report of several machines: from folders, journals, bundles and stores, each the same."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from support import ROOT
from support.machines import GRID, TRIALS, journal_of, results_of

import raybench
from raybench.errors import UsageError
from raybench.reporting import build
from raybench.results.bundle import bundle_of, import_bundle, read_bundle, write_bundle
from raybench.results.history import GridHistory
from raybench.tracking.store import store_from_uri
from raybench.tracking.sync import sync


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """Two machines of one model and a faster one of another, as folders, journals and bundles."""
    folder = tmp_path_factory.mktemp("machines")
    results_of(folder / "a", "vm-a")
    results_of(folder / "b", "vm-b", slower=1.2)
    results_of(folder / "c", "notebook", "Intel Xeon", slower=0.5)
    for name in "abc":
        write_bundle(bundle_of(folder / name / GRID)[0], folder / f"{name}.zip")
    return folder


def test_two_machines_of_one_name_are_two_hosts(tmp_path):
    for name, slower in (("3f2a", 1.0), ("77b0", 1.5)):
        results_of(tmp_path / name, "ubuntu", slower=slower, machine_id=name)
    sources = [str(tmp_path / name) for name in ("3f2a", "77b0")]
    report = build.from_sources(sources, Path("none"))
    runs = report.results.runs(report.results.cells[0])
    assert [run.host["name"] for run in runs] == ["ubuntu"] * 3 + ["ubuntu (77b0)"] * 3
    assert all(row.runs == 6 for row in report.results.rows)
    assert len(raybench.load(sources).trials) == 2 * TRIALS


def test_a_machine_that_was_booted_again_is_one_host(machines, tmp_path):
    results_of(tmp_path / "before", "ubuntu", machine_id="3f2a")
    results_of(tmp_path / "after", "ubuntu", machine_id="3f2a", torch="2.13.1")
    journal = journal_of(tmp_path / "after")
    journal.write_text(re.sub(r'"run":"', '"run":"again', journal.read_text()).replace('"boot of', '"another boot of'))
    report = build.from_sources(
        [str(tmp_path / "before"), str(tmp_path / "after" / GRID / "journal.jsonl")], Path("none")
    )
    assert all(row.runs == 3 for row in report.results.rows), "its later runs replace the earlier ones"


FORMS = {
    "folders": "{}",
    "grid folders": "{}/quickstart",
    "journals": "{}/quickstart/journal.jsonl",
    "bundles": "{}.zip",
}


def report_of(machines, names, form="{}", **options):
    sources = [str(machines / form.format(name)) for name in names]
    return build.from_sources(sources, Path("raybench-results"), **options)


def rows_of(report):
    return {tuple(row.axes.items()): (row.runs, row.steady.value) for row in report.results.rows}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_machines_of_one_model_are_hosts_of_one_cell(machines, form):
    alone, both = (report_of(machines, names, form) for names in ("a", "ab"))
    for row, one in zip(both.results.rows, alone.results.rows, strict=True):
        assert row.axes == one.axes
        assert row.runs == 2 * one.runs == 6
        assert row.steady.value == pytest.approx(one.steady.value * 1.2**0.5, rel=1e-6)
    assert {run.host["name"] for run in both.results.runs(both.results.cells[0])} == {"vm-a", "vm-b"}


def test_machines_that_differ_in_threads_are_named_by_them(machines, tmp_path):
    results_of(tmp_path / "one", "notebook", threads=1)
    report = build.from_sources([str(machines / "a"), str(tmp_path / "one")], Path("raybench-results"))
    assert list(report.results.axes["device"]) == ["cpu (2 threads)", "cpu (1 thread)"]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_machines_of_other_models_are_other_devices(machines, form):
    report = report_of(machines, "ac", form)
    assert list(report.results.axes["device"]) == ["cpu (AMD EPYC)", "cpu (Intel Xeon)"]
    assert all(row.runs == 3 for row in report.results.rows) and len(report.results.rows) == 8
    chosen = report_of(machines, "ac", form, baseline=["cpu (AMD EPYC)"])
    ratios = [row.speedup.ratio for row in chosen.results.rows if row.speedup]
    assert ratios == pytest.approx([2.0] * 4, rel=1e-6)


def test_folders_bundles_and_stores_give_the_same_report(machines, tmp_path):
    stores = []
    for name in "abc":
        stores.append(f"sqlite:///{tmp_path / name}.db")
        sync(GridHistory.recover(journal_of(machines / name)), store_from_uri(stores[-1]), GRID)
    expected = rows_of(report_of(machines, "abc"))
    assert sorted(count for count, _ in expected.values()) == [3, 3, 3, 3, 6, 6, 6, 6]
    assert rows_of(report_of(machines, "abc", "{}.zip")) == expected
    assert rows_of(build.from_sources(stores, Path("none"))) == expected
    mixed = [str(machines / "a"), str(machines / "b.zip"), stores[2]]
    assert rows_of(build.from_sources(mixed, Path("none"))) == expected


def test_a_source_twice_counts_once(machines):
    expected = rows_of(report_of(machines, "a"))
    twice = build.from_sources([str(machines / "a"), str(machines / "a.zip"), str(machines / "a")], Path("none"))
    assert rows_of(twice) == expected


def test_the_same_run_with_other_content_is_an_error(machines, tmp_path):
    changed = results_of(tmp_path / "a", "vm-a", slower=1.1)
    with pytest.raises(UsageError, match=rf"differs between {machines}/a/.* and {changed}/"):
        build.from_sources([str(machines / "a"), str(changed)], Path("none"))
    with pytest.raises(UsageError, match="although it is the same run"):
        raybench.load([machines / "a", changed])


def test_one_source_has_the_same_report_as_before(machines):
    one = build.from_source(str(machines / "a"), Path("none"))
    assert rows_of(report_of(machines, "a")) == rows_of(one) == rows_of(report_of(machines, "a", "{}.zip"))


def test_two_parts_of_a_grid_have_the_report_of_the_whole(machines, tmp_path):
    """Each part has the trials of other cells, of one machine."""
    whole = journal_of(machines / "a")
    lines = whole.read_text().splitlines(keepends=True)
    trials = dict.fromkeys(event["trial"] for event in map(json.loads, lines) if "cell" in event)
    cells = sorted({trial.partition("-")[0] for trial in trials})
    for number, chosen in enumerate((cells[:2], cells[2:])):
        shutil.copytree(whole.parent, tmp_path / str(number) / GRID)
        others = tuple(f'"trial":"{cell}-r' for cell in cells if cell not in chosen)
        part = [line for line in lines if not any(other in line for other in others)]
        journal_of(tmp_path / str(number)).write_text("".join(part))
    united = build.from_sources([str(tmp_path / "0"), str(tmp_path / "1")], Path("raybench-results"))
    expected = report_of(machines, "a")
    assert len(cells) == 4 and len(expected.results.rows) == 4
    assert united.results.rows == expected.results.rows
    parts = [tmp_path / "0", tmp_path / "1"]
    whole_table, *others = (
        table.drop(columns="warnings").sort_values(["trial", "attempt"], ignore_index=True)
        for table in (
            raybench.load(machines / "a").trials,
            raybench.load(parts).trials,
            pd.concat(raybench.load(part).trials for part in parts),
        )
    )
    for table in others:
        pd.testing.assert_frame_equal(table, whole_table)


def test_load_has_every_machine(machines):
    results = raybench.load([machines / "a", machines / "b.zip", journal_of(machines / "c")])
    assert results.trials.groupby("host")["trial"].count().to_dict() == dict.fromkeys(
        ("notebook", "vm-a", "vm-b"), TRIALS
    )
    assert results.trials["requested"].all()
    assert sorted(results.cells["completed"]) == [3, 3, 3, 3, 6, 6, 6, 6]
    assert len(raybench.load(machines / "b.zip").trials) == TRIALS
    page = raybench.report([machines / "a", machines / "c.zip"], machines / "report.html")
    assert "cpu (Intel Xeon)" in page.read_text()


def test_load_keeps_tables_without_a_journal_apart(machines):
    results = raybench.load([str(machines / "a"), str(ROOT / "notebooks/published/resnet63.csv")])
    assert results.trials["grid"].value_counts()[GRID] == TRIALS
    assert results.trials["grid"].nunique() == 2


def test_the_only_grid_in_common_needs_no_name(machines, tmp_path):
    results = results_of(tmp_path / "a", "vm-a")
    shutil.copytree(results / GRID, results / "other")
    journal = results / "other" / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"grid":"quickstart"', '"grid":"other"'))
    report = build.from_sources([str(results), str(machines / "c.zip")], tmp_path)
    assert (report.results.name, len(report.results.rows)) == (GRID, 8)


WRONG = {
    "two grids": (["{}/a", "{}/other"], None, "choose one with --grid: other, quickstart"),
    "not the grid": (["{}/a", "{}/other"], "quickstart", "other: no results of a grid quickstart"),
    "nothing there": (["{}/a", "{}/none"], None, "none"),
    "a table": (["{}/a", "epochs.csv"], None, "epochs.csv: has no journal"),
}


@pytest.mark.parametrize("sources, grid, message", WRONG.values(), ids=WRONG)
def test_wrong_sources(machines, tmp_path, sources, grid, message):
    results_of(tmp_path / "other")
    journal = journal_of(tmp_path / "other")
    journal.write_text(journal.read_text().replace('"grid":"quickstart"', '"grid":"other"'))
    (tmp_path / "a").symlink_to(machines / "a")
    with pytest.raises(UsageError, match=message):
        build.from_sources([source.format(tmp_path) for source in sources], tmp_path, grid=grid)


def test_load_needs_a_source():
    with pytest.raises(UsageError, match="name at least one"):
        raybench.load([])


def test_a_store_has_the_imported_machines_too(machines, tmp_path):
    results = results_of(tmp_path / "a", "vm-a")
    for name in "bc":
        import_bundle(read_bundle(machines / f"{name}.zip"), results)
    expected = rows_of(report_of(machines, "abc"))
    assert rows_of(build.from_source(str(results), Path("none"))) == expected
    store = f"sqlite:///{tmp_path}/mlflow.db"
    first = sync(GridHistory.recover(journal_of(results)), store_from_uri(store), GRID)
    assert first.created == 3 * TRIALS
    assert rows_of(build.from_source(store, Path("none"))) == expected
    own = sync(GridHistory.recover(journal_of(machines / "b")), store_from_uri(store), GRID)
    assert (own.created, own.unchanged) == (0, TRIALS), "a run has the same id in every results folder"

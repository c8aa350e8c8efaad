"""`raybench report`: of a grid file, a name, a journal; what it writes, and what it refuses."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from raybench.reports import of_source

ROOT = Path(__file__).parent.parent.parent
GOLDEN = Path(__file__).parent.parent / "golden" / "journal.jsonl"


@pytest.fixture(scope="module")
def ran(tmp_path_factory, digits_text):
    """A results folder with a grid in it, run once for all that only read it."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "digits.yaml").write_text(digits_text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAYBENCH_"))}
    command = [sys.executable, "-m", "raybench", "grid", "digits.yaml", "--inline"]
    subprocess.run(command, cwd=folder, env=kept | {"PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    return folder / "raybench-results"


@pytest.fixture
def results(ran, digits):
    """That folder, beside the test's own grid file."""
    return shutil.copytree(ran, digits.parent / "raybench-results")


def test_of_a_file_a_name_and_a_journal(raybench, digits, results):
    by_file = raybench("report", digits)
    assert by_file.status == 0
    assert "trains digits_cnn" in by_file.lines[0], "the verdict first"
    assert any(line.startswith("batch_size") for line in by_file.lines), "then the table"
    assert raybench("report", "digits").lines == by_file.lines
    assert raybench("report", results / "digits").lines == by_file.lines
    journal = results / "digits" / "journal.jsonl"
    assert raybench("report", journal).lines == by_file.lines
    alone = shutil.copy(journal, results.parent / "alone.jsonl")
    assert "trains digits_cnn" in raybench("report", alone).lines[0], "also where nobody knows what was asked for"


def test_the_page_and_the_data(raybench, digits, results, tmp_path):
    said = raybench("report", "digits", "--html", tmp_path / "x.html", "--json", tmp_path / "x.json")
    assert said.lines[-2:] == [f"written: {tmp_path / 'x.html'}", f"written: {tmp_path / 'x.json'}"]
    page = (tmp_path / "x.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.count("<svg") >= 4
    assert "workload: digits_cnn" in page, "the grid file as it was"
    data = json.loads((tmp_path / "x.json").read_text())
    assert (data["v"], data["grid"], len(data["cells"])) == (1, "digits", 2)
    assert json.loads(raybench("report", "digits", "--json", "-").out)["verdict"] == data["verdict"]


def test_a_grid_leaves_its_report_and_says_where(raybench, digits, results):
    again = raybench("grid", digits, "--inline")
    assert f"report: {results / 'digits' / 'report.html'}" in again.lines
    assert "trains digits_cnn" in "\n".join(again.lines).split("batch_size")[0], "the verdict above the table"


def test_only_what_was_asked_for_last_or_everything(raybench, digits, results):
    assert raybench("grid", digits, "--inline", "--where", "batch_size=64", "--fresh").status == 0
    assert len(of_source("digits", results).standing.rows) == 1
    said = raybench("report", "digits").lines
    assert (
        "note: The journal has 1 trial of other cells: of other machines, versions or settings; they are left aside. "
        "`raybench report digits --all` takes them in."
    ) in said
    assert "note: This is a part of the grid: `--where batch_size=64` leaves out 1 of its 2 cells." in said
    assert len(of_source("digits", results, everything=True).standing.rows) == 2
    said = raybench("report", "digits", "--all")
    assert said.status == 0
    assert "a part of the grid" not in said.out


def test_everything_keeps_the_baseline_of_the_grid(raybench, digits):
    digits.write_text(digits.read_text() + "baseline: {batch_size: 32}\n")
    assert raybench("grid", digits, "--inline").status == 0
    assert raybench("grid", digits, "--inline", "--where", "batch_size=64", "--fresh").status == 0
    assert "× as fast as" not in raybench("report", "digits").out, "the baseline is not in what was asked for last"
    said = raybench("report", "digits", "--all").lines[0]
    assert said.startswith("batch 64 trains digits_cnn ") and " × as fast as batch 32, " in said


def test_everything_keeps_the_device_that_the_grid_compares_with(raybench, digits):
    digits.write_text(
        digits.read_text().replace("[cpu]", "[one, two]")
        + "devices: {one: {kind: cpu}, two: {kind: cpu}}\nbaseline: {device: two}\n"
        + "overrides:\n  - {when: {device: two}, set: {learning_rate: 0.02}}\n"
    )
    assert raybench("grid", digits, "--inline").status == 0
    assert raybench("grid", digits, "--inline", "--where", "device=one", "--fresh").status == 0
    said = raybench("report", "digits", "--all").out
    for batch in (32, 64):
        assert f"one trains digits_cnn (batch {batch}) " in said
    assert said.count(" × as fast as two, ") == 2, "each with its own"


def test_the_golden_journal(raybench):
    said = raybench("report", GOLDEN)
    assert said.lines[0].startswith(
        "cpu trains katnoria_cnn (batch 256) in 3.92 s an epoch, steady epochs, one run: no"
    )


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("digitz", "raybench-results: no journal of a grid digitz; did you mean digits?"),
        ("no.yaml", "no.yaml: there is no such file"),
        ("no.jsonl", "no.jsonl: there is no such file"),
    ],
)
def test_what_is_not_there(raybench, results, source, says):
    said = raybench("report", source)
    assert (said.status, said.lines) == (2, [says])


def test_what_is_no_journal_or_cannot_be_written(raybench, digits, tmp_path):
    said = raybench("report", digits)
    assert said.lines == [
        f"{digits}: grid digits has no journal in raybench-results; `raybench grid {digits}` makes one"
    ]
    (tmp_path / "empty.jsonl").write_text("")
    assert raybench("report", "empty.jsonl").lines == ["empty.jsonl: no trial in it yet"]
    (tmp_path / "text.jsonl").write_text("{}\nno event\n")
    assert raybench("report", "text.jsonl").lines == ["text.jsonl:2: no event of a journal"]
    said = raybench("report", GOLDEN, "--json", tmp_path / "no" / "x.json")
    assert (
        said.status == 2
        and said.lines[0] == f"{tmp_path / 'no' / 'x.json'}: cannot be written: No such file or directory"
    )


def test_in_full(raybench, results):
    brief, full = (raybench("report", "digits", *more) for more in ((), ("--full",)))
    assert (brief.status, full.status) == (0, 0)
    assert full.lines[0] == brief.lines[0]
    heads = ("What 100 epochs would take. ", "How much the times vary. ")
    for head in heads:
        assert any(line.startswith(head) for line in full.lines) and head not in brief.out

"""`raybench report`: of a grid file, a name, a journal; what it writes, and what it refuses."""

import copy
import json
import shutil
import sys

import pytest
from support import TESTS

from raybench.cli import main
from raybench.execution.inline import InlineExecutor
from raybench.reporting.build import from_sources

pytestmark = pytest.mark.usefixtures("in_process")

GOLDEN = TESTS / "golden" / "journal.jsonl"


@pytest.fixture(scope="module")
def ran(tmp_path_factory, digits_text):
    """A results folder with a grid in it, run once for all that only read it."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "digits.yaml").write_text(digits_text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("raybench.execution.executors.make_executor", lambda *_: InlineExecutor())
        patch.setattr(sys, "argv", ["raybench", "grid", "digits.yaml", "--no-checks", "--no-tracking"])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return folder / "raybench-results"


@pytest.fixture
def results(ran, digits):
    """That folder, beside the test's own grid file."""
    return shutil.copytree(ran, digits.parent / "raybench-results")


def test_of_a_file_a_name_and_a_journal(raybench, digits, results):
    by_file = raybench("report", digits)
    assert by_file.status == 0
    assert by_file.lines[0].startswith("Fastest of 2 cells: b"), "the verdict first"
    assert any(line.startswith("batch") for line in by_file.lines), "then the table"
    assert raybench("report", "digits").lines == by_file.lines
    assert raybench("report", results / "digits").lines == by_file.lines
    shutil.rmtree(results / "digits" / "executions")
    assert raybench("report", "digits").lines[0] == by_file.lines[0], "also if the request is not known"


@pytest.mark.slow
@pytest.mark.mlflow
def test_of_a_store_it_is_that_of_the_results_folder(raybench, results, migrated_database):
    shutil.copy(migrated_database, results / "mlflow.db")
    assert raybench("export", "digits", "-o", results / "mlflow.db").status == 0
    by_store = raybench("report", results / "mlflow.db", "--full")
    assert (by_store.status, by_store.err) == (0, "")
    assert by_store.lines == raybench("report", "digits", "--full").lines


def test_the_page_and_the_data(raybench, digits, results, tmp_path):
    said = raybench("report", "digits", "--html", tmp_path / "x.html", "--json", tmp_path / "x.json")
    assert said.lines[-2:] == [f"written: {tmp_path / 'x.html'}", f"written: {tmp_path / 'x.json'}"]
    page = (tmp_path / "x.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.count("<svg") >= 4
    assert "workload: digits_cnn" in page, "the grid file as it was"
    data = json.loads((tmp_path / "x.json").read_text())
    assert (data["v"], data["grid"], len(data["cells"])) == (1, "digits", 2)
    assert json.loads(raybench("report", "digits", "--json", "-").out)["verdict"] == data["verdict"]


def test_a_grid_leaves_its_report_and_says_where(grid, digits, results):
    again = grid(digits)
    assert "Report  raybench-results/digits/report.html" in again.lines
    assert "Fastest of 2 cells" in "\n".join(again.lines).split("batch ")[0], "the verdict above the table"


def test_only_what_was_asked_for_last_or_everything(raybench, grid, digits, results):
    assert grid(digits, "--where", "batch_size=64", "--rerun").status == 0
    assert len(from_sources(["digits"], results).results.rows) == 1
    said = raybench("report", "digits", "--full").lines
    assert (
        "Note: 1 trial of other cells (other machines, versions or settings) in the journal is not shown. "
        "`raybench report digits --all` includes them."
    ) in said
    assert "Note: Only a part of the grid was run: `--where batch_size=64` leaves out 1 of its 2 cells." in said
    assert len(from_sources(["digits"], results, everything=True).results.rows) == 2
    said = raybench("report", "digits", "--all")
    assert said.status == 0
    assert "part of the grid" not in said.out


def test_everything_keeps_the_baseline_of_the_grid(raybench, grid, digits):
    digits.write_text(digits.read_text() + "baseline: {batch_size: 32}\n")
    assert grid(digits).status == 0
    assert grid(digits, "--where", "batch_size=64", "--rerun").status == 0
    assert "batch 32" not in raybench("report", "digits").out, "the baseline is not in what was asked for last"
    said = raybench("report", "digits", "--all").lines[0]
    assert said.startswith("Batch 64 ") and " per example " in said and " batch 32 " in said


def test_everything_keeps_the_device_that_the_grid_compares_with(raybench, grid, digits):
    digits.write_text(
        digits.read_text().replace("[cpu]", "[one, two]")
        + "devices: {one: {kind: cpu}, two: {kind: cpu}}\nbaseline: {device: two}\n"
        + "overrides:\n  - {when: {device: two}, set: {learning_rate: 0.02}}\n"
    )
    assert grid(digits).status == 0
    assert grid(digits, "--where", "device=one", "--rerun").status == 0
    said = raybench("report", "digits", "--all", "--full").out
    for batch in (32, 64):
        assert f" two at batch {batch} " in said


def test_the_baseline_may_be_chosen(raybench, results, tmp_path):
    rows = [f"{device}-{run},{e},{s + run / 10},{device}" for device, s in (("gpu", 2), ("cpu", 8)) for run in (0, 1)
            for e in (1, 2)]  # fmt: skip
    (tmp_path / "mine.csv").write_text("\n".join(["trial,epoch,train_s,device", *rows]) + "\n")
    assert "cpu takes 3.9" in raybench("report", "mine.csv").lines[0], "the first device is the baseline"
    for text in ("cpu", "device=cpu"):
        assert raybench("report", "mine.csv", "--baseline", text).lines[0].startswith("gpu is 3.9")
    said = raybench("report", "digits", "--baseline", "batch_size=64").out
    assert said.startswith("Batch 32 ") and " per example " in said and " batch 64 " in said
    for source, text, message in (
        ("mine.csv", "cpuu", "device of mine is never cpuu; did you mean cpu?"),
        ("mine.csv", "tpu3", "device of mine is never tpu3; use one of gpu, cpu"),
        ("digits", "batchsize=64", "digits has no axis batchsize; did you mean batch_size?"),
        ("digits", "batch_size=128", "batch_size of digits is never 128; use one of 32, 64"),
    ):
        refused = raybench("report", source, "--baseline", text)
        assert refused.status == 2
        assert refused.lines[0].startswith("--baseline") and refused.lines[0].endswith(message)


def test_a_table_of_many_cells_is_an_excerpt_unless_all_are_asked_for(raybench, tmp_path):
    told = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    lines = []
    for number in range(70):
        cell = copy.deepcopy(told[0]["cell"])
        cell["settings"]["batch_size"] = number + 1
        for event in told:
            change = {"trial": f"{number:012x}-r0"} | ({"cell": cell} if "cell" in event else {})
            if "ledger" in event:
                change["ledger"] = {**event["ledger"], "train": 100.0 - number}
            lines.append(json.dumps({**event, **change}) + "\n")
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(lines))
    shown = raybench("report", journal, "--json", tmp_path / "report.json")
    rows = [line.split()[0] for line in shown.lines if line.split() and line.split()[0] in map(str, range(1, 71))]
    assert rows == [*map(str, range(70, 30, -1)), *map(str, range(10, 0, -1))], "the fastest, then the slowest"
    assert "The best 40 and the last 10 of 70 cells, by time per example; all:" in shown.out
    assert len(json.loads((tmp_path / "report.json").read_text())["cells"]) == 70
    full = raybench("report", journal, "--full")
    assert sum(line.split()[:2] == [str(number), "1/1"] for number in range(1, 71) for line in full.lines) == 70
    assert "The best 40" not in full.out


def test_the_golden_journal(raybench):
    said = raybench("report", GOLDEN)
    assert said.lines[0] == "cpu takes 3.92 s/epoch at batch 256 (one run)."


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("digitz", "raybench-results: no results of a grid digitz; did you mean digits?"),
        ("no.yaml", "no.yaml: there is no such file"),
        ("no.jsonl", "raybench-results: no results of a grid no.jsonl; use one of digits"),
    ],
)
def test_what_is_not_there(raybench, results, source, says):
    said = raybench("report", source)
    assert (said.status, said.lines) == (2, [says])


def test_what_is_no_journal_or_cannot_be_written(raybench, digits, tmp_path):
    said = raybench("report", digits)
    assert said.lines == [
        f"{digits}: no results of the grid digits in raybench-results; `raybench grid {digits}` makes them"
    ]
    (tmp_path / "text.jsonl").write_text("{}\nno event\n")
    assert raybench("report", "text.jsonl").lines == ["text.jsonl:1: no event of an attempt"]
    said = raybench("report", GOLDEN, "--json", tmp_path / "no" / "x.json")
    assert (
        said.status == 2
        and said.lines[0] == f"{tmp_path / 'no' / 'x.json'}: cannot be written: No such file or directory"
    )


def test_in_full(raybench, results):
    brief, full = (raybench("report", "digits", *more) for more in ((), ("--full",)))
    assert (brief.status, full.status) == (0, 0)
    assert full.lines[0] == brief.lines[0]
    head = "Time and cost of 100 epochs. "
    assert any(line.startswith(head) for line in full.lines) and head not in brief.out

"""`raybench report`: of a grid file, a name, a folder, a CSV; what it writes, and what it refuses."""

import json
import shutil
import sys

import pytest

from raybench.cli import main
from raybench.execution.inline import InlineExecutor

pytestmark = pytest.mark.usefixtures("in_process")

ROWS = [
    f"{device}-{run},{epoch},{seconds + run / 10},{device}"
    for device, seconds in (("gpu", 2), ("cpu", 8))
    for run in (0, 1)
    for epoch in (1, 2)
]


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


@pytest.fixture
def mine(tmp_path):
    """A CSV of epochs of two devices."""
    (tmp_path / "mine.csv").write_text("\n".join(["trial,epoch,train_s,device", *ROWS]) + "\n")
    return "mine.csv"


def configurations(raybench, *arguments):
    """The configurations of a report by their labels."""
    data = json.loads(raybench("report", *arguments, "--json", "-").out)
    return {each["label"]: each for each in data["configurations"]}


def test_file_name_and_folder_are_one_source(raybench, digits, results):
    by_file = raybench("report", digits)
    assert by_file.status == 0 and by_file.lines[0].startswith("Fastest")
    assert any(line.startswith("#  configuration") for line in by_file.lines)
    for source in ("digits", results / "digits", results):
        assert raybench("report", source).lines == by_file.lines


def test_page_and_json(raybench, digits, results, tmp_path):
    said = raybench("report", "digits", "--html", tmp_path / "x.html", "--json", tmp_path / "x.json")
    assert said.lines[-2:] == [f"written: {tmp_path / 'x.html'}", f"written: {tmp_path / 'x.json'}"]
    page = (tmp_path / "x.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.count("<svg") == 2
    assert "workload: digits_cnn" in page, "the grid file as it was"
    data = json.loads((tmp_path / "x.json").read_text())
    assert (data["version"], data["grid"], len(data["configurations"])) == (1, "digits", 2)
    assert json.loads(raybench("report", "digits", "--json", "-").out)["sentences"] == data["sentences"]


def test_last_request_or_everything(raybench, grid, digits, results):
    digits.write_text(digits.read_text() + "baseline: {batch_size: 32}\n")
    assert grid(digits, "--where", "batch_size=64", "--rerun").status == 0
    last = raybench("report", "digits", "--full").out
    assert "Part of the grid: `--where batch_size=64` leaves out 1 of 2 configurations." in last
    assert "`raybench report digits --all` includes them." in last
    assert len(configurations(raybench, "digits")) == 1
    everything = raybench("report", "digits", "--all").out
    assert "Part of the grid" not in everything and "batch 64 vs. 32" in everything


@pytest.mark.parametrize("text", ["cpu", "device=cpu"])
def test_baseline_may_be_chosen(raybench, mine, text):
    assert "gpu" in raybench("report", mine).lines[0]
    assert configurations(raybench, mine)["cpu"]["ratio"]["value"] == pytest.approx(0.25, rel=0.05)
    assert configurations(raybench, mine, "--baseline", text)["gpu"]["ratio"]["value"] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("source", "text", "message"),
    [
        ("mine.csv", "cpuu", "baseline: mine has no device cpuu; did you mean cpu?"),
        ("digits", "batchsize=64", "baseline: digits has no axis batchsize; did you mean batch_size?"),
        ("digits", "batch_size=128", "baseline: digits has no batch_size 128; use one of 32, 64"),
    ],
)
def test_wrong_baseline_names_the_nearest(raybench, results, mine, source, text, message):
    said = raybench("report", source, "--baseline", text)
    assert (said.status, said.lines) == (2, [message])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("digitz", "raybench-results: no results of a grid digitz; did you mean digits?"),
        ("no.yaml", "no.yaml: there is no such file"),
        ("no.csv", "no.csv: there is no such file"),
    ],
)
def test_missing_source(raybench, results, source, message):
    said = raybench("report", source)
    assert (said.status, said.lines) == (2, [message])

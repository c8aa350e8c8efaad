"""`raybench report published:NAME`, and of results outside a journal: a CSV of epochs, an MLflow store."""

import json
import shutil
from pathlib import Path

import pytest

import raybench as rb

RESNET63 = (
    "GTX 1080 is 159.42x faster than Mac mini 2014 in training resnet63 (95% CI 158.0–160.8), 3 runs each, "
    "timed as the source does. Claimed: 159x (“159 ×”, of a step). Derived: 159.42x (the mean of"
)
LITERATURE = Path(rb.__file__).parent / "sources" / "literature"

CSV = """\
trial,epoch,train_s,val/accuracy,device,batch_size,price_per_hour
a-r0,1,5.0,0.30,slow,64,0.1
a-r0,2,4.0,0.50,slow,64,0.1
a-r1,1,5.0,0.31,slow,64,0.1
a-r1,2,4.1,0.51,slow,64,0.1
a-r2,1,5.0,0.30,slow,64,0.1
a-r2,2,4.05,0.52,slow,64,0.1
b-r0,1,3.0,0.30,fast,64,0.3
b-r0,2,2.0,0.51,fast,64,0.3
b-r1,1,3.0,0.30,fast,64,0.3
b-r1,2,2.02,0.52,fast,64,0.3
b-r2,1,3.0,0.30,fast,64,0.3
b-r2,2,1.98,0.50,fast,64,0.3
"""


def test_a_published_result_in_the_terminal(raybench):
    said = raybench("report", "published:resnet63")
    assert said.status == 0
    assert said.lines[0].startswith(RESNET63)
    table = [line.split("  ") for line in said.lines]
    assert any(
        row[0] == "over all calls" and [text.strip() for text in row if text][1:] == ["8.83x", "3.22x"] for row in table
    )
    assert "caveat: Processor time is no headline." in said.out
    assert "source: A published table of one training script on three machines" in said.out


def test_as_a_page_and_as_data(raybench, tmp_path):
    said = raybench("report", "published:resnet63", "--html", tmp_path / "x.html", "--json", tmp_path / "x.json")
    assert said.lines[-2:] == [f"written: {tmp_path / 'x.html'}", f"written: {tmp_path / 'x.json'}"]
    page = (tmp_path / "x.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "<title>resnet63, published: raybench report</title>" in page
    assert (
        "<em>GTX 1080</em> is <strong>159.42x faster</strong> than <em>Mac mini 2014</em> in training "
        "<code>resnet63</code> (95% CI 158.0–160.8), 3 runs each, timed as the source does."
    ) in page
    data = json.loads((tmp_path / "x.json").read_text())
    assert (data["v"], data["published"], data["rule"]) == (1, "resnet63", "resnet63")
    assert [record["rule"] for record in data["sections"]["rules"]["records"]] == [
        "resnet63",
        "epochs",
        "first",
        "resnet63_cpu",
    ]
    only = json.loads(raybench("report", "published:resnet63", "--json", "-").out)
    assert only == data


def test_all_names_and_a_wrong_one(raybench, tmp_path):
    said = raybench("report", "published:")
    assert said.status == 0
    assert [line.split()[0] for line in said.lines] == [f"published:{name}" for name in rb.published()]
    said = raybench("report", "published:resnet36")
    assert (said.status, said.lines) == (
        2,
        ["published:resnet36: no such published result; did you mean resnet63?"],
    )
    said = raybench("report", "published:x", "--json", "-")
    assert said.status == 2 and said.lines[0].endswith(f"use one of {', '.join(rb.published())}")


def test_a_source_of_ones_own(raybench, tmp_path):
    shutil.copy(LITERATURE / "resnet63.yaml", tmp_path / "mine.yaml")
    assert raybench("report", "published:mine.yaml").lines[0].startswith(RESNET63)


def test_a_csv_of_epochs(raybench, tmp_path):
    (tmp_path / "mine.csv").write_text(CSV)
    said = raybench("report", "mine.csv")
    assert said.status == 0
    assert said.lines[0].startswith("fast is 2.02x faster than slow (95% CI 1.97–2.08).")
    words = " ".join(raybench("report", "mine.csv", "--full").out.split())
    assert (
        "An epoch costs 1.48x as much on fast as on slow (95% CI 1.44–1.52, prices 0.3 and 0.1 per hour); the cost is "
        "equal at 0.202 per hour of fast (95% CI 0.197–0.208)."
    ) in words
    assert "there is no table of job lengths" in words
    (tmp_path / "mine.csv").write_text(CSV.replace("train_s", "train"))
    said = raybench("report", "mine.csv")
    assert said.status == 2
    assert said.lines[0] == "mine.csv:1:1: the column train_s (or epoch_s, or elapsed_s) is missing"
    assert said.lines[1].startswith("mine.csv:1:3: train: unknown column; did you mean train_s?")


def test_a_csv_of_two_grids_wants_to_know_which(raybench, tmp_path):
    head, *lines = CSV.splitlines()
    two = [f"{head},grid", *(f"{line},{grid}" for grid in ("one", "two") for line in lines)]
    (tmp_path / "two.csv").write_text("\n".join(two) + "\n")
    said = raybench("report", "two.csv")
    assert (said.status, said.lines) == (2, ["two.csv: results of 2 grids; choose one with --grid: one, two"])
    assert raybench("report", "two.csv", "--grid", "one").status == 0
    said = raybench("report", "two.csv", "--grid", "on")
    assert (said.status, said.lines) == (2, ["two.csv: no results of a grid on; did you mean one?"])


@pytest.fixture
def stored(raybench, digits, store, in_process):
    """A results folder with a grid in it, and its store."""
    assert raybench("grid", digits, "--no-checks").status == 0
    return store.parent


@pytest.mark.slow
@pytest.mark.mlflow
def test_the_store_says_what_the_journal_says(raybench, stored):
    by_journal = raybench("report", "digits")
    for source in (stored / "mlflow.db", f"sqlite:///{stored / 'mlflow.db'}"):
        by_store = raybench("report", source)
        assert by_store.status == 0
        assert by_store.lines[0] == by_journal.lines[0]
    assert raybench("report", stored / "mlflow.db", "--grid", "digits").lines == by_store.lines
    said = raybench("report", stored / "mlflow.db", "--grid", "digit")
    assert said.status == 2 and "did you mean digits?" in said.lines[0]


def test_a_results_folder(raybench, grid, digits):
    assert grid(digits).status == 0
    stored = digits.parent / "raybench-results"
    assert raybench("report", stored, "--grid", "digits").lines == raybench("report", "digits").lines
    assert raybench("report", stored).lines == raybench("report", "digits").lines, "where there is one only"
    (stored / "other").mkdir()
    shutil.copy(stored / "digits" / "journal.jsonl", stored / "other")
    said = raybench("report", stored)
    assert (said.status, said.lines) == (2, [f"{stored}: results of 2 grids; choose one with --grid: digits, other"])

"""`raybench report`: of a grid file, a name, a folder, a CSV; what it writes, and what it refuses."""

import json
import shutil
import sys

import pytest

from raybench import load
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
        patch.setattr("raybench.execution.base.make_executor", lambda *_: InlineExecutor())
        patch.setattr(sys, "argv", ["raybench", "grid", "digits.yaml", "--no-checks", "--tracking", "none"])
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
    assert by_file.status == 0 and by_file.lines[0].startswith("One run each: ")
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
    assert "Part of the grid" not in everything and "2  batch" in everything


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


TOKENS = """trial,epoch,train_s,units/tokens,examples,device,device_model,price_per_hour
a,1,9,1000000,100,cpu,EPYC,0.1
a,2,10,1000000,100,cpu,EPYC,0.1
a,3,20,2000000,200,cpu,EPYC,0.1
b,1,9,1000000,100,gpu,NVIDIA H100,1
b,2,2,1000000,100,gpu,NVIDIA H100,1
b,3,2,1000000,100,gpu,NVIDIA H100,1
"""


def test_tokens_and_prices(raybench, tmp_path):
    (tmp_path / "mine.csv").write_text(TOKENS)
    (tmp_path / "new.csv").write_text("device,price_per_hour,source,date\nnvidia h100,0.1,shop,2026-11-20\nT4,1,,\n")
    ours, theirs = (configurations(raybench, "mine.csv", *prices) for prices in ((), ("--prices", "new.csv")))
    assert [each["rate"]["value"] for each in ours.values()] == pytest.approx([100_000, 500_000])
    assert [each["price"]["value"] for each in ours.values()] == pytest.approx([0.1 * 10 / 3600, 1 * 2 / 3600])
    assert [each["price"]["value"] for each in theirs.values()] == pytest.approx([0.1 * 10 / 3600, 0.1 * 2 / 3600])
    text = raybench("report", "mine.csv", "--prices", "new.csv", "--full").out
    assert "500,000 tokens/s" in text and "$55.6 per trillion tokens" in text and "trillion tokens" in text
    assert "gpu: NVIDIA H100, $0.10 per hour (shop, 2026-11-20)" in text
    assert "Prices of new.csv match no device here: T4; here are cpu, EPYC, gpu, NVIDIA H100." in " ".join(text.split())
    assert "50.0 examples/s" in raybench("report", "mine.csv", "--unit", "examples").out
    loaded = load("mine.csv")
    assert loaded.trials["tokens_per_s"].tolist() == pytest.approx([100_000, 500_000])
    assert loaded.epochs["tokens_per_s"].tolist()[2:] == pytest.approx([100_000, 1e6 / 9, 500_000, 500_000])
    loaded.epochs.to_csv("again.csv", index=False)
    assert load("again.csv").epochs["units/tokens"].tolist() == loaded.epochs["units/tokens"].tolist()


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ("device,prize_per_hour\ncpu,1", "1:2: prize_per_hour: unknown column; did you mean price_per_hour?"),
        ("source,date\nshop,2026-11-20", "1:1: needs the columns device and price_per_hour"),
        ("kind,price_per_hour\ncpu,cheap", "2:2: price_per_hour: 'cheap' is not a price; write a number such as 2.49"),
        ("kind,price_per_hour\n\ncpu,0,35", "3:1: 3 values for 2 columns"),
        ("kind,price_per_hour\ncpu,1\nCPU,2", "3:1: kind: CPU has a price on line 2"),
        ("kind,price_per_hour,currency\na,1,EUR\nb,1,", "3:3: currency: none, and EUR before; use one currency"),
    ],
)
def test_prices_that_cannot_be_read(raybench, mine, tmp_path, prices, message):
    (tmp_path / "bad.csv").write_text(prices)
    said = raybench("report", mine, "--prices", "bad.csv")
    assert (said.status, said.lines) == (2, [f"bad.csv:{message}"])


def test_a_unit_that_no_run_counts(raybench, tmp_path):
    (tmp_path / "mine.csv").write_text(TOKENS)
    said = raybench("report", "mine.csv", "--unit", "tokns")
    assert (said.status, said.lines) == (2, ["unit: no run counts tokns; did you mean tokens?"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("digits --results typo", "typo: no such folder, so that there are no results of a grid digits; see --results"),
        ("digitz", "raybench-results: no results of a grid digitz; did you mean digits?"),
        ("no.yaml", "no.yaml: there is no such file"),
        ("no.csv", "no.csv: there is no such file"),
    ],
)
def test_missing_source(raybench, results, source, message):
    said = raybench("report", *source.split())
    assert (said.status, said.lines) == (2, [message])

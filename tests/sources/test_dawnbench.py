"""Entries of DAWNBench in the form of its instructions."""

import json

import pytest

import raybench
from raybench.errors import UsageError

ABOUT = {
    "version": "v1.0",
    "author": "Some Lab",
    "authorEmail": "lab@example.org",
    "framework": "PyTorch v0.1.12",
    "codeURL": "https://example.org",
    "model": "ResNet 164",
    "hardware": "1 K80 / 30 GB / 8 CPU",
    "costPerHour": 0.9,
    "timestamp": "2017-10-11",
    "misc": {},
}
LOG = "epoch\thours\ttop1Accuracy\n1\t0.1\t50.0\n2\t0.15\t93.99\n3\t0.2\t94.0\n4\t0.3\t95.0\n"


@pytest.fixture
def entry(tmp_path):
    def write(log=LOG, about=ABOUT):
        (tmp_path / "CIFAR10").mkdir(exist_ok=True)
        path = tmp_path / "CIFAR10" / "lab_resnet164_1k80_pytorch.json"
        path.write_text(about if isinstance(about, str) else json.dumps(about))
        path.with_suffix(".tsv").write_text(log)
        return path

    return write


@pytest.mark.parametrize("suffix", [".json", ".tsv"])
def test_an_entry_by_the_rule_of_its_instructions(entry, suffix):
    found = raybench.load(entry().with_suffix(suffix))
    row = found.trials.iloc[0]
    assert (row["workload"], row["device_model"], row["framework"]) == (
        "ResNet 164",
        "1 K80 / 30 GB / 8 CPU",
        "PyTorch v0.1.12",
    )
    assert (row["grid"], row["reported_rule"], row["epochs_to_target"]) == ("CIFAR10", "dawnbench", 3)
    assert row["time_to_target_s"] == row["reported_s"] == pytest.approx(720)
    assert row["total_price"] == pytest.approx(0.9 * 0.2)
    assert row["dawnbench_s"] == pytest.approx(0.3 * 3600)
    assert row["steady_s"] == pytest.approx(180)
    assert found.epochs["train_s"].tolist() == pytest.approx([360, 180, 180, 360])
    assert found.epochs["val/accuracy"].tolist() == pytest.approx([0.5, 0.9399, 0.94, 0.95])


def test_an_entry_that_never_gets_there_and_has_no_price(entry):
    about = {name: value for name, value in ABOUT.items() if name != "costPerHour"}
    row = raybench.load(entry(LOG.replace("94.0\n", "93.0\n").replace("95.0", "93.5"), about)).trials.iloc[0]
    assert row[["time_to_target_s", "reported_s", "price_per_hour", "total_price"]].isna().all()
    assert not row["target_reached"]


def test_an_evaluation_before_training_and_the_top_five(entry):
    log = "epoch hours top1Accuracy top5Accuracy\n0 0.01 0.07 0.52\n1 0.11 70.0 92.0\n2 0.21 75.0 93.1\n"
    found = raybench.load(entry(log))
    row = found.trials.iloc[0]
    assert found.epochs["epoch"].tolist() == [1, 2]
    assert row["data_s"] == pytest.approx(36) and row["time_to_target_s"] == pytest.approx(0.21 * 3600)
    assert row["target_metric"] == "val/top5_accuracy" and row["best_val_accuracy"] == 0.75


def test_a_score_of_answers(entry):
    row = raybench.load(entry("epoch\thours\tf1Score\n1\t1\t0.7\n2\t2\t0.74\n")).trials.iloc[0]
    assert (row["time_to_target_s"], row["target_metric"]) == (7200, "val/f1")


def test_lines_of_several_epochs_are_no_time_of_one(entry):
    row = raybench.load(entry(LOG.replace("4\t0.3", "8\t0.9"))).trials.iloc[0]
    assert row[["steady_s", "mean_steady_s", "first_s"]].isna().all() and row["dawnbench_s"] == pytest.approx(3240)


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (LOG.replace("0.15", "soon"), ".tsv:3:2: hours: 'soon' is no number"),
        (LOG.replace("3\t0.2\t94.0", "3\t0.2"), ".tsv:4:1: 2 values for 3 columns"),
        (LOG.replace("0.15", "0.05"), ".tsv:3:1: epochs and hours have to grow"),
        (
            LOG.replace("top1Accuracy", "top1Acuracy"),
            ".tsv:1:3: top1Acuracy: no column of DAWNBench; did you mean top1",
        ),
        ("", ".tsv:1:1: wanted the columns epoch, hours, top1Accuracy"),
        ("epoch\thours\ttop1Accuracy\n", ".tsv:1:1: no epoch in it"),
    ],
)
def test_what_is_wrong_with_the_epochs(entry, log, says):
    with pytest.raises(UsageError) as caught:
        raybench.load(entry(log))
    assert says in str(caught.value)


def test_what_is_wrong_with_the_rest(entry):
    with pytest.raises(UsageError, match=r"json:1:11: is no JSON"):
        raybench.load(entry(about='{"model": oops}'))
    with pytest.raises(UsageError, match="hardware: missing"):
        raybench.load(entry(about={"model": "x"}))
    path = entry()
    path.with_suffix(".tsv").unlink()
    with pytest.raises(UsageError, match="a JSON and a TSV of the same name"):
        raybench.load(path)

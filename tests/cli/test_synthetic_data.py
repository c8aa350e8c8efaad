"""`--synthetic-data`: a grid without its data set and without a network."""

import json

import pytest

GRID = """\
name: g
workload: mnist_cnn
epochs: 2
steps_per_epoch: 2
batch_size: 32
examples: {val: 64}
target: {metric: val/accuracy, at_least: 0.05}
axes: {learning_rate: [0.1, 0.2]}
include: [{device: reference, learning_rate: 0.3}]
devices: {reference: {kind: cpu, repeats: 1}}
repeats: 2
baseline: {learning_rate: 0.1}
"""


@pytest.fixture
def grid(raybench, tmp_path, monkeypatch):
    (tmp_path / "g.yaml").write_text(GRID)
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("RAYBENCH_DATA_MIRROR", "http://127.0.0.1:9")  # nothing listens there
    return lambda *more: raybench("grid", "g.yaml", "--inline", "--no-tracking", "--no-checks", *more)


def test_without_it_the_message_names_it(grid):
    said = grid()
    assert said.status == 2
    assert "use `--synthetic-data`" in said.err


@pytest.mark.slow
def test_it_trains_and_every_accuracy_says_so(grid, raybench, tmp_path):
    said = grid("--synthetic-data")
    assert said.status == 0, said.err
    page = " ".join(" ".join(said.lines).split())
    assert "Synthetic data (mnist-synthetic): times are valid, accuracies are not those of real data." in page
    assert "accuracy (synthetic data)" in page
    folder = tmp_path / "raybench-results" / "g~inline"
    events = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    started = [event["cell"] for event in events if event["event"] == "trial_started"]
    assert {cell["data"]["name"] for cell in started} == {"mnist-synthetic"}
    assert len(started) == 5, "two cells in two repeats, and one on a device that has one"
    full = " ".join(" ".join(raybench("report", "g~inline", "--full").lines).split())
    assert "ccuracy on synthetic data after 2 epochs" in full
    assert json.loads(next(folder.rglob("report.json")).read_text())["synthetic_data"] == "mnist-synthetic"
    assert (folder / "report.html").read_text().count("synthetic data") > 3
    assert (tmp_path / "data" / "synthetic" / "mnist-synthetic-1.npz").is_file()
    assert grid("--synthetic-data").lines[-2:] == grid("--set", "synthetic_data=true").lines[-2:], "the same cells"


def test_own_data_have_no_stand_in(raybench, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import raybench\n\n\ndef data(root):\n    raise OSError\n\n\n"
        "mine = raybench.Workload(model=lambda: None, data=data)\n"
    )
    (tmp_path / "g.yaml").write_text("name: g\nworkload: mine.py:mine\nepochs: 1\nbatch_size: 16\n")
    said = raybench("plan", "g.yaml", "--synthetic-data", "--inline")
    assert said.status == 2
    assert "mine reads its own data, which raybench cannot generate" in said.err

"""`--synthetic-data`: a grid without its data set and without a network."""

import json

import pytest

from raybench import load

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
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nothing listens there
    return lambda *more: raybench("grid", "g.yaml", "--inline", "--tracking", "none", "--no-checks", *more)


def test_without_it_the_message_names_it(grid):
    said = grid()
    assert said.status == 2
    assert "use `--synthetic-data`" in said.err


@pytest.mark.slow
def test_it_trains_and_every_accuracy_says_so(grid, raybench, tmp_path):
    said = grid("--synthetic-data")
    assert said.status == 0, said.err
    sentence = "Generated data replaces mnist: accuracy means nothing."
    assert sentence in said.lines
    trials = load("raybench-results/g~inline").trials
    assert len(trials) == 5, "two cells in two repeats, and one on a device that has one"
    assert json.loads(raybench("report", "g~inline", "--json", "-").out)["synthetic_data"] == "mnist"
    assert sentence in (tmp_path / "raybench-results" / "g~inline" / "report.html").read_text()
    assert "Nothing was left to run" in grid("--set", "synthetic_data=true").out, "the same cells"


def test_own_data_have_no_stand_in(raybench, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import raybench\n\n\ndef data(root):\n    raise OSError\n\n\n"
        "mine = raybench.Workload(model=lambda: None, data=data)\n"
    )
    (tmp_path / "g.yaml").write_text("name: g\nworkload: mine.py:mine\nepochs: 1\nbatch_size: 16\n")
    said = raybench("plan", "g.yaml", "--synthetic-data", "--inline")
    assert said.status == 2
    assert "mine reads its own data, which raybench cannot generate" in said.err

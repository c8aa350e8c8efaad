"""Logs of other programs: excerpts of public ones (`tests/sources/logs/README.md`), and damaged ones."""

import json
import shutil
from pathlib import Path

import pytest

from raybench import load
from raybench.errors import FileError, UsageError
from raybench.sources import logs

LOGS = Path(__file__).parents[1] / "sources" / "logs"
TRIALS = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu_h200_trials.csv"


def first_sentence(cli, *arguments):
    said = cli("report", *map(str, arguments))
    assert said.status == 0, said.err
    return " ".join(said.out.split("\n\n")[0].split())


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("mlperf", "first to val/loss 3.3 in these runs: 95.3 min, reached in 4 of 4 runs; 6% faster than MI355X"),
        ("modded_nanogpt", "Faster: log SparseBigramGradient: 0.6% faster than log VeTuned (95% CI 0.5–0.8%)"),
        ("parameter_golf", "parameter_golf: 19.3 steps/s, 1.20 val/bpb; nothing to compare it with."),
        ("nanochat", "One run each: log d24 (the reference), fastest: 7.2% faster than log d26, 1.52 steps/s"),
        ("tensorboard", "tensorboard: 671 ms per epoch, 75.13% train/accuracy; nothing to compare it with."),
        ("trainer", "Val/wer (no times recorded): trainer: 9.62; nothing to compare it with."),
        ("lightning", "Train/accuracy (no times recorded): lightning: 61.93%; nothing to compare it with."),
        ("wandb_export.csv", "best train/loss (no times recorded) in these runs: 4.36"),
    ],
)
def test_public_logs(raybench, source, says):
    if source == "tensorboard":
        pytest.importorskip("tensorboard")
    assert says in first_sentence(raybench, LOGS / source)


def test_times_and_quality_are_those_of_the_log():
    runs = load(LOGS / "modded_nanogpt").trials
    assert sorted(runs[runs["params.log"] == "VeTuned"]["epochs_s"].round(2)) == [95.32, 95.32, 95.33, 95.35]
    epochs = load(LOGS / "nanochat").epochs.query("trial.str.len() > 0")
    assert epochs.groupby("trial")["val/bpb"].last().sort_values().tolist() == [0.745, 0.7483]
    mlperf = load(LOGS / "mlperf").trials  # AMD's logs name no target
    assert mlperf["epochs_s"].round().tolist() == [5758, 6161, 5745, 6566, 5606, 5605, 6078, 5606]
    assert mlperf["epochs_to_target"].dropna().tolist() == [13, 13, 14, 13]


def test_a_table_of_one_line_per_run(raybench, tmp_path):
    said = first_sentence(raybench, TRIALS, "--grid", "airbench94")
    assert "2.07 s, reached in 2 of 2 runs" in said and "Not reached by train (0 of 1)" in said
    table = tmp_path / "mine.csv"
    table.write_text(
        "variant,lr,minutes,val_loss\nadam,0.1,2,3.0\nadam,0.1,2.1,3.1\nmuon,0.1,1,3.0\nmuon,0.1,1.1,3.1\n"
    )
    runs = load(table).trials
    assert runs["params.variant"].tolist() == ["adam", "adam", "muon", "muon"] and "params.lr" not in runs
    assert runs["train_s"].tolist() == [120.0, 126.0, 60.0, 66.0]


def test_wandb_history_has_times(tmp_path):
    table = tmp_path / "history.csv"
    table.write_text("_step,_runtime,_timestamp,train/loss,eval/loss\n0,2.5,99,3,\n1,5,102,2,2.5\n1,5,102,,2.4\n")
    runs = load(table).trials
    assert runs["train_s"].tolist() == [5.0] and runs["last_val_loss"].tolist() == [2.4]


def test_a_trainer_that_was_not_resumed_has_times(tmp_path):
    state = json.loads((LOGS / "trainer" / "trainer_state.json").read_text())
    state["log_history"] = state["log_history"][-4:]  # the evaluations now take less than the training
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    runs = load(tmp_path / "trainer_state.json").trials
    assert runs["train_s"].tolist() == [476827.8094]


def test_an_axis_by_a_regular_expression(raybench, tmp_path):
    shutil.copytree(LOGS / "nanochat", tmp_path / "logs")
    for log in (tmp_path / "logs").iterdir():
        log.write_text(f"depth={log.stem[1:]}\n{log.read_text()}")
        log.rename(log.with_name(f"seed{log.stem[1:]}.log"))
    assert "2 runs" in raybench("report", str(tmp_path / "logs")).out, "seeds are repeats"
    said = first_sentence(raybench, tmp_path / "logs", "--axis", r"depth=depth=(\d+)")
    assert said.startswith("One run each: depth 24 (the reference), fastest: 7.2% faster than depth 26")
    with pytest.raises(UsageError, match=r"--axis width: 'width=.*' is neither in the name nor in the text of"):
        logs.load_logs([tmp_path / "logs"], {"width": r"width=(\d+)"}, {})


def test_two_folders_are_compared(raybench):
    folders = sorted((LOGS / "modded_nanogpt").iterdir())
    assert "0.6% faster" in first_sentence(raybench, *folders)
    assert raybench("compare", *map(str, folders)).status == 0


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("result_0.txt", ':::MLLOG {"key": "run_start", "time_ms": 1, "value": 0}\n:::MLLOG {"ke\n', ":2:1: a damaged"),
        ("result_0.txt", ':::MLLOG {"key": "run_start", "time_ms": 1, "value": 0}\n', ":1:1: no run_start"),
        ("trainer_state.json", '{\n "log_history": [', ":2:18: not JSON"),
        ("trainer_state.json", '{"log": 1}', ":1:1: not the state of a Trainer: no log_history"),
        ("metrics.csv", "epoch,step,val_loss\n0,1,0.5\n1,2,0.x4\n", ":3:3: val_loss: '0.x4' is not a number"),
        ("runs.csv", "lr,time_s,val_loss\n1,2,3\n1,2\n", ":3:1: 2 values for 3 columns"),
        ("runs.csv", "a,b\n1,2\n", ":1:1: no column is a time or a metric; name them time_s and val_loss"),
        ("train.log", "nothing\nto see\n", ":3:1: no line counts epochs or steps"),
    ],
)
def test_damaged_logs_are_one_line(raybench, tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    said = raybench("report", str(tmp_path / name))
    assert said.status == 2 and f"{name}{says}" in said.err.replace("\n", "")
    assert len(said.err.strip().splitlines()) <= 2


def test_a_damaged_event_file(tmp_path):
    pytest.importorskip("tensorboard")
    path = tmp_path / "events.out.tfevents.1.host.1.0"
    path.write_bytes(b"\x01" * 100)
    with pytest.raises(FileError, match="no scalar of a metric in it; it may be damaged"):
        load(path)

"""A plain CSV of epochs as tables, and what is wrong with one."""

import math
from dataclasses import replace

import pytest
from pandas.testing import assert_frame_equal

import raybench
from raybench.errors import FileError, UsageError
from raybench.reporting import build
from raybench.reporting.results import Results
from raybench.reporting.words.best import best_texts
from raybench.sources import GridSource
from raybench.sources.table import read_csv

CSV = """\
trial,epoch,train_s,evaluate_s,val/accuracy,device,batch_size,weight_decay,compile,warmup_epochs
a,1,5.0,0.5,0.3,gpu,64,5e-4,false,1
a,2,2.0,0.5,0.6,gpu,64,5e-4,false,1
a,3,2.2,0.5,,gpu,64,5e-4,false,1
b,1,5.1,0.5,0.2,gpu,64,5e-4,false,1
b,2,2.1,0.5,0.7,gpu,64,5e-4,false,1
c,1,9.0,0.5,0.4,cpu,64,5e-4,false,1
"""


def load(tmp_path, text):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    return raybench.load(path)


def problems(tmp_path, text):
    with pytest.raises(FileError) as caught:
        load(tmp_path, text)
    return str(caught.value).replace(str(tmp_path), "").splitlines()


def test_epochs_become_trials_cells_and_repeats(tmp_path):
    found = load(tmp_path, CSV)
    frame = found.trials.set_index("trial")
    assert set(frame["grid"]) == {"mine"} and set(frame["status"]) == {"completed"}
    assert frame["repeat"].to_dict() == {"a": 1, "b": 2, "c": 1}
    assert frame["cell"]["a"] == frame["cell"]["b"] != frame["cell"]["c"]
    assert frame["steady_s"].to_dict() == {"a": pytest.approx(2.1), "b": 2.1, "c": 9.0}
    assert frame["first_s"].to_dict() == {"a": 5.0, "b": 5.1, "c": 9.0}
    assert (frame["batch_size"]["a"], frame["weight_decay"]["a"], frame["compile"]["a"]) == (64, 5e-4, "false")
    runs = read_csv(tmp_path / "mine.csv").load()
    assert {run.cell.settings.compile for run in runs} == {False}
    assert frame["best_val_accuracy"].to_dict() == {"a": 0.6, "b": 0.7, "c": 0.4}
    assert found.epochs["val/accuracy"].isna().tolist() == [False, False, True, False, False, False]


def test_written_epoch_table_is_read_back(tmp_path, golden_events):
    from support.attempts import attempts

    results = Results([GridSource("golden", [replace(one, grid="golden") for one in attempts(golden_events).values()])])
    trials, epochs = results.trials, results.epochs
    epochs.to_csv(tmp_path / "golden.csv", index=False)
    again = raybench.load(tmp_path / "golden.csv")
    assert_frame_equal(again.epochs, epochs)
    assert again.trials["steady_s"][0] == trials["steady_s"][0] == 3.921
    assert (again.trials["trial"][0], again.trials["repeat"][0]) == ("e5728b716bd9-r0", 1)


def test_epoch_times_with_a_target(tmp_path):
    head = "trial,epoch,epoch_s,val/loss,target_metric,target_at_most,wall_s,price_per_hour"
    found = load(tmp_path, f"{head}\nx,1,2,0.5,val/loss,0.2,9,3600\nx,2,3,0.1,val/loss,0.2,9,3600\n")
    row = found.trials.iloc[0]
    assert (row["time_to_target_s"], row["target_reached"], row["epochs_to_target"]) == (5.0, True, 2)
    assert (row["total_s"], row["total_price"]) == (9.0, 9.0)
    assert len(raybench.load(tmp_path / "mine.csv", grid="mine").trials) == 1
    with pytest.raises(UsageError, match="no results of a grid yours; use one of mine"):
        raybench.load(tmp_path / "mine.csv", grid="yours")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("batch_size", "batch_sise"), "/mine.csv:1:7: batch_sise: unknown column; did you mean batch_size?"),
        (("device,", "trial,"), "/mine.csv:1:6: trial: there are two columns trial"),
        (("train_s", "wait"), "/mine.csv:1:3: wait: unknown column; "),
        (("a,2,2.0", "a,2,fast"), "/mine.csv:3:3: train_s: 'fast' is not a number"),
        (("a,2,2.0", "a,2.5,2.0"), "/mine.csv:3:2: epoch: '2.5' is not a whole number"),
        (("a,2,2.0", "a,0,2.0"), "/mine.csv:3:2: epoch: 0, and other trials of the file count from 1"),
        (("a,2,2.0", "a,2,-2"), "/mine.csv:3:3: train_s: '-2' is negative"),
        (("a,2,2.0", "a,2,,"), "/mine.csv:3:1: 11 values for 10 columns"),
        (("a,2,2.0", "a,2,"), "/mine.csv:3:3: train_s: missing"),
        (("a,2,2.0", "a,1,2.0"), "/mine.csv:3:2: epoch: 1 again: line 2 has this epoch of the same trial"),
        (("a,2,2.0", ",2,2.0"), "/mine.csv:3:1: trial: missing"),
        (("0.6,gpu,64", "0.6,gpu,32"), "/mine.csv:3:7: batch_size: 32 here and 64 on line 2: a trial has one"),
        (
            ("0.6,gpu,64,5e-4,false", "0.6,gpu,64,5e-4,no"),
            "/mine.csv:3:9: compile: 'no' is not allowed; use true, false, default",
        ),
        (("0.6,gpu,64,", "0.6,gpu,"), "/mine.csv:3:1: 9 values for 10 columns"),
        (("0.6,gpu", "60,gpu"), "/mine.csv:3:5: val/accuracy: 60 is not a fraction from 0 to 1; 60 % is 0.6"),
        ((CSV, "trial,epoch,train_s\n"), "/mine.csv:1:1: no epoch in it"),
        ((CSV, ""), "/mine.csv:1:1: write the names of columns here, separated by commas"),
        (("epoch,", "time,"), "/mine.csv:3:1: trial: a again, as on line 2; lines of epochs need a column epoch"),
    ],
)
def test_problems_have_line_and_column(tmp_path, change, says):
    assert any(line.startswith(says) for line in problems(tmp_path, CSV.replace(*change, 1)))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("status", "Completed", "'Completed' is not a status; did you mean completed?"),
        ("status", "paused", "'paused' is not a status; use one of completed, oom, diverged, "),
        ("price_per_hour", "-3", "'-3' is negative"),
        ("evaluate_s", "-0.5", "'-0.5' is negative"),
        ("wall_s", "-9", "'-9' is negative"),
        ("wall_s", "1e308", "'1e308' is too large"),
        ("ended", "yesterday", "'yesterday' is not a time; write it as 2026-11-21T09:00:00Z"),
    ],
)
def test_a_value_that_cannot_be_true_is_refused(tmp_path, column, value, message):
    (line,) = problems(tmp_path, f"trial,epoch,train_s,{column}\na,1,5,{value}\n")
    assert line.startswith(f"/mine.csv:2:4: {column}: {message}")


@pytest.mark.parametrize(
    ("metric", "at_least", "at_most", "message"),
    [
        ("val/accuracy", "0.9", "0.95", "4: target_metric: needs exactly one of target_at_least and target_at_most"),
        ("val/accuracy", "94", "", "5: target_at_least: 94 is not a fraction from 0 to 1; 94 % is 0.94"),
        ("val/acuracy", "0.9", "", "4: target_metric: there is no column val/acuracy; did you mean val/accuracy?"),
    ],
)
def test_a_target_that_cannot_be_reached_is_refused(tmp_path, metric, at_least, at_most, message):
    head = "trial,epoch,train_s,target_metric,target_at_least,target_at_most,val/accuracy"
    (line,) = problems(tmp_path, f"{head}\na,1,5,{metric},{at_least},{at_most},0.3\n")
    assert line == f"/mine.csv:2:{message}"


def test_first_problems_are_printed_others_counted(tmp_path):
    lines = problems(tmp_path, "trial,epoch,train_s\n" + "a,1,fast\n" * 100_000)
    assert (len(lines), lines[-1]) == (11, "… and 99,990 more")


KERAS = "epoch,acc,elapsed,loss,val_acc,val_loss\n0,0.3,2.5,1.9,0.4,1.8\n1,0.5,4.5,1.5,0.6,1.4\n"


def test_keras_log_with_named_times(tmp_path):
    (line,) = problems(tmp_path, KERAS)
    assert line.startswith("/mine.csv:1:3: elapsed: unknown column; did you mean elapsed_s? ")
    found = load(tmp_path, KERAS.replace("elapsed", "elapsed_s"))
    assert found.trials["trial"].tolist() == ["mine"]
    assert found.epochs[["epoch", "train_s"]].values.tolist() == [[1, 2.5], [2, 2.0]], "from 1, and seconds of each"
    assert found.epochs["val/accuracy"].tolist() == [0.4, 0.6]
    assert found.epochs["train/loss"].tolist() == [1.9, 1.5]
    two = problems(tmp_path, KERAS.replace("elapsed", "epoch_s") + "0,0.3,2.5,1.9,0.4,1.8\n")
    assert two == [
        "/mine.csv:4:1: epoch: 0 again: line 2 has this epoch of the same trial; add a column trial or repeat"
    ]


@pytest.mark.parametrize(
    ("end", "status", "accuracy"),
    [
        ("NA,NA", "completed", 0.4),
        (",", "completed", 0.4),
        ("nan,", "completed", None),
        (",nan", "diverged", None),
        ("0.5,inf", "diverged", None),
    ],
)
def test_metrics_missing_in_the_last_epoch(tmp_path, end, status, accuracy):
    row = load(tmp_path, f"epoch,epoch_s,val_acc,val_loss\n0,2,0.4,1.8\n1,2,{end}\n").trials.iloc[0]
    assert row["status"] == status and (row["last_val_accuracy"] == accuracy or accuracy is None)
    assert accuracy or math.isnan(row["last_val_accuracy"])


def test_elapsed_seconds_that_fall_are_refused(tmp_path):
    (line,) = problems(tmp_path, "epoch,elapsed_s\n1,5\n2,4\n")
    assert line == "/mine.csv:3:2: elapsed_s: 4 after 5 in the epoch before"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("epoch,elapsed_s\n5,50\n10,100\n", "2:1: epoch: 5, and an epoch before it is missing: elapsed_s needs all"),
        (
            "epoch,train_s,val/accuracy,target_metric,target_at_least\n"
            "1,5,0.5,val/accuracy,0.9\n3,5,0.9,val/accuracy,0.9\n",
            "3:1: epoch: 3, and an epoch before it is missing: a target needs all",
        ),
        ("epoch,train_s\n2,5\n4,5\n", ""),
    ],
)
def test_missing_epochs_are_refused_where_they_count(tmp_path, text, line):
    if line:
        assert problems(tmp_path, text) == [f"/mine.csv:{line}"]
    else:
        assert load(tmp_path, text).epochs["epoch"].tolist() == [2, 4]


def test_parts_are_subtracted_from_the_epoch(tmp_path):
    found = load(tmp_path, "epoch,epoch_s,compile_s,input_wait_s\n1,5,2,0.5\n2,3,0,0.5\n").epochs
    assert found["train_s"].tolist() == [2.5, 2.5] and found["epoch_s"].tolist() == [5.0, 3.0]


def test_each_data_set_has_its_own_best(tmp_path):
    lines = ["trial,epoch,train_s,val/accuracy,device,workload,data,target_metric,target_at_least"]
    for device, data, best in (("cpu", "mnist", 0.5), ("gpu", "mnist", 0.95), ("gpu", "cifar10", 0.95)):
        for epoch, accuracy in ((1, 0.4), (2, best)):
            lines.append(f"{device}-{data},{epoch},2,{accuracy},{device},net,{data},val/accuracy,0.9")
    mnist, cifar = (str(text) for text in best_texts(answer(tmp_path, "\n".join(lines))))
    assert mnist.startswith("Only one to reach 90% accuracy on net, mnist in these runs: gpu:")
    assert cifar.startswith("To 90% accuracy on net, cifar10: gpu:") and "nothing to compare it with" in cifar


def answer(tmp_path, text):
    (tmp_path / "mine.csv").write_text(text)
    return build.from_grid(build.one_grid([str(tmp_path / "mine.csv")], tmp_path)).answer


def test_workloads_are_never_compared_with_each_other(tmp_path):
    head = "trial,epoch,train_s,device,workload\n"
    times = {("resnet", "cpu"): 10, ("resnet", "gpu"): 2, ("lstm", "cpu"): 100, ("lstm", "gpu"): 200}
    rows = [
        f"{workload}-{device}-{number},{epoch},{seconds * (1 + number / 100)},{device},{workload}\n"
        for (workload, device), seconds in times.items()
        for number in range(3)
        for epoch in (1, 2)
    ]
    (effect,) = answer(tmp_path, head + "".join(rows)).effects
    assert (effect.speed, effect.least, effect.most) == (None, pytest.approx(0.5), pytest.approx(5))
    apart = [row for row in rows if row.startswith(("resnet-gpu", "lstm-cpu"))]
    found = answer(tmp_path, head + "".join(apart))
    assert found.effects == ()
    assert all(each.ratio is None for each in found.configurations)


def test_trial_names_and_attempts_in_a_csv(tmp_path):
    head = "trial,epoch,train_s,device,attempt\n"
    rows = [
        f"exp-r{number},1,{seconds},{device},1\n"
        for number, (device, seconds) in enumerate([("gpu", 5.1), ("gpu", 5.2), ("cpu", 10.1), ("cpu", 10.2)])
    ]
    found = load(tmp_path, head + "".join(rows) + "exp-r3,1,10.3,cpu,2\n").trials
    assert found.groupby("device")["cell"].nunique().to_dict() == {"cpu": 1, "gpu": 1}
    assert found["repeat"].tolist() == [1, 2, 1, 2]
    report = build.from_grid(build.one_grid([str(tmp_path / "mine.csv")], tmp_path))
    assert [(each.planned, each.completed) for each in report.answer.configurations] == [(2, 2)] * 2


def test_settings_and_repeats_tell_trials_apart(tmp_path):
    rows = [
        f"{device},{repeat},{epoch},{s},0.1"
        for device, s in (("a", 2), ("b", 1))
        for repeat in (0, 1)
        for epoch in (1, 2)
    ]
    text = "\n".join(["device,repeat,epoch,epoch_s,price_per_hour", *rows, ""])
    assert load(tmp_path, text).trials[["device", "repeat", "epochs_done"]].values.tolist() == [
        ["a", 1, 2],
        ["a", 2, 2],
        ["b", 1, 2],
        ["b", 2, 2],
    ]
    (line,) = problems(tmp_path, text.replace("b,1,2,1,0.1", "b,1,2,1,0.2"))
    assert line.startswith("/mine.csv:9:5: price_per_hour: 0.2 here and 0.1 on line 8: a trial has one; use the column")


def test_repeat_claimed_by_two_trials(tmp_path):
    (said,) = problems(tmp_path, "trial,epoch,train_s,repeat\na,1,5,1\nb,1,6,1\nc,1,7,2\n")
    assert said.startswith("/mine.csv:3:4: repeat: 1 again: trial 'a' on line 2 has it")


def test_hosts_count_their_repeats_alike(tmp_path):
    rows = [f"{device},{host},{repeat},1,{5 + repeat}" for device, host in ("ax", "ay", "bx") for repeat in (0, 1)]
    trials = load(tmp_path, "\n".join(["device,host,repeat,epoch,train_s", *rows, ""])).trials
    assert trials.groupby("device")["repeat"].apply(sorted).to_dict() == {"a": [1, 2, 3, 4], "b": [1, 2]}


def test_settings_that_raybench_does_not_name(tmp_path):
    rows = [f"{rate},{kind},{repeat},1,{5 + repeat}" for rate, kind in ((1e-3, "a"), (0.1, "b")) for repeat in (0, 1)]
    found = load(tmp_path, "\n".join(["params.lr,params.kind,repeat,epoch,train_s", *rows, ""]))
    assert found.trials["params.lr"].tolist() == [1e-3, 1e-3, 0.1, 0.1]
    assert found.comparison["label"].tolist() == ["lr 0.001, kind a", "lr 0.1, kind b"]
    (line,) = problems(tmp_path, "lr,epoch,train_s\n1,1,5\n")
    assert line == "/mine.csv:1:1: lr: unknown column; name a metric like val/accuracy, and a setting params.lr"


def test_files_of_one_grid_are_joined(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("trial,epoch,train_s,grid\nx,1,5,g\ny,1,6,g\n")
    found = raybench.load([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert found.grid.name == "g"
    assert found.trials[["trial", "repeat"]].values.tolist() == [["x", 1], ["y", 2], ["x", 3], ["y", 4]]

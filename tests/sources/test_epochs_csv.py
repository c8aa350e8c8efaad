"""A plain CSV of epochs as tables, and what is wrong with one."""

import pytest
from pandas.testing import assert_frame_equal

import raybench
from raybench import reports
from raybench.analysis.sentences import plain
from raybench.errors import FileError, UsageError
from raybench.sources import epochs_csv

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
    assert frame["repeat"].to_dict() == {"a": 0, "b": 1, "c": 0}
    assert frame["cell"]["a"] == frame["cell"]["b"] != frame["cell"]["c"]
    assert frame["steady_s"].to_dict() == {"a": pytest.approx(2.1), "b": 2.1, "c": 9.0}
    assert frame["first_s"].to_dict() == {"a": 5.0, "b": 5.1, "c": 9.0}
    assert (frame["batch_size"]["a"], frame["weight_decay"]["a"], frame["compile"]["a"]) == (64, 5e-4, False)
    assert frame["best_val_accuracy"].to_dict() == {"a": 0.6, "b": 0.7, "c": 0.4}
    assert found.epochs["val/accuracy"].isna().tolist() == [False, False, True, False, False, False]


def test_a_table_of_epochs_that_was_written_comes_back(tmp_path, golden_events):
    from raybench.analysis.results import attempts
    from raybench.analysis.tables import Record, tables

    told = tables([Record(one, "golden") for one in attempts(golden_events).values()])
    told.epochs.to_csv(tmp_path / "golden.csv", index=False)
    again = raybench.load(tmp_path / "golden.csv")
    assert_frame_equal(again.epochs, told.epochs)
    assert again.trials["steady_s"][0] == told.trials["steady_s"][0] == 3.921
    assert (again.trials["trial"][0], again.trials["repeat"][0]) == ("960070f40c0c-r0", 0)


def test_the_time_of_an_epoch_is_enough_and_a_target_may_be_set(tmp_path):
    head = "trial,epoch,epoch_s,val/loss,target_metric,target_at_most,wall_s,price_per_hour"
    found = load(tmp_path, f"{head}\nx,1,2,0.5,val/loss,0.2,9,3600\nx,2,3,0.1,val/loss,0.2,9,3600\n")
    row = found.trials.iloc[0]
    assert (row["time_to_target_s"], row["target_reached"], row["epochs_to_target"]) == (5.0, True, 2)
    assert (row["total_s"], row["total_price"]) == (9.0, 9.0)
    assert len(raybench.load(tmp_path / "mine.csv", grid="mine").trials) == 1
    with pytest.raises(UsageError, match="no results of a grid yours; there are mine"):
        raybench.load(tmp_path / "mine.csv", grid="yours")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("batch_size", "batch_sise"), "/mine.csv:1:7: batch_sise: no column of epochs; did you mean batch_size?"),
        (("device,", "trial,"), "/mine.csv:1:6: trial: said twice"),
        (("train_s", "wait"), "/mine.csv:1:3: wait: no column of epochs"),
        (("a,2,2.0", "a,2,fast"), "/mine.csv:3:3: train_s: 'fast' is no number"),
        (("a,2,2.0", "a,2.5,2.0"), "/mine.csv:3:2: epoch: '2.5' is no whole number"),
        (("a,2,2.0", "a,0,2.0"), "/mine.csv:3:2: epoch: wanted a number"),
        (("a,2,2.0", "a,2,-2"), "/mine.csv:3:3: train_s: wanted a number"),
        (("a,2,2.0", "a,2,"), "/mine.csv:3:3: train_s: wanted a number"),
        (("a,2,2.0", "a,1,2.0"), "/mine.csv:3:2: epoch: 1 again, of the same trial"),
        (("a,2,2.0", ",2,2.0"), "/mine.csv:3:1: trial: missing"),
        (("0.6,gpu,64", "0.6,gpu,32"), "/mine.csv:3:7: batch_size: 32 here and 64 on line 2: a trial has one"),
        (("0.6,gpu,64,5e-4,false", "0.6,gpu,64,5e-4,no"), "/mine.csv:3:9: compile: 'no' is neither true nor false"),
        (("0.6,gpu,64,", "0.6,gpu,"), "/mine.csv:3:1: 9 values for 10 columns"),
        (("0.6,gpu", "60,gpu"), "/mine.csv:3:5: val/accuracy: 60 is no share from 0 to 1; 60 % is 0.6"),
        ((CSV, "trial,epoch,train_s\n"), "/mine.csv:1:1: no epoch in it"),
        ((CSV, ""), "/mine.csv:1:1: the column trial is missing"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_column(tmp_path, change, says):
    assert any(line.startswith(says) for line in problems(tmp_path, CSV.replace(*change, 1)))


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    assert len(problems(tmp_path, CSV.replace("2.0", "x").replace("2.2", "y").replace(",cpu,", ",cpu,oh"))) == 3


def test_the_columns_that_are_told_of_are_those_that_are_taken():
    named = {name for name in epochs_csv.KNOWN if f"`{name}`" in epochs_csv.__doc__}
    assert named >= {"trial", "epoch", "train_s", "epoch_s", "target_metric", "wall_s", "batch_size", "repeat"}


def verdict(tmp_path, text):
    (tmp_path / "mine.csv").write_text(text)
    report = reports.of_source(str(tmp_path / "mine.csv"), tmp_path)
    return [plain(each) for paragraph in report.verdict for each in paragraph]


def test_runs_that_tell_their_device_alone_are_compared_and_have_their_target(tmp_path):
    head = "trial,epoch,train_s,val/loss,device,target_metric,target_at_most\n"
    told = (("a", 1, 5, 1.0, "gpu"), ("a", 2, 4, 0.5, "gpu"), ("b", 1, 9, 1.1, "cpu"), ("b", 2, 8, 0.7, "cpu"))
    rows = [",".join(map(str, (*each, "val/loss", 0.6))) for each in told]
    said = verdict(tmp_path, head + "\n".join(rows) + "\n")
    assert said[0] == "cpu trains mine 0.500 × as fast as gpu, steady epochs, one run each: no interval."
    assert said[1].startswith("cpu reaches val/loss of 0.6 or less in 0 of 1 run (95 %: 0 to 79 %)")
    assert said[2].endswith("in 1 of 1 run (95 %: 21 to 100 %), after 9.00 s of training on average.")


def test_runs_without_a_device_are_not_on_one_called_none(tmp_path):
    told = verdict(tmp_path, "trial,epoch,train_s,batch_size\na,1,5,32\na,2,4,32\nb,1,3,64\nb,2,2.5,64\n")
    assert len(told) == 2 and not any("None" in each for each in told)
    assert told[0].endswith("trains mine (batch 32) in 4.00 s an epoch, steady epochs, one run: no interval.")

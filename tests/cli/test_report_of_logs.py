"""`raybench report` of logs: whole runs, the mean against a target, and a choice of configurations."""

import csv
import json
from pathlib import Path

import pytest
from support import ROOT

EPOCHS = "device,repeat,epoch,train_s,val/loss\n" + "".join(
    f"{device},{repeat},{epoch},{seconds + repeat / 100},{1 / epoch + repeat / 50}\n"
    for device, seconds in (("a", 5), ("b", 3))
    for repeat in range(3)
    for epoch in (1, 2)
)
STATES = "State,lr,_step,Runtime,val_loss\n" + "".join(
    f"{state},{lr},{number},{seconds},0.{number}\n"
    for number, (state, lr, seconds) in enumerate(
        (
            *(("finished", 0.1, 100), ("finished", 0.1, 101), ("finished", 0.2, 90), ("Finished", 0.2, 92)),
            *(("crashed", 0.2, 3), ("killed", 0.1, 4), ("running", 0.1, 5)),
        )
    )
)

LOGS = ROOT / "tests" / "sources" / "logs"


def test_rules_of_speedruns(raybench):
    """Whole runs decide, and the mean of a fixed length reaches the target; the numbers are those of SciPy."""
    from scipy import stats

    folder = str(LOGS / "modded_nanogpt")
    found = json.loads(raybench("report", folder, "--whole-runs", "--target", "mean val/loss<=3.28", "--json", "-").out)
    baseline, _ = found["configurations"]
    assert baseline["seconds"]["value"] == pytest.approx((84.604 * 84.677) ** 0.5, rel=1e-3)
    means = found["means"]
    p = stats.ttest_1samp([3.2800, 3.2787], 3.28, alternative="less").pvalue
    assert (means[0]["mean"], means[0]["p"]) == (pytest.approx(3.27935), pytest.approx(p, rel=1e-3))
    assert [(each["is_reached"], each["is_shown"], each["alone"]) for each in means] == [
        (True, False, 2),
        (False, False, 1),
    ]
    (best,) = found["sentences"]["best"]
    assert best.startswith("baseline: the mean of 2 runs"), "the faster one misses the target"
    text = f"3.27935, reaches val/loss 3.28, but not significantly (p = {p:.2g}), 2 of 2 alone"
    assert text in best and "does not reach" in found["sentences"]["means"][0]


def test_the_rule_of_the_mean_has_the_level_that_is_said(raybench):
    from scipy import stats

    path = str(ROOT / "notebooks" / "published" / "claims" / "modded_81.csv")
    with Path(path).open() as file:
        rows = list(csv.DictReader(file))
    losses = [float(row["val/loss"]) for row in rows if row["params.version"] == "before"]
    p = stats.ttest_1samp(losses, 3.28, alternative="less").pvalue
    for level, is_shown in (("", True), (" at 0.3%", False), (" at 5%", True)):
        said = json.loads(raybench("report", path, "--target", f"mean val/loss<=3.28{level}", "--json", "-").out)
        before = said["means"][0]
        assert (before["p"], before["is_shown"]) == (pytest.approx(p, rel=1e-3), is_shown)
        assert said["sentences"]["means"][-1].endswith(f"at {level[4:] or '1%'}.")
        assert said["sentences"]["best"][0].startswith("Faster: version record: the mean of 10 runs"), "no restarts"
    chain = raybench("report", "--chain", path, "--target", "mean val/loss<=3.28 at 0.3%").out
    assert "Not shown to reach the target by their mean: before." in chain
    assert "3.4% faster" in chain


def test_where_metric_and_target_are_checked(raybench):
    folder = str(LOGS / "modded_nanogpt")
    assert "baseline" not in raybench("report", folder, "--where", "log=this_record").out
    for option, text in (
        (("--where", "log=baselin"), "where: modded_nanogpt has no params.log baselin; did you mean baseline?"),
        (("--metric", "val/lss"), "metric: no run has val/lss; did you mean val/loss?"),
        (("--target", "val/loss"), "target: 'val/loss' is not like val/loss<=3.28"),
    ):
        said = raybench("report", folder, *option)
        assert said.status == 2 and text in said.err


def log(epochs, step_s, seed):
    return "".join(
        f"epoch {n} | val loss {1 + 1 / n + seed / 100} | total time {n * step_s * (1 + seed / 100)}s\n"
        for n in range(1, epochs + 1)
    )


def answer(raybench, source):
    found = json.loads(raybench("report", str(source), "--json", "-").out)
    return found, [(row["label"], row["completed"]) for row in found["configurations"]]


@pytest.mark.parametrize(
    ("table", "rows"),
    [(EPOCHS, [("b", 3), ("a", 3)]), (STATES, [("lr 0.2", 2), ("lr 0.1", 2)])],
    ids=["epochs of several runs", "states of runs"],
)
def test_table_of_several_runs_is_read_alone_and_in_a_folder(raybench, tmp_path, table, rows):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "table.csv").write_text(table)
    alone, alone_rows = answer(raybench, tmp_path / "runs" / "table.csv")
    inside, inside_rows = answer(raybench, tmp_path / "runs")
    assert alone_rows == inside_rows and sorted(alone_rows) == sorted(rows)
    assert alone["sentences"]["best"] == inside["sentences"]["best"]


def test_states_say_how_runs_ended(raybench, tmp_path):
    (tmp_path / "runs.csv").write_text(STATES)
    said = raybench("report", str(tmp_path / "runs.csv")).out
    assert said.startswith("Incomplete: 4 of 7 runs completed; 1 stopped, 1 not finished, 1 failed (lr 0.2).")


def test_copies_and_other_files_of_a_folder_are_named(raybench, tmp_path):
    for name, step_s in (("base", 2), ("new", 1)):
        for seed in range(3):
            (tmp_path / f"{name}_seed{seed}.log").write_text(log(4, step_s, seed))
    (tmp_path / "base_seed7.log").write_text(log(4, 2, 0))
    for name in ("notes.txt", "todo.txt"):
        (tmp_path / name).write_text("hello\n")
    (tmp_path / "table.csv").write_text(EPOCHS)
    (tmp_path / "summary.csv").write_text(STATES)
    said = " ".join(raybench("report", str(tmp_path)).out.split())  # without the ends of lines
    names = ", ".join(str(tmp_path / name) for name in ("notes.txt", "summary.csv", "todo.txt"))
    assert f"Left out 3 files without readable lines of epochs or steps: {names}." in said
    assert f"Left out 1 file with the same content as others: {tmp_path / 'base_seed7.log'}." in said
    _, rows = answer(raybench, tmp_path)
    assert sorted(rows) == [("a, log table", 3), ("b, log table", 3), ("log base", 3), ("log new", 3)]


@pytest.mark.parametrize("last", [4, 9])
def test_truncated_log_is_a_caution(raybench, tmp_path, last):
    for name, step_s in (("base", 2), ("new", 1)):
        for seed in range(3):
            epochs = last if (name, seed) == ("new", 2) else 9
            (tmp_path / f"{name}_seed{seed}.log").write_text(log(epochs, step_s, seed))
    text = "Runs of new have 4 to 9 epochs, and val/loss is the mean of all."
    assert (text in raybench("report", str(tmp_path)).out) == (last == 4)

"""`raybench grid --inline`, from the file to what a person reads."""

import json
import re
import sqlite3
from pathlib import Path

import pytest

TROUBLES = Path(__file__).parent.parent / "execution" / "troubles.py"
SECRET = "s3cret-w0rd"
DEAD = f"http://me:{SECRET}@127.0.0.1:9"


def table(said):
    """The comparison, without what stands around it."""
    text = "\n".join(said.lines)
    return text[text.index("batch_size") : text.index("journal: ")].rsplit("\n", 1)[0]


@pytest.fixture
def troubled(tmp_path):
    """Makes a grid file for a workload that ends badly."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "mine.py").write_text(TROUBLES.read_text())

    def make(attribute):
        path = tmp_path / "lab" / "bad.yaml"
        path.write_text(f"name: bad\nworkload: mine.py:{attribute}\nepochs: 1\nbatch_size: 16\n")
        return path

    return make


def test_a_grid_and_the_same_grid_again(raybench, digits, tmp_path):
    first = raybench("grid", digits, "--inline")
    assert (first.status, first.err) == (0, "")
    assert first.lines[0] == "digits: 2 of 2 trials to run"
    started = [line for line in first.lines if line.startswith("started ")]
    ended = [line for line in first.lines if line.startswith("completed ")]
    assert [bool(re.search(r"digits_cnn cpu torch b\d+ wd0.005 r0  on .+", line)) for line in started] == [True] * 2
    assert re.search(r"r0  .+  val/accuracy 0\.\d{4}  \(1/2, (about .+ left|nearly done)\)$", ended[0])
    assert re.search(r"r0  .+  val/accuracy 0\.\d{4}  \(2/2\)$", ended[1]), "nothing is left, so nothing is said of it"
    assert table(first).count("1/1 completed") == 2
    journal = tmp_path / "raybench-results" / "digits" / "journal.jsonl"
    assert first.lines[-2:] == [f"2 trials run now; journal: {journal}", "look at the runs: raybench ui"]
    again = raybench("grid", digits, "--inline")
    assert (again.status, again.err) == (0, "")
    assert table(again) == table(first)
    assert again.lines[-2] == f"nothing was left to run; journal: {journal}"
    assert not any(line.startswith(("started", "completed")) for line in again.lines)
    more = raybench("grid", digits, "--inline", "--set", "axes.batch_size=[32,64,128]")
    assert more.lines[0] == "digits: 1 of 3 trials to run, 2 done before"


def test_what_no_machine_here_can_run(raybench, digits):
    digits.write_text(digits.read_text().replace("[cpu]", "[cpu, tpu]"))
    only = raybench("grid", digits, "--inline", "--where", "device=tpu")
    assert only.status == 3
    assert table(only).count("skipped: no TPU on any node") == 2
    assert only.lines[-1].startswith("nothing of this can run here; journal: "), "and there are no runs to look at"
    both = raybench("grid", digits, "--inline")
    assert both.status == 3
    assert (table(both).count("1/1 completed"), table(both).count("skipped: no TPU on any node")) == (2, 2)
    assert raybench("grid", digits, "--inline", "--skip-missing").status == 0


def test_a_trial_that_raises_is_told_with_the_line_of_the_persons_own_file(raybench, troubled, tmp_path):
    said = raybench("grid", troubled("raising"), "--inline")
    assert said.status == 1
    assert "Traceback" not in said.out + said.err
    line = 1 + TROUBLES.read_text().splitlines().index('    raise KeyError("no such thing")')
    (trial,) = (tmp_path / "raybench-results" / "bad" / "trials").iterdir()
    told = said.lines.index(
        f"failed    raising cpu torch b16 wd0 r0: KeyError: 'no such thing' ({tmp_path}/lab/mine.py:{line})"
    )
    assert said.lines[told + 1].strip() == str(trial / "attempt-1")
    assert "Traceback" in (trial / "attempt-1" / "error.txt").read_text()
    assert said.lines[-1] == "once that is mended: the same command with --retry failed"
    assert raybench("grid", troubled("raising"), "--inline").status == 1, "what failed stays failed"
    again = raybench("grid", troubled("raising"), "--inline", "--retry", "failed")
    assert again.lines[0] == "bad: 1 of 1 trials to run"
    assert any(line.strip() == str(trial / "attempt-2") for line in again.lines)


def test_an_error_deep_in_a_library_still_names_the_persons_line(raybench, troubled, tmp_path):
    source = TROUBLES.read_text().replace('raise KeyError("no such thing")', "np.reshape(np.zeros(3), 2)")
    (tmp_path / "lab" / "mine.py").write_text(source)
    said = raybench("grid", troubled("raising"), "--inline")
    line = 1 + next(n for n, text in enumerate(source.splitlines()) if "np.reshape" in text)
    assert f"ValueError: cannot reshape array of size 3 into shape (2,) ({tmp_path}/lab/mine.py:{line})" in said.out


def test_results_that_are_no_fault(raybench, troubled):
    for attribute, status in (("greedy", "oom"), ("infinite", "diverged")):
        said = raybench("grid", troubled(attribute), "--inline")
        assert said.status == 0
        assert f"0/1 completed, 1 {status}" in said.out
        assert any(line.startswith(f"{status:<9} {attribute} cpu torch b16 wd0 r0: ") for line in said.lines)


def test_more_troubles_than_anybody_reads_are_counted(raybench, troubled):
    said = raybench("grid", troubled("raising"), "--inline", "--repeats", 7)
    assert sum(": KeyError: 'no such thing' (" in line for line in said.lines) == 5
    assert any(line.startswith("… and 2 more like these, each with its folder in ") for line in said.lines)


def test_another_results_folder_is_named_in_what_to_type_next(raybench, digits, tmp_path):
    said = raybench("grid", digits, "--inline", "--results", "my results")
    assert said.lines[-1] == f"look at the runs: raybench ui --results '{tmp_path / 'my results'}'"


def test_another_store_is_named_where_ui_would_not_find_it_by_itself(raybench, digits, tmp_path, monkeypatch):
    said = raybench("grid", digits, "--inline", "--tracking-uri", "sqlite:///my.db")
    assert said.lines[-1] == f"look at the runs: raybench ui --tracking-uri sqlite:///{tmp_path / 'my.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///my.db")
    assert raybench("grid", digits, "--inline").lines[-1] == "look at the runs: raybench ui"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "./mlruns")
    said = raybench("grid", digits, "--inline", "--tracking-uri", "sqlite:///my.db")
    assert said.status == 0, "the variable is none, and it does not count"


@pytest.mark.parametrize("source", ["option", "variable", "file"])
def test_a_dead_store_stops_nothing_tells_no_secret_and_is_made_up_for(raybench, digits, monkeypatch, source):
    options = []
    if source == "option":
        options = ["--tracking-uri", DEAD]
    elif source == "variable":
        monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD)
    else:
        digits.write_text(digits.read_text() + f"tracking_uri: {DEAD}\n")
    said = raybench("grid", digits, "--inline", *options)
    assert said.status == 0
    assert table(said).count("1/1 completed") == 2
    assert any(line.startswith("warning: MLflow store http://***@127.0.0.1:9: ") for line in said.lines)
    assert said.lines[-1] == "look at the runs: open http://127.0.0.1:9 in a browser"
    assert SECRET not in said.out + said.err
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    made = raybench("sync")
    assert (made.status, made.lines) == (0, ["digits: 2 runs created, 0 brought up to date, 0 unchanged"])
    with sqlite3.connect("raybench-results/mlflow.db") as store:
        runs = store.execute("select status, count(*) from runs group by status").fetchall()
    assert runs == [("FINISHED", 3)], "two trials and the execution of the grid"
    kept = Path("raybench-results").rglob("*")
    assert not [path for path in kept if path.is_file() and SECRET.encode() in path.read_bytes()], "nor on disk"


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(raybench, digits, monkeypatch):
    from raybench.execution import inline

    real, begun = inline.record, []

    def stopped(job):
        begun.extend([] if job.check else [job])
        if len(begun) == 2:  # a trial, and then
            raise KeyboardInterrupt
        return real(job)

    monkeypatch.setattr(inline, "record", stopped)
    said = raybench("grid", digits, "--inline")
    assert said.status == 130
    assert "1 trial run now" in said.out
    assert said.lines[-1] == "the same command goes on where this one was stopped"
    journal = [json.loads(line) for line in Path("raybench-results/digits/journal.jsonl").read_text().splitlines()]
    assert [event["status"] for event in journal if event["event"] == "trial_ended"] == ["completed"]
    assert raybench("grid", digits, "--inline").lines[0] == "digits: 1 of 2 trials to run, 1 done before"

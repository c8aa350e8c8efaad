"""`raybench grid`, from the file to what a person reads."""

import os
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from support import WORKLOADS
from support.grid_files import events_of

from raybench import load
from raybench.core import events

pytestmark = pytest.mark.usefixtures("in_process")

BAD_ENDINGS = (WORKLOADS / "bad_endings.py").read_text()
SECRET = "s3cret-w0rd"
DEAD = f"http://me:{SECRET}@127.0.0.1:9"


def table(said):
    """The rows of all configurations."""
    return [line for line in said.lines if re.match(r"\d  batch \d+ ", line)]


@pytest.fixture
def troubled(tmp_path):
    """Makes a grid file for a workload that ends badly."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "mine.py").write_text(BAD_ENDINGS)

    def make(attribute):
        path = tmp_path / "lab" / "bad.yaml"
        path.write_text(f"name: bad\nworkload: mine.py:{attribute}\nepochs: 1\n")
        return path

    return make


@pytest.mark.slow
@pytest.mark.mlflow
@pytest.mark.usefixtures("store", "small_probes")
def test_a_grid_and_the_same_grid_again(raybench, digits, tmp_path):
    """Checks, MLflow and figures included."""
    first = raybench("grid", digits)
    assert (first.status, first.err) == (0, "")
    assert first.lines[0].startswith("digits  2 configurations x 1 repeat = 2 trials  ·  cpu: ")
    assert any(
        re.match(r"Checks: weight decay ok · peak .+ [GM]FLOP/s \((product|convolution)\) on cpu", line)
        for line in first.lines
    )
    started = [line for line in first.lines if line.startswith("started ")]
    ended = [line for line in first.lines if line.startswith("completed ")]
    assert sorted(started) == ["started    batch 32", "started    batch 64"]
    assert re.search(r"batch \d\d   .+   accuracy \d+\.\d\d%   \(1/2, (about .+ left|nearly done)\)$", ended[0])
    assert re.search(r"batch \d\d   .+   accuracy \d+\.\d\d%   \(2/2\)$", ended[1]), "nothing is left"
    assert len(table(first)) == 2
    report = Path("raybench-results") / "digits" / "report.html"
    assert first.lines[-2:] == [f"Report  {report}", "MLflow  raybench ui"]
    again = raybench("grid", digits)
    assert (again.status, again.err) == (0, "")
    assert table(again) == table(first)
    assert again.lines[-3] == "Nothing was left to run; --rerun runs trials again."
    assert not any(line.startswith(("started", "completed")) for line in again.lines)
    more = raybench("grid", digits, "--set", "axes.batch_size=[32,64,128]")
    assert more.lines[0].startswith("digits  3 configurations x 1 repeat = 3 trials, 2 done before  ·  cpu: ")


def test_inline_trials_are_a_grid_of_their_own(raybench, grid, digits):
    grid(digits)
    aside = raybench("grid", digits, "--inline", "--no-checks", "--tracking", "none", "--results", "my results")
    assert "separate grid (raybench report 'my results/digits~inline')" in aside.lines[-1]
    said = raybench("grid", digits, "--inline", "--no-checks", "--tracking", "none")
    assert said.lines[0].startswith("digits~inline  2 configurations x 1 repeat = 2 trials  ·  cpu: ")
    hint = "raybench report digits~inline"
    assert said.lines[-1].startswith(f"These results are in a separate grid ({hint})")
    assert "2 done" in raybench("plan", digits, "--inline").lines[0]
    assert raybench("report", "digits~inline").status == 0
    smoke = raybench("plan", digits, "--inline", "--smoke")
    assert smoke.lines[0].startswith("digits~inline~smoke on this machine: ")
    journals = [load(f"raybench-results/{name}").trials for name in ("digits", "digits~inline")]
    assert [len(trials) for trials in journals] == [2, 2], "neither enters the other's report or estimates"


def test_ray_in_an_inline_function_has_a_short_folder(raybench, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    loop = "    for epoch in trial.epochs(1):\n        assert len(os.environ['RAY_TMPDIR']) < 24\n"
    (tmp_path / "train.py").write_text(f"import os\ndef train(trial):\n{loop}")
    (tmp_path / "g.yaml").write_text("name: g\nworkload: train.py:train\n")
    assert raybench("grid", "g.yaml", "--inline", "--no-checks", "--tracking", "none").status == 0
    assert "RAY_TMPDIR" not in os.environ


def test_what_no_machine_here_can_run(raybench, grid, digits, monkeypatch):
    digits.write_text(digits.read_text().replace("[cpu]", "[cpu, cuda, tpu]"))
    only = grid(digits, "--where", "device=tpu")
    skipped = [
        "tpu: 2 configurations skipped: no TPU",
        "To run the rest, type the same command on each machine (`raybench export` and `import` join the results), "
        "or on a Ray cluster:",
        f"  raybench grid {digits} --address auto",
        "To try the whole grid in miniature on this CPU:",
        f"  raybench grid {digits} --smoke",
    ]
    assert only.status == 3
    assert only.lines == [
        "Nothing of digits can run here.",
        *skipped,
    ]
    both = grid(digits)
    assert both.status == 0, "a part of it could run"
    cuda = "cuda: 2 configurations skipped: no CUDA GPU"
    running = "Running the other 2 configurations: 2 trials."
    assert both.lines[1:8] == [cuda, *skipped, running], "before the first trial, a line per reason"
    assert "Skipped: tpu, batch 32; tpu, batch 64: no TPU." in both.lines
    monkeypatch.setenv("COLUMNS", "60")
    for narrow in (grid(digits, "--where", "device=tpu"), raybench("plan", digits, "--where", "device=tpu")):
        assert all(len(line) <= 60 for line in narrow.lines if not line.startswith("  raybench"))


def test_same_error_in_all_repeats(raybench, grid, troubled, tmp_path):
    file, code = troubled("raising"), tmp_path / "lab" / "mine.py"
    code.write_text(BAD_ENDINGS.replace('raise KeyError("no such thing")', "np.reshape(np.zeros(3), 2)"))
    line = 1 + next(n for n, text in enumerate(code.read_text().splitlines()) if "np.reshape" in text)
    error = f"ValueError: cannot reshape array of size 3 into shape (2,) ({code}:{line})"
    stopped = grid(file, "--repeats", 3)
    assert "as trials would probably fail like this again; 1 of 3 were not run" in " ".join(stopped.lines)
    said = grid(file, "--repeats", 3, "--keep-going", "--rerun")
    assert said.status == 1
    assert "Traceback" not in said.out + said.err
    assert sum(": the same error" in text for text in said.lines) == 2
    end = next(n for n, text in enumerate(said.lines) if re.fullmatch("3 trials failed: .* and 2 others", text))
    assert said.lines[end + 1] == f"  {error}"
    details = Path(said.lines[end + 2].removeprefix("  Details: "))
    assert "Traceback" in details.read_text()
    assert "run the same command again" in said.lines[-2]
    assert said.lines[-1].startswith("  raybench grid --retry failed /")
    report = raybench("report", "bad", "--html", tmp_path / "x.html")
    assert f"Failed (3 runs): raising: {error}." in " ".join(report.lines)
    assert (tmp_path / "x.html").read_text().count("cannot reshape") == 1

    again = grid(file, "--repeats", 3)
    assert again.status == 1 and "Nothing was left to run" in again.out
    grid(file, "--repeats", 3, "--retry", "failed")
    assert len(list(Path("raybench-results/bad/attempts").rglob("error.txt"))) == 7

    code.write_text(BAD_ENDINGS)
    edited = grid(file)
    assert (
        edited.lines[0].startswith("bad  1 configuration x 1 repeat = 1 trial  ·  cpu: ") and "KeyError" in edited.out
    )


def test_divergence_is_a_result(grid, troubled):
    said = grid(troubled("infinite"))
    assert said.status == 0
    assert "Incomplete: 0 of 1 run completed; 1 diverged." in said.lines


@pytest.mark.slow
@pytest.mark.mlflow
@pytest.mark.parametrize(
    "source", ["option", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("variable", "file"))]
)
def test_grid_with_a_dead_store(raybench, digits, monkeypatch, source, migrated_database):
    monkeypatch.setattr("raybench.tracking.writer.LAST_PAUSE_S", 0.01)
    options = []
    if source == "option":
        options = ["--tracking", DEAD]
    elif source == "variable":
        monkeypatch.setenv("MLFLOW_TRACKING_URI", DEAD)
    else:
        digits.write_text(digits.read_text() + f"tracking_uri: {DEAD}\n")
    said = raybench("grid", digits, "--no-checks", *options)
    assert said.status == 0
    assert len(table(said)) == 2
    assert any(line.startswith("warning: MLflow store http://***@127.0.0.1:9: ") for line in said.lines)
    assert said.lines[-1] == "MLflow  http://127.0.0.1:9"
    assert SECRET not in said.out + said.err
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(migrated_database, "raybench-results/mlflow.db")
    made = raybench("export", "digits", "-o", "raybench-results/mlflow.db")
    assert (made.status, made.lines[0][:23]) == (0, "digits: 2 runs written to sqlite"[:23])
    with closing(sqlite3.connect("raybench-results/mlflow.db")) as store:
        runs = store.execute("select status, count(*) from runs group by status").fetchall()
    assert runs == [("FINISHED", 3)], "two trials and the execution of the grid"
    kept = Path("raybench-results").rglob("*")
    assert not [path for path in kept if path.is_file() and SECRET.encode() in path.read_bytes()], "nor on disk"


def test_ctrl_c_keeps_results_and_names_the_remedy(grid, digits, monkeypatch):
    from raybench.execution import inline

    real, begun = inline.record, []

    def stopped(job, sink):
        begun.extend([] if job.check else [job])
        if len(begun) == 2:  # a trial, and then
            raise KeyboardInterrupt
        real(job, sink)

    monkeypatch.setattr(inline, "record", stopped)
    said = grid(digits)
    assert said.status == 130
    assert said.out.count("Run the same command again to continue.") == 1
    told = events_of(Path("raybench-results/digits"))
    assert [event["status"] for event in told if event["event"] == "trial_ended"] == ["completed"]
    assert grid(digits).lines[0].startswith("digits  2 configurations x 1 repeat = 2 trials, 1 done before  ·  cpu: ")


def test_ctrl_c_during_a_retry_names_the_run_that_was_stopped(grid, digits, monkeypatch):
    from raybench.execution import inline
    from raybench.trial.record import append_event

    ends = iter(["failed", "failed", None])

    def record(job, sink):
        if job.check:
            return
        start = events.trial_started(job.trial, job.attempt, cell=job.cell.to_json(), **job.labels)
        append_event(Path(job.folder), start)
        sink(start)
        if (status := next(ends)) is None:
            raise KeyboardInterrupt
        sink(events.trial_ended(job.trial, job.attempt, status, error={"type": "ValueError", "message": "no"}))

    monkeypatch.setattr(inline, "record", record)
    assert grid(digits, "--keep-going").status == 1
    said = grid(digits, "--keep-going", "--retry", "failed")
    assert said.status == 130
    assert "Stopped while it ran again: " in said.out and "its earlier result (failed) counts" in said.out

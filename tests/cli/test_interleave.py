"""`raybench compare --interleave`: two versions of a grid in one grid."""

import json
import subprocess
import sys

import pytest
from support.executors import ForkingExecutor
from support.grid_files import events_of

from raybench.analysis.analyze import Grid
from raybench.analysis.compare import compare as compare_versions
from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.core.repeats import LOOKS
from raybench.execution.inline import InlineExecutor
from raybench.planning.plan import request_of
from raybench.planning.versions import compared
from raybench.run import run_grid

GRID = """
name: mine
workload: train.py:train
epochs: 3
repeats: 3
axes: {device: [cpu], batch_size: [4, 8]}
"""
TRAIN = """
from helper import work

def train(trial, *, batch_size: int):
    for epoch in trial.epochs():
        for step in trial.steps(range(3), examples=batch_size):
            seconds = work(trial.seed)
        trial.log({"val/accuracy": 0.5, "train/seconds": seconds})
"""
HELPER = """
import random

def work(seed):
    return {seconds} * random.Random({seconds} + seed).uniform(0.99, 1.01)
"""


class MadeUpTimes:
    """Runs the trials of an executor, and replaces the times of their epochs by those that they log."""

    def __init__(self, executor):
        self._executor = executor

    def __getattr__(self, name):
        return getattr(self._executor, name)

    def run(self, schedule, make_job, sink, tell):
        walls = {}

        def replace_time(event):
            if event["event"] == "trial_ended":
                event = event | {"wall": walls.pop(event["trial"], None)}
            if event["event"] == "epoch_ended":
                seconds = event["metrics"]["train/seconds"]
                walls[event["trial"]] = walls.get(event["trial"], 0.0) + seconds
                event = event | {"ledger": event["ledger"] | {"train": seconds}}
            sink(event | {"host": {}} if event["event"] == "trial_audited" else event)

        self._executor.run(schedule, make_job, replace_time, tell)


def write(folder, seconds=1.0, grid=GRID, train=TRAIN):
    folder.mkdir(exist_ok=True)
    (folder / "grid.yaml").write_text(grid)
    (folder / "train.py").write_text(train)
    (folder / "helper.py").write_text(HELPER.format(seconds=seconds))


@pytest.fixture
def compare(raybench, tmp_path, monkeypatch):
    """Compares the grids in two folders, without checks, MLflow and figures."""
    monkeypatch.setattr("raybench.reporting.figures.rendered_figures", lambda *_: {})
    monkeypatch.setattr("raybench.execution.base.make_executor", lambda *_: MadeUpTimes(InlineExecutor()))
    write(tmp_path / "base")
    write(tmp_path / "new")

    def run(*arguments):
        return raybench(
            *("compare", "--interleave", "base/grid.yaml", "new/grid.yaml", "--no-checks", "--tracking", "none"),
            *arguments,
        )

    return run


def test_the_slower_code_is_found(compare, raybench, tmp_path):
    """Both folders have modules of the same name; each trial imports that of its version."""
    write(tmp_path / "new", seconds=4.0)
    said = compare("--json", "out.json")
    assert said.status == 4, said.out
    assert "Discard: 2 of 2 configurations: slower (batch 4 by" in said.out
    assert "was edited" in said.out
    page = (tmp_path / "raybench-results" / "mine~compare" / "report.html").read_text()
    assert "Discard: 2 of 2 configurations: slower (batch 4" in page and "Faster" not in page
    assert "Limits: up to 5% more time" in raybench("report", "mine~compare").out
    changes = json.loads((tmp_path / "out.json").read_text())["changes"]
    assert [(each["label"], each["verdict"]) for each in changes] == [("batch 4", "slower"), ("batch 8", "slower")]
    assert all(0.24 < change["speed"]["low"] < change["speed"]["high"] < 0.26 for change in changes)


def test_a_lower_accuracy_ends_all_repeats(compare, tmp_path):
    """Without --quality: what stops the repeats is what is printed. The other configuration stays undecided."""
    for version, accuracy in ((tmp_path / "base", 0.5), (tmp_path / "new", 0.4)):
        write(version, accuracy, train=TRAIN.replace("0.5", f"{accuracy} if batch_size == 4 else 0.5"))
        (version / "helper.py").write_text(HELPER.format(seconds=accuracy).replace("(0.99, 1.01)", "(0.1, 1.9)"))
    assert compare("--json", "out.json").status == 4
    changes = json.loads((tmp_path / "out.json").read_text())["changes"]
    assert [change["verdict"] for change in changes] == ["lower quality", "undecided"]
    assert len({change["speed"]["runs"] for change in changes}) == 1


@pytest.mark.parametrize("accuracy", ["40.0", "1.4"])
def test_an_accuracy_of_a_different_scale_is_not_kept(compare, tmp_path, accuracy):
    """40% is less than 0.5, and 1.4 is no fraction."""
    write(tmp_path / "new", seconds=0.9, train=TRAIN.replace('"val/accuracy": 0.5', f'"val/accuracy": {accuracy}'))
    said = compare("--where", "batch_size=4", "--repeats", "4")
    assert said.status == 5 and "val/accuracy of new is read as percent" in " ".join(said.lines).lower(), said.out


@pytest.mark.parametrize(("completed", "is_compared"), [(9, True), (1, False)])
def test_ctrl_c_compares_the_runs_so_far(compare, tmp_path, monkeypatch, completed, is_compared):
    from raybench.execution import inline

    real, begun = inline.record, []

    def stopped(job, sink):
        begun.extend([] if job.check else [job])
        if len(begun) > completed:
            raise KeyboardInterrupt
        real(job, sink)

    monkeypatch.setattr(inline, "record", stopped)
    write(tmp_path / "new", seconds=4.0)
    said = compare()
    assert said.status == 130
    assert ("Stopped before a decision; so far:" in said.lines) is ("Differences" in said.out) is is_compared, said.out


def test_nothing_runs_again_until_a_version_changes(compare, tmp_path):
    def started():
        told = events_of(tmp_path / "raybench-results" / "mine~compare")
        return [event["trial"] for event in told if event["event"] == "trial_started"]

    fixed = "--repeats", "3", "--max-slowdown", "400%"
    assert compare(*fixed).status == 0
    assert len(started()) == 12
    compare(*fixed)
    assert len(started()) == 12
    write(tmp_path / "new", seconds=1.2)
    compare("--repeats", "3")
    assert len(started()) == len(set(started())) == 24, "the base version too, next to the new one"


def test_a_failed_trial(compare, tmp_path):
    write(tmp_path / "new", train=TRAIN.replace("seconds = work(trial.seed)", "raise ValueError('broken')"))
    said = compare()
    assert said.status == 4
    assert "ValueError: broken" in said.out and "--retry failed" in said.out
    assert "were not run" in said.out, "base is not run for nothing"
    assert "Differences" not in said.out, "those of no run"
    assert "2 of 2 configurations: no result in new (batch 4; batch 8)." in said.out


def test_wrong_metric_is_known_after_the_first_run_of_base(compare, tmp_path):
    said = compare("--quality", "val/acuracy")
    assert said.status == 2 and "did you mean val/accuracy" in said.err
    told = events_of(tmp_path / "raybench-results" / "mine~compare")
    assert sum(event["event"] == "trial_started" for event in told) <= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("raybench-results", "new/grid.yaml"), "raybench-results: --interleave runs two grid files"),
        (("base/grid.yaml", "a.zip"), "a.zip: --interleave runs two grid files"),
        (("base/gird.yaml", "new/grid.yaml"), "base/gird.yaml: no such file; did you mean base/grid.yaml?"),
        (("base/grid.yaml", "new/grid.yaml", "--grid", "a"), "--grid has no effect with --interleave"),
        (("base/grid.yaml", "new/grid.yaml", "--set", "epochs=x"), "the text 'x' is not allowed"),
    ],
)
def test_wrong_use(raybench, tmp_path, arguments, message):
    write(tmp_path / "base")
    write(tmp_path / "new")
    (tmp_path / "raybench-results").mkdir()
    (tmp_path / "a.zip").write_bytes(b"")
    said = raybench("compare", "--interleave", *arguments)
    assert said.status == 2
    assert message in said.err
    assert "Traceback" not in said.err


@pytest.mark.slow
def test_two_environments(tmp_path, fork_server):
    """The same code in both; a library is slower in one of the environments."""
    write(tmp_path / "code", train=TRAIN.replace("from helper", "from library"))
    specs = []
    for version, seconds in (("base", 1.0), ("new", 4.0)):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / version], check=True)
        site = next((tmp_path / version / "lib").glob("python3*/site-packages"))
        (site / "here.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
        (site / "library.py").write_text(HELPER.format(seconds=seconds))
        file = tmp_path / "code" / f"{version}.yaml"
        file.write_text(GRID + f"devices: {{cpu: {{kind: cpu, environment: ../{version}}}}}\n")
        specs.append(load_grid(file))
    options = GridOptions(results=tmp_path / "results", checks=False, tracking=None, report=False)
    outcome = run_grid(compared(specs), MadeUpTimes(ForkingExecutor(fork_server)), options=options)
    assert outcome.exit_status == 0
    changes = compare_versions(Grid(outcome.history.attempts.values(), request_of(outcome.plan))).changes
    assert [change.verdict for change in changes] == ["slower"] * 2


def test_noisy_versions_have_more_repeats(compare, tmp_path):
    """Quiet ones need four; noisy ones are looked at after some of up to 20."""
    assert compare("--json", "out.json", "--where", "batch_size=4").status == 0
    assert json.loads((tmp_path / "out.json").read_text())["changes"][0]["speed"]["runs"] == 4
    for version, seconds in (("base", 1.0), ("new", 1.0001)):
        write(tmp_path / version)
        noisy = HELPER.format(seconds=seconds).replace("(0.99, 1.01)", "(0.9, 1.1)")
        (tmp_path / version / "helper.py").write_text(noisy)
    assert compare("--json", "out.json", "--where", "batch_size=4").status in (0, 5)
    runs = json.loads((tmp_path / "out.json").read_text())["changes"][0]["speed"]["runs"]
    assert runs > 4 and runs in LOOKS


def test_new_version_is_also_compared_with_the_anchor(compare, tmp_path):
    """It is within the limits of base, and slower than the first version of the chain."""
    for version, seconds in (("first", 1.0), ("base", 1.06), ("new", 1.1)):
        write(tmp_path / version, seconds)
    said = compare("--anchor", "first/grid.yaml", "--json", "out.json", "--where", "batch_size=4")
    assert said.status == 4, said.out
    changes = json.loads((tmp_path / "out.json").read_text())["changes"]
    assert [(each["against"], each["verdict"] == "slower") for each in changes] == [("base", False), ("anchor", True)]
    assert "since the anchor by" in said.out

"""A command from its grid file to the journal: what it prints, what it reports, and how it ends."""

import os
import sys
import textwrap
import time
from contextlib import suppress

import psutil
import pytest
from support.executors import ForkingExecutor
from support.grid_files import events_of

from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.planning.smoke import smoke_grid
from raybench.run import Options, run_grid

PRINTS = """
import argparse, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--bs", type=int)
parser.add_argument("--hidden", type=int, default=3)
parser.add_argument("--epochs", type=int, default=3)
options = parser.parse_args()
for epoch in range(1, options.epochs + 1):
    time.sleep(0.03)
    print(f"loss={1 / epoch} acc={options.hidden / 100}", file=sys.stderr)
    time.sleep(0.02)
    print(f"epoch {epoch}")
print("test acc 0.5")
"""
REPORTS = """
import raybench
trial = raybench.current_trial()
for epoch in trial.epochs():
    for batch in trial.steps(range(4), examples=8):
        pass
    with trial.evaluation():
        trial.log({"train/loss": 1 / (epoch + 1), "val/accuracy": epoch / 10})
"""
METRICS = r"""
metrics: {epoch: '^epoch (\d+)', train/loss: 'loss=(\S+)',
          val/accuracy: ' acc=([\d.]+)', test/accuracy: 'test acc (\S+)'}
"""


class Project:
    def __init__(self, folder, server=None):
        self.folder, self._server = folder, server
        self.smoke = False

    def write(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(textwrap.dedent(text))

    def run(self, script, workload="command: python script.py\n", grid="", **options):
        self.write("script.py", script)
        self.write("grid.yaml", f"name: mine\nworkload:\n{textwrap.indent(textwrap.dedent(workload), '  ')}\n{grid}")
        own = Options(self.folder / "results", tracking=None, checks=False, report=False, **options)
        executor = ForkingExecutor(self._server) if self._server else InlineExecutor()
        spec = load_grid(self.folder / "grid.yaml")
        return run_grid(smoke_grid(spec) if self.smoke else spec, executor, options=own)

    def one(self, *arguments, **options):
        (attempt,) = self.run(*arguments, **options).latest.values()
        return attempt

    def events(self, kind, grid="mine"):
        return [event for event in events_of(self.folder / "results" / grid) if event["event"] == kind]


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def in_a_process(tmp_path, fork_server):
    return Project(tmp_path, fork_server)


def test_lines_of_the_output_are_epochs(project):
    command = "command: [python, script.py, '--bs={batch_size}', '{args}']" + METRICS
    attempt = project.one(PRINTS, command, "batch_size: 8\nparams: {hidden: 7}\nepochs: 2\n")
    assert attempt.status == "completed", attempt.error
    (started,) = project.events("trial_started")
    assert (started["form"], started["clock"]) == ("command", "output")
    cell = started["cell"]
    assert (cell["settings"], cell["params"]) == ({"batch_size": 8, "epochs": 2}, {"hidden": 7})
    assert (cell["workload"]["name"], cell["workload"]["form"]) == ("script.py", "command")
    first, last = project.events("epoch_ended")
    assert first["metrics"] == {"train/loss": 1.0, "val/accuracy": 0.07}
    assert last["metrics"] == {"train/loss": 0.5, "val/accuracy": 0.07, "test/accuracy": 0.5}
    assert 0.05 < last["ledger"]["train"] < first["ledger"]["train"], "the first includes the start of Python"
    assert set(last["ledger"]) == {"train"}, "nothing else is measured"
    assert "cpu_s" not in last and "steps" not in last
    (ended,) = project.events("trial_ended")
    assert set(ended["ledger"]) == {"setup", "train", "other"}
    assert sum(ended["ledger"].values()) == pytest.approx(ended["wall"], abs=0.001)
    assert attempt.warnings == []


def test_a_command_without_metrics_has_one_time(project):
    attempt = project.one("import time; time.sleep(0.1)")
    assert attempt.status == "completed", attempt.error
    (epoch,) = project.events("epoch_ended")
    assert 0.1 < epoch["ledger"]["train"] < 5
    assert attempt.cell.warmup_epochs == 0


def test_environment_and_files(project):
    script = """
    import json, os, sys
    from pathlib import Path
    import lib.helper
    values = json.loads(Path(sys.argv[1]).read_text())
    assert (values["hidden"], values["learning_rate"], values["seed"]) == (3, 0.5, 4), values
    assert os.environ["LR"] == "0.5 {x}"
    assert os.environ["WANDB_MODE"] == "offline" and "MLFLOW_SECRET" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    (Path(sys.argv[2]) / "mine.txt").write_text("kept")
    """
    project.write("lib/helper.py", "x = 1\n")
    workload = """
    command: [python, script.py, '{settings_file}', '{output_dir}']
    env: {LR: '{learning_rate} {{x}}'}
    """
    os.environ["MLFLOW_SECRET"] = "x"
    try:
        attempt = project.one(script, workload, "params: {hidden: 3}\nlearning_rate: 0.5\nseed: 4\nthreads: 1\n")
    finally:
        del os.environ["MLFLOW_SECRET"]
    assert attempt.status == "completed", attempt.error
    (kept,) = project.folder.rglob("mine.txt")
    assert kept.read_text() == "kept"


def test_a_shell_script_runs_unchanged(project):
    project.write("run.sh", "#!/bin/sh\nfor i in 1 2; do echo epoch $i; done\n")
    (project.folder / "run.sh").chmod(0o755)
    attempt = project.one("", "command: ./run.sh\nmetrics: {epoch: 'epoch (.)'}")
    assert (attempt.status, len(attempt.epochs)) == ("completed", 2)


def test_a_script_reports_by_itself(project):
    attempt = project.one(REPORTS, grid="epochs: 3\nsteps_per_epoch: 2\n")
    assert attempt.status == "completed", attempt.error
    (started,) = project.events("trial_started")
    assert (started["form"], started["clock"]) == ("command", "trial")
    assert [(epoch.steps, epoch.examples) for epoch in attempt.epochs] == [(2, 16)] * 3
    assert attempt.metric("val/accuracy") == 0.2
    assert [each["name"] for each in attempt.epochs[0].evaluations] == ["val"]
    (ended,) = project.events("trial_ended")
    assert sum(ended["ledger"].values()) == pytest.approx(ended["wall"], abs=0.005)
    assert all(ended["ledger"][name] > 0 for name in ("setup", "build", "train", "input_wait", "evaluate", "other"))


RANKS = """
import os, subprocess, sys, threading, time
if "RANK" not in os.environ:
    ranks = [{**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)]
    running = [subprocess.Popen([sys.executable, "script.py"], env=env) for env in ranks]
    sys.exit(max(process.wait() for process in running))
import raybench
trial = raybench.current_trial()
"""


def test_two_ranks_are_one_trial(project):
    script = """
for epoch in trial.epochs():
    for batch in trial.steps(range(4), examples=4 + trial.rank):
        pass
    trial.count(tokens=10)
    if trial.rank == 0:
        trial.log({"train/loss": 1 / (epoch + 1)})
"""
    grid = "epochs: 9\ntarget: {metric: train/loss, at_most: 0.6}\nstop_at_target: true\n"
    grid += "devices: {pair: {kind: cpu, count: 2}}\naxes: {device: [pair]}\n"
    attempt = project.one(RANKS + script, grid=grid)
    assert attempt.status == "completed", attempt.error
    assert [(epoch.steps, epoch.examples, epoch.units) for epoch in attempt.epochs] == [(4, 36, {"tokens": 20})] * 2
    assert attempt.cell.device.devices == 2


@pytest.mark.parametrize("ends", ["trial.rank == 0", "trial.rank == 1", "True"])
def test_ranks_that_end_at_once_keep_the_examples_of_all(project, ends):
    script = RANKS + "for epoch in trial.epochs():\n    for batch in trial.steps(range(4), examples=4): pass\n"
    attempt = project.one(f"{script}if {ends}: os._exit(0)\n", grid="epochs: 2\n")
    assert attempt.status == "completed", attempt.error
    assert [epoch.examples for epoch in attempt.epochs] == [32, 32]


@pytest.mark.parametrize("ends_early", [0, 1])
def test_a_rank_that_ends_early_with_status_0(project, ends_early):
    script = f"for epoch in trial.epochs():\n    if trial.rank == {ends_early} and epoch == 1: break\n"
    error = failed(project, RANKS + script, grid="epochs: 3\n")
    assert error["rank"] == ends_early
    assert f"in rank {ends_early} after epoch" in error["message"]


def test_a_rank_does_not_wait_for_rank_0_that_has_ended(project):
    script = RANKS.replace("max(process.wait() for process in running)", "running[1].wait()")  # rank 0 is a zombie
    body = "for epoch in trial.epochs():\n    trial.log({'train/loss': 1})\n    if trial.rank == 0: os._exit(1)\n"
    grid = "epochs: 4\ntarget: {metric: train/loss, at_most: 0.5}\nstop_at_target: true\ntimeout: 60\n"
    error = failed(project, script + body, grid=grid)
    assert error["rank"] == 1
    assert error["message"] == "rank 0 ended before it had ended epoch 1"


def failed(project, *arguments, **options):
    attempt = project.one(*arguments, **options)
    assert attempt.status == "failed"
    return attempt.error


PATTERN = "command: python script.py\nmetrics: "
JSON = "command: python script.py\njson_lines: "
LATER_NAN = "trial.log({'test/loss': float('nan')})"
CURRENT = "import raybench\ntrial = raybench.current_trial()\n"
ENDS = {
    "exit status": (
        "print('one'); raise ValueError('no such model')",
        "",
        "failed",
        "status 1: ValueError: no such model",
    ),
    "signal": ("import os; os.kill(os.getpid(), 11)", "", "failed", "ended by SIGSEGV, without any output"),
    "memory": ("raise MemoryError('Unable to allocate 2.00 GiB')", "", "oom", "Unable to allocate"),
    "no program": ("", "command: no_such_program", "failed", "cannot start no_such_program: No such file"),
    "no match": ("print('my acc 1')", PATTERN + "{val/acc: 'acc: (.)'}", "failed", "the nearest is 'my acc 1'"),
    "no number": ("print('loss=low')", PATTERN + "{train/loss: 'loss=(.*)'}", "failed", "'low' is no number"),
    "no metric": ("print('{\"epoch\": 1}')", JSON + "true", "failed", "metric 'val/f1' was never printed"),
    "no epoch": (CURRENT, "", "failed", "ended without an epoch"),
    "no target": (f"{CURRENT}for _ in trial.epochs(): pass", "", "failed", "metric 'val/f1' was never logged"),
    "exception": (REPORTS.replace("pass", "1 / 0"), "", "failed", "division by zero"),
    "nan printed": (
        "print('loss=nan')",
        PATTERN + "{train/loss: 'loss=(.*)'}",
        "diverged",
        "train/loss is nan in epoch 1",
    ),
    "nan reported": (REPORTS.replace("1 / (epoch + 1)", "float('nan')"), "", "diverged", "nan in epoch 1"),
    "nan after": (REPORTS + LATER_NAN, "", "diverged", "test/loss is nan after the last epoch"),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_a_command_ends(project, name):
    script, workload, status, message = ENDS[name]
    grid = "epochs: 2\n" if "current_trial" in script else ""
    grid += "target: {metric: val/f1, at_least: 0.5}\n" if name in ("no metric", "no target") else ""
    attempt = project.one(script, workload or "command: python script.py", grid)
    assert attempt.status == status, attempt.error
    assert message in attempt.error["message"]
    if name == "exception":
        assert attempt.error["where"] == f"{project.folder / 'script.py'}:6"
    if name == "exit status":
        assert attempt.error["output"].startswith("one\nTraceback")
    if name == "memory":
        assert attempt.error["asked_bytes"] == 2 << 30


def test_the_first_failed_rank_is_the_trial_s_error(project):
    script = """
for epoch in trial.epochs():
    if trial.rank == 0:
        time.sleep(1)
        raise RuntimeError("the other rank is gone")
    raise ValueError("no data")
"""
    error = failed(project, RANKS + script, grid="epochs: 1\n")
    assert (error["type"], error["rank"]) == ("ValueError", 1)


@pytest.mark.parametrize("keys", ["true", "{epoch: epoch, train/loss: loss, val/accuracy: val.acc}"])
def test_json_lines(project, keys):
    line = "{'epoch': e, 'train/loss': 0.5, 'val/accuracy': 0.1, 'loss': 0.5, 'val': {'acc': 0.1}}"
    attempt = project.one(f"import json\nfor e in range(2): print(json.dumps({line}))", JSON + keys)
    assert [epoch.metrics for epoch in attempt.epochs] == [{"train/loss": 0.5, "val/accuracy": 0.1}] * 2


def test_a_kill_by_the_kernel_is_out_of_memory(project, monkeypatch):
    kills = iter(range(9))
    monkeypatch.setattr("raybench.core.memory.oom_kills", lambda: next(kills))
    attempt = project.one("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (attempt.status, attempt.error["message"]) == (
        "oom", "script.py was killed by the kernel because memory ran out",
    )  # fmt: skip


def test_epochs_that_arrive_together_are_a_finding(project):
    script = "import os\nos.write(1, b'epoch 1\\nepoch 2\\nepoch 3\\n')"
    outcome = project.run(script, "command: python script.py\nmetrics: {epoch: 'epoch (.)'}")
    (attempt,) = outcome.latest.values()
    assert [epoch.epochs_in_read for epoch in attempt.epochs] == [3, 3, 3]
    (warning,) = attempt.warnings
    assert warning.startswith("the lines of all 3 epochs arrived together, so that no time of an epoch is known")
    trust = outcome.report.answer.trust
    assert "output_buffered" in {each.code for each in (*trust.cautions, *trust.notes)}


@pytest.mark.parametrize(("bound", "reached_in"), [(0.9, 2), (90, 2), (0.95, 3), (95, 3)])
def test_a_target_of_an_accuracy_in_percent(project, bound, reached_in):
    script = "for epoch in (1, 2, 3):\n    print('acc', {1: 88, 2: 94, 3: 97}[epoch], 'epoch', epoch)"
    workload = r"command: python script.py" "\n" r"metrics: {epoch: 'epoch (.)', val/accuracy: 'acc (\d+)'}"
    outcome = project.run(script, workload, f"target: {{metric: val/accuracy, at_least: {bound}}}\n")
    answer = outcome.report.answer
    ((run,),) = (each.runs for each in answer.configurations)
    assert [value for _, _, value in run.curve("val/accuracy")] == [0.88, 0.94, 0.97]
    assert answer.target.at_least == (bound if bound <= 1 else bound / 100)
    (recorded,) = outcome.latest.values()
    assert next(epoch.epoch for epoch in recorded.epochs if recorded.target.reached(epoch.metrics)) == reached_in


def test_two_processes_of_rank_0(project):
    script = "import os, subprocess, sys\n"
    script += "if len(sys.argv) < 2:\n    other = subprocess.Popen([sys.executable, 'script.py', 'second'])\n"
    script += REPORTS.replace("pass", "__import__('time').sleep(0.3)")
    error = failed(project, script, grid="epochs: 3\n")
    assert error["type"] == "RankConflict"
    assert "report as rank 0: start them with torchrun" in error["message"]


@pytest.mark.slow
def test_a_timeout_ends_it_gently_first(project):
    script = """
    import signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(0)))
    print("epoch 1")
    time.sleep(60)
    """
    start = time.monotonic()
    attempt = project.one(
        textwrap.dedent(script), "command: python script.py\nmetrics: {epoch: 'epoch (.)'}", "timeout: 3.0\n"
    )
    assert (attempt.status, attempt.error["message"]) == ("timeout", "took longer than its timeout of 3 s")
    assert attempt.error["output"] == "epoch 1\nsaved"
    assert len(attempt.epochs) == 1
    assert time.monotonic() - start < 13


def test_a_program_that_ignores_sigterm_is_killed(project, monkeypatch):
    monkeypatch.setattr("raybench.trial.run_command.TERMINATION_SECONDS", 0.3)
    script = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(1)\ntime.sleep(60)"
    attempt = project.one(script, grid="timeout: 0.7\n")
    assert attempt.status == "timeout"


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
print("epoch 1")
"""


def assert_gone(pid):
    with suppress(psutil.NoSuchProcess):
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "ended, and waits for its parent"


@pytest.mark.skipif(sys.platform != "linux", reason="its descendants are found by /proc")
def test_a_daemon_is_killed_with_a_warning(project):
    pid_file = project.folder / "pid"
    workload = f"command: [python, script.py, '{pid_file}']\nmetrics: {{epoch: 'epoch (.)'}}"
    attempt = project.one(DAEMON, workload)
    assert attempt.status == "completed", attempt.error
    pid = int(pid_file.read_text())
    (warning,) = attempt.warnings
    assert f"python (process {pid})" in warning
    assert_gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="its descendants are found by /proc")
def test_a_child_that_prints_without_end_is_killed(project):
    script = (
        "import subprocess\nsubprocess.Popen(['sh', '-c', 'while :; do echo x; sleep 0.001; done'])\nprint('epoch 1')"
    )
    attempt = project.one(script, "command: python script.py\nmetrics: {epoch: 'epoch (.)'}")
    assert (attempt.status, len(attempt.warnings)) == ("completed", 1), attempt.warnings
    assert "sh (process " in attempt.warnings[0]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["command", "function"])
def test_of_a_long_output_head_and_tail_are_kept(in_a_process, form):
    prints = "print('first')\nfor _ in range(100): print('x' * 99_999)\nprint('last')\n"
    function = f"def train(trial):\n    for epoch in trial.epochs(1):\n{textwrap.indent(prints, ' ' * 8)}"
    workload = "command: python script.py" if form == "command" else "script.py:train"
    attempt = in_a_process.one(prints if form == "command" else function, workload)
    assert attempt.status == "completed", attempt.error
    (output,) = in_a_process.folder.rglob("output.log")
    text = output.read_text()
    assert text.startswith("first\n") and text.endswith("last\n") and len(text) < 5_000_000
    assert "was not kept" in text


@pytest.mark.slow
def test_in_a_process_of_its_own(in_a_process):
    pid_file = in_a_process.folder / "pid"
    workload = f"command: [python, script.py, '{pid_file}']\nmetrics: {{epoch: 'epoch (.)'}}"
    attempt = in_a_process.one(DAEMON, workload, "timeout: 60\nmemory_limit: 4GiB\n")
    assert (attempt.status, len(attempt.warnings)) == ("completed", 1), attempt.error
    assert_gone(int(pid_file.read_text()))
    (output,) = in_a_process.folder.rglob("output.log")
    assert output.read_text() == "epoch 1\n"
    assert 2 << 20 < attempt.epochs[-1].memory_peak_bytes < 1 << 30


@pytest.mark.slow
def test_a_script_goes_on_from_its_checkpoint(in_a_process):
    script = """
    import os, signal, raybench
    trial = raybench.current_trial()
    state = {"epochs": 0}
    def load(path):
        state["epochs"] = int(path.read_text())
    trial.checkpoint(lambda path: path.write_text(str(state["epochs"])), load)
    for epoch in trial.epochs():
        state["epochs"] += 1
        trial.log({"val/epochs": state["epochs"]})
        if epoch == 2 and not os.path.exists(MARK):
            open(MARK, "w").write(str(os.getpid()))
            __import__("time").sleep(0.5)  # until the epochs are known
            os.kill(os.getppid(), signal.SIGKILL)  # the trial's process is lost
            __import__("time").sleep(60)
    """
    mark = in_a_process.folder / "mark"
    outcome = in_a_process.run(
        textwrap.dedent(script).replace("MARK", repr(str(mark))), grid="epochs: 4\ncheckpoint_every: 1\n"
    )
    (attempt,) = outcome.latest.values()
    assert (attempt.status, attempt.attempt) == ("completed", 2), attempt.error
    assert [epoch.metrics["val/epochs"] for epoch in attempt.epochs] == [1, 2, 3, 4]
    (resumed,) = in_a_process.events("trial_resumed")
    assert resumed["epoch"] == 2
    assert_gone(int(mark.read_text()))

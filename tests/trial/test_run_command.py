"""A command from its grid file to the journal: what it prints, what it reports, and how it ends."""

import os
import shutil
import sys
import textwrap
import time

import pytest
from support.processes import alive
from support.project import Project

PRINTS = """
import argparse, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--bs", type=int)
parser.add_argument("--hidden", type=int, default=3)
parser.add_argument("--epochs", type=int, default=3)
options = parser.parse_args()
for epoch in range(1, options.epochs + 1):
    time.sleep(0.1)
    print(f"loss={1 / epoch} acc={options.hidden / 100}", file=sys.stderr)
    time.sleep(0.1)
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
epoch: '^epoch (\d+)'
metrics: {train/loss: 'loss=(\S+)',
          val/accuracy: ' acc=([\d.]+)', test/accuracy: 'test acc (\S+)'}
"""


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
    assert started["clock"] == "output"
    cell = started["cell"]
    assert (cell["settings"], cell["params"]) == ({"batch_size": 8, "epochs": 2}, {"hidden": 7})
    assert (cell["workload"]["name"], cell["workload"]["form"]) == ("script.py", "command")
    first, last = project.events("epoch_ended")
    assert first["metrics"] == {"train/loss": 1.0, "val/accuracy": 0.07}
    assert last["metrics"] == {"train/loss": 0.5, "val/accuracy": 0.07, "test/accuracy": 0.5}
    assert 0 < last["ledger"]["train"] == first["ledger"]["train"], "the start of Python is not training"
    assert set(last["ledger"]) == {"train"}, "nothing else is measured"
    assert "steps" not in last
    (ended,) = project.events("trial_ended")
    assert set(ended["ledger"]) == {"setup", "startup", "train", "other"}
    assert sum(ended["ledger"].values()) == pytest.approx(ended["wall"], abs=0.001)
    assert attempt.warnings == []
    assert attempt.command == "python script.py --bs=8 --epochs=2 --hidden=7"
    assert attempt.matched == {
        "epoch": "epoch 1",
        "train/loss": "loss=1.0 acc=0.07",
        "val/accuracy": "loss=1.0 acc=0.07",
        "test/accuracy": "test acc 0.5",
    }


UNKNOWN = """
import time
print("Namespace(iou=0.7)")
time.sleep(0.3)
for step in range(1, 6):
    time.sleep(0.1)
    print(f"step {step}/5 loss {1 / step}", flush=True)
    time.sleep(0.05)
    print(f"validation accuracy: {step / 10}", flush=True)
"""


def test_an_unknown_program_has_a_clock(project):
    outcome = project.run(UNKNOWN, grid="repeats: 2\n")
    for attempt in outcome.latest.values():
        assert (attempt.status, attempt.clock, attempt.warnings) == ("completed", "output", [])
        assert [dict(epoch.metrics) for epoch in attempt.epochs] == [
            {"train/loss": 1 / step, "val/accuracy": step / 10} for step in range(1, 6)
        ]
        assert [sorted(epoch.ledger) for epoch in attempt.epochs] == [["evaluate", "train"]] * 5
        assert 0.2 < attempt.ledger["startup"] < 5
        assert attempt.output_clock.sentence() == "epochs are the lines `step N/… loss …`"
    started = [event["output_clock"] for event in project.events("trial_ended")]
    assert started[0] == started[1], "that of the first run"


@pytest.mark.skipif(not shutil.which("stdbuf"), reason="needs stdbuf")
def test_lines_of_a_c_program_arrive_when_they_are_printed(project):
    loop = "for step in 1 2 3 4 5; do sleep 0.1; echo step $step loss 0.5; done | cut -b 1-"
    attempt = project.one("", f"command: [sh, -c, '{loop}']")
    assert len(attempt.epochs) == 5 and sum(epoch.ledger["train"] for epoch in attempt.epochs) > 0.2


def test_all_runs_have_the_clock_of_the_first(project):
    script = "import time, sys\nfor step in range(0, 60, int(sys.argv[1])):\n    time.sleep(0.01 * int(sys.argv[1]))\n"
    script += "    print(f'step {step} loss 1', flush=True)"
    outcome = project.run(script, "command: [python, script.py, '{every}']\n", "axes: {params.every: [10, 5]}\n")
    first, second = outcome.latest.values()
    assert first.output_clock == second.output_clock and first.output_clock.step == 10
    assert len(first.epochs) == len(second.epochs) == 5
    assert all(sum(epoch.ledger["train"] for epoch in run.epochs) > 0.2 for run in (first, second))


@pytest.mark.parametrize(
    ("script", "ran", "options"),
    [
        ("import nothing_there", 1, {}),
        ("import nothing_there", 4, {"keep_going": True}),
        ("import sys; assert '--mode=b' in sys.argv", 4, {}),  # may be due to the value of one axis
        ("raise ValueError('no')", 2, {}),
        ("import sys; raise ValueError(sys.argv[1:])", 4, {}),  # each error is different
        ("print('epoch')", 1, {"pattern": r"epoch (\d+)"}),
    ],
)
def test_grid_stops_if_every_trial_would_fail(project, script, ran, options):
    pattern = f"epoch: '{options.pop('pattern')}'\n" if "pattern" in options else ""
    command = "command: python script.py {args}\n" + pattern
    outcome = project.run(script, command, "axes: {params.mode: [a, b], params.kind: [c, d]}\n", **options)
    assert outcome.ran == ran
    assert any("--keep-going" in text for text in outcome.warnings) == (ran < 4)


def test_program_that_prints_no_epochs_is_timed_whole(project):
    attempt = project.one(
        "import time; time.sleep(0.1); print('loss 3 after 20 rounds'); print('{\"epoch\": 1},' * 9999)"
    )
    assert (attempt.status, attempt.clock, len(attempt.epochs)) == ("completed", "run", 1)
    assert 0.1 < attempt.epochs[0].ledger["train"] < 10, "a long line is read at once"


def test_environment_and_files(project):
    script = """
    import json, os, sys
    from pathlib import Path
    import lib.helper
    values = json.loads(Path(sys.argv[1]).read_text())
    assert (values["hidden"], values["learning_rate"], values["seed"]) == (3, 0.5, 4), values
    assert os.environ["LR"] == "0.5 {x}"
    assert os.environ["WANDB_MODE"] == "offline" and "MLFLOW_SECRET" not in os.environ
    assert os.environ["PWD"] == os.getcwd() and "RAY_JOB_ID" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == os.environ["TF_NUM_INTRAOP_THREADS"] == "1"
    assert not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) == 1
    assert os.environ["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    (Path(sys.argv[2]) / "mine.txt").write_text("kept")
    """
    project.write("lib/helper.py", "x = 1\n")
    workload = """
    command: [python, script.py, '{settings_file}', '{output_dir}']
    env: {LR: '{learning_rate} {{x}}'}
    """
    os.environ |= {"MLFLOW_SECRET": "x", "RAY_JOB_ID": "x"}
    try:
        attempt = project.one(script, workload, "params: {hidden: 3}\nlearning_rate: 0.5\nseed: 4\nthreads: 1\n")
    finally:
        del os.environ["MLFLOW_SECRET"], os.environ["RAY_JOB_ID"]
    assert attempt.status == "completed", attempt.error
    (kept,) = project.folder.rglob("mine.txt")
    assert kept.read_text() == "kept"


def test_a_shell_script_runs_unchanged(project):
    project.write("run.sh", "#!/bin/sh\nfor i in 1 2; do echo epoch $i; done\n")
    (project.folder / "run.sh").chmod(0o755)
    attempt = project.one("", "command: ./run.sh\nepoch: 'epoch (.)'")
    assert (attempt.status, len(attempt.epochs)) == ("completed", 2)


def test_a_script_reports_by_itself(project):
    attempt = project.one(REPORTS, grid="epochs: 3\nsteps_per_epoch: 2\n")
    assert attempt.status == "completed", attempt.error
    (started,) = project.events("trial_started")
    assert started["clock"] == "trial"
    assert [(epoch.steps, epoch.examples) for epoch in attempt.epochs] == [(2, 16)] * 3
    assert attempt.last_metrics["val/accuracy"] == 0.2
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
    assert len(os.sched_getaffinity(0)) == min(2, os.cpu_count())
    if trial.rank == 0:
        trial.log({"train/loss": 1 / (epoch + 1)})
"""
    grid = "epochs: 9\ntarget: {metric: train/loss, at_most: 0.6}\nstop_at_target: true\n"
    grid += "devices: {pair: {kind: cpu, count: 2, threads: 1}}\naxes: {device: [pair]}\n"
    attempt = project.one(RANKS + script, "command: python script.py {count}\n", grid)
    assert attempt.status == "completed", attempt.error
    assert [(epoch.steps, epoch.examples, epoch.units) for epoch in attempt.epochs] == [(4, 36, {"tokens": 20})] * 2
    assert attempt.cell.device.devices == 2


@pytest.mark.parametrize("ends", ["trial.rank == 1", "True"])
def test_ranks_ending_at_once_keep_all_examples(project, ends):
    script = RANKS + "for epoch in trial.epochs():\n    for batch in trial.steps(range(4), examples=4): pass\n"
    attempt = project.one(f"{script}if {ends}: os._exit(0)\n", grid="epochs: 2\n")
    assert attempt.status == "completed", attempt.error
    assert [epoch.examples for epoch in attempt.epochs] == [32, 32]


def test_a_rank_that_ends_early_with_status_0(project):
    script = "for epoch in trial.epochs():\n    if trial.rank == 1 and epoch == 1: break\n"
    error = failed(project, RANKS + script, grid="epochs: 3\n")
    assert error["rank"] == 1
    assert "in rank 1 after epoch" in error["message"]


def test_a_rank_that_reports_nothing(project):
    script = RANKS.replace("import raybench", "if os.environ['RANK'] == '1': sys.exit()\nimport raybench")
    (warning,) = project.one(script + "for epoch in trial.epochs(): pass\n", grid="epochs: 1\n").warnings
    assert warning.startswith("1 of 2 ranks reported nothing")


def test_no_rank_waits_for_an_ended_one(project):
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


SLOW = """
import time
time.sleep(0.5)
for epoch in range(1, 100):
    print("begin")
    time.sleep({s})
    print(f"epoch {{epoch}} loss={{1 / epoch}}")
"""


@pytest.mark.parametrize(
    ("seconds", "partial", "more"),
    [(0.1, False, ""), (60, True, "begin: begin"), (60, True, "begin: begin\ntime: train/loss")],
)
def test_a_command_is_ended_at_its_budget(project, seconds, partial, more):
    command = f"command: python script.py{LOSS}{more}"
    attempt = project.one(SLOW.format(s=seconds), command, grid="budget: {time: 1s}\n")
    assert (attempt.status, attempt.error) == ("completed", None)
    assert 1 <= sum(epoch.ledger["train"] for epoch in attempt.epochs) < 50, "start-up is not part of it"
    assert attempt.ledger["startup"] > 0.4
    assert attempt.epochs[-1].partial is partial
    assert partial or attempt.epochs[-1].metrics == {"train/loss": pytest.approx(1 / len(attempt.epochs))}


LOSS = r"""
epoch: '^epoch (\d+)'
metrics: {train/loss: 'loss=(\S+)'}
"""
PATTERN = "command: python script.py\nmetrics: "
EPOCHS = "command: python script.py\nepoch: 'epoch (.)'\n"
TIMED = EPOCHS + "time: s\nmetrics: {s: 's=(.*)'}\n"
LATER_NAN = "trial.log({'test/loss': float('nan')})"
CURRENT = "import raybench\ntrial = raybench.current_trial()\n"
ENDS = {
    "exit status": ("print('one'); raise ValueError('no model')", "", "failed", "status 1: ValueError: no model"),
    "signal": ("import os; os.kill(os.getpid(), 11)", "", "failed", "script.py was ended by SIGSEGV: File "),
    "lines": ("raise ValueError('no model\\nsee the manual')", "", "failed", "status 1: ValueError: no model"),
    "memory": ("raise MemoryError('Unable to allocate 2.00 GiB')", "", "oom", "Unable to allocate"),
    "rank": (
        "import os, time\nif os.environ['RANK'] == '1': raise ValueError('no data')\ntime.sleep(9)",
        "command: torchrun --nproc-per-node=2 script.py",
        "failed",
        "script.py: rank 1 exited with status 1: ValueError: no data",
    ),
    "no program": ("", "command: no_such_program", "failed", "cannot start no_such_program: No such file"),
    "no match": ("print('my acc 1')", PATTERN + "{val/f1: 'acc: (.)'}", "failed", "the nearest is 'my acc 1'"),
    "no number": ("print('loss=low')", PATTERN + "{train/loss: 'loss=(.*)'}", "failed", "'low' is not a number"),
    "no line": ("print(1)", EPOCHS, "failed", "no line of the output matches epoch"),
    "no amount": ("print('epoch 1 s=nan')", TIMED, "failed", "s is nan in epoch 1"),
    "not executable": ("", "command: ./script.py", "failed", "Permission denied; make it executable"),
    "no clock": ("print('s=1\\nepoch 1\\nepoch 2')", TIMED, "failed", "epoch 2 has no s, the metric of `time`"),
    "no epoch": (CURRENT, "", "failed", "ended without an epoch"),
    "no target": (f"{CURRENT}for _ in trial.epochs(): pass", "", "failed", "metric 'val/f1' was never logged"),
    "exception": (REPORTS.replace("pass", "1 / 0"), "", "failed", "division by zero"),
    "nan printed": ("print('loss=nan')", PATTERN + "{train/loss: 'loss=(.*)'}", "diverged", "loss is nan in epoch 1"),
    "nan reported": (REPORTS.replace("1 / (epoch + 1)", "float('nan')"), "", "diverged", "nan in epoch 1"),
    "nan after": (REPORTS + LATER_NAN, "", "diverged", "test/loss is nan after the last epoch"),
}


WITH_TARGET = ("no metric", "no target", "no match")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "rank")) for name in ENDS])
def test_how_a_command_ends(project, name):
    script, workload, status, message = ENDS[name]
    grid = "epochs: 2\n" if "current_trial" in script else ""
    grid += "target: {metric: val/f1, at_least: 0.5}\n" if name in WITH_TARGET else ""
    attempt = project.one(script, workload or "command: python script.py", grid)
    assert attempt.status == status, attempt.error
    assert message in attempt.error["message"]
    if name == "exception":
        assert attempt.error["where"] == f"{project.folder / 'script.py'}:6"
    if name == "exit status":
        assert attempt.error["output"].startswith("one\nTraceback")
    if name == "memory":
        assert attempt.error["asked_bytes"] == 2 << 30


def test_error_is_that_of_the_first_rank(project):
    script = """
for epoch in trial.epochs():
    if trial.rank == 0:
        time.sleep(1)
        raise RuntimeError("the other rank is gone")
    raise ValueError("no data")
"""
    error = failed(project, RANKS + script, grid="epochs: 1\n")
    assert (error["type"], error["rank"]) == ("ValueError", 1)


ACC = "metrics: {val/acc: 'acc=(.*)'}"
LINES = {
    "counted": (r"'Test set: acc=1\nTest set: acc=2'", f"epoch: '^Test set:'\n{ACC}", [1, 2], ""),
    "numbered": (r"'acc=1\nepoch 1\nacc=2\nacc=3\nepoch 2\nacc=4'", f"epoch: 'epoch (.)'\n{ACC}", [3, 4], ""),
    "again": (r"'epoch 1 acc=1\nepoch 1 acc=2\nepoch 2 acc=3'", f"epoch: 'epoch (.)'\n{ACC}", [2, 3], ""),
    "a word": (r"'epoch a acc=1\nepoch a acc=2'", f"epoch: 'epoch (.)'\n{ACC}", [1, 2], ""),
    "progress": (r"'10%\r20% acc=1\rdone\r\n\x1b[1mdone'", f"epoch: '^done'\n{ACC}", [1, None], ""),
    "beginnings": (r"'0\nEpoch 1\nEpoch 1\nacc=1\nEpoch 2\nacc=2'", f"begin: 'Epoch (.)'\n{ACC}", [1, 2], ""),
    "both": (r"'E 1\nend\nacc=1\nE 2\nend\nacc=2'", f"begin: 'E (.)'\nepoch: end\n{ACC}", [1, 2], ""),
    "late": (r"'end\nacc=1\nend\nacc=2\nend\nacc=3'", f"epoch: end\n{ACC}", [1, 2, 3], ""),
    "no match": (r"'a\xc3\xa9curacy 1\nend'", f"epoch: end\n{ACC}", [None], "no line of the output matches val/acc"),
    "JSON": (
        r"""'{"e": 1, "val": {"acc": 5}}\n{"e": 2, "val": {"acc": null}}'""",
        """epoch: '"e": (.)'\nmetrics: {val/acc: '"acc": ([\\d.]+)'}""",
        [5, None],
        "",
    ),
    "a long line": (r"'a' * (1 << 20) + '\nepoch 1'", "epoch: 'epoch (.)'", [None], ""),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_that_are_epochs_and_metrics(project, name):
    text, workload, values, warning = LINES[name]
    script = "import sys, time\nfor line in (" + text + r").splitlines(keepends=True):" "\n    time.sleep(0.001)\n"
    script += "    sys.stdout.buffer.write(line.encode('latin-1'))\n    sys.stdout.flush()"
    attempt = project.one(script, f"command: python script.py\n{workload}\n")
    assert attempt.status == "completed", attempt.error
    assert [epoch.metrics.get("val/acc") for epoch in attempt.epochs] == values
    said = [text for text in attempt.warnings + attempt.unmatched if "arrived together" not in text]
    assert bool(said) == bool(warning) and all(warning in text for text in said)


WORKED = """
import os, time
time.sleep(0.4)
for epoch in (1, 2):
    print("start", epoch)
    time.sleep(0.1)
    print("epoch", epoch, "s=0.07 tokens=5")
    time.sleep(0.2)
time.sleep(float(os.environ.get("TAIL", 0)))
"""


@pytest.mark.parametrize(
    ("workload", "clock", "seconds", "setup_s"),
    [
        ("epoch: epoch (.)", "output", [0.3, 0.3], 0.2),
        ("begin: start\nepoch: epoch (.)", "output", [0.1, 0.1], 0.4),
        ("begin: start\nenv: {TAIL: 0.8}", "output", [0.3, 0.3], 0.4),
        ("begin: start 1", "output", [0.1, 0.3], 0.4),
        ("epoch: epoch\nmetrics: {s: 's=(\\S+)'}\ntime: s", "program", [0.07, 0.07], 0),
        ("metrics: {s: 's=(\\S+)'}\ntime: s", "program", [0.07, 0.07], 0),
        ("", "output", [0.3, 0.3], 0.2),
    ],
)
def test_what_an_epoch_of_a_command_takes(project, workload, clock, seconds, setup_s):
    attempt = project.one(WORKED, f"command: python script.py\n{workload}\n")
    assert attempt.status == "completed", attempt.error
    assert attempt.clock == clock
    taken = [epoch.ledger["train"] for epoch in attempt.epochs]
    assert len(taken) == len(seconds)
    assert all(wanted - 0.05 < each < wanted + 0.6 for each, wanted in zip(taken, seconds, strict=True)), taken
    assert attempt.ledger["setup"] + attempt.ledger["startup"] > setup_s
    assert sum(attempt.ledger.values()) == pytest.approx(attempt.wall, abs=0.001)


def test_work_of_a_command_is_counted(project):
    work = r"work: {examples: '({batch_size} + 2) * 10', tokens: 'tokens=(\d+)', rounds: 3}"
    attempt = project.one(
        WORKED, f"command: [python, script.py, '{{batch_size}}']\nepoch: epoch (.)\n{work}\n", "batch_size: 6\n"
    )
    assert [(epoch.examples, epoch.units) for epoch in attempt.epochs] == [(80, {"rounds": 3, "tokens": 5})] * 2


BATCHES = """
import sys, time
for epoch in 1, 2, 3, 4:
    time.sleep(float(sys.argv[2]) * int(sys.argv[1]))
    print("round", epoch, "loss 0.5 own 3")
"""


@pytest.mark.parametrize(
    ("workload", "unit", "code", "is_compared"),
    [
        ("epoch: round", "epoch", "work_not_counted", False),
        ("epoch: round\nwork: {examples: '{batch_size} * 10'}", "examples", "", True),
        ("", "epoch", "work_not_counted", False),
    ],
)
def test_commands_are_compared_by_known_work(project, workload, unit, code, is_compared):
    command = f"command: [python, script.py, '{{batch_size}}', '0.05']\n{workload}\n"
    command += "metrics: {val/own: 'own (.)', val/loss: 'loss ([.0-9]+)'}\n"
    answer = project.run(BATCHES, command, "axes: {batch_size: [2, 8]}\n").report.answer
    assert answer.unit.name == unit
    assert answer.metric == "val/own"
    assert bool(answer.configurations[1].ratio) == bool(answer.best) == bool(answer.effects) == is_compared
    cautions = [each.code for each in answer.trust.cautions]
    assert code in cautions if code else not {"work_not_counted", "short_epochs"} & {*cautions}


@pytest.mark.parametrize(
    ("workload", "axis"),
    [
        ("", "batch_size"),
        ("epoch: epoch (.)", "batch_size"),
        ("", "params.argument_1"),
    ],
)
def test_epochs_are_compared_across_batch_sizes(project, workload, axis):
    """What a program calls an epoch is a pass over its data, unlike an iteration."""
    command = f"command: [python, script.py, '{{{axis}}}', '0.05']\n{workload}\n"
    answer = project.run(BATCHES.replace("round", "epoch"), command, f"axes: {{{axis}: [2, 8]}}\n").report.answer
    assert answer.configurations[1].ratio and answer.best
    (found,) = [each for each in (*answer.trust.notes, *answer.trust.cautions) if each.code == "assumed_work"]
    assert [found.mark in each.cautions for each in answer.configurations] == [False, True]


@pytest.mark.skipif(sys.platform != "linux", reason="processor time is read from /proc")
def test_processor_time_of_a_command_and_its_children(project):
    work = "import time\nwhile time.process_time() < 0.3: pass"
    script = f"import subprocess, sys\nfor _ in 1, 2:\n    subprocess.run([sys.executable, '-c', {work!r}])\n"
    attempt = project.one(f"{script}    print('epoch')\n{work}", "command: python script.py\nepoch: epoch\n")
    assert 0.4 < sum(epoch.cpu_s for epoch in attempt.epochs) < 1.8


@pytest.mark.parametrize(("option", "word"), [("--hidden-size", "dashes"), ("--hidden_size", "underscores")])
def test_arguments_are_spelled_as_the_script_spells_them(project, option, word):
    script = (
        f"import argparse\np = argparse.ArgumentParser()\np.add_argument({option!r}, required=True)\np.parse_args()"
    )
    attempt = project.one(script, "command: python script.py {args}\n", "params: {hidden_size: 3}\n")
    assert attempt.status == "completed", attempt.error


@pytest.mark.parametrize(
    ("by_kernel", "status", "message"),
    [
        (True, "oom", "script.py was killed by the kernel because memory ran out"),
        (False, "lost", "script.py was ended by SIGKILL, without any output"),
    ],
)
def test_killed_command(project, monkeypatch, by_kernel, status, message):
    kills = iter(range(9))
    monkeypatch.setattr("raybench.core.memory.oom_kills", lambda: next(kills) if by_kernel else 0)
    attempt = project.one("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", grid="retries: 0\n")
    assert (attempt.status, attempt.error["message"]) == (status, message)


def test_epochs_that_arrive_together_are_a_finding(project):
    script = "import os\nos.write(1, b'epoch 1\\nepoch 2\\nepoch 3\\n')"
    outcome = project.run(script, "command: python script.py\nepoch: 'epoch (.)'")
    (attempt,) = outcome.latest.values()
    assert [epoch.epochs_in_read for epoch in attempt.epochs] == [None, 2, 3]
    (warning,) = attempt.warnings
    assert warning.startswith("the lines of all 3 epochs arrived together, so that no time of an epoch is known")
    trust = outcome.report.answer.trust
    assert "output_buffered" in {each.code for each in (*trust.cautions, *trust.notes)}


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
    attempt = project.one(textwrap.dedent(script), "command: python script.py\nepoch: 'epoch (.)'", "timeout: 3.0\n")
    assert (attempt.status, attempt.error["message"]) == ("timeout", "took longer than its timeout of 3 s")
    assert attempt.error["output"] == "epoch 1\nsaved"
    assert len(attempt.epochs) == 1
    assert time.monotonic() - start < 45


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


@pytest.mark.skipif(sys.platform != "linux", reason="its descendants are found by /proc")
def test_a_daemon_is_killed_with_a_warning(project):
    pid_file = project.folder / "pid"
    workload = f"command: [python, script.py, '{pid_file}']\nepoch: 'epoch (.)'"
    attempt = project.one(DAEMON, workload)
    assert attempt.status == "completed", attempt.error
    pid = int(pid_file.read_text())
    (warning,) = attempt.warnings
    assert f"python (process {pid})" in warning
    assert not alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="its descendants are found by /proc")
def test_a_child_that_prints_without_end_is_killed(project):
    script = (
        "import subprocess\nsubprocess.Popen(['sh', '-c', 'while :; do echo x; sleep 0.001; done'])\nprint('epoch 1')"
    )
    attempt = project.one(script, "command: python script.py\nepoch: 'epoch (.)'")
    assert (attempt.status, len(attempt.warnings)) == ("completed", 1), attempt.warnings
    assert "sh (process " in attempt.warnings[0]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["command", "function"])
def test_long_output_keeps_head_and_tail(in_a_process, form):
    prints = "print('first')\nfor _ in range(100): print('x' * 99_999)\nprint('last')\n"
    prints += "import os, time; time.sleep(1.5)\nassert os.fstat(1).st_size < 5_000_000\n"  # before it ends, too
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
    workload = f"command: [python, script.py, '{pid_file}']\nepoch: 'epoch (.)'"
    attempt = in_a_process.one(DAEMON, workload, "timeout: 60\nmemory_limit: 4GiB\n")
    assert (attempt.status, len(attempt.warnings)) == ("completed", 1), attempt.error
    assert not alive(int(pid_file.read_text()))
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
    assert not alive(int(mark.read_text()))

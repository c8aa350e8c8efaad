"""A fresh process for every trial, whatever becomes of the last one."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from support import ROOT, TESTS, WORKLOADS
from support.jobs import make_job
from support.processes import alive, all_gone, eventually

from raybench.core.events import ERROR, OUTPUT, events_file
from raybench.results.folder import read_events
from raybench.trial.exit_status import classify_exit

HERE = WORKLOADS
HANGS_FOR = 5
"""Seconds until a trial that hangs is ended: long enough to begin training on a busy machine."""


@pytest.fixture(scope="module")
def trial(fork_server, tmp_path_factory):
    """Runs a workload of troubles.py, each once for all tests that only read; returns its events and its folder."""

    @cache
    def run(attribute):
        folder = tmp_path_factory.mktemp(attribute)
        job = make_job(folder, attribute, timeout=HANGS_FOR if attribute == "parent" else 300)
        return list(fork_server("torch").run(job)), folder / "attempt"

    return run


@pytest.mark.parametrize(
    ("attribute", "status", "kind", "says"),
    [
        ("fine", "completed", None, ""),
        ("raising", "failed", "KeyError", "no such thing"),
        ("exiting", "failed", "SystemExit", "the code called sys.exit(3)"),
        pytest.param("interrupting", "failed", "KeyboardInterrupt", "", marks=pytest.mark.slow),
        pytest.param("surrogate", "failed", "ValueError", r"caf\udce9", marks=pytest.mark.slow),
        ("disk_full", "lost", "OSError", "No space left on device"),
        ("infinite", "diverged", "Diverged", "train/loss is nan in epoch 1"),
        ("greedy", "oom", "RuntimeError", "allocate"),
        ("dying", "failed", "SIGSEGV", "ended by SIGSEGV"),
        ("patching", "completed", None, ""),
        ("killed", "lost", "Killed", "SIGKILL"),
        pytest.param("leaving", "failed", "Exit", "exited with status 7", marks=pytest.mark.slow),
        pytest.param(
            "parent", "timeout", "Timeout", f"timeout of {HANGS_FOR} s: it is at troubles.py:", marks=pytest.mark.slow
        ),
    ],
)
def test_every_end_has_its_name(trial, template, attribute, status, kind, says):
    events, folder = trial(attribute)
    last = events[-1]
    assert events[0]["event"] == "trial_started"
    assert (last["event"], last["status"]) == ("trial_ended", status)
    assert last["wall"] > 0
    assert last["template_import"] > 0
    if kind:
        assert last["error"]["type"] == kind
        assert says in last["error"]["message"]
    assert len(events_file(folder).read_text().splitlines()) == len(events)
    assert template.alive, "the template outlives its trials"


def test_long_message_is_cut_in_the_event(trial):
    events, folder = trial("raising_at_length")
    error = events[-1]["error"]
    assert error["message"].startswith("'xxx")
    assert "\n[9,996,008 characters are only in the trial's folder]\n" in error["message"]
    assert len(error["message"]) < 4_100 and len(error["traceback"]) < 16_100
    assert 'raise KeyError("x" * 10_000_000' in error["traceback"]
    kept = read_events(events_file(folder), [])
    assert error in [event.get("error") for event in kept]
    assert (folder / ERROR).stat().st_size > 10_000_000


def make_check(folder):
    job = make_job(folder, "fine")
    return replace(job, trial="decay-1", check="weight_decay", labels={"subject": {"framework": "torch"}})


def test_a_check_is_one_event(template, tmp_path):
    (event,) = template.run(make_check(tmp_path))
    assert (event["event"], event["check"], event["trial"], event["passed"]) == (
        "check_ended",
        "weight_decay",
        "decay-1",
        True,
    )
    assert event["subject"] == {"framework": "torch"}
    assert event["seconds"] > 0
    assert event["error"] is None
    assert read_events(events_file(tmp_path / "attempt"), []) == [event]


def test_check_without_a_result(template, tmp_path):
    (event,) = template.run(replace(make_check(tmp_path), check="no_such_check"))
    assert (event["event"], event["trial"], event["error"]["type"]) == ("check_ended", "decay-1", "ModuleNotFoundError")
    assert event["subject"] == {"framework": "torch"}
    assert "passed" not in event
    assert read_events(events_file(tmp_path / "attempt"), [])[-1] == event
    assert template.alive


def test_exception_names_the_users_line(trial):
    events, folder = trial("raising")
    error = events[-1]["error"]
    where, line = error["where"].rsplit(":", 1)
    assert Path(where).name == "troubles.py"
    assert 'raise KeyError("no such thing")' in (HERE / "troubles.py").read_text().splitlines()[int(line) - 1]
    assert 'raise KeyError("no such thing")' in (folder / ERROR).read_text()
    assert error["phase"] == "train"


def test_forked_child_of_training_reports_nothing(trial):
    told, folder = trial("forking")
    assert [event["epoch"] for event in told if event["event"] == "epoch_ended"] == [1, 2]
    assert told[-1]["status"] == "completed"
    child = max(map(int, (folder / OUTPUT).read_text().split()))
    assert child and all_gone([child])
    kept = [json.loads(line)["event"] for line in events_file(folder).read_text().splitlines()]
    assert kept.count("epoch_ended") == 2 and kept.count("trial_ended") == 1


def test_events_have_the_documented_form(trial):
    golden = [json.loads(line) for line in (TESTS / "golden" / "journal.jsonl").read_text().splitlines()]
    real = [event for event in trial("fine")[0] if event["event"] != "trial_audited"]
    assert [event["event"] for event in real] == [event["event"] for event in golden]
    for found, wanted in zip(real, golden, strict=True):
        assert wanted.keys() - found.keys() <= {"recompiles"}, "eager PyTorch compiles nothing"
        for name in ("host", "runtime_conditions"):
            assert wanted.get(name, {}).keys() - found.get(name, {}).keys() == set()
        assert {type(found[name]) for name in ("v", "t", "trial", "attempt")} == {int, str}
    # The trial evaluates its first batch once more before, as compilation; that of the example has no such time.
    first, last = real[1], real[-1]
    assert first["ledger"].keys() - {"compile_evaluate"} == golden[1]["ledger"].keys()
    assert last["ledger"].keys() - {"compile_evaluate"} == golden[-1]["ledger"].keys()
    assert sum(last["ledger"].values()) == pytest.approx(last["wall"], abs=max(0.005, 0.01 * last["wall"]))


@pytest.mark.parametrize(("attribute", "within"), [("fine", {"epochs", "trial"}), ("killed", {"trial"})])
def test_audit_comes_before_the_end(trial, attribute, within):
    told, folder = trial(attribute)
    assert [event["event"] for event in told[-2:]] == ["trial_audited", "trial_ended"]
    audit = told[-2]
    assert (audit["trial"], audit["attempt"], audit["gpus"]) == ("t-r0", 1, [])
    assert audit["within"] in within, "of very short epochs, the whole trial's"
    kept = read_events(events_file(folder), [])
    assert [event for event in kept if event["event"] == "trial_audited"] == [audit]


def test_no_trial_sees_what_another_did(trial, template, tmp_path):
    results = [trial("fine")[0], list(template.run(make_job(tmp_path, "fine")))]
    pids = {events[0]["host"]["pid"] for events in results}
    metrics = [[event["metrics"] for event in events if event["event"] == "epoch_ended"] for events in results]
    assert len(pids) == 2
    assert metrics[0] == metrics[1]


@pytest.mark.slow
def test_a_timeout_ends_the_whole_family(trial):
    _, folder = trial("parent")
    child = int((folder / OUTPUT).read_text().split()[1])
    assert all_gone([child])


def test_what_a_trial_leaves_ends_with_it(template, tmp_path):
    """A child with a session of its own and an empty environment, and temporary files."""
    told = list(template.run(make_job(tmp_path, "careless")))
    assert told[-1]["status"] == "completed"
    child, folder = (tmp_path / "attempt" / OUTPUT).read_text().split()
    assert all_gone([int(child)], 1)
    assert f"sleep (process {child})" in "".join(told[-1]["warnings"]), "a daemon is not killed without a word"
    assert Path(folder).name == "trial" and not Path(folder).exists()


def test_shared_memory_of_a_killed_trial_is_named(template, tmp_path):
    told = list(template.run(make_job(tmp_path, "killed_with_memory")))
    (path,) = map(Path, (tmp_path / "attempt" / OUTPUT).read_text().split())
    try:
        assert told[-1]["status"] == "lost" and str(path) in told[-1]["error"]["message"]
    finally:
        path.unlink()


def test_giving_up_on_a_trial_ends_it(template, tmp_path):
    run = template.run(make_job(tmp_path, "hanging"))
    pid = next(run)["host"]["pid"]
    run.close()
    assert all_gone([pid])
    assert template.alive


SUPERVISOR = """
import json, sys
from raybench.core.job import Job
from raybench.execution.process import ForkServer
template = ForkServer("torch")
for event in template.run(Job.from_json(json.load(open(sys.argv[1])))):
    print(template._process.pid, event.get("host", {}).get("pid"), event.get("status"), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the end of a parent")
@pytest.mark.parametrize("killed", ["supervisor", "fork server"])
def test_nothing_outlives_a_killed_parent(tmp_path, killed):
    """Neither the trial nor what it started in a session of its own, nor its temporary files."""
    job = tmp_path / "job.json"
    job.write_text(json.dumps(make_job(tmp_path, "parent").to_json()))
    (tmp_path / "tmp").mkdir()
    environ = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-c", SUPERVISOR, str(job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as supervisor:
        template, trial = map(int, supervisor.stdout.readline().split()[:2])
        output = tmp_path / "attempt" / OUTPUT
        eventually(lambda: output.exists() and output.read_text().endswith("\n"))
        child = int(output.read_text().split()[1])
        os.kill(supervisor.pid if killed == "supervisor" else template, signal.SIGKILL)
        try:
            assert all_gone([template, trial])
            if killed == "supervisor":
                assert all_gone([child])
                kept = "raybench-torchinductor"  # torch's cache, which is for the next trial
                eventually(lambda: all(path.name.startswith(kept) for path in (tmp_path / "tmp").iterdir()))
            else:
                assert "lost" in (line.split()[-1] for line in supervisor.stdout)  # the child keeps it open
        finally:
            for pid in filter(alive, (child, trial, template)):
                os.kill(pid, signal.SIGKILL)


def test_driver_that_ends_while_ray_is_loaded(tmp_path):
    """The process of Ray does not wait for the end of its imports, which take long on a busy machine."""
    (tmp_path / "ray.py").write_text("open('loads', 'w').close()\nimport time\ntime.sleep(60)")
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    here, there = socket.socketpair()
    command = [sys.executable, "-P", "-m", "raybench.execution.ray_process", str(there.fileno())]
    how = {"pass_fds": [there.fileno()], "cwd": tmp_path, "env": environ, "start_new_session": True}
    with subprocess.Popen(command, **how) as process:
        there.close()
        eventually((tmp_path / "loads").exists)
        here.close()
        assert process.wait(20) == 0


GIB = 1 << 30
ABORT = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc"
THREADS = "libgomp: Thread creation failed: Resource temporarily unavailable"


@pytest.mark.parametrize(
    ("status", "memory_limit", "by_kernel", "output", "kind"),
    [
        (-signal.SIGKILL, 0, True, "", "oom"),
        (-signal.SIGKILL, GIB, False, ABORT, "lost"),
        (None, 0, False, "", "lost"),
        (-signal.SIGABRT, 0, False, ABORT, "oom"),
        (-signal.SIGABRT, GIB, False, "assertion failed", "failed"),
        (1, GIB, False, THREADS, "oom"),
        (1, 0, False, THREADS, "failed"),
    ],
)
def test_classification_of_deaths(tmp_path, status, memory_limit, by_kernel, output, kind):
    job = make_job(tmp_path, "fine", memory_limit=memory_limit)
    assert classify_exit(status, job, by_kernel, 5, output)[0] == kind


def test_a_death_without_memory_has_its_numbers(tmp_path):
    job = make_job(tmp_path, "fine", memory_limit=GIB)
    assert classify_exit(-signal.SIGABRT, job, False, 7, ABORT)[1] == {
        "type": "OutOfMemory",
        "message": "the process was ended by SIGABRT when memory ran out",
        "peak_bytes": 7,
        "limit_bytes": GIB,
    }

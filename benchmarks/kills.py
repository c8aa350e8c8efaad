"""What does a grid lose if one of its processes is killed? SIGKILL at seeded random moments, then the same command.

    python benchmarks/kills.py [--kills 30] [--seed 0] [--parent shell|init] [--second-node] [--targets raylet,gcs]

The real command runs a grid of eight short trials. Its driver, the process of Ray, Tune's actor of a trial, the node's
actor, a trial, and Ray's raylet, agent and GCS server are killed in turn; the same command follows until the grid is
done, and the next grid after it until there were enough kills. Each trial leaves a process with its own session and
environment, as careless code does. Counted are:

- lost: trials that completed according to their own file, and are not in the results at the end;
- doubled: trials that completed twice, attempts with two MLflow runs, points of a metric that are there twice;
- RUNNING: MLflow runs without an end when a command that had begun to run trials has ended by itself;
- hung: commands that did not end;
- silent: deaths of Ray that were not reported within 30 s, with the remedy and exit status 1;
- left: processes 5 s after a command's end, and temporary files when a grid is done.

`--parent init` starts the command so that its parent is process 1, as after `nohup … &` and logout. `--second-node`
runs it on a cluster of two nodes with an address each (Linux namespaces, as root), kills what runs on either, and the
second node as a whole, which comes back at once.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.two_nodes import TwoNodes, missing

TARGETS = ("driver", "ray process", "tune's actor", "node's actor", "trial", "raylet", "agent", "gcs")
CLUSTER_TARGETS = (*TARGETS[:5], "second node's trial", "second node's actor", "second node")
RAY_TARGETS = ("ray process", "raylet", "agent", "gcs")
PROGRAMS = {"raylet": "/raylet/raylet", "agent": "ray::DashboardAgent", "gcs": "/gcs/gcs_server"}
ACTOR = "ray::GridTrial"
FAULTS = ("lost", "doubled", "RUNNING", "hung", "silent", "left", "exit status")
NOTICE_S, LEFT_S, HUNG_S = 30.0, 5.0, 300.0
TRIALS = 8
AGAIN = "run the same command again"

GRID = """
name: kills
workload: careless.py:workload
epochs: 8
batch_size: 16
cpus: 1
threads: 1
retries: 2
axes:
  device: [cpu]
  learning_rate: [0.1, 0.2, 0.3, 0.4]
repeats: 2
"""

WORKLOAD = """
import subprocess
import time

import numpy as np
import torch

from raybench import Data, Split, Workload


def data(root):
    inputs = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    return Data(Split(inputs, (inputs[:, 0] > 0).astype(int)), Split(inputs, (inputs[:, 0] > 0).astype(int)))


class Slow(torch.nn.Linear):
    left = None

    def forward(self, inputs):
        if self.training and torch.is_grad_enabled():
            Slow.left = Slow.left or subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
            time.sleep(0.03)
        return super().forward(inputs)


workload = Workload(model=lambda: Slow(1, 2), data=data)
"""

COMMAND = """
import os, sys
if sys.argv[1] == "init" and os.fork():
    os._exit(0)
os.setsid()
open("pid.new", "w").write(str(os.getpid()))
os.rename("pid.new", "pid")
from raybench.cli import main
sys.argv[1:] = ["grid", "kills.yaml", "--results", "results", *sys.argv[2:]]
try:
    status = main()
except SystemExit as end:
    status = end.code
open("status", "w").write(str(status or 0))
"""
"""Runs the command and keeps its exit status, which nobody can wait for if process 1 is its parent."""


def commands(*roots: int) -> dict[psutil.Process, list[str]]:
    """Processes and their descendants, with their command lines."""
    lines: dict[psutil.Process, list[str]] = {}
    for root in roots:
        with suppress(psutil.Error):
            leader = psutil.Process(root)
            for process in (leader, *leader.children(recursive=True)):
                with suppress(psutil.Error):
                    lines[process] = process.cmdline()
    return lines


def find(target: str, *roots: int) -> psutil.Process | None:
    """The process that a kill is meant for, among these and their descendants; None if there is none now."""
    family = commands(*roots)
    if target in ("driver", "second node"):
        return next(iter(family), None)
    servers = {process for process, line in family.items() if "raybench.execution.fork_server" in line}
    with suppress(psutil.Error):
        if target == "ray process":
            return next((each for each, line in family.items() if "raybench.execution.ray_process" in line), None)
        if target.endswith("trial"):
            return next((each for each in servers if each.parent() in servers), None)
        if target == "tune's actor":
            return next((each for each, line in family.items() if line and line[0].startswith(ACTOR)), None)
        if target.endswith("actor"):  # of a node
            return next((each.parent() for each in servers if each.parent() not in servers), None)
        return next(
            (each for each, line in family.items() if line and line[0].strip().endswith(PROGRAMS[target])), None
        )
    return None


def running(process: psutil.Process) -> bool:
    """Return whether it runs, and is not a zombie."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def completed(grid: Path) -> Counter[str]:
    """How often each trial has completed, by the files of its attempts."""
    files = (grid / "results" / "kills" / "attempts").glob("*/*.jsonl")
    return Counter(path.parent.name for path in files if '"status":"completed"' in path.read_text().replace(" ", ""))


def executions(grid: Path) -> int:
    """Number of commands that have begun to run trials."""
    return len([*(grid / "results" / "kills" / "executions").glob("*.json")])


class Kills:
    """A series of kills."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.faults: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.commands, self.grids, self.noticed_s = 0, 0, []
        self.typical_s = 20.0
        self.temporary = Path(tempfile.gettempdir()) / f"rk-{os.getpid()}"
        self.cluster: TwoNodes | None = None

    def fault(self, kind: str, what: object) -> None:
        """Count something that must not be."""
        self.faults[kind] += 1
        print(f"    FAULT {kind}: {what}", flush=True)

    def run(self) -> None:
        """Run grids until there were enough kills and the last grid is done."""
        self.temporary.mkdir(exist_ok=True)
        if self.options.second_node:
            self.options.folder.mkdir(parents=True, exist_ok=True)
            self.cluster = TwoNodes(Path(tempfile.mkdtemp()), self.options.folder)
            self.cluster.environ["TMPDIR"] = str(self.temporary)
            self.cluster.start_head()
            self.cluster.start_second()
        try:
            self.run_grids()
        finally:
            if self.cluster:
                self.cluster.close()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def run_grids(self) -> None:
        """Run grids, and look at what each leaves."""
        while self.kills.total() < self.options.kills:
            grid = self.options.folder / f"grid-{self.grids}"
            grid.mkdir(parents=True)
            (grid / "kills.yaml").write_text(GRID)
            (grid / "careless.py").write_text(WORKLOAD)
            faults_before = self.faults.total()
            while not self.command(grid):
                pass
            self.grids += 1
            if len(completed(grid)) != TRIALS:
                self.fault("lost", f"{len(completed(grid))} of {TRIALS} trials are in the results")
            kept = ("torchind", "raybench-torchind", "db_init_")  # caches, which stay
            for path in self.temporary.iterdir():
                if not path.name.startswith(kept):
                    self.fault("left", path)
                    shutil.rmtree(path, ignore_errors=True)
            if self.faults.total() == faults_before:
                shutil.rmtree(grid)

    def roots(self, target: str, driver: psutil.Process) -> list[int]:
        """The processes among whose descendants a target is."""
        if self.cluster is None or target in ("driver", "ray process"):
            return [driver.pid]
        if target.startswith("second node"):
            return self.cluster.processes_of_second()
        return [driver.pid, self.cluster.head]

    def command(self, grid: Path) -> bool:
        """Run the command once, with kills; return whether the grid is done."""
        environ = {**os.environ, "TMPDIR": str(self.temporary), "RAYBENCH_KILLS": str(grid)}
        environ.pop("MLFLOW_TRACKING_URI", None)
        address: list[str] = []
        if self.cluster:
            environ |= {name: value for name, value in self.cluster.environ.items() if name.startswith("RAY_")}
            address = ["--address", self.cluster.address]
        for name in ("pid", "status"):
            (grid / name).unlink(missing_ok=True)
        before, begun_before = completed(grid), executions(grid)
        self.commands += 1
        begun, output = time.monotonic(), grid / "output.txt"
        with output.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, self.options.parent, *address],
                cwd=grid,
                env=environ,
                stdout=out,
                stderr=out,
            )
        while not (grid / "pid").exists():
            time.sleep(0.02)
        if self.options.parent == "init":
            process.wait()
        driver = psutil.Process(int((grid / "pid").read_text()))
        if self.options.parent == "init" and driver.ppid() != 1:
            sys.exit(f"the parent of the command is process {driver.ppid()}, not 1")
        seen: set[psutil.Process] = set()
        target = ""
        while running(driver) and self.kills.total() < self.options.kills:
            target = self.targets[self.kills.total() % len(self.targets)]
            victim = self.wait_for(target, driver, begun)
            if victim is None:
                break
            family = set(commands(victim.pid))
            seen |= set(commands(driver.pid)) | family
            words = len(output.read_text())
            with suppress(psutil.Error):
                if self.cluster and target == "second node":
                    self.cluster.kill_second()
                else:
                    victim.kill()
                self.kills[target] += 1
                print(f"kill {self.kills.total():>3}: {target} after {time.monotonic() - begun:.1f} s", flush=True)
            if self.cluster and target == "second node":
                self.cluster.start_second()
            if target in RAY_TARGETS:
                self.wait_for_notice(driver, output, words, target)
            if target in (*RAY_TARGETS, "driver"):  # the command ends
                break
        deadline = time.monotonic() + HUNG_S
        while running(driver) and time.monotonic() < deadline:
            seen |= set(commands(driver.pid))
            time.sleep(0.5)
        if running(driver):
            self.fault("hung", output.read_text()[-500:])
            driver.kill()
        process.wait()
        self.look_for_leftovers(seen)
        again = {trial: completed(grid)[trial] for trial in before if completed(grid)[trial] > before[trial]}
        if again:
            self.fault("doubled", f"finished trials ran again: {again}")
        status = int((grid / "status").read_text()) if (grid / "status").exists() else -signal.SIGKILL
        if status == -signal.SIGKILL:
            if target != "driver":
                self.fault("exit status", f"none after the kill of a {target}: {output.read_text()[-1000:]}")
            return False
        if executions(grid) > begun_before:  # else it ended before it read the results
            self.look_at_mlflow(grid)
        if status not in (0, 1):
            self.fault("exit status", f"{status}: {output.read_text()[-1000:]}")
        if status == 0:
            self.typical_s = time.monotonic() - begun
        return status == 0

    @property
    def targets(self) -> list[str]:
        """What is killed in turn."""
        default = CLUSTER_TARGETS if self.options.second_node else TARGETS
        return self.options.targets.split(",") if self.options.targets else list(default)

    def wait_for(self, target: str, driver: psutil.Process, begun: float) -> psutil.Process | None:
        """Wait for the moment of the next kill; return its victim, or None if the command ends before."""
        chance = random.Random(f"{self.options.seed}/{self.kills.total()}").random()
        moment = begun + chance * self.typical_s if target == "driver" else None
        while running(driver):
            victim = find(target, *self.roots(target, driver))
            if moment is None and victim:
                moment = time.monotonic() + (10 if target in RAY_TARGETS else 2) * chance
            if moment is not None and victim and time.monotonic() >= moment:
                return victim
            time.sleep(0.05)
        return None

    def wait_for_notice(self, driver: psutil.Process, output: Path, words: int, target: str) -> None:
        """Wait until the command has said that Ray ended and what to do."""
        begun = time.monotonic()
        while AGAIN not in " ".join(output.read_text()[words:].lower().split()):
            if time.monotonic() - begun > NOTICE_S or not running(driver):
                time.sleep(0.5)
                is_done = (output.parent / "status").exists() and (output.parent / "status").read_text() == "0"
                if not is_done and AGAIN not in " ".join(output.read_text()[words:].lower().split()):
                    self.fault("silent", f"{target}: {output.read_text()[words:]}")
                return
            time.sleep(0.05)
        self.noticed_s.append(time.monotonic() - begun)

    def look_for_leftovers(self, seen: set[psutil.Process]) -> None:
        """Look for processes that outlive the command."""
        deadline = time.monotonic() + LEFT_S
        while (left := [each for each in seen if running(each)]) and time.monotonic() < deadline:
            time.sleep(0.1)
        for process in left:
            with suppress(psutil.Error):
                self.fault("left", f"{process.pid}: {' '.join(process.cmdline())[:200]}")
                process.kill()

    def look_at_mlflow(self, grid: Path) -> None:
        """Look for runs without an end and for doubled entries."""
        with sqlite3.connect(f"file:{grid / 'results' / 'mlflow.db'}?mode=ro", uri=True) as store:
            for run in store.execute("select run_uuid, name from runs where status = 'RUNNING'"):
                self.fault("RUNNING", run)
            doubled = (
                store.execute(
                    "select value, count(*) from tags where key = 'raybench.run' group by 1 having count(*) > 1"
                ).fetchall()
                + store.execute(
                    "select run_uuid, key, step, count(*) from metrics group by 1, 2, 3 having count(*) > 1"
                ).fetchall()
            )
        for what in doubled:
            self.fault("doubled", what)


def main() -> int:
    """Run the series and print the counts; the status is 1 if there was any fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", help="what is killed in turn, with commas")
    parser.add_argument("--parent", choices=("shell", "init"), default="shell", help="parent of the command")
    parser.add_argument("--second-node", action="store_true", help="on a cluster of two nodes")
    parser.add_argument("--folder", type=Path, help="for the grids; those with a fault are kept")
    options = parser.parse_args()
    options.folder = (options.folder or Path(tempfile.mkdtemp(prefix="kills-"))).absolute()
    if options.second_node and (reason := missing()):
        sys.exit(reason)
    kills, begun = Kills(options), time.monotonic()
    kills.run()
    by_target = ", ".join(f"{count} {target}" for target, count in kills.kills.items())
    where = ", two nodes" if options.second_node else ""
    print(f"{kills.kills.total()} kills ({by_target}), parent {options.parent}{where}, seed {options.seed}:")
    print(f"{kills.grids} grids of {TRIALS} trials, {kills.commands} commands, {time.monotonic() - begun:.0f} s")
    print(", ".join(f"{name} {kills.faults[name]}" for name in FAULTS))
    if kills.noticed_s:
        print(f"the end of Ray was reported after {min(kills.noticed_s):.1f} to {max(kills.noticed_s):.1f} s")
    return int(bool(kills.faults))


if __name__ == "__main__":
    sys.exit(main())

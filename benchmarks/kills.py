"""What does a grid lose when something of it is killed? SIGKILL at seeded random moments, and then the same command.

    python benchmarks/kills.py [--kills 100] [--seed 0] [--epochs 8] [--targets raylet,gcs] [--folder DIR] [--json FILE]

A grid of eight short trials, two at a time where there are two cores, is run by the real command. Its driver, a Ray
worker, a trial's process, and Ray's raylet, agent and GCS server are killed in turn, each at a moment of its own; the
same command follows until the grid is done, and another grid after it until there were enough kills. Each trial leaves
a process with a session and an environment of its own, as careless code does. Looked at after every kill and every end
of a command:

- finished trials lost: a trial of a grid that is done has no file that says that it completed;
- finished trials run again: an attempt began after one that completed;
- runs left RUNNING: in MLflow, once a command has come to its end;
- doubled: an attempt with two runs, or a point of a metric that is there twice;
- processes left: 5 s after a kill, of the family of what was killed; 5 s after a command's end, of all it had started;
- files left: in the system's temporary folder, once a grid is done;
- not noticed: the command did not say within 30 s that Ray's raylet, agent or GCS server had ended.

The folder keeps what was done: the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

MARK = "RAYBENCH_KILLS"
TARGETS = ("driver", "worker", "trial", "raylet", "agent", "gcs")
# A GCS that the command started for calls to one that has ended: it has that one's port, and Ray chooses its own.
STAND_IN = re.compile(rb"/gcs/gcs_server\0.*--gcs_server_port=[1-9]", re.DOTALL)
RAYS_OWN = {"raylet": b"/raylet/raylet", "agent": b"ray::DashboardAgent", "gcs": b"/gcs/gcs_server"}
"""How the command lines of Ray's own processes end, before their options."""

NOTICED = 30.0
"""Seconds in which the command has to say that one of them has ended."""

PATIENCE = 5.0
"""Seconds after which no process may be left."""

TRIALS = 8

GRID = """
name: kills
workload: careless.py:workload
epochs: EPOCHS
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


def table() -> dict[int, tuple[int, str, bytes]]:
    """Every process: its parent, when it began, its command line."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(errors="replace").rpartition(") ")[2].split()
            if fields[0] not in "ZX":
                found[int(folder.name)] = int(fields[1]), fields[19], (folder / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
    return found


def family(leader: int) -> dict[int, str]:
    """A process and all that descend from it now, each with when it began."""
    there = table()
    found = {leader} & there.keys()
    while more := {pid for pid, (parent, *_) in there.items() if parent in found} - found:
        found |= more
    return {pid: there[pid][1] for pid in found}


def marked(mark: str) -> dict[int, str]:
    """The processes that were started with a mark in their environment."""
    found = {}
    for pid, (_, began, _) in table().items():
        try:
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found[pid] = began
        except OSError:
            continue
    return found


def left_of(processes: dict[int, str], mark: str = "") -> list[str]:
    """What is still there after `PATIENCE`, by its command line; as soon as nothing is, nothing."""
    deadline = time.monotonic() + PATIENCE
    while True:
        there = table()
        wanted = processes | (marked(mark) if mark else {})
        left = [pid for pid, began in wanted.items() if pid in there and there[pid][1] == began]
        if not left or time.monotonic() > deadline:
            return [f"{pid}: {there[pid][2].replace(bytes(1), b' ').decode(errors='replace')}" for pid in left]
        time.sleep(0.1)


def find(target: str, driver: int) -> int | None:
    """The process of a running command that a kill is meant for; None where there is none now."""
    if target == "driver":
        return driver
    there = table()
    own = family(driver)
    if target in RAYS_OWN:
        commands = {pid: there.get(pid, (0, "", b""))[2] for pid in own}
        programs = {
            pid: command.split(b"\0")[0].strip() for pid, command in commands.items() if not STAND_IN.search(command)
        }
        return next((pid for pid, program in programs.items() if program.endswith(RAYS_OWN[target])), None)
    templates = {
        pid for pid in own if b"raybench.execution.fork_server" in there.get(pid, (0, "", b""))[2].split(b"\0")
    }
    guards = [pid for pid in templates if there[pid][0] not in templates]
    if target == "worker":
        return next((there[pid][0] for pid in guards), None)
    loaded = {pid for pid in templates if there[pid][0] in guards}
    return next((pid for pid in templates if there[pid][0] in loaded), None)


def events(path: Path) -> list[dict]:
    """The events of an attempt, as far as they are whole."""
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


class Kills:
    """The state of the whole, kept in its folder."""

    def __init__(self, folder: Path, seed: int, wanted: int, epochs: int, targets: Sequence[str]) -> None:
        self.folder, self.seed, self.wanted, self.epochs, self.targets = folder, seed, wanted, epochs, targets
        self.path = folder / "state.json"
        self.state = {
            "seed": seed,
            "kills": 0,
            "grids": 0,
            "commands": 0,
            "by_target": {},
            "seconds": 0.0,
            "noticed": {},
        }
        self.state |= {"faults": {}, "told": [], "faults_before": 0, "duration": 20.0}
        if self.path.exists():
            self.state = json.loads(self.path.read_text())
            if self.state["seed"] != seed:
                sys.exit(f"{self.path}: was begun with --seed {self.state['seed']}")
        self.mark = f"{MARK}={folder}"
        self.of_old_rays: set[int | None] = set()
        self.grid = folder / f"grid-{self.state['grids']}"
        self.temporary = Path(tempfile.gettempdir()) / f"rk-{os.getpid()}"

    def fault(self, kind: str, what: object) -> None:
        """Note something that must not be."""
        self.state["faults"][kind] = self.state["faults"].get(kind, 0) + 1
        self.state["told"].append(f"{kind}: {what}")
        print(f"    FAULT {kind}: {what}", flush=True)

    def run(self) -> None:
        """Grids with kills, until there were enough and the last grid is done."""
        self.temporary.mkdir(exist_ok=True)
        while self.state["kills"] < self.wanted or self.grid.exists():
            if not self.grid.exists():
                self.grid.mkdir()
                self.state["faults_before"] = len(self.state["told"])
            (self.grid / "kills.yaml").write_text(GRID.replace("EPOCHS", str(self.epochs)))
            (self.grid / "careless.py").write_text(WORKLOAD)
            begun = time.monotonic()
            done = self.command()
            self.state["seconds"] += time.monotonic() - begun
            if done:
                self.look_at_the_end()
                if len(self.state["told"]) == self.state["faults_before"]:
                    shutil.rmtree(self.grid)
                else:
                    self.grid.rename(self.grid.with_name(f"{self.grid.name}-with-faults"))
                self.state["grids"] += 1
                self.grid = self.folder / f"grid-{self.state['grids']}"
            self.path.write_text(json.dumps(self.state, indent=1))
        shutil.rmtree(self.temporary, ignore_errors=True)

    def command(self) -> bool:
        """One start of the command, with kills; whether the grid is done."""
        name, _, value = self.mark.partition("=")
        environ = {**os.environ, name: value, "TMPDIR": str(self.temporary)}
        environ.pop("MLFLOW_TRACKING_URI", None)
        command = [sys.executable, "-m", "raybench", "grid", "kills.yaml", "--results", "results"]
        before = self.finished()
        self.state["commands"] += 1
        begun = time.monotonic()
        with (self.grid / "output.txt").open("ab") as output:
            driver = subprocess.Popen(
                command, cwd=self.grid, env=environ, stdout=output, stderr=output, start_new_session=True
            )
        seen: dict[int, str] = {}
        while driver.poll() is None and self.state["kills"] < self.wanted:
            number = self.state["kills"]
            target = self.targets[number % len(self.targets)]
            if not self.wait(driver, target, random.Random(f"{self.seed}/{number}").random(), begun):
                break
            victim = find(target, driver.pid)
            if victim is None:
                continue
            output = self.grid / "output.txt"
            self.said = output.read_text().count("was ended")
            dying = family(victim)
            rays_own = {find(name, driver.pid) for name in RAYS_OWN} if target in RAYS_OWN else set()
            seen |= family(driver.pid)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:  # it has just ended by itself
                continue
            self.state["kills"] += 1
            counted = self.state["by_target"]
            counted[target] = counted.get(target, 0) + 1
            at = time.monotonic() - begun
            print(f"kill {number + 1:>3}: {target} after {at:.1f} s, with {len(dying)} processes", flush=True)
            if target in RAYS_OWN:
                self.wait_for_notice(driver, target)
                self.of_old_rays |= rays_own
            if target == "driver":
                driver.wait()
            for left in left_of(dying):
                self.fault("processes left", f"of a {target}: {left}")
        seen |= family(driver.pid)
        code = driver.wait()
        for left in left_of(seen, self.mark):
            self.fault("processes left", f"after a command: {left}")
            os.kill(int(left.split(":")[0]), signal.SIGKILL)
        self.look(before)
        if code == -signal.SIGKILL:
            return False
        self.state["duration"] = time.monotonic() - begun
        self.look_at_mlflow()
        if code not in (0, 1):
            self.fault("exit status", f"{code}: {(self.grid / 'output.txt').read_text()[-2000:]}")
            return True
        return code == 0

    def wait_for_notice(self, driver: subprocess.Popen, target: str) -> None:
        """Note how long it takes until the command says that a process of Ray's has ended."""
        begun, output = time.monotonic(), self.grid / "output.txt"
        while output.read_text().count("was ended") <= self.said and driver.poll() is None:
            if time.monotonic() > begun + NOTICED:
                self.fault("not noticed", target)
                return
            time.sleep(0.02)
        took = time.monotonic() - begun
        self.state["noticed"].setdefault(target, []).append(round(took, 2))
        print(f"          noticed after {took:.1f} s", flush=True)

    def wait(self, driver: subprocess.Popen, target: str, chance: float, begun: float) -> bool:
        """Wait for a moment: of a driver's life, or after what is to be killed is there; False where that is over."""
        moment = begun + chance * self.state["duration"] if target == "driver" else None
        while driver.poll() is None:
            # What is left of a Ray whose end was noticed is ended without a further word.
            if moment is None and find(target, driver.pid) not in {None, *self.of_old_rays}:
                moment = time.monotonic() + (10 if target in RAYS_OWN else 2) * chance
            if moment is not None and time.monotonic() >= moment:
                return True
            time.sleep(0.02)
        return False

    def finished(self) -> set[tuple[str, int]]:
        """The attempts that have completed."""
        records = (self.grid / "results" / "kills" / "attempts").glob("*/*.jsonl")
        ends = [event for path in records for event in events(path) if event.get("status") == "completed"]
        return {(event["trial"], event["attempt"]) for event in ends}

    def look(self, before: set[tuple[str, int]]) -> None:
        """Whether what had completed before a command was left alone by it."""
        records = (self.grid / "results" / "kills" / "attempts").glob("*/*.jsonl")
        tried = {(event["trial"], event["attempt"]) for path in records for event in events(path)[:1]}
        for trial, attempt in before:
            if any(other == trial and number > attempt for other, number in tried):
                self.fault("finished trials run again", trial)

    def look_at_mlflow(self) -> None:
        """Whether a command that came to its end left runs as they should be."""
        with sqlite3.connect(f"file:{self.grid / 'results' / 'mlflow.db'}?mode=ro", uri=True) as store:
            runs = store.execute("select run_uuid, name from runs where status = 'RUNNING'").fetchall()
            keys = store.execute(
                "select value, count(*) from tags where key = 'raybench.run' group by 1 having count(*) > 1"
            ).fetchall()
            points = store.execute(
                "select run_uuid, key, step, count(*) from metrics group by 1, 2, 3 having count(*) > 1"
            ).fetchall()
        for run in runs:
            self.fault("runs left RUNNING", run)
        for what in keys + points:
            self.fault("doubled", what)

    def look_at_the_end(self) -> None:
        """Whether a grid that is done has every trial, once."""
        completed = Counter(trial for trial, _ in self.finished())
        if len(completed) != TRIALS:
            self.fault("finished trials lost", f"{len(completed)} of {TRIALS} are completed")
        for trial, count in completed.items():
            if count > 1:
                self.fault("finished trials run again", f"{trial}: completed {count} times")
        kept = ("torchind", "raybench-torchind", "db_init_")  # caches, which stay
        left = [path.name for path in self.temporary.iterdir() if not path.name.startswith(kept)]
        for name in left:
            inside = sorted(str(path.relative_to(self.temporary)) for path in (self.temporary / name).rglob("*"))
            self.fault("files left", f"{name}: {len(inside)} files: {', '.join(inside[:20])}")
            shutil.rmtree(self.temporary / name, ignore_errors=True)


def main() -> int:
    """Run, and say what came of it; 1 where anything was lost or left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", default=",".join(TARGETS), help="what is killed in turn")
    parser.add_argument("--epochs", type=int, default=8, help="of each trial")
    parser.add_argument("--folder", type=Path, default=Path("kills"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    kills = Kills(options.folder.absolute(), options.seed, options.kills, options.epochs, options.targets.split(","))
    kills.run()
    state = kills.state
    faults = (
        "finished trials lost",
        "finished trials run again",
        "runs left RUNNING",
        "doubled",
        "processes left",
        "not noticed",
    )
    counts = {name: state["faults"].get(name, 0) for name in (*faults, "files left", "exit status")}
    by_target = ", ".join(f"{count} {target}" for target, count in state["by_target"].items())
    done = f"{state['kills']} kills ({by_target}) in {state['grids']} grids of {TRIALS} trials"
    print(f"{done}, {state['commands']} commands, {state['seconds']:.0f} s, seed {options.seed}")
    for name, count in counts.items():
        print(f"  {name:<28}{count:>4}")
    for target, seconds in state["noticed"].items():
        print(f"  {target}: noticed after {min(seconds)} to {max(seconds)} s ({len(seconds)} times)")
    if options.json:
        options.json.write_text(json.dumps(state | {"faults": counts}, indent=1) + "\n")
    return int(any(counts.values()))


if __name__ == "__main__":
    sys.exit(main())

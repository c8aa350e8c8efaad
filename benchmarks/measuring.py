"""What does it cost a trial to be measured? Epoch times with audit, journals and MLflow, and without any of them.

    python benchmarks/measuring.py [--seconds 12] [--steps N] [--rounds 6] [--json FILE]

The same trial (digits_cnn on all of this machine's cores, torch) runs again and again, each in a fresh process of one
fork template. Every round is two trials: one as a grid runs it, with the sampler beside it, its own journal, the grid's
journal and the thread that writes to MLflow (sqlite), and one with none of these; which of them is first changes every
round, so that a drift of the machine falls on both alike. Ray is in neither. Printed: the ratio of the epoch times,
measured ÷ unmeasured, as the geometric mean over the rounds with the 95 % interval of a paired t on logarithms: of each
trial's median steady epoch and of its mean one, and of the processor time of its epochs; and, read off directly, the
processor time of the sampler's own thread, and of the whole process that runs trials, for each second of a trial. Where
all share one core, this is what a trial waits for; where the machine is too noisy for the ratios, this still tells.

On a machine that others use too, `taskset -c 1 python benchmarks/measuring.py` is less noisy and harder: the trial, the
sampler and the writer then share one core.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from raybench import datasets
from raybench.analysis import rules
from raybench.analysis.results import Attempt, attempts
from raybench.cell import DEFAULTS, make_cell
from raybench.devices.host import model_name, usable_cores
from raybench.execution import process
from raybench.tracking.journal import Journal, attempt_folder
from raybench.tracking.store import resolve
from raybench.tracking.writer import MlflowWriter
from raybench.trial.events import Event
from raybench.trial.job import Job
from raybench.workloads import read_reference

GRID = "measuring"
CALIBRATION = 4
"""Epochs of the first trial, which tells how many epochs a trial is to have."""

WITHOUT = "without"

TEMPLATE = f"""
import sys
from raybench.execution import template
from raybench.trial import record

keep = record.keep
record.keep = lambda folder, event: None if "{WITHOUT}" in folder.parts else keep(folder, event)
template.main(sys.argv[1])
"""
"""The fork template, whose trials keep no journal of their own in a folder that says so."""

AUDIT = process.Audit


class NoAudit(process.Audit):
    """In the place of the sampler: reads nothing."""

    def begin(self, leader: int) -> None:
        """Start nothing."""


def start_template(folder: Path) -> process.TemplateProcess:
    program = folder / "template.py"
    program.write_text(TEMPLATE)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$3"\n')
    script.chmod(0o755)
    return process.TemplateProcess("torch", str(script))


def make_job(folder: Path, trial: str, attempt: int, epochs: int, steps: int | None) -> Job:
    info, cores = read_reference("digits_cnn", folder), usable_cores()
    cell = make_cell(
        workload=info.identity(),
        data={"name": "digits", "digest": None, "examples": {"train": None, "val": None}},
        device={"kind": "cpu", "model": model_name(), "count": len(cores), "replicas": 1, "threads": len(cores)},
        engine={"name": "torch", "version": 1, "framework_version": metadata.version("torch")},
        resolved={**DEFAULTS, "framework": "torch", "epochs": epochs, "batch_size": 64, "steps_per_epoch": steps},
    )
    own = str(attempt_folder(folder, trial, attempt))
    return Job(trial, attempt, 0, 0, cell, info.to_json(), str(datasets.data_root()), own, cores)


class Measured:
    """Runs trials as a grid does: what is left to write of the trial before falls to each."""

    def __init__(self, folder: Path, writer: MlflowWriter) -> None:
        self._folder, self._writer, self._number = folder, writer, 0
        self._journal = Journal(folder / "journal.jsonl")
        self._before: list[Event] = []

    def run(self, template: process.TemplateProcess, epochs: int, steps: int | None) -> list[Event]:
        """The events of one trial."""
        process.Audit = AUDIT
        self._number += 1
        job = make_job(self._folder, "c-r0", self._number, epochs, steps)
        for event in self._before:
            self._writer.put(event | {"trial": "c-r1", "attempt": self._number})
        told = []
        for event in template.run(job):
            self._journal.append(event)
            self._writer.put(event)
            told.append(event)
        shutil.copytree(job.folder, attempt_folder(self._folder, "c-r1", self._number + 1))
        self._before = told
        return told


def run_unmeasured(template: process.TemplateProcess, folder: Path, epochs: int, steps: int | None) -> list[Event]:
    process.Audit = NoAudit
    return list(template.run(make_job(folder / WITHOUT, "c-r0", 1, epochs, steps)))


def record_of(told: list[Event]) -> Attempt:
    (attempt,) = attempts(told).values()
    assert attempt.status == "completed", attempt.error
    return attempt


def quantities(attempt: Attempt) -> dict[str, float]:
    """Seconds of an epoch after the warm-up: the median, the mean, and of the processor."""
    steady = [epoch for epoch in attempt.epochs if epoch.epoch > attempt.warmup_epochs]
    median = rules.steady(attempt)
    assert median and attempt.wall
    return {
        "median_epoch_s": median,
        "mean_epoch_s": statistics.fmean(epoch.ledger["train"] + epoch.ledger["input_wait"] for epoch in steady),
        "epoch_cpu_s": statistics.fmean(epoch.cpu_s or 0.0 for epoch in steady),
        "wall_s": attempt.wall,
    }


def ratio(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The geometric mean of the pairs' ratios, and its 95 % interval."""
    logs = [math.log(measured / unmeasured) for measured, unmeasured in pairs]
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.fmean(logs)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def rounds_of(folder: Path, seconds: float, steps: int | None, count: int) -> list[dict[str, Any]]:
    template = start_template(folder)
    writer = MlflowWriter(resolve(folder, f"sqlite:///{folder}/mlflow.db"), GRID, folder)
    writer.wait_open()
    measured = Measured(folder, writer)
    found = []
    try:
        first = quantities(record_of(measured.run(template, CALIBRATION, steps)))
        epochs = math.ceil(seconds / first["mean_epoch_s"])
        for number in range(1, count + 1):
            pair: dict[str, Any] = {}
            for name in sorted(("measured", "unmeasured"), reverse=bool(number % 2)):
                while writer.left:  # nothing of a trial falls to one that is not measured
                    time.sleep(0.05)
                cpu = time.process_time()
                if name == "measured":
                    told = measured.run(template, epochs, steps)
                else:
                    told = run_unmeasured(template, folder, epochs, steps)
                attempt = record_of(told)
                pair[name] = quantities(attempt)
                pair[name]["driver_cpu_share"] = (time.process_time() - cpu) / pair[name]["wall_s"]
                if attempt.audit:
                    pair["sampler_cpu_share"] = attempt.audit["cost_cpu_s"] / pair[name]["wall_s"]
                    host = attempt.audit["host"]
                    pair["other_cpu_share"] = host.get("other_cpu_s", 0.0) / attempt.audit["seconds"]
            found.append(pair)
            print(number, json.dumps(pair), file=sys.stderr, flush=True)
    finally:
        writer.close()
        template.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12.0, help="about how long a trial's training is to take")
    parser.add_argument("--steps", type=int, help="in an epoch; by default the whole data set, 22")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rb-", ignore_cleanup_errors=True) as folder:
        found = rounds_of(Path(folder), options.seconds, options.steps, options.rounds)
    walls = [pair[name]["wall_s"] for pair in found for name in ("measured", "unmeasured")]
    cores = f"{len(usable_cores())} of {os.cpu_count()} cores"
    print(f"{len(found)} rounds, trials of {min(walls):.1f} to {max(walls):.1f} s on {cores}")
    for name in ("median_epoch_s", "mean_epoch_s", "epoch_cpu_s"):
        value, low, high = ratio([(pair["measured"][name], pair["unmeasured"][name]) for pair in found])
        print(f"{name:<16} measured ÷ unmeasured {value:.4f} (95 %: {low:.4f} to {high:.4f})")
    sampler = statistics.fmean(pair["sampler_cpu_share"] for pair in found)
    print(f"the sampler's thread: {sampler:.2%} of one core")
    for name in ("measured", "unmeasured"):
        share = statistics.fmean(pair[name]["driver_cpu_share"] for pair in found)
        print(f"processor time of whoever runs trials, {name}: {share:.2%} of one core")
    others = statistics.fmean(pair["other_cpu_share"] for pair in found)
    print(f"all other processes of this machine meanwhile: {others:.2f} cores")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

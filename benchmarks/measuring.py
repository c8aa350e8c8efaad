"""What does it cost a trial to be measured? Epoch times with audit, journals and MLflow, and without any of them.

    python benchmarks/measuring.py [--seconds 10] [--steps N] [--rounds 20] [--json FILE]

One process trains digits_cnn on all of this machine's cores (torch) all the time, and what stands around a trial is
there in every other block of its epochs. A block with it is a trial of its own to whoever measures: its start, about
`--seconds` of epochs and its end go to a sampler, to the trial's own journal, to the grid's and to the thread that
writes MLflow (sqlite), and the block lasts until MLflow has all of it. A block without is as long and has none of
these. Two blocks are a round; which of them is first changes every round, so that a drift of the machine falls on both
alike. In one process two blocks differ less than two processes do, which on a shared machine differ by some percent.

Printed: the ratio of the blocks' epoch times, measured ÷ unmeasured, as the geometric mean over the rounds with the
95 % interval of a paired t on logarithms, of their means and of their medians; and, read off directly, the processor
time of the sampler's thread, and of the whole process that runs trials, for each second of a block.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path

from scipy.special import stdtrit

from raybench import datasets
from raybench.core import events
from raybench.core.cell import Cell, CellData, CellDevice, CellEngine, Examples
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.settings import DEFAULTS, Settings
from raybench.core.status import TrialStatus
from raybench.devices.host import model_name, usable_cores
from raybench.execution import process
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, Journal, attempt_folder
from raybench.tracking.store import resolve
from raybench.tracking.writer import MlflowWriter
from raybench.trial.record import append_event
from raybench.workloads import read_reference

GRID = "measuring"
EPOCHS, WARMUP = 100_000, 10
"""Epochs of the process, which is ended after the last block, and those before the first one."""

SETTLED = 1.5
"""Seconds after a trial's end in which the writer begins with it, where no other trial runs."""

WITHOUT = "without"

TEMPLATE = f"""
import sys
from raybench.execution import fork_server
from raybench.trial import record

append_event = record.append_event
record.append_event = lambda folder, event: None if "{WITHOUT}" in folder.parts else append_event(folder, event)
fork_server.main(*sys.argv[1:])
"""
"""The fork template, whose trials keep no journal of their own in a folder that says so."""

AUDIT = process.Monitor


class NoAudit(process.Monitor):
    """In the place of the sampler of the whole process: reads nothing, and knows whom to read of."""

    leader = 0

    def begin(self, leader: int) -> None:
        """Start nothing."""
        NoAudit.leader = leader


def start_template(folder: Path) -> process.ForkServer:
    program = folder / "template.py"
    program.write_text(TEMPLATE)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$4" "$5"\n')
    script.chmod(0o755)
    return process.ForkServer("torch", str(script))


def make_job(folder: Path, trial: str, attempt: int, epochs: int, steps: int | None) -> Job:
    info, cores = read_reference("digits_cnn", folder), usable_cores()
    resolved = {**DEFAULTS, "framework": "torch", "epochs": epochs, "batch_size": 64, "steps_per_epoch": steps}
    cell = Cell(
        workload=info.identity(),
        data=CellData("digits", None, Examples(None, None)),
        device=CellDevice("cpu", model_name(), count=len(cores), replicas=1, threads=len(cores)),
        engine=CellEngine("torch", metadata.version("torch")),
        framework="torch",
        settings=Settings.of(resolved),
        warmup_epochs=DEFAULTS["warmup_epochs"],
    )
    own = str(attempt_folder(folder, trial, attempt))
    return Job(trial, attempt, 0, 0, cell, info.to_json(), str(datasets.data_root()), own, cores)


class Around:
    """What stands around one block of epochs as if they were a trial."""

    def __init__(
        self, job: Job, folder: Path, writer: MlflowWriter, journal: Journal, history: GridHistory, leader: int
    ) -> None:
        own = attempt_folder(folder, job.trial, job.attempt)
        self._job, self._writer, self._journal = replace(job, folder=str(own)), writer, journal
        self._history = history
        self._leader, self._begun = leader, time.monotonic()
        self._ended: float | None = None
        self._audit = AUDIT(self._job)
        self._audit.begin(leader)
        self.sampler_s = 0.0

    def see(self, event: Event) -> None:
        """Take an event as a grid would."""
        told = event | {"trial": self._job.trial, "attempt": self._job.attempt}
        append_event(Path(self._job.folder), told)
        self._audit.see(told)
        self._history.take(self._journal.append(told))
        self._writer.put(told)

    def over(self, seconds: float) -> bool:
        """End the trial when it is as long as asked for; whether its run in MLflow is up to date."""
        now = time.monotonic()
        if self._ended is None and now - self._begun >= seconds:
            self._ended = now
            self._end()
        # One thing is left until the journal's next part is due, every five minutes.
        return self._ended is not None and now - self._ended > SETTLED and self._writer.left <= 1

    def _end(self) -> None:
        audited = self._audit.end()
        assert audited
        self.sampler_s += audited["cost_cpu_s"]
        self.see(audited)
        self.see(events.trial_ended(self._job.trial, self._job.attempt, TrialStatus.COMPLETED, wall=self.length))
        # In a grid the next trial is sampled while this one's end goes to MLflow.
        self._audit = AUDIT(replace(self._job, folder=self._job.folder + "-next"))
        self._audit.begin(self._leader)

    @property
    def length(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begun

    def close(self) -> None:
        """Stop sampling."""
        audited = self._audit.end()
        self.sampler_s += audited["cost_cpu_s"] if audited else 0.0


def ratio(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The geometric mean of the pairs' ratios, and its 95 % interval."""
    logs = [math.log(measured / unmeasured) for measured, unmeasured in pairs]
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.fmean(logs)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


@dataclass
class Block:
    """Consecutive epochs, all with or all without what stands around a trial."""

    measured: bool
    epochs: list[float] = field(default_factory=list)
    seconds: float = 0.0
    own_cpu_s: float = 0.0
    sampler_s: float = 0.0


def blocks_of(folder: Path, seconds: float, steps: int | None, rounds: int) -> Iterator[Block]:
    """Blocks in pairs, of which first the one and then the other is measured first."""
    template = start_template(folder)
    history = GridHistory(folder / JOURNAL)
    writer = MlflowWriter(resolve(folder, f"sqlite:///{folder}/mlflow.db"), GRID, history, "one")
    writer.wait_open()
    journal = Journal(history.path)
    job = make_job(folder / WITHOUT, "c-r0", 1, EPOCHS, steps)
    process.Monitor = NoAudit
    started: Event = {}
    length = seconds
    order = [measured for number in range(rounds) for measured in ((False, True), (True, False))[number % 2]]
    try:
        with closing(template.run(job)) as told:
            for event in told:
                if event["event"] == "trial_started":
                    started = event
                if event["event"] == "epoch_ended" and event["epoch"] == WARMUP:
                    break
            for number, measured in enumerate(order):
                block, begun, cpu = Block(measured), time.monotonic(), time.process_time()
                around = None
                if measured:
                    own = replace(job, trial=f"c-r{number}")
                    around = Around(own, folder, writer, journal, history, NoAudit.leader)
                    around.see(started)
                for event in told:
                    assert event["event"] == "epoch_ended", event
                    block.epochs.append(event["ledger"]["train"] + event["ledger"]["input_wait"])
                    if around:
                        around.see(event)
                    if around.over(seconds) if around else time.monotonic() - begun >= length:
                        break
                block.seconds, block.own_cpu_s = time.monotonic() - begun, time.process_time() - cpu
                if around:
                    around.close()
                    block.sampler_s, length = around.sampler_s, block.seconds
                yield block
    finally:
        writer.close()
        template.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a block before its trial ends")
    parser.add_argument("--steps", type=int, help="in an epoch; by default the whole data set, 22")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    found: list[Block] = []
    with tempfile.TemporaryDirectory(prefix="rb-", ignore_cleanup_errors=True) as folder:
        for block in blocks_of(Path(folder), options.seconds, options.steps, options.rounds):
            found.append(block)
            mean, name = statistics.fmean(block.epochs), "measured" if block.measured else "unmeasured"
            print(f"{len(found)} {name}: {len(block.epochs)} epochs of {mean:.4f} s", file=sys.stderr, flush=True)
    pairs = [sorted(found[at : at + 2], key=lambda block: not block.measured) for at in range(0, len(found), 2)]
    lengths = [block.seconds for block in found]
    cores = f"{len(usable_cores())} of {os.cpu_count()} cores"
    print(f"{len(pairs)} rounds, blocks of {min(lengths):.1f} to {max(lengths):.1f} s on {cores}")
    for name, middle in (("mean", statistics.fmean), ("median", statistics.median)):
        value, low, high = ratio([(middle(measured.epochs), middle(other.epochs)) for measured, other in pairs])
        print(f"{name} epoch: measured ÷ unmeasured {value:.4f} (95 %: {low:.4f} to {high:.4f})")
    for name, side in (("measured", 0), ("unmeasured", 1)):
        used = sum(pair[side].own_cpu_s for pair in pairs) / sum(pair[side].seconds for pair in pairs)
        print(f"processor time of the process that runs trials, {name}: {used:.2%} of one core")
    sampler = sum(measured.sampler_s for measured, _ in pairs) / sum(measured.seconds for measured, _ in pairs)
    print(f"of that the sampler's thread: {sampler:.2%} of one core")
    if options.json:
        options.json.write_text(json.dumps([asdict(block) for block in found], indent=1))


if __name__ == "__main__":
    main()

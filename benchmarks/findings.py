"""How often do quiet grids get a letter, and how often is a slow machine found? A simulation of both.

    python benchmarks/findings.py [--grids 1000] [--seed 1] [--json FILE]

Each simulated grid has two devices, of which one is 1, 1.05, 1.3 or 3 times as fast, several repeats of six epochs,
and a canary on each device before each repeat and after the last. Epoch times vary by 1 % from run to run and by 1 %
from epoch to epoch, canaries by 0.5 to 3 % from one to the next. The audit of each run is that of a quiet machine.
Then the same with a machine that takes 15 % longer in half of the repeats: in the second half, or in every other one.

Printed for each spread and number of canaries: the share of quiet grids with a letter in the table, the share with any
finding, and the share of slowed grids in which the change of the machine is found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from raybench.analysis.diagnostics.diagnose import diagnose_all
from raybench.analysis.grid_results import GridResults, of_journal
from raybench.analysis.remarks import finding_facts
from raybench.checks.canary.judge import drifts
from raybench.core import events
from raybench.core.events import Event
from raybench.core.identity import cell_id, trial_id
from raybench.results.attempt import attempts, latest

SPREADS, CANARIES = (0.005, 0.01, 0.02, 0.03), (3, 5, 11, 21, 41)
RATIOS = (1.0, 1.05, 1.3, 3.0)
EPOCHS, EPOCH_S, NOISE = 6, 10.0, 0.01
SLOWED = 1.15
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOST = {"name": "node-1", "boot": "b", "pid": 1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", type=int, default=1000, metavar="N", help="simulated grids of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    print(f"{asked.grids} simulated grids of each kind; shares in percent")
    print("spread  canaries  letter  finding  found: second half  found: every other")
    told = []
    for spread, canaries in product(SPREADS, CANARIES):
        row = measure(random, spread, canaries, asked.grids)
        told.append(row)
        shares = [100 * row[name] for name in ("letter", "finding", "found_second_half", "found_every_other")]
        print("{:6.1%}  {:8d}  {:6.1f}  {:7.1f}  {:18.1f}  {:18.1f}".format(spread, canaries, *shares), flush=True)
    letter, found = (
        max(row["letter"] for row in told),
        min(min(row["found_second_half"], row["found_every_other"]) for row in told),
    )
    print(f"letters in at most {letter:.1%} of quiet grids; a slower machine found in at least {found:.1%}")
    if asked.json:
        asked.json.write_text(json.dumps({"grids": asked.grids, "rows": told}, indent=1))
    return 0


def measure(random: np.random.Generator, spread: float, canaries: int, grids: int) -> dict[str, Any]:
    """Shares of grids with a letter, with a finding, and with the slower machine found."""
    repeats = canaries - 1
    letters = found = 0
    for number in range(grids):
        results = simulate(random, spread, np.ones(repeats), RATIOS[number % len(RATIOS)])
        letters += any(fact.mark for fact in finding_facts(results.rows))
        found += any(results.findings.values())
    slowed = {
        "found_second_half": np.where(np.arange(repeats) < repeats / 2, 1.0, SLOWED),
        "found_every_other": np.where(np.arange(repeats) % 2, SLOWED, 1.0),
    }
    return {
        "spread": spread,
        "canaries": canaries,
        "letter": letters / grids,
        "finding": found / grids,
        **{
            name: sum(
                any(
                    finding.code == "machine_drift"
                    for told in simulate(random, spread, pace, RATIOS[number % len(RATIOS)]).findings.values()
                    for finding in told
                )
                for number in range(grids)
            )
            / grids
            for name, pace in slowed.items()
        },
    }


def simulate(random: np.random.Generator, spread: float, pace: np.ndarray[Any, Any], ratio: float) -> GridResults:
    """A grid as its journal would tell of it.

    Args:
        random: where the noise comes from.
        spread: standard deviation between canaries, as a part of their time.
        pace: how many times as long everything takes in each repeat.
        ratio: how many times as fast the second device is.
    """
    told = list(_events(random, spread, pace, ratio))
    known = attempts(told)
    results = of_journal("simulated", latest(known.values()))
    canaries = [event for event in told if event["event"] == "check_ended"]
    found = diagnose_all(known.values(), drifts(canaries, known.values()), axes=results.axes)
    return GridResults("simulated", results.workload, results.cells, results.latest, results.baseline, findings=found)


def _events(random: np.random.Generator, spread: float, pace: np.ndarray[Any, Any], ratio: float) -> Iterator[Event]:
    minute = 0
    devices = {"cpu": 1.0, "other": ratio}

    def clock() -> str:
        nonlocal minute
        minute += 1
        return (BEGIN + timedelta(minutes=minute)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    for repeat, slower in enumerate([*pace, pace[-1]]):
        for name in devices:
            yield {
                "event": "check_ended",
                "check": "canary",
                "trial": f"canary-{name}-{repeat}",
                "t": clock(),
                "subject": {"framework": "torch", "device": _device(name)},
                "host": HOST["name"],
                "visible": [],
                "call_s": 0.01 * float(slower * np.exp(random.normal(0, spread))),
                "noise": 0.02,
                "calls": 100,
            }
        if repeat == len(pace):
            return
        for name, speed in devices.items():
            yield from _trial(random, name, repeat, float(slower) * EPOCH_S / speed, clock)


def _trial(random: np.random.Generator, name: str, repeat: int, seconds: float, clock: Any) -> Iterator[Event]:
    cell = {
        "schema": 1,
        "framework": "torch",
        "workload": {"name": "simulated", "version": 1},
        "device": _device(name),
        "settings": {"epochs": EPOCHS, "batch_size": 64},
        "warmup_epochs": 1,
    }
    trial = trial_id(cell_id(cell), repeat)
    began = events.trial_started(trial, 1, cell=cell, profile=name, host=HOST, label=f"{name} r{repeat}")
    yield {**began, "t": clock()}
    mean = seconds * float(np.exp(random.normal(0, NOISE)))
    for epoch in range(1, EPOCHS + 1):
        took = mean * float(np.exp(random.normal(0, NOISE)))
        ledger = {"compile": 0.0, "train": took, "input_wait": 0.0, "evaluate": 0.1}
        accuracy = 0.9 + float(random.normal(0, 0.002))
        told = events.epoch_ended(
            trial, 1, epoch=epoch, steps=100, examples=6400, ledger=ledger, metrics={"val/accuracy": accuracy}
        )
        yield {**told, "t": began["t"]}
    whole = mean * EPOCHS
    taken = {"own_cpu_s": 1.9 * whole, "other_cpu_s": 0.04 * whole, "steal_s": 0.002 * whole}
    host = {"cores": 2, **taken, "mhz": {"first": 3000.0, "last": 2950.0, "min": 2900.0, "max": 3050.0}}
    audit = {"seconds": whole, "samples": 9, "within": "epochs", "host": host, "process": {}, "gpus": [], "missing": []}
    yield {"event": "trial_audited", "trial": trial, "attempt": 1, **audit}
    ended = events.trial_ended(trial, 1, "completed", wall=whole, template_import=1.0)
    yield {**ended, "t": clock()}


def _device(name: str) -> dict[str, Any]:
    return {"kind": "cpu", "model": f"a {name}", "count": 2, "threads": 2, "replicas": 1}


if __name__ == "__main__":
    sys.exit(main())

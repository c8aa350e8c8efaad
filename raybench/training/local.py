"""A trial outside of raybench: the same loop by itself, under a debugger, in a notebook or under torchrun."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from raybench import datasets
from raybench.core.ledger import Ledger, training_s
from raybench.devices import KINDS, Assignment, Device, hosted, open_found
from raybench.devices.host import usable_cores
from raybench.engines.loop_facts import available_kind, loaded_framework, open_loop
from raybench.training.clock import TrainingClock
from raybench.training.trial import Recorder, Trial, TrialOptions

_errors: WeakKeyDictionary[Trial, int] = WeakKeyDictionary()
"""The local trials, with the identity of the last error that the program had not caught when each was made."""


def open_trial() -> Trial | None:
    """The local trial in whose epoch the program is; None if there is none, or if an error has ended its loop.

    In a notebook the traceback of that error keeps the epoch open.
    """
    error = _last_error()
    return next((trial for trial, last in _errors.items() if trial.in_epoch and last == error), None)


def _last_error() -> int:
    return id(getattr(sys, "last_value", None))


def local_trial(epochs: float | None) -> Trial:
    """Make a trial that prints a line per epoch."""
    rank, count = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    options = TrialOptions(
        epochs=epochs,
        data_dir=datasets.data_root(),
        output_dir=Path.cwd(),
        rank=rank,
        world_size=count,
    )
    trial = Trial(options, Printer(silent=rank > 0), lambda: open_clock(loaded_framework()))
    _errors[trial] = _last_error()
    return trial


def open_clock(framework: str) -> TrainingClock:
    """Open the clock of a framework that the program has imported, on the device that it finds."""
    device = program_device(framework, available_kind(framework))
    return TrainingClock(Ledger(), device, open_loop(framework, device))


def program_device(framework: str, kind: str, devices: int = 1) -> Device:
    """The device adapter, without any change to the process: its settings are the program's.

    `devices` is the number of accelerators that the program computes on.
    """
    cores, is_accelerator = usable_cores(), kind in KINDS and not hosted(kind)
    return open_found(kind, framework, Assignment(cores, (), len(cores), devices if is_accelerator else 1))


class Printer(Recorder):
    """Prints a line per epoch to standard output, and warnings to standard error."""

    def __init__(self, silent: bool = False) -> None:
        self._silent = silent

    def epoch_ended(self, fields: dict[str, Any], more: bool) -> None:
        """Print an epoch."""
        self._write(epoch_line(fields))

    def loop_left(self, fields: dict[str, Any]) -> None:
        """Print the epoch after which the loop was left."""
        self.epoch_ended(fields, False)

    def logged_later(self, metrics: Mapping[str, float]) -> None:
        """Print metrics that were logged after the last epoch."""
        self._write("  ".join(_metrics(metrics)))

    def warn(self, message: str) -> None:
        """Print a warning."""
        if not self._silent:
            sys.stderr.write(f"raybench: {message}\n")

    def _write(self, line: str) -> None:
        if not self._silent:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def epoch_line(fields: Mapping[str, Any]) -> str:
    """One line about an epoch: its times, its throughput and its metrics."""
    ledger = fields["ledger"]
    trained = training_s(ledger)
    parts = [f"epoch {fields['epoch']}", f"train {trained:.3g} s"]
    waits = [("compile", "compile"), ("input_wait", "input")]
    details = [f"{label} {ledger[name]:.3g} s" for name, label in waits if ledger.get(name, 0.0) >= trained / 100]
    if details and trained:
        parts[-1] += f" ({', '.join(details)})"
    parts += [f"evaluate {ledger['evaluate']:.3g} s"] if ledger.get("evaluate") else []
    if fields.get("examples") and trained:
        parts.append(f"{fields['examples'] / trained:,.0f} examples/s")
    return "  ".join([*parts, *_metrics(fields["metrics"])])


def _metrics(metrics: Mapping[str, float]) -> list[str]:
    return [f"{name} {value:.4g}" for name, value in metrics.items()]

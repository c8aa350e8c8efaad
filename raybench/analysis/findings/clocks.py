"""Findings about what the clock measured: warm-up, waiting for input, unsynchronized or buffered times."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from statistics import median

from raybench.analysis.findings.conditions import others_load
from raybench.analysis.findings.finding import Finding, detects
from raybench.analysis.findings.slow_start import BATCHES, slow_start
from raybench.core.ledger import STEADY, TRAINING
from raybench.results.epochs import Epochs
from raybench.results.run_table import SHORT_EPOCH_S, Run, seconds_in
from raybench.results.utilization import LEAST_SHARE

SETTLED = 0.02
"""Largest fraction of a section's time for fetching its last value afterwards; with a right clock nothing is left."""

SETTLE_LEAST_S = 0.01
"""A fetch up to this duration is accepted: on busy cores it took up to 4 ms with nothing left to wait for."""

BEYOND = 0.01  # largest fraction by which the device's clock may exceed the ledger
BEYOND_LEAST_S = 0.001  # the same in seconds: two clocks are read some microseconds apart
OFF_BUDGET = 0.05  # largest fraction by which the time of training may differ from a budget of time or price
FALLING = 0.1  # fall from an epoch to the next with which times may not be steady
MOST_WAITED = 0.99  # largest waiting fraction used to estimate its cost


@detects("set more `warmup_epochs`", caution=True, recurs=True)
def short_warmup(run: Run) -> Iterator[Finding]:
    """In most repeats, steps after the warm-up began slow, which lengthens the run by 2% or more.

    Epochs are looked at if steps were not timed. On a busy host it is not looked for, as others may have slowed steps.
    """
    steady = run.steady
    steps = steady.column("step_s")
    by_steps = bool(steps) and all(steps)
    start = slow_start(array("d", b"".join(steps)) if by_steps else run.timed_s) if steady else None
    is_changing = (of_epochs := slow_start(run.timed_s)) and of_epochs.is_change
    if start is None or is_changing or others_load(run):
        return
    # Up to the end of the epoch of the change, whose position is known to within a batch.
    until = run.warmup_epochs + max(1, math.ceil((start.part - 1 / BATCHES) * len(steady)))
    what = "steps" if by_steps else "epochs"
    text = f"after the warm-up, the run's {what} took {start.slower:.2f}x as long as later, until epoch {until}"
    yield Finding(text, start.excess, start.excess, remedy=f"set `warmup_epochs: {until}`, and more `epochs` than that")


@detects("train for three epochs or more after the warm-up", caution=True, recurs=True)
def few_steady_epochs(run: Run) -> Iterator[Finding]:
    """In most repeats, one or two epochs follow the warm-up, and times still fell by {FALLING:.0%}.

    Its time is estimated to fall by as much again. If steps are timed, `short_warmup` looks at them instead.
    """
    seconds, steps = seconds_in(run.full_epochs, STEADY)[-2:], run.steady.column("step_s")
    if len(steps) not in (1, 2) or len(seconds) < 2 or all(steps) or others_load(run):
        return
    before, last = seconds
    if 0 < last < (1 - FALLING) * before:
        text = f"the run's last epoch took {last:.3g} s and the one before {before:.3g} s: it may not be steady yet"
        yield Finding(text, before / last, too_long=before / last - 1)


@detects(
    "load with more workers of a `DataLoader`, or set `input: device` if the data fit there",
    caution=True,
    of_hardware=True,
)
def input_bound(run: Run) -> Iterator[Finding]:
    """The run waited for input during {LEAST_SHARE:.0%} of the steady epochs."""
    share = run.waiting
    if share is not None and share >= LEAST_SHARE:
        text = f"the run waited for input during {share:.0%} of the steady epochs"
        yield Finding(text, share, too_long=share / (1 - min(share, MOST_WAITED)))


@detects("let the device's `synchronize` wait for all work", caution=True)
def unsynchronized_clock(run: Run) -> Iterator[Finding]:
    """The device worked on after the clock had stopped, or its own clock shows more than the host's.

    The median over epochs is used: a host may be busy now and then, while a clock that does not wait never does. The
    first epoch is left out, because a fetch may have to be compiled there.
    """
    epochs = run.epochs[1:] or run.epochs
    waited_s, took_s = _medians(epochs, "settle_s", STEADY, SETTLE_LEAST_S)
    if waited_s > max(SETTLE_LEAST_S, SETTLED * took_s):
        text = f"when the clock of `train` had stopped ({took_s:.3g} s per epoch), the device worked on for "
        text += f"{waited_s:.3g} s"
    else:
        device_s, took_s = _medians(epochs, "device_s", TRAINING, BEYOND_LEAST_S)
        waited_s = device_s - took_s
        if waited_s <= BEYOND * took_s + BEYOND_LEAST_S:
            return
        text = f"`train` took {took_s:.3g} s per epoch by the host's clock and {device_s:.3g} s by the device's"
    share = waited_s / took_s if took_s else float(len(epochs))
    yield Finding(text, share)


def _medians(epochs: Epochs, clock: str, sections: Sequence[str], least_s: float) -> tuple[float, float]:
    """Return the median seconds of training by a different clock, if above a least, and those in the ledger."""
    seconds = epochs.column(clock, "train")
    clocked = [place for place, clock_s in enumerate(seconds) if clock_s is not None]
    other_s = median(seconds[place] for place in clocked) if clocked else 0.0
    return (other_s, median(seconds_in(epochs.at(clocked), sections))) if other_s > least_s else (0.0, 0.0)


@detects(
    "let the program write its output after each line (`fflush()`, or `stdbuf -oL` before the command)",
    caution=True,
)
def output_buffered(run: Run) -> Iterator[Finding]:
    """The lines of several epochs of a command arrived together."""
    together = list(filter(None, run.epochs.column("epochs_in_read")))
    if together:
        text = f"the run's output had up to {max(together)} epochs at once, whose times are not known singly"
        yield Finding(text, float(max(together)))


@detects(
    "name slower lines with `--epoch`, or the program's own seconds with `--time`",
    caution=True,
)
def short_epochs(run: Run) -> Iterator[Finding]:
    """Epochs of a command take less than {SHORT_EPOCH_S} s by the arrival of lines: there is no ratio."""
    seconds = run.steady_s or run.mean_steady_s or 1e-6  # the median is 0 if most lines arrive together
    if run.is_too_short and seconds < SHORT_EPOCH_S:
        text = f"the run's epochs take {1000 * seconds:.2g} ms, too short to be timed by when lines of output arrive"
        yield Finding(text, 1 / seconds)


@detects(
    "let the program print a line for each part of its training, which `--epoch` (`epoch` in a grid file) names",
    caution=True,
    guess=True,
)
def whole_run(run: Run) -> Iterator[Finding]:
    """No line of a command's output counts its work: times are of whole runs, with their start-up."""
    if run.clock == "run" and run.wall:
        share = min(1.0, (run.first_metric_s or run.wall) / run.wall)  # training had begun by that line
        text = f"no line counts the work: times are of whole runs, of which their start-up may be {share:.0%}"
        yield Finding(text, share, too_long=share / (1 - share) if share < 1 else None)


@detects("allow more epochs, or make epochs or steps shorter", caution=True)
def off_budget(run: Run) -> Iterator[Finding]:
    """A run trained for {OFF_BUDGET:.0%} less or more time than its budget of time or price allows."""
    budget = run.cell.budget or {}
    budget_s = budget.get("seconds")
    if not budget_s:
        return
    sections = TRAINING if budget.get("compile", True) else STEADY
    trained_s = sum(seconds_in(run.epochs, sections))
    if trained_s and abs(trained_s / budget_s - 1) > OFF_BUDGET:
        text = f"the run trained for {trained_s:.3g} s with a budget of {budget_s:.3g} s"
        yield Finding(text, abs(math.log(trained_s / budget_s)))

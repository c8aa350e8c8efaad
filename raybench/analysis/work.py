"""What the epochs of runs contain: their unit of work, and which of them may be compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from raybench.analysis.answer import Unit
from raybench.analysis.pace import paces
from raybench.core.cell import COMMAND, Cell
from raybench.core.labels import configuration_label
from raybench.core.origin import Origin
from raybench.core.settings import MISSING, PARAM
from raybench.core.status import TrialStatus
from raybench.results.grid_request import PlannedCell
from raybench.results.output_clock import OutputClock
from raybench.results.run_table import OF_A_TABLE, Run

SAME_WORK = 1.01
"""Largest ratio of examples at which epochs are the same work.

Configurations with different batch sizes leave out different incomplete last batches.
"""

EXAMPLES = Unit("examples", 1_000, "examples")

_WORK = re.compile(
    r"(?<!warmup_)(?<!eval_)(?<!log_)(?<!lr_)(?<![a-z])(batch(?:size)?|bsz?|mbs|block|context|ctx|seq|length|envs?|accum\w*"
    r"|steps|iter(ation)?s|examples|samples|tokens)(?![a-z])|^(count|nodes)$"
)
"""Names of axes that change the work of an epoch, unless a unit of work is counted."""

_OF_A_PASS = ("batch", "batchsize", "bs", "bsz", "mbs", "accum", "accumulate", "accumulation")
"""Those that do not change what a pass over the data contains."""

_SAME_WORK = re.compile(
    r"(?<![a-z])(decay|lr|rate|momentum|beta\d?|eps|dropout|smoothing|seed|device|compile|precision|dtype|amp|fp16|bf16|tf32"
    r"|deterministic|benchmark|channels_last|backend|kernels?|fused|threads|workers|cpus|framework|environment|version"
    r"|optim\w*|scheduler?|activation|warmup|grad_checkpoint\w*|verbose|log|name)(?![a-z])"
)
"""Names of axes that are known to leave the work of an epoch alone."""


def counted_units(attempts: Iterable[Run]) -> Counter[str]:
    """Return what completed runs count, such as examples and tokens, with the number of runs that do."""
    return Counter(name for run in attempts if run.status == TrialStatus.COMPLETED for name in run.counted)


def choose_unit(attempts: Sequence[Run], requested: str = "") -> Unit:
    """Return the unit of work of a report.

    The requested one if a run counts it, else a unit that all runs count, else an epoch if all full epochs of a
    workload have the same examples, else 1,000 examples. If no run counts anything, it is an epoch.
    """
    runs = [attempt for attempt in attempts if attempt.status == TrialStatus.COMPLETED and attempt.epochs]
    counts = counted_units(runs)
    with_examples = counts["examples"]
    unit_counts = {name: number for name, number in counts.items() if name != "examples"}
    most = requested if requested in counts else max(unit_counts, key=lambda name: unit_counts[name], default="")
    if most == "examples":
        return EXAMPLES
    if most and (most == requested or unit_counts[most] >= with_examples):
        return Unit(most, 1_000_000, most)
    timed = "run" if runs and all(run.is_whole for run in runs) else "epoch"
    clocks = {run.output_clock.unit for run in runs if run.output_clock and run.clock in ("", OF_A_TABLE)}
    timed = clocks.pop() if len(clocks) == 1 else "logged interval" if clocks else timed
    if not with_examples:
        return Unit(timed)
    sizes: dict[str, set[int]] = {}
    for run in runs:
        sizes.setdefault(job_of(run.cell), set()).update(run.full_epochs.column("examples"))
    partial = any(run.cell.settings.steps_per_epoch not in (None, MISSING) or run.ends_partial for run in runs)
    if partial or any(max(counts) > SAME_WORK * min(counts) for counts in sizes.values() if counts):
        return EXAMPLES
    return Unit(timed, counted="examples")


def job_of(cell: Cell) -> str:
    """Return the workload and the data of a cell; runs of different ones are never compared."""
    return f"{cell.workload.name or ''} {cell.data.name or ''}"


def work_of(axis: str, runs: Sequence[Run]) -> tuple[bool, Origin]:
    """Return whether an axis, by its name, changes what an epoch of some runs contains, and how that is known."""
    name = axis.removeprefix(PARAM).lower()
    match, are_passes = _WORK.search(name), bool(runs) and all(run.are_passes for run in runs)
    if match and not (are_passes and match[1] in _OF_A_PASS):
        return True, Origin.RECOGNIZED
    return False, Origin.RECOGNIZED if _SAME_WORK.search(name) and not match else Origin.ASSUMED


def clock_text(attempts: Iterable[Run]) -> str:
    """Return what an epoch of commands is, and the start-up that is left out, as a sentence."""
    untold = ("", "trial", OF_A_TABLE)
    runs = [run for run in attempts if run.status == TrialStatus.COMPLETED and run.clock not in untold]
    clocks = [OutputClock() if run.clock == "run" else run.output_clock for run in runs]
    sentences = dict.fromkeys(
        clock.sentence() if clock.pattern or run.clock == "run" else "times are by the program's own clock"
        for run, clock in zip(runs, clocks, strict=True)
        if clock
    )
    startups = [run.startup_s for run in runs if run.startup_s and run.clock != "run"]
    facts = [f"start-up of {median(startups):.3g} s is left out"] if startups else []
    facts += ["their time includes evaluations"] if any(run.holds_evaluation for run in runs) else []
    text = "; ".join([*sentences, *facts])
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def comparable(cell: PlannedCell, completed: Sequence[Run], unit: Unit, has_one_clock: bool) -> str:
    """Return what else configurations need to have in common to be compared, as text; empty if nothing.

    Epochs of a command are lines of its output: those of different lines are not compared and, if it is not known what
    they contain, those that an axis may change neither.
    """
    commands = [run for run in completed if run.cell.workload.form == COMMAND and run.clock != "trial"]
    values = {axis: value for axis, value in cell.axes.items() if work_of(axis, commands)[0]}
    label = configuration_label(values, values) if commands and not unit.counted else ""
    return ", ".join(filter(None, [label, *(() if has_one_clock else sorted({*map(clock_of, completed)}))]))


def clock_of(run: Run) -> str:
    """Return what the epochs of a command are, in short; empty if they are known otherwise, or are epochs indeed."""
    if run.clock == "run":
        return "whole runs"
    clock = run.output_clock
    shown = "" if clock is None or (clock.are_passes and clock.step == 1) else f"{clock.step:g} x `{clock.shown}`"
    return f"{shown or 'epochs'} with evaluations" if run.holds_evaluation else shown


def seconds_per_unit(run: Run, unit: Unit, is_changing: bool = False) -> float | None:
    """Return the median over steady epochs of an epoch's seconds divided by its own work.

    If speeds change in training, it is the mean, in which each epoch counts by its work.
    """
    if is_changing and (seconds := paces(run, unit)):
        return whole_pace(run, unit.name) * unit.amount if unit.has_rate else fmean(seconds)
    if not unit.has_rate:
        return median(run.timed_s or [0.0]) or None
    rate = run.rates.get(unit.name)
    return unit.amount / rate if rate else None


def whole_pace(run: Run, counted: str) -> float:
    """Return the seconds of all steady epochs divided by their work."""
    epochs, seconds = run.paced
    return sum(seconds) / sum(epochs.counts(counted))


def joules_per_unit(run: Run, unit: Unit) -> float | None:
    """Return the energy of a steady epoch divided by its mean work."""
    joules, counts = run.steady_energy_j, run.timed.counts(unit.name)
    if joules is None or not unit.has_rate:
        return joules
    return joules * unit.amount / fmean(counts) if counts and all(counts) else None

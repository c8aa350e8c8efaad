"""Findings about settings that had no effect, and training loops that did something else than the grid says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from raybench.analysis.findings.finding import Context, Finding, detects, in_groups
from raybench.analysis.measured import are_same, metrics_of, repeat_one_another
from raybench.core.identity import canonical
from raybench.core.settings import LEARNING, PARAM, SETTINGS, TRAINING, short_name
from raybench.core.status import TrialStatus
from raybench.core.text import format_value, join_words
from raybench.devices import hosted
from raybench.results.attempt import Attempt

OPTIMIZER = ("weight_decay", "learning_rate")
"""Axes that a step of an optimizer shows."""

TOLERANCE = 0.1
"""Share by which the examples per step may differ from the batch size."""


def same_results(runs: Iterable[Attempt], axes: Iterable[str]) -> dict[int, dict[str, list[Finding]]]:
    """Return findings of runs with the same results, by the `id` of a run and by code.

    Args:
        runs: of one grid.
        axes: the axes of the grid that vary.
    """
    completed = [run for run in runs if run.status == TrialStatus.COMPLETED and run.cell]
    made: dict[int, dict[str, list[Finding]]] = {}

    def note(code: str, group: Iterable[Attempt], text: str, remedy: str = "") -> None:
        for run in group:
            made.setdefault(id(run), {}).setdefault(code, [Finding(text, 1.0, remedy=remedy)])

    for axis in axes:
        in_optimizer = axis in OPTIMIZER
        in_learning = LEARNING in SETTINGS[axis].affects if axis in SETTINGS else axis.startswith(PARAM)
        if not in_optimizer and not in_learning:
            continue
        for group, values in _differing_in(axis, completed):
            name, listed = short_name(axis), join_words(values)
            if in_optimizer and are_same([_optimizers(run) for run in group]):
                text = f"the optimizer has the same learning rate and weight decay with `{name}` {listed}"
                note("optimizer_unchanged", group, text, f"pass `{name}` to the optimizer")
            if in_learning and are_same([metrics_of(run) for run in group]):
                note("no_effect", group, f"all metrics are the same to the last digit with `{name}` {listed}")
    for repeats in in_groups(completed, lambda run: run.cell_id):
        if repeat_one_another(repeats):
            note("seed_unused", repeats, f"all metrics are the same to the last digit in {len(repeats)} repeats")
    return made


def _differing_in(axis: str, runs: Iterable[Attempt]) -> Iterator[tuple[list[Attempt], list[str]]]:
    """Yield runs of one repeat that differ in one axis alone, with their values on it."""
    leaf = axis if axis.startswith(PARAM) else f"settings.{'.'.join(TRAINING[axis].path)}" if axis in TRAINING else axis
    rest: dict[int, str] = {}

    def key(run: Attempt) -> tuple[int, str]:
        if id(run.cell) not in rest:  # runs of one cell may share the object
            rest[id(run.cell)] = canonical({name: value for name, value in run.cell.leaves.items() if name != leaf})
        return run.repeat, rest[id(run.cell)]

    for group in in_groups(runs, key):
        values = list(dict.fromkeys(format_value(run.cell.leaves.get(leaf)) for run in group))
        if len(values) > 1:
            yield group, values


def _optimizers(run: Attempt) -> list[Any]:
    """Return the optimizers of all epochs; empty if one is not known."""
    optimizers = list(run.epochs.column("optimizers"))
    return optimizers if all(optimizers) else []


@detects("pass the setting to the optimizer", caution=True)
def optimizer_unchanged(run: Attempt, context: Context) -> Iterator[Finding]:
    """In a training function, the optimizer's learning rate and weight decay do not change with their axis."""
    yield from context.same.get("optimizer_unchanged", ())


@detects("check that the setting is used; if it is meant to change only the speed, ignore this")
def no_effect(run: Attempt, context: Context) -> Iterator[Finding]:
    """All metrics are the same to the last digit for all values of an axis that affects convergence."""
    yield from context.same.get("no_effect", ())


@detects(
    "seed all random generators with `trial.seed`, or with `--seed '{seed}'` if the command has such an option: "
    "repeats then show the noise"
)
def seed_unused(run: Attempt, context: Context) -> Iterator[Finding]:
    """All metrics are the same to the last digit in repeats, which have different seeds."""
    yield from context.same.get("seed_unused", ())


@detects(
    "`batch_size` is that of a step of the optimizer, over all devices and accumulated gradients: divide it in the "
    "function",
    caution=True,
)
def other_batch_size(run: Attempt, context: Context) -> Iterator[Finding]:
    """In a training function, an optimizer's step has over {TOLERANCE:.0%} more or fewer examples than `batch_size`.

    They do in every epoch, since a scaler of gradients leaves out steps of the first ones until it has found its scale.
    """
    batch = run.cell.settings.batch_size
    if not run.cell.has_own_loop or not batch:
        return
    counts = (run.full_epochs.column(name) for name in ("optimizer_steps", "steps", "examples"))
    sizes = [_examples_per_step(own or steps, examples, batch) for own, steps, examples in zip(*counts, strict=True)]
    if sizes and all(sizes):
        per_step = min(filter(None, sizes), key=lambda size: max(size / batch, batch / size))
        text = f"a step of the run's optimizer had {per_step:.4g} examples, and `batch_size` is {batch}"
        yield Finding(text, max(per_step / batch, batch / per_step))


def _examples_per_step(steps: int, examples: int, batch: int) -> float | None:
    """Return the examples per step of the optimizer in an epoch; None if they are not known, or as `batch` says."""
    # The last batch of a pass may be smaller, and the last accumulated gradients are of fewer batches.
    if not steps or not examples or (steps - 1) * batch < examples <= steps * batch:
        return None
    per_step = examples / steps
    return None if batch / (1 + TOLERANCE) <= per_step <= batch * (1 + TOLERANCE) else per_step


@detects("move the model and the batches to `trial.device`", caution=True)
def accelerator_unused(run: Attempt, context: Context) -> Iterator[Finding]:
    """In the first epoch of a training function no memory was allocated on its accelerator."""
    if not run.cell.has_own_loop or hosted(str(run.cell.device.kind)):
        return
    if 0 in run.epochs.column("memory_peak_bytes")[:1]:
        yield Finding(f"the run allocated no memory on its {run.cell.device.kind} device", 1.0)

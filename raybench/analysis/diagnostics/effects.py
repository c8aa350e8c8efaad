"""Settings that had no effect, and training loops that did something else than the grid says.

raybench's own loops do what the grid says, which its tests show; a loop of the user is only observed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from raybench.analysis.diagnostics.finding import Context, Observation, detects
from raybench.core.identity import canonical
from raybench.core.settings import CONVERGENCE, PARAM, TRAINING, affecting, short_name
from raybench.core.status import TrialStatus
from raybench.core.text import format_value, join_words
from raybench.devices import hosted
from raybench.results.attempt import Attempt, Key
from raybench.results.epoch import Epoch

OPTIMIZER = ("weight_decay", "learning_rate")
"""Axes that a step of an optimizer shows."""

DISTINCT = 3
"""Fewest different numbers that are the same in two runs by no coincidence: an accuracy alone may be that of chance."""

TOLERANCE = 0.1
"""Share by which the examples per step may differ from the batch size, such as by a few steps that were left out."""

K = TypeVar("K", bound=Hashable)

Observations = Mapping[Key, Mapping[str, Observation]]


def compare_effects(attempts: Iterable[Attempt], axes: Iterable[str]) -> Observations:
    """Compare runs that differ in one axis, or in the seed alone.

    Args:
        attempts: of one grid.
        axes: names of the axes of the grid.

    Returns:
        Observations by attempt and by the code of the finding.
    """
    runs = [run for run in attempts if run.status == TrialStatus.COMPLETED and run.cell]
    observations: dict[Key, dict[str, Observation]] = {}

    def note(code: str, group: Iterable[Attempt], says: str, remedy: str = "") -> None:
        for run in group:
            observations.setdefault(run.key, {}).setdefault(code, Observation(says, {"same": 1.0}, remedy=remedy))

    for axis in axes:
        in_optimizer, in_learning = axis in OPTIMIZER, axis in affecting(CONVERGENCE) or axis.startswith(PARAM)
        if not in_optimizer and not in_learning:
            continue
        for group, values in _groups(runs, axis):
            name, listed = short_name(axis), join_words([format_value(value) for value in values])
            if in_optimizer and _same(group, _optimizers):
                says = f"its optimizer has the same learning rate and weight decay with `{name}` {listed}"
                note("optimizer_unchanged", group, says, f"pass `{name}` to the optimizer")
            if in_learning and _same_metrics(group):
                note("no_effect", group, f"all its metrics are the same to the last digit with `{name}` {listed}")
    for repeats in _by(runs, lambda run: run.cell_id).values():
        seeds = {run.seed for run in repeats}
        if len(seeds) > 1 and _same_metrics(repeats):
            note("seed_unused", repeats, f"all its metrics are the same to the last digit with {len(seeds)} seeds")
    return observations


def _groups(runs: Iterable[Attempt], axis: str) -> Iterator[tuple[list[Attempt], list[Any]]]:
    """Yield runs of one repeat that differ in one axis alone, with their values on it."""
    leaf = axis if axis.startswith(PARAM) else f"settings.{'.'.join(TRAINING[axis].path)}" if axis in TRAINING else axis

    other_leaves: dict[int, str] = {}

    def rest(run: Attempt) -> tuple[int, str]:
        key = id(run.cell)  # attempts at one cell share the object
        if key not in other_leaves:
            other_leaves[key] = canonical({name: value for name, value in run.cell.leaves().items() if name != leaf})
        return run.repeat, other_leaves[key]

    for group in _by(runs, rest).values():
        on_axis = [run.cell.leaves().get(leaf) for run in group]
        values = list({canonical({"": value}): value for value in on_axis}.values())
        if len(values) > 1:
            yield group, values


def _by(runs: Iterable[Attempt], key: Callable[[Attempt], K]) -> dict[K, list[Attempt]]:
    groups: dict[K, list[Attempt]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def _same(group: Sequence[Attempt], values_of: Callable[[Attempt], Any]) -> bool:
    """Return whether values are known in all runs, and the same."""
    first, *others = group
    values = values_of(first)
    return bool(values) and all(values_of(run) == values for run in others)


def _same_metrics(group: Sequence[Attempt]) -> bool:
    """Return whether the metrics of all epochs are known in all runs, and the same."""
    # Those of the last epoch alone nearly always differ.
    return _same(group, lambda run: [epoch.metrics for epoch in run.epochs[-1:]]) and _same(group, _metrics)


def _optimizers(run: Attempt) -> list[Any]:
    """The optimizers of all epochs; empty if one is not known."""
    optimizers = [list(epoch.optimizers) for epoch in run.epochs]
    return optimizers if all(optimizers) else []


def _metrics(run: Attempt) -> list[Any]:
    """The metrics of all epochs; empty if they are too few to be the same by no coincidence."""
    metrics = [dict(epoch.metrics) for epoch in run.epochs]
    return metrics if len({value for each in metrics for value in each.values()}) >= DISTINCT else []


@detects(
    "optimizer_unchanged",
    condition="in a training function the optimizer's learning rate and weight decay are the same for all values of "
    "the axis `weight_decay` or `learning_rate`",
    remedy="pass the setting to the optimizer",
)
def optimizer_unchanged(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect an axis that does not reach the optimizer."""
    yield from _noted("optimizer_unchanged", attempt, context)


@detects(
    "no_effect",
    condition="all metrics are the same to the last digit for all values of an axis that affects convergence",
    remedy="look whether the setting is used; if it is meant to change only the speed, ignore this",
)
def no_effect(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect an axis without effect on what is learned."""
    yield from _noted("no_effect", attempt, context)


@detects(
    "seed_unused",
    condition="all metrics are the same to the last digit in repeats, which have different seeds",
    remedy="seed all random generators with `trial.seed`, or `{seed}` in a command: the repeats then show how much "
    "results vary",
)
def seed_unused(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect repeats that do not depend on their seeds."""
    yield from _noted("seed_unused", attempt, context)


def _noted(code: str, attempt: Attempt, context: Context) -> Iterator[Observation]:
    observation = context.effects.get(attempt.key, {}).get(code)
    if observation:
        yield observation


@detects(
    "other_batch_size",
    condition="in a training function the examples per step of the optimizer differ from `batch_size` by more than 10% "
    "in every epoch",
    remedy="`batch_size` is that of a step of the optimizer, over all devices and accumulated gradients: divide it in "
    "the function",
)
def other_batch_size(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect another number of examples per step of the optimizer than the grid says."""
    batch = attempt.cell.settings.batch_size
    if not attempt.cell.has_own_loop or not batch:
        return
    # In each epoch, since a scaler of gradients leaves out steps of the first ones until it has found its scale.
    sizes = [_examples_per_step(epoch, batch) for epoch in attempt.full_epochs]
    if sizes and all(sizes):
        per_step = min(filter(None, sizes), key=lambda size: max(size / batch, batch / size))
        yield Observation(
            f"a step of its optimizer had {per_step:.4g} examples, and `batch_size` is {batch}",
            {"ratio": max(per_step / batch, batch / per_step)},
        )


def _examples_per_step(epoch: Epoch, batch: int) -> float | None:
    """The examples per step of the optimizer in an epoch; None if they are not known, or as `batch` says."""
    steps = epoch.optimizer_steps or epoch.steps
    # The last batch of a pass may be smaller, and the last accumulated gradients are of fewer batches.
    if not steps or not epoch.examples or (steps - 1) * batch < epoch.examples <= steps * batch:
        return None
    per_step = epoch.examples / steps
    return None if batch / (1 + TOLERANCE) <= per_step <= batch * (1 + TOLERANCE) else per_step


@detects(
    "accelerator_unused",
    condition="in the first epoch of a training function no memory was allocated on its accelerator",
    bias="none: it is that of another device",
    did="allocated no memory on an accelerator",
    measures="the host, not the accelerator",
    remedy="move the model and the batches to `trial.device`",
)
def accelerator_unused(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect a training loop that computes on the host."""
    if not attempt.cell.has_own_loop or hosted(attempt.cell.device.kind):
        return
    if [epoch.memory_peak_bytes for epoch in attempt.epochs[:1]] == [0]:
        yield Observation(f"it allocated no memory on its {attempt.cell.device.kind} device", {"bytes": 0.0})


@detects(
    "output_buffered",
    condition="the lines of several epochs of a command arrived together",
    bias="not known: the first of them has the time of all",
    did="printed several epochs at once",
    measures="when its output arrived, not when its epochs ended",
    remedy="let the program write its output after each line: `fflush()` in awk and C, `$| = 1` in Perl, `stdbuf -oL` "
    "before a program that uses C's stdio",
)
def output_buffered(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect a program whose output is buffered."""
    together = [epoch.epochs_in_read for epoch in attempt.epochs if epoch.epochs_in_read]
    if together:
        yield Observation(
            f"its output had up to {max(together)} epochs at once, whose times are not known singly",
            {"epochs": float(max(together))},
        )

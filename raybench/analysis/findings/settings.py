"""Findings about settings that had no effect, and training loops that did something else than the grid says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from raybench.analysis.findings.finding import Finding, OfRuns, detects
from raybench.analysis.measured import are_same
from raybench.core.groups import grouped
from raybench.core.identity import canonical
from raybench.core.settings import LEARNING, PARAM, SETTINGS, TRAINING, short_name
from raybench.core.status import TrialStatus
from raybench.core.text import format_value, join_words
from raybench.devices import hosted
from raybench.results.run_table import Run

OPTIMIZER = ("weight_decay", "learning_rate")  # axes that a step of an optimizer shows
TOLERANCE = 0.1  # share by which the examples per step may differ from the batch size


def _differing_in(axis: str, runs: Iterable[Run]) -> Iterator[tuple[list[Run], str]]:
    """Yield completed runs of one repeat that differ in one axis alone, with their values on it."""
    leaf = axis if axis.startswith(PARAM) else f"settings.{'.'.join(TRAINING[axis].path)}" if axis in TRAINING else axis
    rest: dict[int, str] = {}

    def key(run: Run) -> tuple[int, str]:
        if id(run.cell) not in rest:  # runs of one cell may share the object
            rest[id(run.cell)] = canonical({name: value for name, value in run.cell.leaves.items() if name != leaf})
        return run.repeat, rest[id(run.cell)]

    for group in grouped((key(run), run) for run in runs if _is_complete(run)).values():
        values = list(dict.fromkeys(format_value(run.cell.leaves.get(leaf)) for run in group))
        if len(values) > 1:
            yield group, join_words(values)


def _is_complete(run: Run) -> bool:
    return run.status == TrialStatus.COMPLETED and bool(run.cell)


def _optimizers(run: Run) -> list[Any]:
    """Return the optimizers of all epochs; empty if one is not known."""
    optimizers = list(run.epochs.column("optimizers"))
    return optimizers if all(optimizers) else []


@detects("pass the setting to the optimizer", caution=True, of_grid=True)
def optimizer_unchanged(runs: Sequence[Run], axes: Collection[str]) -> Iterator[OfRuns]:
    """In a training function, the optimizer's learning rate and weight decay do not change with their axis."""
    for axis in (name for name in axes if name in OPTIMIZER):
        for group, values in _differing_in(axis, runs):
            if are_same([_optimizers(run) for run in group]):
                text = f"the optimizer has the same learning rate and weight decay with `{short_name(axis)}` {values}"
                yield group, Finding(text, remedy=f"pass `{short_name(axis)}` to the optimizer")


@detects("check that the setting is used, unless it changes only the speed", of_grid=True)
def no_effect(runs: Sequence[Run], axes: Collection[str]) -> Iterator[OfRuns]:
    """All metrics are the same to the last digit for all values of an axis that affects convergence."""
    for axis in axes:
        if LEARNING in SETTINGS[axis].affects if axis in SETTINGS else axis.startswith(PARAM):
            for group, values in _differing_in(axis, runs):
                if are_same([run.distinct_metrics for run in group]):
                    text = f"all metrics are the same to the last digit with `{short_name(axis)}` {values}"
                    yield group, Finding(text)


@detects(
    "seed all random generators with `trial.seed`, or by an option of the command such as `--seed '{seed}'`",
    caution=True,
    about="quality",
    of_grid=True,
)
def seed_unused(runs: Sequence[Run], axes: Collection[str]) -> Iterator[OfRuns]:
    """All metrics are the same to the last digit in repeats, which have different seeds."""
    for repeats in grouped((run.cell_id, run) for run in runs if _is_complete(run)).values():
        if len({run.seed for run in repeats}) > 1 and are_same([run.distinct_metrics for run in repeats]):
            yield repeats, Finding(f"all metrics are the same to the last digit in {len(repeats)} repeats")


@detects(
    "divide `batch_size` in the function: it is that of an optimizer's step, over devices and accumulated gradients",
    caution=True,
)
def other_batch_size(run: Run) -> Iterator[Finding]:
    """In a training function, an optimizer's step has over {TOLERANCE:.0%} more or fewer examples than `batch_size`.

    They do in every epoch, since a scaler of gradients leaves out steps of the first ones until it has found its scale.
    """
    batch = run.cell.settings.batch_size
    if not run.cell.has_own_loop or not batch:
        return
    counts = (run.full_epochs.column(name) for name in ("optimizer_steps", "steps", "examples"))
    sizes = [
        _examples_per_step(optimizer_steps or steps, examples, batch)
        for optimizer_steps, steps, examples in zip(*counts, strict=True)
    ]
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


@detects("set `decay` or `decay_rule` to how the decay acts", caution=True, about="quality")
def other_decay(run: Run) -> Iterator[Finding]:
    """The check before the runs shows that weight decay acts by a different rule, or with a different factor."""
    check = run.decay_check
    if check.get("passed") is False and run.cell.settings.weight_decay:
        yield Finding(f"the check of the run's weight decay {check.get('says')}")


@detects("move the model and the batches to `trial.device`", caution=True)
def accelerator_unused(run: Run) -> Iterator[Finding]:
    """In the first epoch of a training function no memory was allocated on its accelerator."""
    if not run.cell.has_own_loop or hosted(str(run.cell.device.kind)):
        return
    if 0 in run.epochs.column("memory_peak_bytes")[:1]:
        yield Finding(f"the run allocated no memory on its {run.cell.device.kind} device")

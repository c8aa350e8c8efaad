"""What is compared with what: each cell of a grid and its baseline, as plain numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from raybench.analysis import rules
from raybench.analysis.comparison import ACCURACY, Beside, PlannedCell, bound, lacking, origins, runs_of, times_of
from raybench.analysis.conditions import Finding
from raybench.analysis.crossover import Process, before_training, of_attempt
from raybench.analysis.factored import TIMED_FOR
from raybench.analysis.results import Attempt, Key
from raybench.analysis.target import Try, try_of
from raybench.cell import LATER
from raybench.plan import short
from raybench.trial import events
from raybench.trial.job import Target

NOT_RUN, UNFINISHED = "not run", "unfinished"

WORDS = {"batch_size": "batch", "weight_decay": "decay", "optimizer name": "optimizer"}
"""What sentences call an axis; others go by their own name."""

NOT_TOLD = "not told"
"""What sentences say of a setting that a source has left out."""

EVEN = 1.01
"""Up to this ratio of examples two epochs are the same work: of different batches each leaves out its ragged end."""

UNKNOWN = "?"
"""The workload of runs that do not tell theirs."""

HARDWARE = frozenset({"device", "threads", "cpus", "count", "compile", "input", "channels_last"})
"""Axes that do not bear on how many epochs a target takes."""

OF_HARDWARE = ("model", "count", "devices", "threads")
"""What of a cell's device says which hardware it is, and how much of it; its kind may be another way to the same."""

LEARN_ALIKE = ("epochs ", "compile ", "input ", "channels last ", "steps per execution ", "evaluation batch size ")
"""How the differences begin that do not bear on it either."""


@dataclass(frozen=True)
class Side:
    """The runs of one cell.

    Attributes:
        name: what tells it from the other side, such as "gpu" or "batch 128".
        planned: how many runs were wanted.
        times: repeat and steady seconds an epoch, of completed runs.
        epoch_times: for each machine its completed runs, and for each of those its steady epochs, in seconds.
        from_warmup: whether one of them had no epoch after its warm-up.
        accuracies: of the last epoch, shares, of completed runs.
        epochs: how many epochs completed runs had: one number, unless they stopped at a target.
        examples: how many an epoch trains on; None where nobody told.
        stops: whether a run ends where it reaches its target.
        troubles: how many runs there are of each other status, `NOT_RUN` and `UNFINISHED` included.
        skip: why it cannot run here, where that is so.
        bound_by: what held its runs up, most often first; None where nobody looked.
        doubts: codes of its runs' findings.
        tries: its runs towards the target, where one was set.
        processes: what its completed runs paid once and for each step.
        before: mean seconds that these paid before their training; 0 where nobody told.
        price_per_hour: of its device.
    """

    name: str
    planned: int
    times: Mapping[int, float] = field(default_factory=dict)
    epoch_times: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    from_warmup: bool = False
    accuracies: tuple[float, ...] = ()
    epochs: frozenset[float] = frozenset()
    examples: int | None = None
    stops: bool = False
    troubles: Mapping[str, int] = field(default_factory=dict)
    skip: str | None = None
    bound_by: str | None = None
    doubts: frozenset[str] = frozenset()
    tries: tuple[Try, ...] = ()
    processes: tuple[Process, ...] = ()
    before: float = 0.0
    price_per_hour: float | None = None


@dataclass(frozen=True)
class Pair:
    """A cell and the one it is compared with.

    Attributes:
        workload: what was trained.
        setting: where in the grid both lie, such as "batch 256, decay 5e-4"; may be empty.
        other: the cell.
        baseline: the other's baseline; None where it has none: it is the baseline itself, none was named, or the
            cell with the baseline's values is not in the grid.
        is_baseline: whether others are compared with `other`.
        again: whether both are the same cell, for an A/A check.
        hardware: whether they ran on different hardware, or on more or less of one, as far as is known; where not, no
            ratio of theirs is credited to any.
        learning: what makes them learn differently, as far as is known: those differences, and what is compared where
            that is more than the hardware.
        differences: what they differ in beside the baseline's fields, such as "precision (bf16 against fp32)".
        beside: repeat and times of other cells that ran in the same repeats on the same machine; empty where the sides
            were not on one machine.
        examples: how many the validation set has; None where that is not known.
        target: the quality to reach, where one was set.
    """

    workload: str
    setting: str
    other: Side
    baseline: Side | None = None
    is_baseline: bool = False
    again: bool = False
    hardware: bool = True
    differences: tuple[str, ...] = ()
    learning: tuple[str, ...] = ()
    beside: tuple[Mapping[int, float], ...] = ()
    examples: int | None = None
    target: Target | None = None

    @property
    def same_steps(self) -> bool:
        """Whether an optimiser step is the same work on both sides: their batches are alike."""
        apart = any(difference.startswith("batch ") for difference in self.differences)
        return not apart and "batch" not in self.other.name.split()

    @property
    def even(self) -> bool:
        """Whether an epoch is the same work on both sides, as far as is known: as many examples, within 1 %."""
        counts = [side.examples for side in (self.other, self.baseline) if side and side.examples]
        return len(counts) < 2 or max(counts) <= EVEN * min(counts)


def pairs(
    cells: Sequence[PlannedCell],
    latest: Mapping[str, Attempt],
    baseline: Mapping[str, Any] | None = None,
    metric: str = ACCURACY,
    findings: Mapping[Key, Iterable[Finding]] | None = None,
) -> list[Pair]:
    """A pair for each cell, in order. The arguments are those of `raybench.analysis.comparison.compare`."""
    baseline, findings = baseline or {}, findings or {}
    runs = [runs_of(cell, latest) for cell in cells]
    varied = _varied(cells)
    fields = [name for name in varied if name in baseline] or list(baseline)
    others = Beside(runs, [times_of(mine) for mine in runs])
    sides = [_side(*each, fields, metric, findings) for each in zip(cells, runs, strict=True)]
    found = []
    for number, origin in enumerate(origins(cells, baseline)):
        cell, mine, side = cells[number], runs[number], sides[number]
        start = next((run for run in mine if run.cell), None)
        shown = [name for name in varied if name not in fields]
        if "batch_size" in cell.axes and "batch_size" not in (*shown, *fields):
            shown.insert(0, "batch_size")
        pair = Pair(
            workload=_workload(start or next((run for some in runs for run in some if run.cell), None)),
            setting=", ".join(named(name, cell.axes[name]) for name in shown if name in cell.axes),
            other=side,
            is_baseline=origin == number and not cell.again,
            again=cell.again is not None,
            examples=start.cell.get("data", {}).get("examples", {}).get("val") if start else None,
            target=next((run.target for run in mine if run.target), None),
        )
        if origin is not None and origin != number:
            first = next((run for run in runs[origin] if run.cell), None)
            apart = differences(first.cell, start.cell, fields) if first and start else ()
            compared = () if set(fields) <= HARDWARE else (f"{side.name} against {sides[origin].name}",)
            pair = replace(
                pair,
                baseline=sides[origin],
                differences=apart,
                hardware=not (first and start) or _hardware(first) != _hardware(start),
                learning=(*compared, *(each for each in apart if not each.startswith(LEARN_ALIKE))),
                beside=tuple(others.of(origin, number)),
            )
        found.append(pair)
    return found


def differences(baseline: Mapping[str, Any], other: Mapping[str, Any], fields: Sequence[str]) -> tuple[str, ...]:
    """What two cells differ in beside the fields in which they are meant to: how they learn, and in what framework.

    The hardware itself, its threads and what follows from the framework are no such difference.
    """

    timed = any(TIMED_FOR in cell for cell in (baseline, other))

    def leaves(cell: Mapping[str, Any]) -> dict[str, Any]:
        settings = {**cell.get("settings", {})}
        if timed:
            # A timing stands for a training, and is cut short for no other reason.
            settings = {name: value for name, value in settings.items() if name not in ("epochs", "stop_at_target")}
        settings |= {f"optimizer {key}": value for key, value in dict(settings.pop("optimizer", {}) or {}).items()}
        job = {"replicas": cell.get("device", {}).get("replicas"), "framework": cell.get("framework")}
        return {**settings, **{name: value for name, value in job.items() if value is not None}}

    mine, theirs = leaves(other), leaves(baseline)
    # A cell has what came later only where it differs from its default.
    later = {key: default for key, default in LATER.items() if key in mine or key in theirs}
    mine, theirs = {**later, **mine}, {**later, **theirs}
    apart = [key for key in mine if mine[key] != theirs.get(key) and key.removeprefix("optimizer ") not in fields]
    return tuple(f"{_called(key)} ({_shown(mine[key])} against {_shown(theirs.get(key, NOT_TOLD))})" for key in apart)


def _called(key: str) -> str:
    """What sentences call a setting; one of the optimiser by its own name."""
    return WORDS.get(key) or WORDS.get(own := key.removeprefix("optimizer ")) or own.replace("_", " ")


def _shown(value: Any) -> str:
    return "none" if value is None else short(value)


def _varied(cells: Sequence[PlannedCell]) -> list[str]:
    """The axes by which cells are told apart, in order: with more than one value, or with one that others lack."""
    values: dict[str, list[Any]] = {}
    for cell in cells:
        for name, value in cell.axes.items():
            values.setdefault(name, []).append(value)
    return [name for name, some in values.items() if any(value != some[0] for value in some) or lacking(name, cells)]


def _side(
    cell: PlannedCell,
    runs: Sequence[Attempt],
    fields: Sequence[str],
    metric: str,
    findings: Mapping[Key, Iterable[Finding]],
) -> Side:
    done = [run for run in runs if run.status == events.COMPLETED]
    troubles = Counter(run.status or UNFINISHED for run in runs if run.status != events.COMPLETED)
    if len(runs) < cell.repeats and not cell.skip:
        troubles[NOT_RUN] = cell.repeats - len(runs)
    skipped = [str(run.error["message"]) for run in runs if run.status == events.SKIPPED and run.error]
    target = next((run.target for run in runs if run.target), None)
    held_up = bound(runs)
    values = [value for run in done if (value := run.metric(metric)) is not None]
    name = ", ".join(
        short(cell.axes[key]) if key == "device" else named(key, cell.axes[key]) for key in fields if key in cell.axes
    )
    return Side(
        name=(name or _fallback(cell)) + (" again" if cell.again else ""),
        planned=cell.repeats,
        times=times_of(runs),
        epoch_times=_epoch_times(done),
        from_warmup=any(map(rules.steady_from_warmup, done)),
        accuracies=tuple(values) if metric == ACCURACY else (),
        epochs=frozenset(map(_trained, done)),
        examples=next((rules.steady_epochs(run)[-1].examples for run in done if run.epochs), None) or None,
        stops=any(run.stops for run in runs),
        troubles=troubles,
        skip=cell.skip or (skipped[0] if skipped and len(skipped) == len(runs) else None),
        bound_by=held_up.by if held_up else None,
        doubts=frozenset(finding.code for run in done for finding in findings.get(run.key, ())),
        tries=tuple(each for run in runs if target and (each := try_of(run, target))),
        processes=tuple(process for run in done if (process := of_attempt(run))),
        before=fmean(map(before_training, done)) if done else 0.0,
        price_per_hour=cell.price_per_hour,
    )


def _trained(run: Attempt) -> float:
    """How many epochs a run had; where the last is a part of one, as many as were asked for, such as 9.9."""
    every = len(run.epochs)
    return float(run.cell["settings"]["epochs"]) if len(run.whole) < every else every


def _epoch_times(done: Sequence[Attempt]) -> dict[str, list[list[float]]]:
    found: dict[str, list[list[float]]] = {}
    for run in done:
        times = [rules.steady_seconds(epoch) for epoch in rules.steady_epochs(run)]
        found.setdefault(str(run.host.get("name")), []).append([seconds for seconds in times if seconds > 0])
    return found


def _fallback(cell: PlannedCell) -> str:
    """What a cell is called where no baseline says what tells it from others."""
    return short(cell.axes["device"]) if "device" in cell.axes else cell.cell_id


def named(name: str, value: Any) -> str:
    """A value on an axis in words: "batch 128", "decay 5e-4"."""
    return f"{WORDS.get(name, name.replace('_', ' '))} {short(value)}"


def _hardware(run: Attempt) -> list[Any]:
    device = run.cell.get("device", {})
    return [device.get(name) for name in OF_HARDWARE]


def _workload(run: Attempt | None) -> str:
    return str(run.cell.get("workload", {}).get("name") or UNKNOWN) if run else UNKNOWN

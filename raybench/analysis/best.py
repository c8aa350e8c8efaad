"""The best setting of each device for a target: from a grid's cells and runs through the factored surface to words."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raybench.analysis import rules
from raybench.analysis.comparison import PlannedCell, runs_of
from raybench.analysis.crossover import before_training, of_attempt
from raybench.analysis.factored import Setting, setting_of
from raybench.analysis.reaching import goal
from raybench.analysis.refutation import Check, FullRun, check
from raybench.analysis.results import Attempt
from raybench.analysis.sentences import Sentence, digits, interval, listed, name, sentence, strong
from raybench.analysis.sides import named
from raybench.analysis.standing import PLACE, places
from raybench.analysis.surface import Learning, Prediction, Surface
from raybench.analysis.target import try_of
from raybench.trial import events
from raybench.trial.job import Target


@dataclass(frozen=True)
class Study:
    """A grid seen as a factored study.

    Attributes:
        surface: what every setting takes to the target, as far as it can be known.
        checks: what full runs said of predictions: those of devices on which a setting was trained although its epochs
            were known from another.
        cells: the cell of each setting.
        measured_on: for each thing to be learned the device whose runs say how many epochs it takes.
    """

    surface: Surface
    checks: tuple[Check, ...]
    cells: Mapping[Setting, PlannedCell]
    measured_on: Mapping[Hashable, str] = field(default_factory=dict)


def study_of(cells: Sequence[PlannedCell], latest: Mapping[str, Attempt], target: Target) -> Study | None:
    """Put a grid's runs together as a factored surface, whether it was run in full or factored.

    For each thing to be learned, the first cell that was trained to the target says how many epochs it takes; full
    runs of it on other devices check that. Epoch times and starts are those of every completed run, so that on such a
    device the check is of its epochs, and of whether the parts add up.

    Args:
        cells: the grid's, of which each has its content or a run that knows it; others are left aside.
        latest: the latest attempt of each trial.
        target: the quality to reach.

    Returns:
        None where no cell was trained to the target.
    """
    runs = {cell.cell_id: runs_of(cell, latest) for cell in cells}
    known = [(cell, content) for cell in cells if not cell.again and (content := _content(cell, runs[cell.cell_id]))]
    varied = [axis for axis in dict.fromkeys(a for cell in cells for a in cell.axes) if _varies(axis, cells)]
    where = places(cells)
    placed: dict[Setting, PlannedCell] = {}
    epoch_s: dict[Hashable, list[float]] = {}
    start_s: dict[Hashable, list[float]] = {}
    learned: dict[Hashable, list[Learning]] = {}
    measured_on: dict[Hashable, str] = {}
    checks: dict[Setting, list[FullRun]] = {}
    for cell, content in known:
        device = where[cell.cell_id] or str(content["device"]["kind"])
        words = ", ".join(named(axis, cell.axes[axis]) for axis in varied if axis not in PLACE and axis in cell.axes)
        setting = setting_of(device, words or str(content["workload"]["name"]), content)
        placed[setting] = cell
        for run in runs[cell.cell_id]:
            steady, process = rules.steady(run), of_attempt(run)
            if run.status == events.COMPLETED and steady:
                epoch_s.setdefault(setting.timed, []).append(steady)
                if process:
                    start_s.setdefault(setting.timed, []).append(process.once)
        trained = [run for run in runs[cell.cell_id] if not run.only_timed]
        tries = [(run, found) for run in trained if (found := try_of(run, target))]
        told = [Learning(max(1.0, found.epochs or 0.0), found.reached) for _, found in tries]
        if told and setting.learned not in learned:
            learned[setting.learned] = told
            measured_on[setting.learned] = device
        elif told:
            full = zip(tries, told, strict=True)
            checks[setting] = [FullRun(before_training(run) + found.seconds, each) for (run, found), each in full]
    if not learned:
        return None
    surface = Surface(list(placed), epoch_s, start_s, learned)
    return Study(surface, tuple(check(surface, checks)), placed, measured_on)


def best_settings(study: Study, target: Target, baseline: str = "") -> list[Sentence]:
    """The best setting of each device, how sure that is, what they come to beside each other, and what was refuted.

    Args:
        study: the grid.
        target: the quality to reach.
        baseline: the device that the others are set beside; the first where it has no best setting.
    """
    best = study.surface.best
    refuted = {each.setting for each in study.checks if each.refuted_by}
    told = []
    for device, found in best.items():
        choice = sum(each.setting.device == device and each.seconds is not None for each in study.surface.predictions)
        told.append(_best(device, found, study, goal(target), choice > 1, found.setting in refuted))
    devices = sorted((device for device, found in best.items() if found.seconds), key=lambda each: each != baseline)
    for device in devices[1:]:
        sides = best[devices[0]].setting, best[device].setting
        ratio = study.surface.ratio(*sides)
        if ratio and refuted.isdisjoint(sides):
            told.append(
                sentence(
                    f"Each at its best, to {goal(target)}: ", name(device), " is ",
                    strong(f"{digits(ratio[0])} × as fast"), " as ", name(devices[0]), interval(*ratio[1:]), ".",
                )
            )  # fmt: skip
    never = [each.setting for each in study.surface.predictions if each.share == 0]
    if never:
        places = listed(list(dict.fromkeys(setting.name for setting in never)))
        told.append(sentence(f"No run reached {goal(target)} with ", name(places), "."))
    return [*told, *(sentence(each.says) for each in study.checks if each.refuted_by)]


def learns_apart(study: Study, target: Target) -> list[Sentence]:
    """Where full runs on one device took other numbers of epochs than on another, or missed what was reached there."""
    wanted = goal(target)
    words = {"epochs": f"do not take as many epochs to {wanted} as", "misses": f"miss {wanted} more often than"}
    return [
        sentence(
            f"With {each.setting.name}, runs on ", name(each.setting.device), f" {words[each.refuted_by]} those on ",
            name(study.measured_on[each.setting.learned]), ".",
        )
        for each in study.checks if each.refuted_by in words
    ]  # fmt: skip


def _best(device: str, found: Prediction, study: Study, wanted: str, choice: bool, refuted: bool) -> Sentence:
    assert found.seconds is not None
    sure = "" if found.fastest is None or not choice else f", the fastest there with probability {found.fastest:.2f}"
    runs = study.surface.runs[found.setting.learned]
    # Where none of few missed, restarts are not counted: how few they were has to be seen.
    hits = sum(run.reached for run in runs)
    reached = f"; {hits} of {len(runs)} training{'s' if len(runs) > 1 else ''} of this setting reached it"
    doubt = ", which full runs there refute" if refuted else ""
    return sentence(
        "On ", name(device), ", ", strong(found.setting.name), f" takes {digits(found.seconds)} s to {wanted}",
        interval(found.low, found.high, " s"), sure, reached, doubt, ".",
    )  # fmt: skip


def _content(cell: PlannedCell, runs: Sequence[Attempt]) -> Mapping[str, Any]:
    return cell.content or next((run.cell for run in runs if run.cell), {})


def _varies(axis: str, cells: Sequence[PlannedCell]) -> bool:
    values = [cell.axes.get(axis) for cell in cells]
    return any(value != values[0] for value in values)

"""What a whole grid comes to, in a few sentences: all of them where cells are few, else what they have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import fmean

from raybench.analysis import target
from raybench.analysis.best import best_settings, learns_apart, study_of
from raybench.analysis.comparison import ACCURACY
from raybench.analysis.reaching import goal, proven, to_target
from raybench.analysis.sentences import Sentence, Span, code, digits, interval, name, sentence, strong
from raybench.analysis.sides import Pair
from raybench.analysis.standing import PLACE, Standing
from raybench.analysis.verdict import NOT_THE_HARDWARE, compared, trouble, verdict, which_epochs

FEW = 3
"""Comparisons that are all told in the verdict; of more, what they have in common and the one that was fastest."""

CHECKED = 200
"""Cells of a full grid whose epochs to the target are compared from device to device: of more it takes long."""


Paragraph = list[Sentence]


def in_full(pair: Pair) -> Paragraph:
    """Everything that one comparison comes to, the target last."""
    return [*verdict(pair), *([] if pair.again else to_target(pair))]


def in_words(pair: Pair) -> Paragraph:
    """The same, and whether the mean over runs is shown to reach the target."""
    wanted = pair.target
    if pair.again or wanted is None or wanted.metric != ACCURACY or wanted.at_least is None:
        return in_full(pair)
    # Runs that stop at the target are above it by their making: they prove no mean.
    several = len(pair.other.accuracies) > 1 and not pair.other.stops
    shown = proven(pair.other, wanted.at_least, pair.examples) if several else None
    return [*in_full(pair), *([shown] if shown else [])]


def summed_up(standing: Standing, found: Sequence[Pair]) -> list[Paragraph]:
    """The verdict on a grid: paragraphs, each with what matters most first.

    Args:
        standing: the grid.
        found: a pair for each cell.
    """
    timed = [pair for pair in found if compared(pair) and not pair.again]
    few = len(timed) <= FEW
    told: list[Paragraph] = []
    if timed and few:
        told += map(in_full, timed)
    elif timed:
        groups: dict[str, list[Pair]] = {}
        for pair in timed:
            groups.setdefault(pair.other.name, []).append(pair)
        told += map(_in_common, groups.values())
    else:
        told += _alone(found)
    told += [verdict(pair) for pair in found if pair.again]
    if not (timed and few) or standing.factored:
        told.append(_to_target(standing, found))
    told.append(_missing(standing, found, {id(pair) for pair in timed} if few else set()))
    once: list[Paragraph] = []
    for paragraph in told:
        before = {each for earlier in once for each in earlier}
        kept = (each for each in dict.fromkeys(paragraph) if each == NOT_THE_HARDWARE or each not in before)
        once.append(list(kept))
    return [each for each in once if each] or [[_nothing(standing)]]


def _nothing(standing: Standing) -> Sentence:
    """Why there is no verdict."""
    done = [run for cell in standing.cells for run in standing.completed(cell)]
    if not done:
        return sentence("No run has completed, so that there is no verdict.")
    if all(run.by_sections for run in done):
        why = sentence("All runs timed the sections of their steps apart (", code("sections: true"), ")")
    else:
        why = sentence("No completed run has told how long an epoch took")
    return (*why, *sentence(", so that there is no verdict on speed."))


def _in_common(mine: Sequence[Pair]) -> Paragraph:
    """What the comparisons of one side with its baselines come to, and the one in which it is fastest, in full."""
    ratios = [(found, pair) for pair in mine if (found := compared(pair))]
    _, best = min(((fmean(pair.other.times.values()), number) for number, (_, pair) in enumerate(ratios)))
    pair = ratios[best][1]
    if len(ratios) == 1:
        return in_full(pair)
    assert pair.baseline is not None
    values = sorted(found.ratio for found, _ in ratios)
    faster = sum(bool(found.differs) and found.ratio > 1 for found, _ in ratios)
    slower = sum(bool(found.differs) and found.ratio < 1 for found, _ in ratios)
    once = sum(found.differs is None for found, _ in ratios)
    rest = len(ratios) - faster - slower - once
    several = (("surely faster", faster), ("surely slower", slower), ("no interval", once), ("not to be told", rest))
    counts = [f"{words} in {count}" for words, count in several if count]
    if rest and (faster or slower):
        counts[-1] += "; of 20 that are as fast, chance alone calls one faster or slower"
    sides = [side for _, each in ratios for side in (each.other, each.baseline) if side]
    head = sentence(
        "Over ", f"{len(ratios)} settings ", name(pair.other.name), " trains ", code(pair.workload), " ",
        strong(f"{digits(values[0])} to {digits(values[-1])} × as fast"), " as ", name(pair.baseline.name),
        f", {which_epochs(*sides)}: {', '.join(counts)}.",
    )  # fmt: skip
    (first, *behind), *more = verdict(pair)
    within = first._replace(text=first.text.replace("Whether ", "whether ", 1)) if not first.mark else first
    return [head, sentence("Where it is fastest: ", within, *behind), *more]


def _alone(found: Sequence[Pair]) -> list[Paragraph]:
    """Where nothing is compared: every cell if they are few, else the fastest and the slowest."""
    timed = [(fmean(pair.other.times.values()), verdict(pair)) for pair in found if pair.other.times and not pair.again]
    if len(timed) <= FEW:
        return [said for _, said in timed]
    timed.sort(key=lambda pair: pair[0])
    fastest, slowest = timed[0][1][0], timed[-1][1][0]
    return [[sentence(f"The fastest of {len(timed)} cells: ") + fastest, sentence("The slowest: ") + slowest]]


def _to_target(standing: Standing, found: Sequence[Pair]) -> list[Sentence]:
    """Which setting is expected to reach the target first, on each device."""
    wanted = standing.target
    if wanted is None:
        return []
    if standing.factored:
        study = study_of(standing.cells, standing.latest, wanted)
        return best_settings(study, wanted, _first(standing)) if study else []
    devices: dict[str, list[tuple[float, str, target.Expected]]] = {}
    tried: dict[str, int] = {}
    settings: Counter[str] = Counter()
    for cell, pair in zip(standing.cells, found, strict=True):
        expected = target.expected(pair.other.tries)
        device = standing.places[cell.cell_id]
        if expected and not cell.again:
            tried[device] = tried.get(device, 0) + expected.tries
            settings[device] += 1
            if expected.seconds is not None:
                label = standing.label(cell, without=PLACE)
                devices.setdefault(device, []).append((expected.seconds, label, expected))
    bound = goal(wanted)
    told = []
    for device, runs in tried.items():
        if device not in devices:
            of = f"None of {_runs(runs)}"
            told.append(sentence(of, *((" on ", name(device)) if device else ()), f" reached {bound}."))
            continue
        seconds, label, expected = min(devices[device], key=lambda each: each[0])
        place: tuple[str | Span, ...] = ("On ", name(device), ", ") if device else ()
        soonest = " soonest" if len(devices[device]) > 1 else ""
        alone = " alone" if settings[device] > 1 and not soonest else ""
        ends = interval(expected.low, expected.high, " s") if expected.high is not None else ""
        ends = f" with restarts{ends}" if expected.successes < expected.tries else ends
        took = (f"{alone} gets to {bound}{soonest}: in ", strong(f"{digits(seconds)} s"), " of training", ends)
        reached = f", {expected.successes} of {_runs(expected.tries)} reached it."
        told.append(sentence(*place, name(label) if label else code(standing.workload), *took, reached))
    if any(len(some) > FEW for some in devices.values()):
        told.append(sentence("The soonest of many settings had some luck, which its interval leaves out."))
    if len(tried) > 1 and len(found) <= CHECKED:
        study = study_of(standing.cells, standing.latest, wanted)
        told += learns_apart(study, wanted) if study else []
    return told


def _first(standing: Standing) -> str:
    """What the baseline runs on; empty without one."""
    wanted = standing.compared_with.items()
    there = (standing.places[cell.cell_id] for cell in standing.cells if wanted and wanted <= cell.axes.items())
    return next(there, "")


def _missing(standing: Standing, found: Sequence[Pair], told: Collection[int]) -> list[Sentence]:
    """The runs that are missing.

    Args:
        standing: the grid.
        found: a pair for each cell.
        told: the identities of pairs whose own sentences say so already.
    """
    cells = zip(standing.cells, found, strict=True)
    lacking = [
        replace(pair.other, name=standing.label(cell))
        for cell, pair in cells
        if not standing.completed(cell) and pair.other.planned
    ]
    if len(lacking) <= FEW:
        words = [said for side in lacking if (said := trouble(side))]
    else:
        words = [sentence(f"Of {len(found)} cells {len(lacking)} have no completed run.")]
    sides = {id(side) for pair in found if id(pair) in told for side in (pair.other, pair.baseline)}
    partly = [
        pair.other
        for pair in found
        if pair.other.times and len(pair.other.times) < pair.other.planned and id(pair.other) not in sides
    ]
    if partly:
        which = "One cell lacks" if len(partly) == 1 else f"{len(partly)} cells lack"
        words.append(sentence(f"{which} some of the planned runs."))
    return words


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"

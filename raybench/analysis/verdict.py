"""What a comparison means, in plain sentences: `contract.md` 6 is their smallest form.

Every sentence is true in the odd cases too: one run, runs that failed, a side without any, the same cell twice.
"""

from __future__ import annotations

import math

from raybench.analysis import welch
from raybench.analysis.accuracy import POINTS, compare_accuracy
from raybench.analysis.attribution import Conditions, credit
from raybench.analysis.costs import cost
from raybench.analysis.crossover import crossover
from raybench.analysis.sentences import (
    MOST,
    TWICE,
    Sentence,
    Span,
    code,
    digits,
    how_far,
    interval,
    listed,
    name,
    sentence,
    strong,
)
from raybench.analysis.sides import NOT_RUN, UNFINISHED, Pair, Side
from raybench.analysis.speedup import ALIKE, SURE_OF, Speedup, by_repeat, repeats_to_be_sure
from raybench.trial import events

CALLED = {
    events.OOM: "ran out of memory",
    events.DIVERGED: "diverged",
    events.TIMEOUT: "took longer than allowed",
    events.FAILED: "failed",
    events.LOST: "{was} lost with the machine",
    events.KILLED: "{was} stopped by a person",
    events.SKIPPED: "{was} skipped",
    NOT_RUN: "{was} not run",
    UNFINISHED: "{was} not finished",
}
"""What sentences say of runs with a status."""

CLOSE = 2.0
"""Where not even so many points of accuracy would have shown, that none have is no sign that both learn alike."""


NOT_THE_HARDWARE = sentence("The ratio is not to be credited to the hardware.")


def compared(pair: Pair) -> Speedup | None:
    """The speed-up of a pair, paired by repeat where that is right; None where a side has no time."""
    return by_repeat(pair.baseline.times, pair.other.times, pair.beside) if pair.baseline else None


def verdict(pair: Pair) -> list[Sentence]:
    """Everything that a pair comes to, the most important first."""
    found = compared(pair)
    told: list[Sentence | None]
    if found is None:
        told = [alone(pair)]
    elif pair.again:
        told = [same(pair, found)]
    else:
        told = [
            speed(pair, found),
            more(pair, found),
            *attribution(pair),
            also(pair),
            uneven(pair, found),
            length(pair),
            accuracy(pair),
            cost(pair, found),
        ]
    told += [trouble(side) for side in (pair.other, pair.baseline) if side]
    return [each for each in told if each]


def speed(pair: Pair, found: Speedup) -> Sentence:
    """Which is faster, by how much, and how sure that is."""
    baseline, other = _both(pair)
    head = (name(other.name), " trains ", *_what(pair))
    ratio, runs = f"{digits(found.ratio)} ×", _counts(len(other.times), len(baseline.times))
    epochs, ends = which_epochs(baseline, other), interval(found.low, found.high)
    if found.differs is False:
        shown = _runs(len(other.times), len(baseline.times))
        could = f"{_difference(found.detectable)} would have shown four times in five" if found.detectable else ""
        if found.detectable and found.detectable > ALIKE:
            return sentence(
                "Whether ", name(other.name), " trains ", *_what(pair), "faster or slower than ", name(baseline.name),
                " is ", strong("not to be told"), f" from {shown}: {ratio}, ", epochs, ends, f"; only {could}.",
            )  # fmt: skip
        return sentence(
            *head, strong("as fast"), " as ", name(baseline.name), f" within what {shown} can show: {ratio}, ", epochs,
            ends, f", and {could}" if could else "", ".",
        )  # fmt: skip
    by = ", repeat by repeat" if found.paired else ""
    longer = f": it takes {digits(1 / found.ratio)} × as long" if found.differs and found.ratio < 1 else ""
    return sentence(
        *head, strong(f"{ratio} as fast"), " as ", name(baseline.name), f", {epochs}, {runs}{by}{ends}{longer}."
    )


def more(pair: Pair, found: Speedup) -> Sentence | None:
    """How many runs would tell, where no difference is shown and 5 % would not have been; else None.

    None for pairs by repeat too: there the spread of each side says little of what they would show.
    """
    baseline, other = _both(pair)
    if found.differs is not False or found.paired or not found.detectable or found.detectable <= 1 + SURE_OF:
        return None
    needed = repeats_to_be_sure(list(baseline.times.values()), list(other.times.values()))
    what = f"To show a difference of {100 * SURE_OF:g} % four times in five"
    many = f"about {needed} runs each are needed" if needed else "more runs are needed than anyone makes"
    return sentence(f"{what}, {many}; ", *spread(other), "; ", *spread(baseline), ".")


def spread(side: Side) -> Sentence:
    """Where the spread of a cell's epoch times comes from."""
    from raybench.analysis.components import components

    return sentence("on ", name(side.name), f" {components(side.epoch_times).says()}")


def same(pair: Pair, found: Speedup) -> Sentence:
    """What an A/A check has come to."""
    baseline, other = _both(pair)
    head = ("A/A: ", name(baseline.name), " trains ", *_what(pair), f"{digits(found.ratio)} × as fast as itself")
    if found.differs is None:
        return sentence(*head, f", {_counts(len(other.times), len(baseline.times))}.")
    says = (
        "does not contain 1: runs here differ by more than their spread says, which chance alone does once in 20"
        if found.differs
        else "contains 1, as it should"
    )
    return sentence(*head, interval(found.low, found.high), f"; the interval {says}.")


def accuracy(pair: Pair) -> Sentence | None:
    """Whether they learn equally well.

    None where a side has no accuracy, stops at its target or was to be trained for other epochs.
    """
    baseline, other = _both(pair)
    if any(difference.startswith("epochs ") for difference in pair.differences) or baseline.stops or other.stops:
        return None
    found = compare_accuracy(other.accuracies, baseline.accuracies, pair.examples)
    if found is None:
        return None
    epochs = baseline.epochs | other.epochs
    after = f"after {_number(next(iter(epochs)), 'epoch')}" if len(epochs) == 1 else "at the end"
    runs = len(other.accuracies), len(baseline.accuracies)
    places = 1 if abs(found.points) >= 1 else 2
    levels = [f"{POINTS * sum(side.accuracies) / len(side.accuracies):.{places}f}" for side in (other, baseline)]
    if found.low is None or found.high is None:
        return sentence(
            f"Accuracy {after} is {levels[0]} % on ", name(other.name), f" and {levels[1]} % on ", name(baseline.name),
            f", {_counts(*runs)}.",
        )  # fmt: skip
    if not found.differs and abs(found.points) < 1 and (found.detectable or 0.0) <= CLOSE:
        return sentence(f"Accuracy {after} is the same within what {_runs(*runs)} can show.")
    if not found.differs:
        could = f"; only {digits(found.detectable, 2)} points would have shown" if found.detectable else ""
        return sentence(
            f"Whether accuracy {after} differs is not to be told from {_runs(*runs)}: {levels[0]} % on ",
            name(other.name), f" and {levels[1]} % on ", name(baseline.name),
            f" (95 %: {digits(found.low, 2)} to {digits(found.high, 2)} points){could}.",
        )  # fmt: skip
    ends = sorted((abs(found.low), abs(found.high)))
    return sentence(
        f"Accuracy {after} is ",
        strong(f"{digits(abs(found.points), 2)} points {'higher' if found.points > 0 else 'lower'}"),
        " on ", name(other.name), " than on ", name(baseline.name), f": {levels[0]} against {levels[1]} %, ",
        f"{_counts(*runs)} (95 %: {digits(ends[0], 2)} to {digits(ends[1], 2)} points).",
    )  # fmt: skip


def attribution(pair: Pair) -> tuple[Sentence, ...]:
    """Why the ratio is not the hardware's, where it is not; nothing where both ran on the same."""
    if not pair.hardware:
        return ()
    baseline, other = (Conditions(side.name, side.bound_by, side.doubts) for side in _both(pair))
    found = credit(baseline, other)
    return () if found.hardware else (NOT_THE_HARDWARE, *found.says)


def also(pair: Pair) -> Sentence | None:
    """What they differ in beside what is compared; None where in nothing."""
    return sentence(f"They also differ in {listed(pair.differences)}.") if pair.differences else None


def uneven(pair: Pair, found: Speedup) -> Sentence | None:
    """That an epoch is not the same work on both, and what the ratio is for each example; None where it is."""
    baseline, other = _both(pair)
    if pair.even or not baseline.examples or not other.examples:
        return None
    return sentence(
        f"An epoch is not the same work on both: {other.examples:,} examples on ", name(other.name),
        f" against {baseline.examples:,} on ", name(baseline.name), "; for each example ", name(other.name), " is ",
        strong(f"{digits(found.ratio * other.examples / baseline.examples)} × as fast"), ".",
    )  # fmt: skip


def length(pair: Pair) -> Sentence | None:
    """From which job length on the faster one is faster, what is paid once counted.

    None where nothing of it is known: where one run shows no interval, the long run shows no difference, or is known
    from warm-up epochs alone. Steps count where both sides' are alike.
    """
    baseline, other = _both(pair)
    if not pair.same_steps or baseline.from_warmup or other.from_warmup:
        return None
    found = crossover(baseline.processes, other.processes)
    if found is None or not found.long_run.differs:
        return None
    winner, loser = (other, baseline) if found.long_run.ratio > 1 else (baseline, other)
    once = "With what is paid once (loading, start-up, compilation) counted, "
    if found.sure_from == 1:
        return sentence(once, name(winner.name), " is faster at every job length.")
    sure = f"surely from {found.sure_from:,} steps on" if found.sure_from else "at no job length surely so"
    if found.turns_at is None:
        return sentence(once, name(winner.name), f" is faster, {sure}.")
    before = f", surely in those of up to {found.sure_before:,} steps" if found.sure_before else ""
    return sentence(
        once, name(winner.name), " is faster ", strong(f"from {found.turns_at:,} steps on"), f" ({sure}); ",
        name(loser.name), f" is in shorter jobs{before}.",
    )  # fmt: skip


def alone(pair: Pair) -> Sentence | None:
    """What is known of a cell that is compared with none; None where it has no time."""
    times = list(pair.other.times.values())
    found = welch.mean([math.log(seconds) for seconds in times])
    if found is None:
        return None
    ends = (None, None) if found.low is None or found.high is None else (math.exp(found.low), math.exp(found.high))
    runs = "one run: no interval" if len(times) == 1 else f"{len(times)} runs"
    return sentence(
        name(pair.other.name), " trains ", *_what(pair), "in ", strong(f"{digits(math.exp(found.value))} s an epoch"),
        f", {which_epochs(pair.other)}, {runs}", interval(ends[0], ends[1], " s"), ".",
    )  # fmt: skip


def trouble(side: Side) -> Sentence | None:
    """What happened to the runs that are missing; None where all completed."""
    if side.skip and not side.times:
        return sentence(name(side.name), f" was skipped: {side.skip.rstrip('.')}.")
    counts = {status: count for status, count in side.troubles.items() if status != events.SKIPPED or not side.skip}
    if not counts:
        return None
    what = listed([_ended(status, count) for status, count in sorted(counts.items())])
    if not side.times:
        return sentence(name(side.name), f" has no time: of {_number(side.planned, 'run')} {what}.")
    done = "1 completed and counts" if len(side.times) == 1 else f"{len(side.times)} completed and count"
    return sentence(name(side.name), f": of {_number(side.planned, 'run')} {done}; {what}.")


def _ended(status: str, count: int) -> str:
    return f"{count} {CALLED.get(status, status)}".replace("{was}", "was" if count == 1 else "were")


def _both(pair: Pair) -> tuple[Side, Side]:
    """The baseline and the other of a pair that has both."""
    assert pair.baseline is not None
    return pair.baseline, pair.other


def _what(pair: Pair) -> tuple[str | Span, ...]:
    return code(pair.workload), f" ({pair.setting}) " if pair.setting else " "


def which_epochs(*sides: Side) -> str:
    """Which epochs a time was taken from."""
    warmup = any(side.from_warmup for side in sides)
    return "epochs of the warm-up, for none came after it" if warmup else "steady epochs"


def _counts(other: int, baseline: int) -> str:
    """How many runs are behind a comparison."""
    if other == baseline:
        return "one run each: no interval" if other == 1 else f"{other} runs each"
    words = f"{_number(other, 'run')} against {baseline}"
    return f"{words}: no interval" if min(other, baseline) == 1 else words


def _runs(other: int, baseline: int) -> str:
    return f"{other} runs" if other == baseline else f"{other} and {baseline} runs"


def _number(count: float, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _difference(ratio: float) -> str:
    return f"a {'ratio' if ratio > TWICE else 'difference'} of {'more than ' if ratio > MOST else ''}{how_far(ratio)}"

"""Which settings reach the target and how soon, and what decides how well a grid learns: sentences about both."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean

from raybench.analysis.accuracy import POINTS, blur, prove, rounding
from raybench.analysis.anova import Decomposition, decompose
from raybench.analysis.comparison import ACCURACY
from raybench.analysis.sentences import Sentence, digits, interval, listed, name, sentence, strong
from raybench.analysis.sides import WORDS, Pair, Side
from raybench.analysis.target import MARGIN, NEVER, TargetRatio, compare_targets, expected
from raybench.plan import short
from raybench.trial.job import Target

_ACCURACY = "accuracy"


def goal(target: Target) -> str:
    """A target in words: "94 %" of the validation set, "train/accuracy of 94 %", "val/loss of 0.3 or less"."""
    if target.metric.endswith(_ACCURACY) and target.at_least is not None:
        of = "" if target.metric == ACCURACY else f"{target.metric} of "
        return f"{of}{short(POINTS * target.at_least)} %"
    if target.at_least is not None:
        return f"{target.metric} of {short(target.at_least)} or more"
    return f"{target.metric} of {short(target.at_most)} or less"


def reaching(side: Side, target: Target) -> Sentence | None:
    """How often and how soon a cell reaches the target; None where no run shows anything of it."""
    found = expected(side.tries)
    if found is None:
        return None
    share = f" (95 %: {100 * found.share_low:.0f} to {100 * found.share_high:.0f} %)"
    runs = f"{found.successes} of {found.tries} run{'s' if found.tries > 1 else ''}{share}"
    head = (name(side.name), f" reaches {goal(target)} in {runs}")
    if found.seconds is None and all(each.ending == NEVER for each in side.tries):
        # No run was long enough to say what a success would take.
        return sentence(*head, ".")
    if found.seconds is None:
        least = f": a success takes at least {digits(found.low)} s, with restarts (95 %)" if found.low else ""
        return sentence(*head, least, ".")
    hits = [each.seconds for each in side.tries if each.reached]
    typical = sum(hits) / len(hits)
    if found.successes == found.tries:
        return sentence(*head, ", after ", strong(f"{digits(typical)} s"), " of training on average.")
    ends = interval(found.low, found.high, " s")
    return sentence(
        *head,
        f", after {digits(typical)} s of training: with restarts a success takes ",
        strong(f"{digits(found.seconds)} s"),
        ends,
        ".",
    )


def to_target(pair: Pair) -> list[Sentence]:
    """What a pair comes to, up to the target: each side, and a ratio where that is a fair question."""
    if pair.target is None or pair.baseline is None:
        told = [reaching(pair.other, pair.target)] if pair.target else []
        return [each for each in told if each]
    found = compare_targets(pair.baseline.tries, pair.other.tries, pair.learning)
    told = [reaching(side, pair.target) for side in (pair.other, pair.baseline)]
    if found.seconds is not None:
        told.append(_ratio(pair, found))
    elif found.epochs is not None:
        runs = "are shown to differ" if found.alike is False else f"are not shown to be alike within {100 * MARGIN:g} %"
        told.append(
            sentence(
                f"No ratio of times to {goal(pair.target)} is given: the epochs to it {runs} ",
                "(",
                name(pair.other.name),
                f" takes {digits(1 / found.epochs.ratio)} × as many as ",
                name(pair.baseline.name),
                ").",
            )
        )
    return [each for each in told if each]


def _ratio(pair: Pair, targets: TargetRatio) -> Sentence:
    found = targets.seconds
    assert pair.target is not None and pair.baseline is not None and found is not None
    apart = [each for each in pair.learning if each in pair.differences]
    behind = []
    if found.differs and found.ratio < 1:
        behind.append(f"it takes {digits(1 / found.ratio)} × as long")
    if targets.alike:
        behind.append("both take as many epochs")
    elif targets.epochs:
        behind.append(f"it takes {digits(1 / targets.epochs.ratio)} × as many epochs")
    if apart and not targets.alike:
        behind.append(f"they also differ in {listed(apart)}")
    if found.low is None:
        behind.append("runs are too few for an interval")
    whole = _with_start(pair)
    if whole and (whole - 1) * (found.ratio - 1) < 0:
        behind.append(f"that is of training: with loading and start-up it is {digits(whole)} × as fast")
    if found.differs is False:
        return sentence(
            "Whether ", name(pair.other.name), " is sooner or later at ", f"{goal(pair.target)} than ",
            name(pair.baseline.name), " is ", strong("not to be told"), f": {digits(found.ratio)} × as fast",
            interval(found.low, found.high), " with restarts" if targets.restarts else "",
            f": {'; '.join(behind)}" if behind else "", ".",
        )  # fmt: skip
    return sentence(
        f"To {goal(pair.target)} ", name(pair.other.name), " is ",
        strong(f"{digits(found.ratio)} × as fast"), " as ", name(pair.baseline.name),
        interval(found.low, found.high), " with restarts" if targets.restarts else "", f": {'; '.join(behind)}.",
    )  # fmt: skip


def _with_start(pair: Pair) -> float | None:
    """The ratio of times to the target with what each run pays before its training; None where that is not known."""
    times = []
    for side in (pair.baseline, pair.other):
        found = expected(side.tries) if side else None
        if side is None or found is None or not found.seconds or not side.before:
            return None
        # Each run that misses pays for a start, too.
        times.append(found.seconds + side.before / found.share)
    return times[0] / times[1]


Accuracies = Sequence[tuple[Mapping[str, Hashable], float]]
"""Where each run lies in the grid, and its accuracy as a share."""


def what_decides(runs: Accuracies, examples: int | None = None) -> list[Sentence]:
    """Is it the device, the decay or luck? A sentence for each axis, and one for luck; none of two cells alone.

    Two cells are compared by their verdict, which does not take both to have the same luck.

    Args:
        runs: of the whole grid; completed ones.
        examples: how many the validation set has.
    """
    if len({tuple(place.items()) for place, _ in runs}) == 2:
        return []
    found = decompose([(place, POINTS * accuracy) for place, accuracy in runs], POINTS**2 * rounding(examples))
    if found is None or not (found.sources or found.confounded):
        return []
    if found.luck is None or found.reach is None:
        return [sentence("One run of each cell: nothing tells an effect on accuracy from luck.")]
    means: dict[tuple[str, Hashable], list[float]] = {}
    for place, accuracy in runs:
        for axis, value in place.items():
            means.setdefault((axis, value), []).append(accuracy)
    told = []
    for source in found.sources:
        values = [value for axis, value in means if axis == source.name]
        if values:
            told.append(_effect(found, source.name, values, source.shown))
    if found.interplay and found.interplay.shown:
        axes = listed([_called(source.name) for source in found.sources if source is not found.interplay])
        told.append(sentence(f"These effects do not add up: what one of {axes} does depends on the others."))
    told.extend(
        sentence(
            "What ", name(_called(axis)), " does to accuracy cannot be told from other axes in the cells there are."
        )
        for axis in found.confounded
    )
    told.append(sentence(f"Luck: two runs of the same cell differ by up to {digits(found.reach, 2)} points (95 %)."))
    if examples:
        open_by = blur(fmean(accuracy for _, accuracy in runs), examples)
        told.append(
            sentence(
                f"What no number of runs tells: on all examples of the kind accuracy may be up to {digits(open_by, 2)} "
                f"points higher or lower than on these {examples:,} (95 %)."
            )
        )
    return told


def _effect(found: Decomposition, axis: str, values: Sequence[Hashable], shown: bool) -> Sentence:
    """What an axis does, between its best and its worst value."""

    def over_first(value: Hashable) -> float:
        effect = found.effect(axis, value, values[0])
        return effect.value if effect else 0.0

    best, worst = max(values, key=over_first), min(values, key=over_first)
    effect = found.effect(axis, best, worst, chosen=True)
    assert effect is not None and effect.low is not None and effect.high is not None
    share = next(source.share for source in found.sources if source.name == axis)
    ends = f"95 %: {digits(effect.low, 2)} to {digits(effect.high, 2)}"
    apart = found.interplay is not None and found.interplay.shown
    others = "on average over all else" if apart else "all else alike"
    if not shown:
        return sentence(
            "No effect of ", name(_called(axis)), " on accuracy is shown (at most ", name(short(best)),
            f" {digits(effect.value, 2)} points above ", name(short(worst)), f"; {ends}).",
        )  # fmt: skip
    return sentence(
        "Accuracy depends on ", strong(_called(axis)), f" ({100 * share:.0f} % of all differences): ",
        name(short(best)),
        f" is {digits(effect.value, 2)} points above ", name(short(worst)), f", {others} ({ends}).",
    )  # fmt: skip


def proven(side: Side, at_least: float, examples: int | None = None) -> Sentence | None:
    """Whether runs show that their mean accuracy reaches a share, and how many would; None without any."""
    found = prove(side.accuracies, at_least, examples)
    if found is None:
        return None
    runs = len(side.accuracies)
    mean = f"has a mean accuracy of {POINTS * found.mean:.2f} % over {runs} run{'s' if runs > 1 else ''}"
    if found.low is None or found.high is None:
        return sentence(name(side.name), f" {mean}: one run proves no mean.")
    ends = f" (95 %: {POINTS * found.low:.2f} to {POINTS * found.high:.2f} %)"
    wanted = f"{short(POINTS * at_least)} %"
    if found.shown:
        return sentence(name(side.name), f" {mean}{ends}: ", strong(f"{wanted} is shown"), ".")
    if found.high < at_least:
        return sentence(name(side.name), f" {mean}{ends}: it is shown to be below {wanted}.")
    more = f"; about {found.runs} runs like these would show it" if found.runs else ""
    return sentence(name(side.name), f" {mean}{ends}: {wanted} is not shown{more}.")


def _called(axis: str) -> str:
    return WORDS.get(axis, axis.replace("_", " "))

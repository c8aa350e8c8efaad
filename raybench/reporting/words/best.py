"""The answer: the best configurations, or the decision about a version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from raybench.analysis.answer import EQUAL_RATIO, Answer, Best, BestOfDevice, Configuration, Criterion, Verdict
from raybench.core.identity import is_smoke
from raybench.core.job import is_accuracy
from raybench.core.repeats import percent
from raybench.core.text import MAX_NAMES, format_value, join_words, names_text, plural
from raybench.reporting.layout import NOTHING
from raybench.reporting.words import trade_off
from raybench.reporting.words.effects import scaling_sentences
from raybench.reporting.words.facts import absolute, break_even, relative
from raybench.reporting.words.goodput import compilation_sentences
from raybench.reporting.words.numbers import budget_text, cautions_text
from raybench.reporting.words.quality import metric_name, target_text
from raybench.reporting.words.ratios import CRITERIA
from raybench.reporting.words.rows import BestText, is_reached, name_of, of_its_job
from raybench.reporting.words.status import certainty_sentences, mean_sentences
from raybench.reporting.words.workloads import over_workloads_texts

WITHIN = {"time": "in", "price": "for"} | dict.fromkeys(("energy", "tokens", "examples", "flops"), "with")
"""Prepositions of what is spent."""


def best_texts(answer: Answer) -> list[BestText]:
    """The answer: the decision about a version, or each best configuration, the most important first."""
    if answer.decision:
        return [BestText(*answer.decision[:1]), *(BestText("", reason) for reason in answer.decision[1:])]
    if is_smoke(answer.grid):
        return []
    if not answer.best:
        reason = "No run has completed." if not answer.status.completed else "No times can be compared."
        questions = (caution.text for caution in answer.trust.cautions if caution.code == "metric_direction")
        return [BestText(next((f"No best: {question}." for question in questions), reason))]
    firsts = {best.workload: best for best in reversed(answer.best)}
    near = {best.workload for best in answer.best if Criterion.KEEPS_QUALITY in best.ratios}
    texts = [*trade_off.within_texts(answer), *over_workloads_texts(answer)]
    for best in answer.best:
        is_first = best is firsts[best.workload]
        if (shown := trade_off.shown(answer, best.workload)) and trade_off.is_part(shown, best):
            if Criterion.CHEAPEST in best.ratios:
                texts.append(trade_off.text(answer, shown))
            continue
        text = _text(answer, best, is_first)
        # Of equals the one that keeps the quality follows: a comparison of two of them would say less.
        if is_first and best.verdict is Verdict.EQUAL and best.workload in near:
            text = text._replace(facts="")
        # Who asks what is faster must not take a verdict on the quality for one on the speed.
        is_untimed = not texts and Criterion.QUALITY in best.ratios and not answer.budget
        texts.append(text._replace(name=f"No times are known. {text.name}") if is_untimed else text)
    return texts


def further_sentences(answer: Answer) -> list[str]:
    """What follows the answer: what would decide it, means, amounts of hardware, compilation."""
    sentences = [*certainty_sentences(answer), *mean_sentences(answer), *scaling_sentences(answer)]
    return [*sentences, *compilation_sentences(answer)]


def verdict(answer: Answer) -> str:
    """The verdict of the answer: Faster, Best in budget, Equal, Undecided or One run each; empty without one."""
    first = next((best for best in answer.best if best.verdict), None)
    if first is None or answer.decision:
        return ""
    shown = trade_off.shown(answer, first.workload)
    return trade_off.verdict(shown) if shown and trade_off.is_part(shown, first) else _verdict(answer, first)


def _verdict(answer: Answer, best: Best) -> str:
    if best.verdict is Verdict.BETTER and Criterion.QUALITY in best.ratios and not answer.budget:
        return "Better"
    if best.verdict is Verdict.BETTER:
        return CRITERIA[next(iter(best.ratios))].verdict
    return str(best.verdict or "").capitalize()


def _text(answer: Answer, best: Best, is_first: bool) -> BestText:
    row, of_job = answer.configurations[best.configuration], of_its_job(answer, best.configuration)
    ranked = [other_row for other_row in of_job if other_row.rank]
    names = {number: name_of(answer, number, best.workload) for number in range(len(answer.configurations))}
    untimed = [names[slow.index] for slow in of_job if slow.seconds and not slow.rank]
    terms = _terms(answer, best, ranked, bool(untimed))
    roles = [CRITERIA[criterion].role.format(**terms) for criterion in best.ratios]
    if best.other is None:
        only = {Criterion.QUALITY: "{metric}{budget}"}
        only |= {Criterion.FIRST_TO_TARGET: "only one to reach {target}" if len(ranked) > 1 else "to {target}"}
        roles = [*filter(None, [only.get(next(iter(best.ratios)), "").format(**terms)])]
    role = join_words(roles) + (" of those timed" if untimed and roles else "")
    name, is_base = names[best.configuration], row.is_reference and best.other is not None
    named, place = (f"{name}{' (the reference)' if is_base else ''}", f" on {best.workload}" if best.workload else "")
    rivals = [index for index in (*best.indistinguishable, *best.unproven) if best.verdict is not Verdict.BETTER]
    sides = _sides([names[index] for index in (best.configuration, *rivals)])
    facts = [*absolute(answer, row, best), ", ".join(relative(answer, best, ranked)), *best.words]
    facts += ["nothing to compare it with"] if len(ranked) == 1 else []
    text = f"{'; '.join(filter(None, facts))}{cautions_text(best.cautions)}."
    quantity = CRITERIA[next(iter(best.ratios))].quantity.format(**terms)
    if best.verdict is None or (best.verdict is Verdict.BETTER and not is_first):
        chance = " in these runs" if best.verdict is None and len(ranked) > 1 else ""
        head = f"{role[:1].upper()}{role[1:]}{place}{chance}: {named}:" if role else f"{named}:"
    elif best.verdict is Verdict.BETTER:
        head = f"{_verdict(answer, best)}{place}: {named}{'' if role == 'fastest' else f', {role}'}:"
    elif best.verdict is Verdict.EQUAL:
        margin = "1 point" if Criterion.QUALITY in best.ratios else percent(EQUAL_RATIO - 1)
        head = f"{_verdict(answer, best)}{place}: {sides} differ by less than {margin} in {quantity}."
        text = f"{named}: {text}"
    else:  # an order that noise may have made is not stated as a fact
        about = "" if is_first or not rivals else f" in {quantity}"
        head = f"{_verdict(answer, best)}{place}{about}{f' between {sides}.' if rivals else ':'}"
        chance = "" if best.verdict is Verdict.ONE_RUN else " in these runs"
        text = (
            f"{role[:1].upper()}{role[1:]}{chance}: {named}: {text}" if rivals else f"{named}, {role}{chance}: {text}"
        )
    rest = [f"Not compared, because epochs are too short to be timed: {names_text(untimed)}."] if untimed else []
    if ties := [names[index] for index in best.indistinguishable if index not in rivals]:
        rest.append(f"Not distinguishable from it in {quantity}: {names_text(ties)}.")
    rest += [*_of_misses(best, row, ranked, names), *break_even(answer, best, ranked, names)]
    return BestText(head, text, " ".join(rest))


def _terms(answer: Answer, best: Best, ranked: Sequence[Configuration], is_partial: bool) -> dict[str, str]:
    """The words for the names in braces of `CriterionWords`; partial if some of the job have no time to compare."""
    target, loss = target_text(answer.target), f"{100 * answer.max_quality_loss:g}"
    budgets = (f" {WITHIN[name]} {budget_text(answer.budget, answer.currency)}" for name in answer.budget)
    return {
        "target": target,
        "to": f" to {target}" if is_reached(ranked) and Criterion.FIRST_TO_TARGET not in best.ratios else "",
        "metric": metric_name(answer.metric),
        "of": f" of {len(ranked)}" if len(ranked) > 2 and not is_partial else "",
        "loss": loss + (f" point{'' if loss == '1' else 's'}" if is_accuracy(answer.metric) else "%"),
        "priced": " of those with a price" if any(row.price_per_hour is None for row in ranked) else "",
        "metered": " of those measured" if any(row.energy_j is None for row in ranked) else "",
        "budget": "".join(budgets) + (" (compilation excluded)" if answer.excludes_compilation else ""),
    }


def _sides(names: Sequence[str]) -> str:
    """List configurations; those with commas in their names are separated by semicolons."""
    is_long = len(names) > 2 and (len(names) > MAX_NAMES or ", " in names[0])
    return names_text(names) if is_long else join_words(names)


def _of_misses(
    best: Best, row: Configuration, ranked: Sequence[Configuration], names: Mapping[int, str]
) -> Iterator[str]:
    """Yield what misses of the target leave open, and which configurations reached it in fewer runs."""
    if best.unproven:
        runs = min(rival.to_target.tried for rival in ranked if rival.to_target and rival.to_target.tried)
        slower = names_text([names[index] for index in best.unproven if best.unproven != (best.other,)])
        shown = f"{plural(runs, 'run')} cannot show that {names[row.index]} never misses the target"
        yield f"Slower, but {shown}: {slower}." if slower else f"{shown}."
    if Criterion.FIRST_TO_TARGET in best.ratios and (to := row.to_target):
        rivals = [(names[rival.index], rival.to_target) for rival in ranked if rival.to_target]
        for words, is_never in (("Reached in fewer runs by", False), ("Not reached by", True)):
            fewer = [
                f"{name} ({rival.reached} of {rival.tried})"
                for name, rival in rivals
                if rival.reached * to.tried < to.reached * rival.tried and is_never == (not rival.reached)
            ]
            if fewer:
                yield f"{words} {names_text(fewer)}."


def certain_text(answer: Answer, best: BestOfDevice) -> str:
    """Whether the best configuration of a device is shown to be that: yes; not from batch 64."""
    if best.is_certain is None:
        return NOTHING if best.of == 1 else "one run each"
    if best.is_certain:
        return "yes"
    device = format_value(answer.configurations[best.configuration].axes.get("device"))
    names = [name_of(answer, index).removeprefix(f"{device}, ") for index in best.close]
    return f"not from {names[0]}" if len(names) == 1 else f"not from {len(names)} others"

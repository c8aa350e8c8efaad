"""A comparison of two versions in words: the decision, its reasons and limits, the table, what differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from raybench.analysis.compare import BUSY, BUSY_REASON, FEW_CONFIGURATIONS, Change, Comparison, Decision, Verdict
from raybench.core.repeats import percent
from raybench.core.text import names_text, plural
from raybench.reporting.layout import LABEL, NOTHING, Column
from raybench.reporting.report import json_text
from raybench.reporting.words import caution_text, difference_text, number, ratio_text, seconds_text, target_text


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield the decision, then its reasons: what must not pass first, then what is not decided; then the limits."""
    changes, decision, metric = comparison.changes, comparison.decision.capitalize(), comparison.metric
    if comparison.same_runs or not changes:
        same = "these are the same runs; base and new name one measurement"
        yield f"{decision}: {same if changes else 'the two have no configuration in common'}."
        return
    limit, of_all = f"{100 * comparison.limits.slowdown:g}%", f"of {plural(len(changes), 'configuration')}"
    of_verdict = {verdict: [each for each in changes if each.verdict is verdict] for verdict in Verdict}
    for verdict, found in of_verdict.items():
        if verdict.fails and found:
            yield f"{decision}: {len(found)} {of_all}: {verdict} ({names_text(list(map(_named, found)))})."
    undecided = of_verdict[Verdict.UNDECIDED] if comparison.decision is Decision.UNDECIDED else []
    if comparison.decision is Decision.KEEP:
        kept = f", and {metric} is kept" if comparison.limits.needs_quality else ""
        yield f"{decision}: no configuration is slower by more than {limit}{kept}."
    busy = {*BUSY, BUSY_REASON} & {*(each.code for each in comparison.cautions), *(each.reason for each in undecided)}
    if undecided:
        more = comparison.more_repeats
        unknown = "how many repeats would decide it is not known"
        hint = f"about {plural(more, 'more repeat')} would decide it" if more else unknown
        hint = "other programs kept the machine busy; stop them and compare again" if busy else hint
        yield f"{decision}: {len(undecided)} {of_all}; {hint}."
    for each in [*undecided, *of_verdict[Verdict.MISSING]]:
        # On a quiet machine it would be fewer.
        time = f"; {plural(each.more_repeats, 'more repeat')}" if each.more_repeats and not busy else ""
        time += f", {seconds_text(each.more_s)}" if each.more_s and time else ""
        text = f"{each.reason[:1].upper()}{each.reason[1:]}" if len(changes) == 1 else f"{each.label}: {each.reason}"
        yield f"{text}{time}."
    if unsure := [each.label for each in of_verdict[Verdict.WITHIN] if each.quality_kept is False]:
        yield f"{metric} is not shown to stay within its limit for {names_text(unsure)}."
    significant = [(each.label, each.quality.value) for each in changes if each.quality and each.quality.is_significant]
    if better := [label for label, value in significant if (value > 0) is comparison.higher_is_better]:
        yield f"{metric} is better for {names_text(better)} (95% interval)."
    loss = comparison.limits.loss(metric)
    point = "point" if loss == 0.01 else "points"
    size = "" if loss is None else f"{100 * loss:g}{f' {point}' if metric.endswith('/accuracy') else '%'}"
    loss_of = {True: "lower", False: "higher", None: "worse"}[comparison.higher_is_better]
    quality = f", {metric} up to {size} {loss_of}" if size else ""
    level = "95% or more" if comparison.limits.strict or len(changes) > FEW_CONFIGURATIONS else "95%"
    to = f" to {target_text(comparison.target)}" if comparison.target else ""
    yield f"Limits: up to {limit} more time{to}{quality}. The bounds of a speed decide; each is one-sided, at {level}."


def _named(change: Change) -> str:
    """The label, with how much slower it is: in these runs, and at least."""
    if change.verdict is not Verdict.SLOWER or change.speed is None or not change.speed.high:
        return change.label
    slower, least = (percent(1 / each - 1) for each in (change.speed.value, change.speed.high))
    return f"{change.label} by {slower}, at least {least}"


def columns(comparison: Comparison) -> list[Column]:
    """Return the table of configurations, without empty columns."""
    changes, unit = comparison.changes, "s to the target" if comparison.target else f"s/{comparison.unit.label}"
    sides = [each.base_s for each in changes], [each.new_s for each in changes]
    base, new = ([number(seconds) if seconds else NOTHING for seconds in side] for side in sides)
    found = [
        Column("configuration", [each.label for each in changes], kind=LABEL),
        Column(f"base, {unit}", base, drop=2, right=True),
        Column(f"new, {unit}", new, drop=1, right=True),
        Column("speed (bounds)", [ratio_text(each.speed) for each in changes]),
        Column(f"{comparison.metric}, change", [difference_text(each.quality, comparison.metric) for each in changes]),
        Column("verdict", [str(each.verdict) for each in changes]),
    ]
    return [column for column in found if changes and not column.is_empty]


def details(comparison: Comparison) -> Iterator[str]:
    """Yield the cautions, and what differs between the versions."""
    for caution in comparison.cautions:
        yield f"Caution: {caution_text(caution)}"
    if comparison.only_in_new:
        yield f"Only in new: {', '.join(comparison.only_in_new)}."
    if comparison.differences:
        yield "Differences between the two:"
    yield from (f"  {difference}" for difference in comparison.differences)


def as_json(comparison: Comparison) -> str:
    """Return the comparison as JSON, with the limits used. `version` is raised if a field changes its meaning."""
    limits = replace(comparison.limits, quality_loss=comparison.limits.loss(comparison.metric))
    decided = {"version": 1, "decision": comparison.decision, "more_repeats": comparison.more_repeats}
    return json_text({**decided, **vars(comparison), "limits": limits})


def as_markdown(comparison: Comparison) -> str:
    """A comment for a pull request: the answer and the table, the rest folded."""
    first, *rest = sentences(comparison)
    lines = [f"### raybench: {first}", "", *(f"{each}  " for each in rest), ""]
    shown = columns(comparison)
    rows = [[each.head for each in shown], ["--:" if each.right else "---" for each in shown]]
    rows += [list(row) for row in zip(*(each.texts for each in shown), strict=True)]
    lines += [f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in rows if shown]
    if folded := list(details(comparison)):
        lines += ["", "<details><summary>Cautions and differences</summary>", ""]
        lines += [*(f"{'  ' * each.startswith('  ')}- {each.strip()}" for each in folded), "", "</details>"]
    return "\n".join(lines) + "\n"

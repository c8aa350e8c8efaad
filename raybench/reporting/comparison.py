"""A comparison of two versions in words: the decision, its reasons and limits, the table, what differs."""

from __future__ import annotations

from collections.abc import Iterator

from raybench.analysis.versions import BUSY, BUSY_REASON, FEW_CONFIGURATIONS, Change, Comparison, Decision, Verdict
from raybench.core.cell import BASE
from raybench.core.repeats import percent
from raybench.core.text import names_text, plural
from raybench.reporting.layout import LABEL, NOTHING, Column
from raybench.reporting.report import json_text
from raybench.reporting.tables import literal, markdown_table
from raybench.reporting.words.numbers import number, ratio_text, seconds_text
from raybench.reporting.words.quality import difference_text, target_text
from raybench.reporting.words.status import caution_text

_SLOWER = (Verdict.SLOWER, Verdict.SLOWER_RUN)


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield the decision, then its reasons: what must not pass first, then what is not decided; then the limits."""
    changes, decision, limits = comparison.changes, comparison.decision.capitalize(), comparison.limits
    if not changes:
        yield f"{decision}: the two have no configuration in common."
        return
    of_all = f"of {plural(len(changes), 'configuration')}"
    of_verdict = {verdict: [change for change in changes if change.verdict is verdict] for verdict in Verdict}
    for verdict, failed in of_verdict.items():
        if verdict.fails and failed:
            yield f"{decision}: {len(failed)} {of_all}: {verdict} ({names_text(list(map(_named, failed)))})."
    undecided = of_verdict[Verdict.UNDECIDED] if comparison.decision is Decision.UNDECIDED else []
    if comparison.decision is Decision.KEEP:
        yield f"{decision}: {_kept(comparison)}."
    if growth := [text for text in map(_growth_text, changes) if text]:
        yield f"In these runs, new takes more: {names_text(growth)}."
    open_speed = [
        change for change in undecided if change.speed and (change.speed.low or 0) < 1 / (1 + limits.slowdown)
    ]
    busy = {*BUSY, BUSY_REASON} & {
        *(caution.code for caution in comparison.cautions),
        *(change.reason for change in undecided),
    }
    busy &= {*BUSY, BUSY_REASON} if open_speed else {BUSY_REASON}
    if undecided:
        more = comparison.more_repeats
        unknown = "more repeats alone would not decide it"
        hint = f"about {plural(more, 'more repeat')} could decide it" if more else unknown
        hint = "other programs kept the machine busy; stop them and compare again" if busy else hint
        yield f"{decision}: {len(undecided)} {of_all}; {hint}."
    for change in (
        change for change in changes if change in undecided or (change.verdict.fails and change.verdict not in _SLOWER)
    ):
        # On a quiet machine it would be fewer.
        time = f"; {plural(change.more_repeats, 'more repeat')}" if change.more_repeats and not busy else ""
        time += f", {seconds_text(change.more_s)}" if change.more_s and time else ""
        text = (
            f"{change.label}: {change.reason}"
            if len(changes) > 1 or "/" in change.reason.split(" ")[0]
            else change.reason
        )
        text = text if text.startswith(change.label) else f"{text[:1].upper()}{text[1:]}"
        yield f"{text}{time}."
    yield from _of_quality(comparison)
    level = "95% or more" if limits.strict or len(changes) > FEW_CONFIGURATIONS else "95%"
    to = f" to {target_text(comparison.target)}" if comparison.target else ""
    yield f"Limits: {_limits(comparison, to)}. The bounds of a speed decide; each is one-sided, at {level}."


def _kept(comparison: Comparison) -> str:
    """Return how much faster a version is, or that it is not slower, and which metrics it keeps."""
    faster = [change for change in comparison.changes if change.speed and change.speed.low and change.speed.low > 1]
    names = [
        f"{change.label} by {percent(change.speed.value - 1)}, at least {percent(change.speed.low - 1)}"
        + (
            ""
            if change.speed_total is None or (change.speed_total.low or 0.0) > 1
            else " in its epochs, not as a whole run"
        )
        for change in faster
        if change.speed and change.speed.low
    ]
    none = f"no configuration is slower by more than {100 * comparison.limits.slowdown:g}%"
    text = f"faster ({names_text(names)})" if names else none
    text += f"; {none}" if names and len(faster) < len(comparison.changes) else ""
    kept = [name for name, metric in comparison.metrics.items() if metric.must_be_kept]
    return text + (f", and {names_text(kept)} {'is' if len(kept) == 1 else 'are'} kept" if kept else "")


def _growth_text(change: Change) -> str:
    amounts = [
        f"{name} {f'{number(ratio, 2)}x' if ratio >= 2 else f'+{percent(ratio - 1)}'}"
        for name, ratio in change.growth.items()
    ]
    return f"{', '.join(amounts)} ({change.label})" if amounts else ""


def _of_quality(comparison: Comparison) -> Iterator[str]:
    """Yield what is lost within the limits, what may be lost, and what is better."""
    for name, metric in comparison.metrics.items():
        passed = [
            change for change in comparison.changes if change.verdict is Verdict.WITHIN and name in change.quality
        ]
        if unsure := [change.label for change in passed if change.quality_kept.get(name) is False]:
            yield f"{name} is not shown to stay within its limit for {names_text(unsure)}."
        clear = [(change, change.quality[name]) for change in comparison.changes if name in change.quality]
        clear = [(change, value) for change, value in clear if value.is_significant]
        better = [change.label for change, value in clear if (value.value > 0) is metric.higher_is_better]
        if better:
            yield f"{name} is better for {names_text(better)} (95% interval)."
        losses = [
            f"{change.label} {difference_text(value, name)}"
            for change, value in clear
            if change in passed and change.label not in better
        ]
        if losses:
            what = "worse" if metric.higher_is_better is not None else "different, which may be better or worse,"
            yield f"{name} is {what} within its limit of {_limit(comparison, name)}: {names_text(losses)}."


def _limit(comparison: Comparison, metric: str) -> str:
    size = 100 * comparison.metrics[metric].max_loss
    return f"{size:g} {'point' if size == 1 else 'points'}" if metric.endswith("/accuracy") else f"{size:g}%"


def _limits(comparison: Comparison, to: str) -> str:
    """Return what is accepted, in words."""
    limits, total = comparison.limits, comparison.limits.slowdown_total
    of_whole_run = f" ({100 * total:g}% of a whole run)" if total not in (None, limits.slowdown) else ""
    texts = [f"up to {100 * limits.slowdown:g}%{of_whole_run} more time{to}"]
    for name, metric in comparison.metrics.items():
        worse = {True: "lower", False: "higher", None: "lower or higher"}[metric.higher_is_better]
        texts.append(f"{name} up to {_limit(comparison, name)} {worse}")
    return ", ".join(texts)


def _named(change: Change) -> str:
    """The label, with how much slower it is: in these runs, and at least."""
    speed = {Verdict.SLOWER: change.speed, Verdict.SLOWER_RUN: change.speed_total}.get(change.verdict)
    if speed is None or not speed.high:
        return change.label
    slower, least = (percent(1 / ratio - 1) for ratio in (speed.value, speed.high))
    return f"{change.label} by {slower}, at least {least}"


def columns(comparison: Comparison) -> list[Column]:
    """Return the table of configurations, without empty columns."""
    changes, unit = comparison.changes, "s to the target" if comparison.target else f"s/{comparison.unit.label}"
    sides = [change.base_s for change in changes], [change.new_s for change in changes]
    base, new = ([number(seconds) if seconds else NOTHING for seconds in side] for side in sides)
    table = [
        Column("configuration", [change.label for change in changes], kind=LABEL),
        Column(f"{BASE}, {unit}", base, drop=2, right=True),
        Column(f"new, {unit}", new, drop=1, right=True),
        Column("speed (bounds)", [ratio_text(change.speed) for change in changes]),
        Column("whole run", [ratio_text(change.speed_total) for change in changes], drop=3),
        *(
            Column(
                f"{name}, change", [difference_text(change.quality.get(name), name) for change in changes], drop=4 * at
            )
            for at, name in enumerate(comparison.metrics)
        ),
        Column("verdict", [str(change.verdict) for change in changes]),
    ]
    return [column for column in table if changes and not column.is_empty]


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
    decided = {"version": 2, "decision": comparison.decision, "more_repeats": comparison.more_repeats}
    return json_text({**decided, **vars(comparison)})


def as_markdown(comparison: Comparison) -> str:
    """A comment for a pull request: the answer and the table, the rest folded; no text of a version is markup."""
    first, *rest = map(literal, sentences(comparison))
    lines = [f"### raybench: {first}", "", *(f"{sentence}  " for sentence in rest), ""]
    if shown := columns(comparison):
        lines.append(markdown_table(shown))
    if folded := list(details(comparison)):
        lines += ["", "<details><summary>Cautions and differences</summary>", ""]
        lines += [*(f"{'  ' * line.startswith('  ')}- {literal(line.strip())}" for line in folded), "", "</details>"]
    return "\n".join(lines) + "\n"

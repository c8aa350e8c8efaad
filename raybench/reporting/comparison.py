"""A comparison of two versions in words: the decision, its reasons and limits, the table, what differs."""

from __future__ import annotations

from collections.abc import Iterator

from raybench.analysis.versions import BUSY, BUSY_REASON, FEW_CONFIGURATIONS, Change, Comparison, Decision, Verdict
from raybench.core.cell import BASE
from raybench.core.job import is_accuracy
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
    of_verdict = {verdict: [cell for cell in changes if cell.verdict is verdict] for verdict in Verdict}
    for verdict, failed in of_verdict.items():
        if verdict.fails and failed:
            yield f"{decision}: {len(failed)} {of_all}: {verdict} ({names_text(list(map(_named, failed)))})."
    undecided = of_verdict[Verdict.UNDECIDED] if comparison.decision is Decision.UNDECIDED else []
    if comparison.decision is Decision.KEEP:
        yield f"{decision}: {_kept(comparison)}."
    if growth := [text for text in map(_growth_text, changes) if text]:
        yield f"In these runs, new takes more: {names_text(growth)}."
    open_speed = [cell for cell in undecided if cell.speed and (cell.speed.low or 0) < 1 / (1 + limits.slowdown)]
    has_load = bool(open_speed) and any(caution.code in BUSY for caution in comparison.cautions)
    is_busy = has_load or any(cell.reason == BUSY_REASON for cell in undecided)
    if undecided:
        more = comparison.more_repeats
        unknown = "more repeats alone would not decide it"
        hint = f"about {plural(more, 'more repeat')} could decide it" if more else unknown
        hint = "other programs kept the machine busy; stop them and compare again" if is_busy else hint
        yield f"{decision}: {len(undecided)} {of_all}; {hint}."
    for cell in (cell for cell in changes if cell in undecided or (cell.verdict.fails and cell.verdict not in _SLOWER)):
        # On a quiet machine it would be fewer.
        time = f"; {plural(cell.more_repeats, 'more repeat')}" if cell.more_repeats and not is_busy else ""
        time += f", {seconds_text(cell.more_s)}" if cell.more_s and time else ""
        text = f"{cell.label}: {cell.reason}" if len(changes) > 1 or "/" in cell.reason.split(" ")[0] else cell.reason
        text = text if text.startswith(cell.label) else f"{text[:1].upper()}{text[1:]}"
        yield f"{text}{time}."
    yield from _of_quality(comparison)
    level = "95% or more" if limits.strict or len(changes) > FEW_CONFIGURATIONS else "95%"
    to = f" to {target_text(comparison.target)}" if comparison.target else ""
    yield f"Limits: {_limits(comparison, to)}. The bounds of a speed decide; each is one-sided, at {level}."


def _kept(comparison: Comparison) -> str:
    """Return how much faster a version is, or that it is not slower, and which metrics it keeps."""
    faster = [cell for cell in comparison.changes if cell.speed and cell.speed.low and cell.speed.low > 1]
    names = [
        f"{cell.label} by {percent(cell.speed.value - 1)}, at least {percent(cell.speed.low - 1)}"
        + (
            ""
            if cell.speed_total is None or (cell.speed_total.low or 0.0) > 1
            else " in its epochs, not as a whole run"
        )
        for cell in faster
        if cell.speed and cell.speed.low
    ]
    none = f"no configuration is slower by more than {100 * comparison.limits.slowdown:g}%"
    text = f"faster ({names_text(names)})" if names else none
    text += f"; {none}" if names and len(faster) < len(comparison.changes) else ""
    kept = [name for name, metric in comparison.metrics.items() if metric.must_be_kept]
    return text + (f", and {names_text(kept)} {'is' if len(kept) == 1 else 'are'} kept" if kept else "")


def _growth_text(cell: Change) -> str:
    amounts = [
        f"{name} {f'{number(ratio, 2)}x' if ratio >= 2 else f'+{percent(ratio - 1)}'}"
        for name, ratio in cell.growth.items()
    ]
    return f"{', '.join(amounts)} ({cell.label})" if amounts else ""


def _of_quality(comparison: Comparison) -> Iterator[str]:
    """Yield what is lost within the limits, what may be lost, and what is better."""
    for name, metric in comparison.metrics.items():
        passed = [cell for cell in comparison.changes if cell.verdict is Verdict.WITHIN and name in cell.quality]
        if unsure := [cell.label for cell in passed if cell.quality_kept.get(name) is False]:
            yield f"{name} is not shown to stay within its limit for {names_text(unsure)}."
        clear = [(cell, cell.quality[name]) for cell in comparison.changes if name in cell.quality]
        clear = [(cell, value) for cell, value in clear if value.is_significant]
        better = [cell.label for cell, value in clear if (value.value > 0) is metric.higher_is_better]
        if better:
            yield f"{name} is better for {names_text(better)} (95% interval)."
        losses = [
            f"{cell.label} {difference_text(value, name)}"
            for cell, value in clear
            if cell in passed and cell.label not in better
        ]
        if losses:
            what = "worse" if metric.higher_is_better is not None else "different, which may be better or worse,"
            yield f"{name} is {what} within its limit of {_limit(comparison, name)}: {names_text(losses)}."


def _limit(comparison: Comparison, metric: str) -> str:
    size = 100 * comparison.metrics[metric].max_loss
    return f"{size:g} {'point' if size == 1 else 'points'}" if is_accuracy(metric) else f"{size:g}%"


def _limits(comparison: Comparison, to: str) -> str:
    limits, total = comparison.limits, comparison.limits.slowdown_total
    of_whole_run = f" ({100 * total:g}% of a whole run)" if total not in (None, limits.slowdown) else ""
    texts = [f"up to {100 * limits.slowdown:g}%{of_whole_run} more time{to}"]
    for name, metric in comparison.metrics.items():
        worse = {True: "lower", False: "higher", None: "lower or higher"}[metric.higher_is_better]
        texts.append(f"{name} up to {_limit(comparison, name)} {worse}")
    return ", ".join(texts)


def _named(cell: Change) -> str:
    """The label, with how much slower it is: in these runs, and at least."""
    speed = {Verdict.SLOWER: cell.speed, Verdict.SLOWER_RUN: cell.speed_total}.get(cell.verdict)
    if speed is None or not speed.high:
        return cell.label
    slower, least = (percent(1 / ratio - 1) for ratio in (speed.value, speed.high))
    return f"{cell.label} by {slower}, at least {least}"


def columns(comparison: Comparison) -> list[Column]:
    """Return the table of configurations, without empty columns."""
    changes, unit = comparison.changes, "s to the target" if comparison.target else f"s/{comparison.unit.label}"
    sides = [cell.base_s for cell in changes], [cell.new_s for cell in changes]
    base, new = ([number(seconds) if seconds else NOTHING for seconds in side] for side in sides)
    table = [
        Column("configuration", [cell.label for cell in changes], kind=LABEL),
        Column(f"{BASE}, {unit}", base, drop=2, right=True),
        Column(f"new, {unit}", new, drop=1, right=True),
        Column("speed (bounds)", [ratio_text(cell.speed) for cell in changes]),
        Column("whole run", [ratio_text(cell.speed_total) for cell in changes], drop=3),
        *(
            Column(f"{name}, change", [difference_text(cell.quality.get(name), name) for cell in changes], drop=4 * at)
            for at, name in enumerate(comparison.metrics)
        ),
        Column("verdict", [str(cell.verdict) for cell in changes]),
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

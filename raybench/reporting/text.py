"""The report as text: status, answer, effects, configurations, trust; for any width from 60 columns."""

from __future__ import annotations

from collections.abc import Iterator

from raybench.analysis.answer import Answer
from raybench.core.text import names_text, plural, printable
from raybench.reporting.columns import configuration_columns, device_columns, effect_columns, machine_columns, rows
from raybench.reporting.layout import AXIS, Line, fitting, table_lines, wrapped
from raybench.reporting.words.best import best_texts, further_sentences
from raybench.reporting.words.captions import hardware_text, table_caption
from raybench.reporting.words.effects import effect_detail, effects_note
from raybench.reporting.words.goodput import goodput_sentences
from raybench.reporting.words.status import caution_text, failure_sentences, status_sentences, trust_sentence

MAX_ROWS, WORST_ROWS = 12, 3
"""Maximum number of effects and of configurations without `full`; how many of the latter are the worst."""

MAX_FAILURES = 5  # maximum number of reasons for missing results without `full`


def report_text(answer: Answer, width: int, full: bool = False) -> str:
    """Return the report as plain text of this width."""
    return "".join(f"{text}\n" for text, _ in report_lines(answer, width, full))


def report_lines(answer: Answer, width: int, full: bool = False, after_run: str = "") -> Iterator[Line]:
    """Yield the lines of the report, none longer than the width unless a single word is.

    `after_run` is the command that shows it again, if the grid has just run.
    """
    for number, block in enumerate(filter(None, _blocks(answer, width, full, after_run))):
        if number:
            yield "", ""
        for text, style in block:
            yield printable(text), style


def _blocks(answer: Answer, width: int, full: bool, after_run: str) -> Iterator[list[Line]]:
    """Yield the parts of the report, which empty lines separate."""
    more = f"`{after_run} --full`" if after_run else "--full"
    yield wrapped(status_sentences(answer), width, "yellow")
    yield wrapped([*map(str, best_texts(answer)), *further_sentences(answer)], width, "bold")
    yield list(table_lines(columns, width)) if (columns := device_columns(answer)) else []
    yield list(_effects(answer, width, full, more))
    yield list(_configurations(answer, width, full, more))
    yield wrapped(goodput_sentences(answer), width) if full else []
    yield list(table_lines(columns, width)) if (columns := machine_columns(answer)) else []
    failures = failure_sentences(answer, only_skips=bool(after_run))
    if not full and len(failures) > MAX_FAILURES:
        reasons = plural(len(failures) - MAX_FAILURES, "more reason")
        failures = [*failures[:MAX_FAILURES], f"{reasons} for missing results: {more}"]
    yield wrapped(failures, width)
    yield list(_trust(answer, width, full, more))


def _effects(answer: Answer, width: int, full: bool, more: str) -> Iterator[Line]:
    """Yield the table of effects: all, or the first of many."""
    if columns := effect_columns(answer):
        shown = range(len(answer.effects))[: None if full else MAX_ROWS]
        details = {number: effect_detail(answer, answer.effects[number]) for number in shown}
        yield from table_lines([column.of_rows(shown) for column in columns], width, details)
        left_out = len(answer.effects) - len(shown)
        rest = f"… {left_out:,} more: {more}" if left_out else ""
        yield from wrapped([rest, effects_note(answer)], width, "dim")


def _configurations(answer: Answer, width: int, full: bool, more: str) -> Iterator[Line]:
    """Yield the table of configurations: all, or the best and the worst of many; and their hardware."""
    # Sentences say what is skipped and why.
    all_rows = [row for row in rows(answer) if full or row.completed or not row.skip]
    count, best, heads, unseen = len(all_rows), MAX_ROWS - WORST_ROWS, None, ""
    left_out = 0 if full else max(0, count - MAX_ROWS)
    if count > 1:
        kept = [*range(best), *range(best + left_out, count)] if left_out else range(count)
        columns = [column.of_rows(kept) for column in configuration_columns(answer, all_rows)]
        yield from table_lines(columns, width, {best - 1: f"… {left_out:,} more: {more}"} if left_out else {})
        heads = [column.head for column in fitting(columns, width)]
        hidden = [column.head for column in columns if column.kind != AXIS and column.head not in {"#", *heads}]
        unseen = f"Too wide for {width} columns: {names_text(hidden)}." if hidden else ""
    hardware = hardware_text(answer)
    yield from wrapped(
        [unseen, table_caption(answer, heads), f"Hardware: {hardware}." if hardware else ""], width, "dim"
    )


def _trust(answer: Answer, width: int, full: bool, more: str) -> Iterator[Line]:
    cautions, notes = answer.trust.cautions, answer.trust.notes
    yield from wrapped([trust_sentence(answer)], width, "yellow" if cautions else "green")
    for caution in cautions:
        mark = f"{caution.mark}: " if caution.mark else ""
        yield from wrapped([f"{mark}{caution_text(caution)}"], width, "yellow", "  ", "  ")
    if full:
        yield from wrapped([f"Note: {caution_text(note)}" for note in notes], width, "dim")
    elif notes:
        yield from wrapped([f"{plural(len(notes), 'note')}, shown with {more}."], width, "dim")

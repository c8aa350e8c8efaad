"""The answer, its tables and its method as Markdown, to paste into a text."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from raybench.reporting.columns import configuration_columns, effect_columns, rows
from raybench.reporting.layout import AXIS, Column
from raybench.reporting.report import Report
from raybench.reporting.words.best import best_texts
from raybench.reporting.words.captions import table_caption
from raybench.reporting.words.effects import scaling_sentences
from raybench.reporting.words.status import caution_text, mean_sentences, status_sentences, trust_sentence


def as_markdown(report: Report) -> str:
    """Return the answer, its tables, the cautions and the method as Markdown."""
    answer = report.answer
    sentences = [*status_sentences(answer), *map(str, best_texts(answer)), *mean_sentences(answer)]
    parts = [f"**{literal(answer.grid)}**", *map(literal, [*sentences, *scaling_sentences(answer)])]
    for columns in filter(None, (effect_columns(answer), configuration_columns(answer, rows(answer)))):
        parts.append(markdown_table([column for column in columns if column.kind != AXIS]))
    parts += [literal(table_caption(answer)), literal(trust_sentence(answer))]
    parts += [literal(caution_text(caution)) for caution in answer.trust.cautions]
    parts.append(f"Method. {literal(report.method)}")
    return "\n\n".join(filter(None, parts)) + "\n"


def markdown_table(columns: Sequence[Column]) -> str:
    """Return columns as a table of Markdown."""
    heads = [literal(column.head) for column in columns], ["--:" if column.right else "---" for column in columns]
    body = zip(*(map(literal, column.texts) for column in columns), strict=True)
    return "\n".join(f"| {' | '.join(row)} |" for row in (*heads, *body))


def literal(text: str) -> str:
    """Return a text that GitHub shows as it is: no markup, link, mention of a person or reference to an issue."""
    text = re.sub(r"[\\`*_{}\[\]|~#]", r"\\\g<0>", html.escape(" ".join(text.split()), quote=False))
    # A space of no width ends what GitHub would make a mention, a reference or a link.
    return re.sub(r"(?i)(@|\\#|\bgh-|://|\bwww\.)", "\\1\u200b", text)

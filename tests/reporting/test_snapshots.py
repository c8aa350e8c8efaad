"""Reports of made-up grids, word for word; `--snapshot-update` writes them anew, and the diff shows what changed.

The numbers in them are tested by arithmetic in the other files of this folder.
"""

import io
import json

import pytest
from rich.console import Console
from support.report_grids import REPORTS, contract, much_went_wrong, outcomes, same_cell_twice

from raybench.cli.report_view import caption, show_report
from raybench.reporting.report import as_json
from raybench.reporting.sentences import plain, render_phrase


def in_words(report):
    """The report as text, a sentence or a row of a table in each line."""
    told = {plain(each) for paragraph in report.verdict for each in paragraph}
    lines = [report.results.name, ""]
    for paragraph in report.verdict:
        lines += [*map(plain, paragraph), ""]
    for row, cell in zip(report.results.rows, report.results.cells, strict=True):
        status = render_phrase("run_counts", row.counts)
        lines.append(f"{report.results.label(cell)}{' (baseline)' if row.is_baseline else ''}: {status}")
    lines += [caption(report), ""]
    for section in report.sections:
        lines += [f"{section.title}. {section.says}", " | ".join(column.head for column in section.shown)]
        lines += [" | ".join(text for _, text in section.cells(record)) for record in section.records] + [""]
    lines += [*map(plain, report.deciding), ""]
    lines += [f"{each.kind} {each.mark}: {each.says} {each.remedy}" for each in report.remarks] + [""]
    lines += [f"{each['trial']}: {each['status']} {each['error']}" for each in report.troubles] + [""]
    for label, sentences in report.comparisons:
        own = [words for words in map(plain, sentences) if words not in told]
        lines += [f"{label}:", *own] if own else []
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_in_words(name, snapshot):
    assert in_words(REPORTS[name]()) == snapshot


@pytest.mark.parametrize(
    ("make", "full"), [(contract, True), (much_went_wrong, False), (same_cell_twice, False), (outcomes, False)]
)
def test_a_report_in_the_terminal(make, full, snapshot):
    terminal = io.StringIO()
    show_report(make(), Console(file=terminal, width=100 if full else 80, color_system=None), full=full)
    assert "\n".join(line.rstrip() for line in terminal.getvalue().splitlines()) == snapshot


def rounded(value):
    """Numbers to six digits: the rest differs between processors."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


def test_a_report_as_data(snapshot):
    data = as_json(contract(), {"target": "the grid has no target"})
    assert json.dumps(rounded(data), indent=1, default=str) == snapshot

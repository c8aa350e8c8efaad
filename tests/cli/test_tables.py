"""Tables fit the width, and no number or word is broken."""

import io

import pytest
from rich.console import Console
from support import ROOT

from raybench.cli.tables import fitted_table, print_list
from raybench.reporting.comparison_table import EXTRA, KEY, TableColumn

COLUMNS = [
    TableColumn("setting", ["b128 wd5e-4", "b32 wd0"], KEY, right=False),
    TableColumn("median, s", ["0.526", "0.541"], EXTRA),
    TableColumn("expected, s", ["0.513", "0.533"], KEY),
    TableColumn("95% CI", ["0.402–1.22", "0.493–1.23"], KEY),
    TableColumn("10 epochs", ["1.28x (1.11–1.48)", "1.26x (1.07–1.48)"], KEY),
]


def printed(width, show):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    show(console)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [20, 30, 40, 50, 60, 70, 80, 120])
def test_a_table_fits_and_no_number_is_broken(width):
    lines = printed(width, lambda console: console.print(fitted_table(COLUMNS, width)))
    assert max(map(len, lines)) <= width
    words = {word for column in COLUMNS for text in (column.head, *column.cells) for word in text.split()}
    assert {word for line in lines for word in line.split() if set(word) != {"─"}} <= words
    assert "b128" in "".join(lines)
    assert ("0.526" in "".join(lines)) == (width >= 70), "the extra column is left out first"


def test_a_list_puts_its_long_texts_below_if_it_is_too_wide():
    heads, rows = ("name", "count", "purpose"), [("a", "1", "to see whether it works at all"), ("long", "12", "")]

    def show(console):
        print_list(console, heads, rows, right=("count",))

    assert printed(80, show) == [
        "name  count  purpose",
        "a         1  to see whether it works at all",
        "long     12",
    ]
    assert printed(24, show) == ["name  count", "a         1", "  to see whether it", "  works at all", "long     12"]


@pytest.mark.parametrize("command", [("data",), ("env",), ("devices",)])
def test_the_commands_fit_80_columns(raybench, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    said = raybench(*command)
    table = [line for line in said.lines if " in /" not in line]  # a path stays in one piece
    assert said.status == 0 and max(map(len, table)) <= 80


def test_a_report_in_full_fits_80_columns(raybench, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = raybench("report", ROOT / "notebooks" / "recorded" / "quickstart" / "journal.jsonl", "--full")
    assert max(map(len, said.lines)) <= 80
    assert "utilization" not in said.out and "minimum" not in said.out, "a legend explains shown columns only"
    assert any("0.402–1.22" in line and "above" in line for line in said.lines), "the row of a target in one piece"

"""`raybench report`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt

EPILOG = """\b
Examples:
  raybench report grids/quickstart.yaml
  raybench report quickstart --html quickstart.html
  raybench report grids/quickstart.yaml --smoke
  raybench report /elsewhere/journal.jsonl --json - | jq .verdict
"""

Where = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.command("report", epilog=EPILOG)
@click.argument("grid", metavar="FILE-OR-NAME")
@opt.results
@click.option("--smoke", is_flag=True, help="Of the grid's smoke run, instead of the grid.")
@click.option("--html", type=Where, metavar="FILE", help="Write the page: one file that needs nothing else.")
@click.option("--json", "data", type=Where, metavar="FILE", help="Write everything as data; - is the terminal.")
@click.option("--all", "everything", is_flag=True, help="Every cell in the journal, not only those asked for last.")
def command(grid: str, results: Path, smoke: bool, html: Path | None, data: Path | None, everything: bool) -> int:
    """Say what a grid has come to: the verdict, the table, and what to doubt.

    FILE-OR-NAME is a grid file, the name of a grid in the results folder, or a journal. Nothing is run.
    """
    from raybench import reports
    from raybench.analysis.report import as_json

    report = reports.of_source(grid, results, everything, smoke)
    made = reports.files(report) if html else {}
    if html:
        _write(html, made[reports.HTML])
    if data:
        _write(data, made.get(reports.DATA) or reports.text(as_json(report)))
    if not {html, data} & {Path("-")}:
        from raybench.cli.verdict import show_report

        show_report(report)
        for written in filter(None, (html, data)):
            click.echo(f"written: {written}")
    return 0


def _write(to: Path, text: str) -> None:
    """Write a file, or to the terminal.

    Raises:
        UsageError: it cannot be written.
    """
    from raybench.errors import UsageError

    if to == Path("-"):
        click.echo(text, nl=False)
        return
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{to}: cannot be written: {error.strerror or error}") from None

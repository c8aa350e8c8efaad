"""`raybench report`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt

EPILOG = """\b
Examples:
  raybench report grids/quickstart.yaml
  raybench report quickstart --full
  raybench report quickstart --html quickstart.html
  raybench report grids/quickstart.yaml --smoke
  raybench report /elsewhere/journal.jsonl --json - | jq .verdict
  raybench report sqlite:///mlflow.db --grid quickstart
  raybench report published:resnet63
"""

PREFIX = "published:"
"""What begins the name of a published result."""

Where = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@click.command("report", epilog=EPILOG)
@click.argument("source", metavar="FILE-OR-NAME")
@opt.results
@click.option("--grid", metavar="NAME", help="Which grid, of an MLflow store or a results folder that has several.")
@click.option("--smoke", is_flag=True, help="Of the grid's smoke run, instead of the grid.")
@click.option("--html", type=Where, metavar="FILE", help="Write the page: one file that needs nothing else.")
@click.option("--json", "data", type=Where, metavar="FILE", help="Write everything as data; - is the terminal.")
@click.option("--full", is_flag=True, help="The whole verdict and the tables of evidence, in the terminal.")
@click.option("--all", "everything", is_flag=True, help="Every cell in the journal, not only those asked for last.")
def command(
    source: str,
    results: Path,
    grid: str | None,
    smoke: bool,
    html: Path | None,
    data: Path | None,
    full: bool,
    everything: bool,
) -> int:
    """Say what a grid has come to: the verdict, the table, and what to doubt.

    FILE-OR-NAME is a grid file, the name of a grid in the results folder, or a journal; an MLflow store (its URI or its
    .db file), a CSV of epochs, or an entry of DAWNBench; or published:NAME, a published result that raybench ships, of
    which published: lists all. Nothing is run.
    """
    if source.startswith(PREFIX):
        _published(source, html, data)
        return 0
    from raybench import reports
    from raybench.analysis.report import as_json

    report = reports.of_source(source, results, everything, smoke, grid)
    made = reports.files(report) if html else {}
    if html:
        _write(html, made[reports.HTML])
    if data:
        _write(data, made.get(reports.DATA) or reports.text(as_json(report)))
    if not {html, data} & {Path("-")}:
        from raybench.cli.verdict import show_report

        show_report(report, full=full)
        _say_written(html, data)
    return 0


def _published(source: str, html: Path | None, data: Path | None) -> None:
    """The report of a published result, or the list of all.

    Raises:
        UsageError: there is none of that name.
    """
    from raybench.analysis.page import published_page
    from raybench.cli.published import show_names, show_published
    from raybench.reports import text
    from raybench.sources import published
    from raybench.sources.publications import of_name
    from raybench.sources.published_report import as_json, published_report

    name = source.removeprefix(PREFIX)
    if not name and not html and not data:
        show_names(published())
        return
    report = published_report(Path(name).stem, of_name(name))
    if html:
        _write(html, published_page(report))
    if data:
        _write(data, text(as_json(report)))
    if not {html, data} & {Path("-")}:
        show_published(report)
        _say_written(html, data)


def _say_written(*files: Path | None) -> None:
    for written in filter(None, files):
        click.echo(f"written: {written}")


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

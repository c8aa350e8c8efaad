"""`raybench report`."""

from __future__ import annotations

import gc
from pathlib import Path

import click
from rich.text import Text

from raybench.cli import options as opt
from raybench.cli.console import Terminal
from raybench.cli.terminal import say, write_file
from raybench.core.options import ReportOptions
from raybench.core.secret_masking import redact
from raybench.errors import UsageError

EPILOG = """\b
Examples:
  raybench report grids/quickstart.yaml
  raybench report quickstart --full
  raybench report epochs.csv --baseline gpu
  raybench report quickstart --baseline batch_size=128
  raybench report quickstart --prices prices.csv
  raybench report quickstart --html quickstart.html
  raybench report quickstart~smoke
  raybench report quickstart --json - | jq .sentences.best
  raybench report sqlite:///mlflow.db --grid quickstart
  raybench report grids/quickstart.yaml colab.zip workstation/raybench-results
  raybench report --chain v1.csv v2.csv v3.csv
"""


@click.command("report", epilog=EPILOG)
@click.argument("sources", metavar="FILE-OR-NAME…", nargs=-1, required=True)
@opt.options(ReportOptions)
@opt.output_file("--html", "html", "Write the report as a single HTML file; - as for --json.")
@opt.JSON
@opt.output_file("--table", "table", "Write answer, tables and method as Markdown; - as for --json.")
@click.option(
    "--figure",
    "drawn",
    multiple=True,
    type=opt.OutputFile,
    metavar="NAME.svg|.png|.pdf",
    help="Write a figure, by its name: speed, learning, loss, time_parts, time_and_price, scaling. Repeatable.",
)
@click.option("--full", is_flag=True, help="Show all configurations, all reasons for missing results, and notes.")
@click.option(
    "--all", "everything", is_flag=True, help="Include all configurations with results, not only the last request's."
)
@click.option(
    "--chain",
    "is_chain",
    is_flag=True,
    help="Compare each of several sources, or each configuration of one, with the one before, and the last with the "
    "first: versions such as the records of a leaderboard. A column `order` of a CSV puts them in order.",
)
def command(
    sources: tuple[str, ...],
    options: ReportOptions,
    html: Path | None,
    data: Path | None,
    table: Path | None,
    drawn: tuple[Path, ...],
    full: bool,
    everything: bool,
    is_chain: bool,
) -> int:
    """Show the results of a grid: the best configuration, what each setting does, all configurations, cautions.

    FILE-OR-NAME is a grid file, the name of a grid in the results folder, a grid's own folder, a zip file of `raybench
    export`, an MLflow store (its URI or its .db file), or a CSV of epochs. Nothing is run.

    Several are combined: a run that is in two of them counts once.
    """
    if is_chain:
        if table or drawn:
            raise UsageError("--table and --figure are of a report; remove them, or --chain")
        if options.baseline or options.prices or full or everything:
            raise UsageError("--chain has no baseline and no prices; remove --baseline, --prices, --full and --all")
        return _chain(sources, options, html, data)
    from raybench.cli.console import page as terminal
    from raybench.cli.console import print_lines
    from raybench.reporting import build
    from raybench.reporting.figures import figure_image
    from raybench.reporting.page import page
    from raybench.reporting.report import as_json
    from raybench.reporting.tables import as_markdown
    from raybench.reporting.text import report_lines

    gc.disable()  # it would search the objects of many attempts again and again, which have no cycles
    with Terminal(stderr=True).status(Text(f"reading {', '.join(map(redact, sources))}")):
        report = build.from_grid(
            build.one_grid(sources, options.folder, options.grid, options.axis), options, everything
        )
    if html:
        write_file(html, page(report))
    if data:
        write_file(data, as_json(report))
    for path in drawn:
        write_file(path, figure_image(report.answer, path))
    if table:
        write_file(table, as_markdown(report))
    if not {html, data, table} & {Path("-")}:
        print_lines(console := terminal(), report_lines(report.answer, console.width, full))
        _say_written(html, data, table, *drawn)
    return 0


def _chain(sources: tuple[str, ...], options: ReportOptions, html: Path | None, data: Path | None) -> int:
    from raybench.analysis.chain import chains
    from raybench.cli.console import page, print_columns, print_text
    from raybench.reporting import build, chain
    from raybench.reporting.report import json_text

    with Terminal(stderr=True).status(Text(f"reading {', '.join(map(redact, sources))}")):
        grid = build.versions(sources, options)
        shown = list(chains(grid))
    sentences = chain.sentences(shown)
    if html:
        write_file(html, chain.page(grid.request.name, shown))
    if data:
        write_file(data, json_text({"version": 1, "sentences": sentences, "chains": shown}))
    if not {html, data} & {Path("-")}:
        print_text(page(), *sentences)
        print_columns(page(), chain.columns(shown))
        _say_written(html, data)
    return 0


def _say_written(*files: Path | None) -> None:
    for path in filter(None, files):
        say(f"written: {path}")

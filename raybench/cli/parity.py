"""`raybench parity`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say
from raybench.core.options import ReportOptions
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.analysis.parity import ParityPair, ParityRow

VERDICTS = {None: "unknown, as at least 2 runs of each are needed", True: "differs", False: "no difference seen"}


@click.command("parity", epilog="Example: raybench parity tumors --baseline pytorch")
@click.argument("sources", metavar="FILE-OR-NAME…", nargs=-1, required=True)
@opt.options(ReportOptions, "results", "grid", "baseline")
@opt.JSON
def command(sources: tuple[str, ...], options: ReportOptions, data: Path | None) -> int:
    """Check that the configurations of a grid train alike, such as one model in two frameworks.

    Compares the losses of each configuration with those of its reference, from the first epoch to the last, within
    the noise between runs. With `steps_per_epoch: 1` in the grid, the first epochs are the first steps. Nothing is run.

    Exit status: 0 if no difference is seen, 1 if a loss differs, 2 for wrong use, 3 with one run each.
    """
    from raybench.analysis.parity import parity
    from raybench.reporting import build

    report = build.from_grid(build.one_grid(sources, options.folder, options.grid), options)
    pairs = parity(report.answer)
    if not pairs:
        raise UsageError(f"{report.answer.grid}: no two configurations to compare log the same loss; see --baseline")
    if not opt.is_written(data, lambda: {"pairs": [*map(_as_data, pairs)]}):
        for pair in pairs:
            _print(pair)
        say("Intervals are 95% for all rows of a table together; a smaller difference can hide in the noise.")
    verdicts = {pair.differs for pair in pairs}
    return 1 if True in verdicts else 3 if None in verdicts else 0


def _as_data(pair: ParityPair) -> dict[str, Any]:
    rows = []
    for row in pair.rows:
        low, high = row.difference.interval() or (None, None)
        rows.append({**vars(row), "difference": row.difference.value, "low": low, "high": high, "differs": row.differs})
    labels = {"configuration": pair.configuration.label, "reference": pair.reference.label}
    return {**labels, "differs": pair.differs, "rows": rows}


def _print(pair: ParityPair) -> None:
    from raybench.cli.console import page, print_list

    labels = pair.configuration.label, pair.reference.label
    console = page()
    console.print(f"{' against '.join(labels)}: {VERDICTS[pair.differs]}", style="italic", soft_wrap=True)
    heads = ("metric", "epochs", *labels, "difference", "verdict")
    print_list(console, heads, [_texts(row) for row in pair.rows], right=heads[1:5])


def _texts(row: ParityRow) -> tuple[str, ...]:
    ends = row.difference.interval()
    difference = f"{row.difference.value:+.3g}" + (f" ({ends[0]:+.3g} to {ends[1]:+.3g})" if ends else "")
    epochs = f"{row.first}" if row.first == row.last else f"{row.first}–{row.last}"
    verdict = {None: "unknown", True: "differs", False: "not seen to differ"}[row.differs]
    return row.metric, epochs, f"{row.mean:.4g}", f"{row.reference_mean:.4g}", difference, verdict

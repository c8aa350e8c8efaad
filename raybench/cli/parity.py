"""`raybench parity`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.terminal import say

if TYPE_CHECKING:
    from raybench.checks.run_parity import Parity


@click.command("parity", epilog="Example: raybench parity davidnet --frameworks torch,tensorflow")
@click.argument("workload")
@click.option(
    "--frameworks",
    metavar="NAME,NAME…",
    help="Frameworks to compare, the reference first; by default all that can run here.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=16),
    default=128,
    show_default=True,
    metavar="N",
    help="Size of each batch. In smaller ones rounding dominates.",
)
def command(workload: str, frameworks: str | None, batch_size: int) -> int:
    """Check that WORKLOAD is the same training job in several frameworks.

    WORKLOAD is one of raybench's or your own, as file.py:name. All frameworks start from the same weights, on the CPU,
    in float32, without dropout, and take ten steps on the same batches at 1% of the learning rate.

    Exit status: 0 if all agree within the tolerances shown, 1 if one differs, 2 for wrong use.
    """
    from raybench import datasets
    from raybench.checks.run_parity import run_parity
    from raybench.cli.progress import fetch_with_progress
    from raybench.workloads import read_workload

    datasets.ensure(read_workload(workload, Path()).dataset, datasets.data_root(), fetch_with_progress)
    names = [name.strip() for name in frameworks.split(",")] if frameworks else []
    parity = run_parity(workload, names, batch_size, partial(say, err=True))
    _print_tables(parity)
    return 0 if parity.same else 1


def _print_tables(parity: Parity) -> None:
    from raybench.cli.console import page, print_list

    console = page()
    for pair in parity.pairs:
        verdict = "same" if pair.same else "different"
        header = f"{parity.workload}: {pair.framework} against {parity.reference}, batches of {parity.batch_size}"
        console.print(f"{header}: {verdict}", style="italic", soft_wrap=True)
        rows = []
        for line in pair.lines:
            difference = "–" if line.difference is None else f"{line.difference:.2g}"
            rows.append((line.what, difference, f"{line.tolerance:g}", "same" if line.same else "differs", line.note))
        heads = ("what", "difference", "tolerance", "verdict", "where it is largest")
        print_list(console, heads, rows, right=("difference", "tolerance"))
    for framework, reason in parity.missing.items():
        say(f"{framework} was not compared: {reason}", err=True)

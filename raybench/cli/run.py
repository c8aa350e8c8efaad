"""`raybench run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say, write_file
from raybench.core.options import GridOptions
from raybench.errors import UsageError

EPILOG = """\b
Examples:
  raybench run -- python train.py --compile '{true,false}'
  raybench run --work examples=60000 -- python train.py --batch-size '{16,64}'
  raybench run --repeats 5 -- python train.py --lr '{0.1,0.2}' --threads '{1..4}'
  raybench run --epoch 'epoch (\\d+)' --metric val/loss='val loss ([\\d.]+)' -- ./train
  raybench run --repeats 5 -- python a.py --vs python b.py
  raybench run --save grid.yaml -- torchrun --nproc-per-node '{1,2}' train.py

\b
Quote the braces: a shell would expand them itself.
"""


@click.command("run", epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", metavar="NAME", help="Name of the grid; by default the script's name with those of its axes.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="KIND",
    help="Devices to compare, such as cpu; by default the machine's accelerator, or the CPU. Repeatable.",
)
@click.option(
    "--epoch",
    metavar="PATTERN",
    help="Regular expression of the line that ends an epoch; by default, the first run shows it.",
)
@click.option(
    "--begin", metavar="PATTERN", help="The same of the line with which training begins: before it is start-up."
)
@click.option(
    "--time",
    metavar="PATTERN",
    help="Regular expression whose group is the seconds of an epoch by the program's clock.",
)
@click.option("--target", metavar="METRIC>=VALUE", help="The quality to reach, such as 'val/loss<=0.5' (in quotes).")
@click.option("--budget", metavar="AMOUNT", help="What each run may spend on training, such as 90s, 5m or 50kJ.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME=PATTERN", help="A metric in the output. Repeatable.")
@click.option(
    "--work",
    multiple=True,
    metavar="UNIT=AMOUNT",
    help="The work of an epoch, or of a run without epochs, if an axis changes it: examples='{batch_size} * 100'. "
    "Repeatable.",
)
@click.option(
    "--flops-per-token",
    metavar="FORMULA",
    help="FLOPs of a training step per token, for MFU, such as '6 * 124e6'; with --work tokens=….",
)
@click.option("--baseline", multiple=True, metavar="AXIS=VALUE", help="What the others are compared with. Repeatable.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the grid file, and run it.")
@opt.JSON
@opt.options(
    GridOptions,
    *("repeats", "until", "address", "rerun", "retry", "keep_going", "results", "tracking", "wait_for_nodes", "open"),
)
def command(words: tuple[str, ...], save: Path | None, data: Path | None, options: GridOptions, **given: Any) -> int:
    """Run a COMMAND as it is, with each combination of the values in its braces, and print the comparison.

    '{16,64}' and '{1..4}' are axes, named after the option before them. Epochs are lines with a number that grows, or
    those that match --epoch; without any, whole runs are timed. Each configuration runs 3 times, or --repeats.

    `--vs` between two commands compares them: in each repeat they run one after the other, in alternating order.
    """
    from raybench.config.one_line import MAX_NAME_CHARS, OPTIONS, as_yaml, commands_of, expanded_braces, grid_of
    from raybench.devices import hosted
    from raybench.execution.base import make_executor
    from raybench.planning.grid_options import requested_grid
    from raybench.planning.versions import compared

    commands = commands_of(words)
    several = len(commands) > 1
    if several and (save or given["baseline"]):
        reason = "a grid file has one command" if save else "the first command is the baseline"
        raise UsageError(f"{'--save' if save else '--baseline'} cannot be used with --vs: {reason}")
    if save and save.absolute().parent != Path.cwd():
        raise UsageError(f"{save}: a command runs in the folder of its grid file; write it to this folder")
    executor = make_executor(options.address)
    grids = [grid_of(parts, options, **given) for parts in commands.values()]
    braces = next(filter(None, map(expanded_braces, commands.values())), None)
    if braces and not any(grid.get("axes") for grid in grids):
        say(f"note: your shell seems to have expanded braces; to compare their values, quote them: {braces}", err=True)
    kinds = [each.kind for node in executor.nodes() for each in node.hardware if not hosted(each.kind)]
    name = "-vs-".join(dict.fromkeys(grid["name"] for grid in grids))[:MAX_NAME_CHARS]
    for grid in grids:
        axes = grid.get("axes", {})
        if kinds and "device" not in axes:
            grid["axes"] = {"device": kinds[:1], **axes}
        grid["name"] = name
    specs = [requested_grid(grid, parts=OPTIONS) for grid in grids]
    if save:
        text = as_yaml(grids[0])
        if save.exists() and save.read_bytes() != text.encode():  # the same command continues what was stopped
            raise UsageError(f"{save}: exists already; name a new file, or use `raybench grid {save}`")
        write_file(save, text)
        specs = [requested_grid(save)]
    return opt.run_and_show(compared(specs, [*commands]) if several else specs[0], executor, options, data)

"""`raybench noise`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli import options as opt
from raybench.core.options import GridOptions
from raybench.core.repeats import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from raybench.analysis.noise import Noise, NoiseFloor

EPILOG = """\b
Examples:
  raybench noise grid.yaml --where device=cpu
  raybench noise -- python train.py --batch-size 64
"""


@click.command("noise", epilog=EPILOG, context_settings={"allow_interspersed_args": True})
@click.argument("words", metavar="FILE | -- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--runs", type=click.IntRange(3), default=6, show_default=True, help="Number of runs.")
@opt.options(GridOptions, "where", "set", "address", "results", "rerun", "retry")
@opt.JSON
def command(words: tuple[str, ...], runs: int, options: GridOptions, data: Path | None) -> int:
    """Run one configuration several times, and say what its noise hides.

    It is the first configuration of the grid in FILE that can run here, or COMMAND. Printed are the standard deviations
    of its time and metrics, and the smallest differences that 3, 5, 10 and 20 repeats would show. `raybench plan` reads
    them, too.
    """
    from dataclasses import replace

    from raybench import datasets
    from raybench.analysis.noise import saved_noise
    from raybench.cli.console import page, print_text
    from raybench.cli.end_view import show_end
    from raybench.config.one_line import OPTIONS, grid_of
    from raybench.core.identity import NOISE
    from raybench.core.text import format_value
    from raybench.execution.base import make_executor
    from raybench.planning.grid_options import requested_grid
    from raybench.planning.plan import make_plan
    from raybench.run import run_grid

    options = replace(options, tracking=None)
    is_file = len(words) == 1 and words[0].endswith((".yaml", ".yml"))
    source = Path(words[0]) if is_file else grid_of(words, options)
    spec = requested_grid(source, options, parts=None if is_file else OPTIONS)
    executor = make_executor(options.address)
    cells = make_plan(spec, executor.nodes(spec.environments), datasets.data_root()).cells
    first = next((cell for cell in cells if not cell.skip), cells[0])
    spec = spec.model_copy(update={"name": f"{spec.name}{NOISE}", "repeats": runs})
    spec._where = [(axis, format_value(value)) for axis, value in first.axes.items()]
    outcome = run_grid(spec, executor, opt.display(data), options)
    floor = saved_noise(outcome.history)
    if opt.is_written(data, lambda: _as_data(floor)):
        return outcome.exit_status
    console = page()
    show_end(outcome, console, lambda: print_text(console, *(noise_lines(floor) if floor else ())))
    return outcome.exit_status


def _as_data(floor: NoiseFloor | None) -> dict[str, Any]:
    """The noise, and the smallest differences that a number of repeats shows; `time` is relative."""
    from raybench.analysis.noise import REPEATS

    if floor is None:
        return {"noise": None}
    noises = {**({"time": floor.time} if floor.time else {}), **floor.metrics}
    differences = {repeats: {name: noise.shown(repeats) for name, noise in noises.items()} for repeats in REPEATS}
    return {"noise": floor, "shown": differences, "sentences": list(noise_lines(floor))}


def noise_lines(floor: NoiseFloor) -> Iterator[str]:
    """Yield what the noise of a configuration is, and what a number of repeats shows in spite of it."""
    from raybench.analysis.noise import REPEATS
    from raybench.reporting.words.quality import metric_name

    if floor.time is None:
        yield "Noise of the time: not known; it takes 3 runs with a time."
    else:
        yield _line("time", floor.time, is_time=True)
    for name, noise in floor.metrics.items():
        yield _line(metric_name(name), noise)
    if floor.same:
        same = ", ".join(map(metric_name, floor.same))
        yield f"The same in all runs, so that their noise is not known (does the program use `{{seed}}`?): {same}."
    for repeats in REPEATS if floor.time or floor.metrics else ():
        yield f"{repeats} repeats show {shown_text(floor, repeats)}, in 4 of 5 comparisons of two versions."
    if name := floor.most_telling:
        gain = floor.metrics[name].gain or 0.0
        yield (
            f"Most sensitive metric: {metric_name(name)}, which changes in the second half of the training by "
            f"{gain:.2g} times the standard deviation between runs."
        )


def shown_text(floor: NoiseFloor, repeats: int) -> str:
    """Return the smallest differences that a number of repeats shows: `a change of 2.1% or 0.0009 bpb`."""
    from raybench.reporting.words.quality import metric_name

    parts = [percent(floor.time.shown(repeats)) + " in time"] if floor.time else []
    parts += [f"{noise.shown(repeats):.2g} in {metric_name(name)}" for name, noise in floor.metrics.items()]
    return f"a change of {' or '.join(parts)}" if parts else "nothing"


def _line(name: str, noise: Noise, is_time: bool = False) -> str:
    def text(value: float) -> str:
        return percent(value) if is_time else f"{value:.2g}"

    low, high = noise.sd_range
    change = f"; from the first run to the last it {'rose' if noise.drift > 0 else 'fell'} by {text(abs(noise.drift))}"
    drift = change if noise.drift else "; no drift is shown"
    return f"Noise of {name}: sd {text(noise.sd)} in {noise.runs} runs (95% CI {text(low)} to {text(high)}){drift}."

"""Which hardware trains your model faster, by how much, and with what certainty.

- `run_grid`: run a grid and get its results.
- `load`: results as tables, comparisons and figures, from a results folder, an MLflow store or elsewhere.
- `report`: write the report of results as an HTML page.
- `export`: write the results of a grid to one zip file, for a different machine.
- `Results`: what `run_grid` and `load` return.
- `Trial`, `current_trial`: one run of your own training loop, which reports its epochs to it.
- `Workload`, `Data`, `Split`: your own workload, in a file that a grid names.
- `RaybenchError`: the base class of every error that raybench raises on purpose.

The same is available in a shell: `raybench grid FILE`, `raybench report FILE`.
"""

from __future__ import annotations

import signal
import sys

# Ctrl-C while the command loads ends it without a traceback; `raybench.cli.main` then takes it.
if sys.argv[:1] and sys.argv[0].endswith("/raybench") and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from raybench.core.options import GridOptions, ReportOptions, with_keywords
from raybench.core.version import __version__
from raybench.datasets.splits import Data, Split
from raybench.errors import RaybenchError, UsageError
from raybench.workloads.base import Workload

if TYPE_CHECKING:
    from raybench.reporting.results import Results
    from raybench.training import Trial, current_trial

__all__ = [
    "Data",
    "RaybenchError",
    "Results",
    "Split",
    "Trial",
    "Workload",
    "__version__",
    "current_trial",
    "export",
    "load",
    "report",
    "run_grid",
]


@with_keywords(GridOptions)
def run_grid(grid: str | Path | Mapping[str, Any], options: GridOptions) -> Results:
    """Run the missing trials of a grid and return its results.

    Everything is kept in the results folder: the same call again runs only the missing trials. Progress is a live
    display in a terminal, and lines elsewhere.

    Args:
        grid: a grid file, or a mapping with the fields of one; paths in a mapping are relative to the current folder.

    Returns:
        The results of the whole grid, including trials of earlier calls. Failed trials do not raise an error:
        `results.trials["status"]` has their status.

    Raises:
        RaybenchError: the grid, its workload or its data cannot be used, or its trials cannot be run; the message says
            why.
        KeyboardInterrupt: the user stopped the grid; finished trials are kept.

    Examples:
        >>> import raybench
        >>> tiny = {"name": "tiny", "workload": "digits_cnn", "epochs": 2, "axes": {"batch_size": [32, 128]}}
        >>> results = raybench.run_grid(tiny, inline=True, checks=False, tracking=None, progress=False)
        >>> results
        Results(tiny~inline: 2 configurations, 2 runs)
        >>> results.trials["status"].tolist()
        ['completed', 'completed']
    """
    from raybench.cli.live import Display
    from raybench.execution.base import make_executor
    from raybench.planning.grid_options import requested_grid
    from raybench.reporting.results import Results
    from raybench.run import run_grid as run
    from raybench.sources import of_history

    spec = requested_grid(grid if isinstance(grid, Mapping) else Path(grid), options, dashes="")
    executor = make_executor(options.address, options.inline, options.callbacks)
    outcome = run(spec, executor, Display() if options.progress else None, options)
    if outcome.interrupted:
        raise KeyboardInterrupt("The grid was stopped. Finished trials are kept; the same call runs the rest.")
    return Results([of_history(spec.name, outcome.history)], [outcome.report])


def load(
    source: str | Path | Sequence[str | Path],
    grid: str | None = None,
    attempts: Literal["latest", "all"] = "latest",
) -> Results:
    """Load results as tables, comparisons and figures.

    Args:
        source: a results folder, or a grid's own folder in it; an MLflow store, as its URI or as its database's file
            (`….db`); a CSV of epochs (`….csv`); a zip file of `raybench export`. Several of them, such as
            `["raybench-results", "colab.zip"]`, are combined: a run that is in two of them counts once, and machines
            of one model are hosts of the same configurations.
        grid: load only this grid, which is the experiment's name in MLflow; by default all grids.
        attempts: `latest`, the last attempt at each trial that ended by itself (the last of all if none did), or `all`;
            if several users ran the same trial on one store, `latest` is one of theirs.

    Raises:
        RaybenchError: there is no such source, its content is invalid, or the MLflow store cannot be reached.

    Examples:
        >>> import raybench
        >>> results = raybench.load("raybench-results", grid="quickstart")
        >>> results.effects[["axis", "value", "other", "runs"]]
                   axis value other  runs
        0    batch_size   128    32     3
        1  weight_decay  5e-4     0     3
        >>> raybench.load("raybench-results", grid="quickstar")
        Traceback (most recent call last):
        ...
        raybench.errors.UsageError: raybench-results: no results of a grid quickstar; did you mean quickstart?
    """
    from raybench.reporting.results import Results
    from raybench.sources import load_grids

    return Results(load_grids(source, grid, attempts))


@with_keywords(ReportOptions)
def report(source: Results | str | Path | Sequence[str | Path], options: ReportOptions) -> Path:
    """Write the report of results as one HTML page that needs nothing else.

    Args:
        source: results, a grid file, the name of a grid in the results folder, or any source of `load`; several of
            them are combined.

    Returns:
        The path of the page.

    Raises:
        RaybenchError: there is no such source, grid or baseline, or the page cannot be written.

    Examples:
        >>> import raybench
        >>> page = raybench.report("quickstart", "quickstart.html")
        >>> page.read_text()[:15]
        '<!DOCTYPE html>'
    """
    from raybench.core.files import write_atomic
    from raybench.reporting.build import from_grid, one_grid
    from raybench.reporting.page import page
    from raybench.reporting.results import Results

    if isinstance(source, Results) and not (
        options.baseline or options.prices or options.unit or options.these_machines
    ):
        made = source.report
    elif isinstance(source, Results):
        made = from_grid(source.grid, options)
    else:
        sources = [source] if isinstance(source, (str, Path)) else source
        made = from_grid(one_grid([*map(str, sources)], options.folder, options.grid, options.axis), options)
    path = Path(options.html)
    try:
        write_atomic(path, page(made))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def export(grid: str | Path, file: str | Path | None = None, *, results: str | Path = "raybench-results") -> Path:
    """Write the results of a grid to a zip file, for a different machine.

    `load`, `report` and `raybench import` read it. Trials that still run are left out, and so are checkpoints, data and
    code.

    Args:
        grid: a grid file, the name of a grid in the results folder, or its folder.
        file: the zip file to write; by default the grid's name with `.zip`.
        results: the results folder.

    Returns:
        The path of the file.

    Raises:
        RaybenchError: there is no such grid, none of its trials has ended, or the file cannot be written.

    Examples:
        >>> import raybench
        >>> raybench.export("quickstart", "colab.zip")
        PosixPath('colab.zip')
        >>> raybench.load("colab.zip")
        Results(quickstart: 4 configurations, 12 runs)
    """
    from raybench.reporting.build import folder_of
    from raybench.results.archive import write_archive

    folder = folder_of(str(grid), Path(results)) or Path(grid)
    path = Path(file or f"{folder.name}.zip")
    write_archive(folder, path)
    return path


def __getattr__(name: str) -> Any:
    if name == "current_trial" and "RAYBENCH_TRIAL" in os.environ:  # a script that a trial has started
        from raybench.trial.command_trial import current_trial

        return current_trial
    if name in ("Trial", "current_trial"):
        from raybench import training

        return getattr(training, name)
    if name == "Results":
        from raybench.reporting.results import Results

        return Results
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""The options of running and reporting a grid, each declared once: the commands, Python and the docs read them here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from textwrap import fill
from typing import Any, Concatenate, ParamSpec, TypeVar

from raybench.core.status import TrialStatus
from raybench.core.text import join_words
from raybench.errors import UsageError

RESULTS = Path("raybench-results")  # the default results folder
NO_STORE = "none"  # `--tracking` for nothing in MLflow

Source = TypeVar("Source")
Options = TypeVar("Options")
Result = TypeVar("Result")
Keywords = ParamSpec("Keywords")


@dataclass(frozen=True)
class Option:
    """The declaration of one option.

    Attributes:
        type: as it is annotated, such as `int | None`.
        default: in Python and in commands. A flag whose default is true is `--no-NAME` in commands.
        help: its meaning, in commands and in Python.
        usage: what to add to the help in commands.
        python: what to add to the help in Python.
        metavar: its value in the help of a command; empty for a flag.
        least: the smallest number.
        choices: the possible texts.
        repeatable: whether a command takes several of it.
        in_commands: whether commands have it.
    """

    name: str
    type: str
    default: Any
    help: str
    usage: str = ""
    python: str = ""
    metavar: str = ""
    least: int | None = None
    choices: tuple[str, ...] = ()
    repeatable: bool = False
    in_commands: bool = True

    @property
    def flag(self) -> str:
        """Its name in a command."""
        return f"--{'no-' if self.default is True else ''}{self.name.replace('_', '-')}"

    @property
    def command_help(self) -> str:
        """Its meaning in a command."""
        return " ".join(filter(None, (self.help, self.usage, "Repeatable." if self.repeatable else "")))

    @property
    def python_help(self) -> str:
        """Its meaning in Python."""
        return " ".join(filter(None, (self.help, self.python)))


def option(default: Any, help: str, **attributes: Any) -> Any:
    """Declare an option as the field of a dataclass; the attributes are those of `Option`."""
    return field(default=default, metadata={"help": help, **attributes})


def options_of(declared: Any) -> dict[str, Option]:
    """The options that a dataclass declares, by name."""
    options = {}
    for entry in fields(declared):
        kind = entry.type if isinstance(entry.type, str) else entry.type.__name__
        options[entry.name] = Option(entry.name, kind, entry.default, **entry.metadata)
    return options


def with_keywords(
    declared: Callable[Keywords, Options],
) -> Callable[[Callable[[Source, Options], Result]], Callable[Concatenate[Source, Keywords], Result]]:
    """Give a function of a source and options these options as keywords, in its signature and in its docstring."""

    def decorate(function: Callable[[Source, Options], Result]) -> Callable[Concatenate[Source, Keywords], Result]:
        @wraps(function)
        def call(source: Source, /, *args: Keywords.args, **keywords: Keywords.kwargs) -> Result:
            return function(source, declared(*args, **keywords))

        source, _ = signature(function).parameters.values()
        keywords = signature(declared).parameters.values()
        vars(call)["__signature__"] = signature(function).replace(
            parameters=[source.replace(kind=Parameter.POSITIONAL_ONLY), *keywords]
        )
        texts = [
            fill(f"{one.name}: {one.python_help}", 120, initial_indent=" " * 8, subsequent_indent=" " * 12)
            for one in options_of(declared).values()
        ]
        call.__doc__ = str(function.__doc__).replace("\n\n    Returns:", "\n".join(["", *texts, "", "    Returns:"]), 1)
        return call

    return decorate


THESE_MACHINES = "Compare these machines, and not their models of device, of which machines differ in speed."


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """Options of running and of reporting."""

    results: str | Path = option(  # noqa: RUF009
        str(RESULTS), "Folder for results and, by default, the MLflow store.", metavar="DIRECTORY"
    )
    prices: str | Path | None = option(  # noqa: RUF009
        None,
        "CSV of prices that replace the grid's: device (name, model or kind), price_per_hour; optional: instance, "
        "devices, terms, source, date, currency.",
        metavar="FILE",
    )
    terms: str = option("", "Terms of the prices, such as spot, of devices that have rows with these.", metavar="TERMS")

    @property
    def folder(self) -> Path:
        """The results folder."""
        return Path(self.results)


@dataclass(frozen=True, kw_only=True)
class PlanOptions(SharedOptions):
    """What is planned of a grid, and where."""

    set: Mapping[str, Any] | Sequence[str] = option(
        (),
        "Changes to the grid, by dotted name:",
        usage="--set axes.batch_size=[64,128].",
        python='{"axes.batch_size": [64, 128]}.',
        metavar="KEY=VALUE",
        repeatable=True,
    )
    where: Mapping[str, Any] | Sequence[str] = option(
        (),
        "Only these configurations:",
        usage="--where device=cpu; device=available for those that can run here. Values of one axis are alternatives.",
        python='{"device": "cpu"}; {"device": "available"} for those that can run here.',
        metavar="AXIS=VALUE",
        repeatable=True,
    )
    repeats: int | None = option(
        None,
        "Repeats of each configuration, instead of those in the grid; with `until`, the most.",
        metavar="N",
        least=1,
    )
    until: str | None = option(
        None,
        "Repeat 4 to 10 times, until each ratio is certain to ± this, such as 5%. With `verdict`, until one side is "
        "shown to be faster, or both to be equally fast. With `best`, until the best is known.",
        metavar="PERCENT",
    )
    smoke: bool = option(
        False,
        "Test whether the grid runs: a few configurations, a few steps each, on the CPU, in a minute or two. The "
        "results go to a separate grid, NAME~smoke.",
    )
    synthetic_data: bool = option(
        False, "Train on generated data of the same shape, without a download. Times are real, accuracies are not."
    )
    inline: bool = option(
        False,
        "Run trials in this process without Ray, for a debugger. The results go to a separate grid, NAME~inline.",
    )
    address: str | None = option(
        None,
        "Ray cluster of which this machine is a node: auto or HOST:6379. By default the one in RAY_ADDRESS, or else "
        "this machine alone.",
        metavar="ADDRESS",
    )


@dataclass(frozen=True, kw_only=True)
class GridOptions(PlanOptions):
    """What of a grid is run, and how."""

    rerun: bool = option(False, "Run all trials again, including finished ones.")
    retry: Collection[str] = option(
        (),
        "Run trials with this status again, such as failed.",
        metavar="STATUS",
        choices=tuple(status.value for status in TrialStatus if status is not TrialStatus.SKIPPED),
        repeatable=True,
    )
    keep_going: bool = option(False, "Do not stop if the first trials show that all would fail in the same way.")
    tracking: str | None = option(
        "",
        "MLflow store, instead of the one in the grid or in MLFLOW_TRACKING_URI;",
        usage=f"`{NO_STORE}` writes nothing to MLflow.",
        python="None writes nothing to MLflow.",
        metavar="URI",
    )
    wait_for_nodes: float = option(
        30,
        "How many minutes to wait for nodes that a device needs, if the cluster starts nodes for what waits; 0 to skip "
        "them.",
        metavar="MINUTES",
        least=0,
    )
    spend: str | None = option(
        None,
        "Begin no trial with which those of this command would cost more, such as $20.",
        metavar="AMOUNT",
    )
    within: str | None = option(None, "Begin no trial that would not end in this time, such as 2h.", metavar="TIME")
    wait_for_quiet: str | None = option(
        None,
        "The longest wait for other programs to leave the cores, such as 10m; by default a terminal is asked.",
        metavar="TIME",
    )
    these_machines: bool = option(False, THESE_MACHINES)
    checks: bool = option(
        True,
        "",
        usage="Skip the checks of weight decay and peak speed; not for results.",
        python="Check weight decay and measure the peak speed before the trials.",
    )
    open: bool = option(False, "Open the report in the browser, where it follows the grid trial by trial.")
    report: bool = option(True, "Write the page of the report.", in_commands=False)
    progress: bool = option(True, "Show the progress.", in_commands=False)
    callbacks: Sequence[Any] = option(
        (),
        "Callbacks of Ray Tune (`ray.tune.Callback`), which see each epoch of each trial as a result; they run in the "
        "process of Ray, not in this one.",
        in_commands=False,
    )

    def __post_init__(self) -> None:
        statuses = options_of(GridOptions)["retry"].choices
        if isinstance(self.retry, str) or not {*self.retry} <= {*statuses}:
            raise UsageError(f"retry: {self.retry!r} is not a list of statuses; use some of {join_words([*statuses])}")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(SharedOptions):
    """What is reported of results."""

    html: str | Path = field(
        default="report.html", kw_only=False, metadata={"help": "The page to write.", "in_commands": False}
    )
    grid: str | None = option(
        None, "The grid to show, if an MLflow store or a results folder has several.", metavar="NAME"
    )
    baseline: str | Mapping[str, Any] | Sequence[str] = option(
        (),
        "What the others are compared with:",
        usage="a device, or AXIS=VALUE.",
        python='a device, or values by axis, such as {"batch_size": 32}.',
        metavar="DEVICE",
        repeatable=True,
    )
    axis: Mapping[str, str] | Sequence[str] = option(
        (),
        "An axis of logs, by a regular expression in their names or text:",
        usage="--axis 'lr=lr([0-9.]+)'.",
        python='{"lr": "lr([0-9.]+)"}.',
        metavar="NAME=REGEX",
        repeatable=True,
    )
    unit: str = option("", "The unit of rates and prices, such as tokens.", metavar="NAME")
    lower_is_better: Collection[str] = option(
        (), "Metrics of which less is better, if their names do not say it.", metavar="METRIC", repeatable=True
    )
    higher_is_better: Collection[str] = option(
        (), "Metrics of which more is better, if their names do not say it.", metavar="METRIC", repeatable=True
    )
    metric: str = option("", "The metric of quality, instead of the grid's.", metavar="METRIC")
    target: str = option(
        "",
        "The quality that each run has to reach, such as 'val/loss<=3.28', or the mean of runs of fixed length, by a "
        "one-sided test: 'mean val/loss<=3.28 at 1%'.",
        metavar="METRIC<=X",
    )
    deadline: str = option(
        "", "The cheapest of those whose runs take at most this, to the target if there is one.", metavar="3h"
    )
    spend_at_most: str = option(
        "", "The fastest of those whose runs cost at most this; with a deadline, the cheapest.", metavar="AMOUNT"
    )
    weights: str | Mapping[str, float] = option(
        "",
        "Weights of workloads in the mean over several:",
        usage="--weights vgg16=2,bert=1.",
        python='{"vgg16": 2}.',
        metavar="NAME=X,…",
    )
    runs_per_month: int | None = option(None, "Runs a month, for the price of a month.", metavar="N", least=1)
    budget: str = option(
        "", "The training time that every run had, such as 10m; the quality then decides.", metavar="TIME"
    )
    where: Mapping[str, Any] | Sequence[str] = option(
        (),
        "Only these configurations:",
        usage="--where AXIS=VALUE. Values of one axis are alternatives.",
        python='{"batch_size": 32}, or {"batch_size": [32, 64]}.',
        metavar="AXIS=VALUE",
        repeatable=True,
    )
    whole_runs: bool = option(False, "Compare whole runs, and not steady epochs.")
    these_machines: bool = option(False, THESE_MACHINES)

    @property
    def directions(self) -> dict[str, bool]:
        """Whether more of a metric is better, as far as they say it."""
        return dict.fromkeys(self.lower_is_better, False) | dict.fromkeys(self.higher_is_better, True)

"""Options of the verbs, as `raybench.core.options` declares them, and the run of a grid with its display."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.terminal import write_file
from raybench.core.options import GridOptions, Option, SharedOptions, options_of

if TYPE_CHECKING:
    from raybench.cli.live import Display
    from raybench.config import GridSpec
    from raybench.execution.base import Executor

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

OutputFile = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


def _one_output(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    if path == Path("-") and (first := context.meta.setdefault(__name__, option.opts[0])) != option.opts[0]:
        raise click.BadParameter(f"standard output is already for {first}; name a file")
    return path


def output_file(flag: str, name: str, help: str) -> Decorator:
    """Give a verb an option that names a file to write."""
    return click.option(flag, name, type=OutputFile, callback=_one_output, metavar="FILE", help=help)


JSON = output_file("--json", "data", "Write the result as JSON; - is the terminal, for that alone.")
GRID_FILE: Decorator = click.argument("source", metavar="FILE", type=click.Path(path_type=Path))


def _click_type(declared: Option) -> Any:
    types = declared.type.split(" | ")
    if declared.choices:
        return click.Choice(declared.choices, case_sensitive=False)
    if "Path" in types:
        return click.Path(file_okay=declared.metavar != "DIRECTORY", path_type=Path)
    number = click.IntRange if "int" in types else click.FloatRange if "float" in types else None
    return number(min=declared.least) if number else str


def option(declared: Any, name: str) -> Decorator:
    """Give a verb one option that a class declares, as an argument of its name."""
    one = options_of(declared)[name]
    if isinstance(one.default, bool):
        return click.option(
            one.flag, name, is_flag=True, default=one.default, flag_value=not one.default, help=one.command_help
        )
    return click.option(
        one.flag,
        name,
        type=_click_type(one),
        default=one.default,
        show_default=bool(one.default),
        multiple=one.repeatable,
        metavar=one.metavar,
        help=one.command_help,
    )


def options(declared: Any, *names: str) -> Decorator:
    """Give a verb, as `options`, an instance of a class made of these options of a command, or of all of them."""
    chosen = names or [one.name for one in options_of(declared).values() if one.in_commands]

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(verb)
        def with_options(**values: Any) -> Any:
            return verb(options=declared(**{name: values.pop(name) for name in chosen}), **values)

        decorated: Callable[..., Any] = with_options
        for name in reversed(chosen):
            decorated = option(declared, name)(decorated)
        return decorated

    return decorate


results: Decorator = option(SharedOptions, "results")


def run_and_show(spec: GridSpec, executor: Executor, options: GridOptions, data: Path | None) -> int:
    """Run a grid with a display of its progress, print the comparison, and return the exit status."""
    from raybench.cli.console import page
    from raybench.cli.end_view import show_end
    from raybench.reporting.report import as_json
    from raybench.run import run_grid

    outcome = run_grid(spec, executor, display(data), options)
    if not is_written(data, lambda: as_json(outcome.report)):
        show_end(outcome, page())
    return outcome.exit_status


def display(data: Path | None) -> Display:
    """Return the display of a running grid, on standard error if standard output is for JSON."""
    from raybench.cli.console import Terminal
    from raybench.cli.live import Display

    return Display(Terminal(stderr=True) if data == Path("-") else None)


def is_written(data: Path | None, content: Callable[[], str | Mapping[str, Any]]) -> bool:
    """Write JSON to the file that the user named, if any; return whether that is standard output, for nothing else."""
    if data:
        from raybench.reporting.report import json_text

        result = content()
        write_file(data, result if isinstance(result, str) else json_text({"version": 1, **result}))
    return data == Path("-")


def objects(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[dict[str, str | None]]:
    """Return the rows of a list for JSON."""
    return [dict(zip(heads, (None if text == "–" else text for text in row), strict=True)) for row in rows]


def fraction(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Convert a percentage: `5%`, `5` and `0.5%` are 0.05, 0.05 and 0.005."""
    try:
        number = float(value.removesuffix("%")) if value else None
    except ValueError:
        number = -1.0
    if number is not None and not 0 <= number < 1000:
        raise click.BadParameter(f"{value!r} is not a percentage; write, for example, 5%")
    return number if number is None else number / 100

"""The `raybench` command: one module per verb, imported lazily, so that `--help` is fast."""

from __future__ import annotations

import gc
import logging
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from keyword import iskeyword
from signal import SIG_DFL, SIGINT, SIGTERM, default_int_handler, getsignal, signal

import click

from raybench import __version__
from raybench.cli.terminal import PrintableFormatter, say
from raybench.core.files import FULL
from raybench.core.text import printable
from raybench.errors import RaybenchError, nearest

DEBUG = "RAYBENCH_DEBUG"
"""Environment variable that shows the traceback of an unexpected error."""

VERBS = {
    "run": "Run a command, with each combination of the values in its braces.",
    "grid": "Run the missing trials of a grid and print the comparison.",
    "plan": "Show the configurations of a grid: done, to run, skipped; time and price.",
    "noise": "Run one configuration several times, and say what its noise hides.",
    "devices": "Show the devices and frameworks of this machine or a cluster.",
    "env": "List or build Python environments for other frameworks.",
    "data": "List or download data sets.",
    "parity": "Check that configurations of a grid train alike, such as two frameworks.",
    "report": "Show the results of a grid: in the terminal, as HTML or JSON.",
    "compare": "Decide whether to keep a change: speed and quality before and after.",
    "export": "Write the results of a grid to a zip file or an MLflow store.",
    "import": "Add results of a different machine to the results folder.",
    "ui": "Open the MLflow UI with the runs.",
}


class _Verbs(click.Group):
    """Lists the verbs without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name  # import
        command: click.Command = import_module(f"raybench.cli.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"No such command '{args[0]}'; {nearest(args[0], VERBS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="raybench")
def group() -> None:
    """Measure which hardware trains your model faster, by how much, and with what certainty.

    \b
    Start here:
      raybench grid quickstart    run a small grid, in half a minute
      raybench ui                 open the runs in a browser
    """


def main() -> None:
    """The entry point: prints one clear message for any error, and sets the exit status."""
    signal(SIGTERM, default_int_handler)  # SIGTERM, for example from a batch system, acts like Ctrl-C
    if getsignal(SIGINT) is SIG_DFL:  # by the package, while it loads
        signal(SIGINT, default_int_handler)
    os.environ["PATH"] = os.environ.get("PATH") or os.defpath  # Ray starts its workers by a shell
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack a character such as ×
    if logging.lastResort:
        logging.lastResort.setFormatter(PrintableFormatter())
    status = _run()
    gc.freeze()  # otherwise Python looks for garbage in all of Ray, MLflow and pandas before it ends: 1 to 2 s
    sys.exit(status)


def _run() -> int:
    try:
        status = group.main(prog_name="raybench", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message)
        error.show()
        return error.exit_code
    except RaybenchError as error:
        say(str(error), err=True)
        return error.exit_status
    except BrokenPipeError:  # `raybench report | head`: the reader has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C while a class was made
            return 130
        if DEBUG in os.environ:
            raise
        is_full = isinstance(error, OSError) and error.errno in FULL
        hint = " Free disk space, or set TMPDIR to a different folder." if is_full else ""
        kept = f"Finished trials are kept. {DEBUG}=1 shows the traceback."
        say(f"{type(error).__name__}: {error}.{hint} {kept}", err=True)
        return 1
    return status if isinstance(status, int) else 0

"""The `raybench` command: one file a verb, loaded when it is asked for, so that `--help` is quick."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from raybench import __version__
from raybench.errors import RaybenchError

VERBS = {
    "grid": "Run what is missing of a grid and print the comparison.",
    "plan": "Show every trial of a grid: what is done, what cannot run and why, how long it takes.",
    "devices": "Show what this machine or cluster has.",
    "env": "List the environments that a device can name, or build one.",
    "data": "List the data sets, or fetch one.",
    "parity": "Show whether a workload is the same training job in several frameworks.",
    "report": "Say what a grid has come to: in the terminal, as a page, as data.",
    "sync": "Bring MLflow up to the journal.",
    "ui": "Open the MLflow UI on the right store.",
    "init": "Copy the shipped grids to where you can edit them.",
    "schema": "Print the JSON Schema of a grid file, for editors.",
}


class _Verbs(click.Group):
    """Lists the verbs without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"raybench.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="raybench")
def group() -> None:
    """Which hardware trains your model faster, by how much, and with what certainty.

    \b
    Start here:
      raybench init                 copies the shipped grids to ./grids
      raybench grid grids/quickstart.yaml
      raybench ui                   the runs, in the browser
    """


def main() -> None:
    """The entry point: one clear message and the right exit status for what a person can mend."""
    try:
        status = group.main(prog_name="raybench", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RaybenchError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever reads has had enough (`raybench schema | head`); what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)

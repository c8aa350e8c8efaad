"""`raybench schema`."""

from __future__ import annotations

import json

import click

from raybench.cli.terminal import say


@click.command("schema", epilog="Example: raybench schema > grid.schema.json")
def command() -> None:
    """Print the JSON Schema of a grid file.

    Editors with YAML support complete and check a grid file with this first line:

    \b
      # yaml-language-server: $schema=grid.schema.json
    """
    from raybench.config import json_schema

    say(json.dumps(json_schema(), indent=2))

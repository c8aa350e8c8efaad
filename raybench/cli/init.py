"""`raybench init`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli.terminal import say
from raybench.core.files import PACKAGE


def shipped_grids() -> Path:
    """The folder of the shipped grids: inside the installed package, or next to it in a checkout."""
    package = PACKAGE
    grids = package / "grids"
    return grids if grids.is_dir() else package.parent / "grids"


@click.command("init", epilog="Example: raybench init benchmarks/grids")
@click.argument("folder", default="grids", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace existing files.")
def command(folder: Path, force: bool) -> None:
    """Copy the example grids to FOLDER, by default grids, to edit and run them.

    Existing files are kept unless --force is given.
    """
    from raybench.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sorted(shipped_grids().glob("*.yaml")):
            target = folder / source.name
            if target.exists() and not force:
                say(f"kept     {target}")
                continue
            target.write_bytes(source.read_bytes())
            say(f"wrote    {target}")
    except OSError as error:
        raise UsageError(
            f"Cannot write to {error.filename or folder}: {error.strerror}. Choose another folder."
        ) from None
    say(f"Next: raybench grid {folder / 'quickstart.yaml'}")

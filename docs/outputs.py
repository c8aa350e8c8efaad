"""The outputs of commands that the README and the documentation show.

A page has the comment `<!-- output: NAME -->` above the block with the output NAME. `python docs/outputs.py` runs the
commands (a few seconds) and writes what they print into all pages. Results are those in `notebooks/recorded` and in the
bundles of the tutorial, so the outputs are the same every time, except what depends on this machine's devices.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COLUMNS = 80


class Output(NamedTuple):
    """What a command prints; of several paragraphs, only the first if `beginning`."""

    command: str
    beginning: bool = False
    of_machine: bool = False
    """Whether it depends on this machine's devices."""
    setup: str = ""
    """A command that is run before."""


OUTPUTS: Mapping[str, Output] = {
    "plan": Output("plan grids/quickstart.yaml --results empty", of_machine=True),
    "quickstart": Output("report quickstart --results recorded"),
    "published": Output("report published:resnet63", beginning=True),
    "import": Output("import colab.zip", setup="import workstation.zip"),
    "machines": Output("report grids/machines.yaml", setup="import workstation.zip colab.zip"),
}

BLOCK = re.compile(
    r"(?P<head>^<!-- output: (?P<name>\w+) -->\n```text\n)(?P<text>.*?)(?=^```$)", re.MULTILINE | re.DOTALL
)


def pages() -> list[Path]:
    """The pages that may show an output."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def text_of(output: Output) -> str:
    """What a command prints on standard output, in a folder with the grids, the recorded results and the bundles."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": str(COLUMNS)}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "grids").symlink_to(ROOT / "grids")
        (Path(folder) / "recorded").symlink_to(ROOT / "notebooks" / "recorded")
        for bundle in (ROOT / "docs" / "tutorial").glob("*.zip"):
            (Path(folder) / bundle.name).symlink_to(bundle)
        for arguments in filter(None, [output.setup, output.command]):
            command = [sys.executable, "-m", "raybench", *arguments.split()]
            done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    text = "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines()) + "\n"
    return text.partition("\n\n")[0].rstrip() + "\n" if output.beginning else text


def with_outputs(page: str, texts: Mapping[str, str]) -> str:
    """A page with these outputs."""
    return BLOCK.sub(lambda match: match["head"] + texts[match["name"]], page)


if __name__ == "__main__":
    texts = {name: text_of(output) for name, output in OUTPUTS.items()}
    for path in pages():
        path.write_text(with_outputs(path.read_text(), texts))

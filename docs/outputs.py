"""The outputs of commands that the README and the documentation show.

A page has the comment `<!-- output: NAME -->` above the block with the output NAME. `python docs/outputs.py` runs the
commands on recorded results (a few seconds) and writes what they print into all pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUTPUTS = {
    "plan": ["plan grids/quickstart.yaml --results empty"],
    "quickstart": ["report quickstart --results recorded"],
    "machines": ["import workstation.zip colab.zip", "report grids/machines.yaml"],
}
"""The commands of each output, of which the last one's is shown."""

OF_MACHINE = {"plan"}
"""Outputs that depend on this machine's devices."""

BLOCK = re.compile(
    r"(?P<head>^<!-- output: (?P<name>\w+) -->\n```text\n)(?P<text>.*?)(?=^```$)", re.MULTILINE | re.DOTALL
)


def pages() -> list[Path]:
    """The pages that may show an output."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def texts(of_machine: bool = True) -> dict[str, str]:
    """Each output by its name; without `of_machine` only those that are the same on every machine."""
    return {name: _run(commands) for name, commands in OUTPUTS.items() if of_machine or name not in OF_MACHINE}


def _run(commands: list[str]) -> str:
    """What the last command prints in a folder with the grids, the recorded results and the exported ones."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "grids").symlink_to(ROOT / "grids")
        (Path(folder) / "recorded").symlink_to(ROOT / "notebooks" / "recorded")
        for bundle in (ROOT / "docs").rglob("*.zip"):
            (Path(folder) / bundle.name).symlink_to(bundle)
        for arguments in commands:
            command = [sys.executable, "-m", "raybench", *arguments.split()]
            done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines()) + "\n"


if __name__ == "__main__":
    outputs = texts()
    for path in pages():
        path.write_text(BLOCK.sub(lambda match: match["head"] + outputs[match["name"]], path.read_text()))

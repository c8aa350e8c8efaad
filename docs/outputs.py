"""The outputs of commands that the README and the documentation show.

A page has the comment `<!-- output: NAME -->` above the block with the output NAME. `python docs/outputs.py` runs the
commands on recorded results (a few seconds) and writes what they print into all pages. `python docs/outputs.py picture`
renders docs/report.png with chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUTPUTS = {
    "plan": "plan grids/quickstart.yaml --results empty",
    "quickstart": "report quickstart --results recorded",
}
"""The command of each output."""

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
    return {name: _run(command) for name, command in OUTPUTS.items() if of_machine or name not in OF_MACHINE}


def _run(arguments: str) -> str:
    """What a command prints in a folder with the grids and the recorded results."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "grids").symlink_to(ROOT / "grids")
        (Path(folder) / "recorded").symlink_to(ROOT / "notebooks" / "recorded")
        command = [sys.executable, "-m", "raybench", *arguments.split()]
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines()) + "\n"


def picture() -> None:
    """Write docs/report.png: the answer and the figure of a report on published logs, as chromium shows them.

    Raises:
        FileNotFoundError: there is no chromium.
    """
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise FileNotFoundError("docs/report.png needs chromium")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        source = ROOT / "notebooks" / "published" / "claims" / "golf_records.csv"
        command = [sys.executable, "-m", "raybench", "report", "--chain", str(source), "--html", str(page)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        options += ["--hide-scrollbars", "--window-size=760,1060", f"--user-data-dir={folder}/profile"]
        picture = f"--screenshot={ROOT / 'docs' / 'report.png'}"
        subprocess.run([browser, *options, picture, page.as_uri()], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    if sys.argv[1:] == ["picture"]:
        sys.exit(picture())
    outputs = texts()
    for path in pages():
        path.write_text(BLOCK.sub(lambda match: match["head"] + outputs[match["name"]], path.read_text()))

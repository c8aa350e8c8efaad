"""How long does a large grid take to load and to report? Ten thousand trials of 24 epochs, in one file each.

Writes the files of a made-up grid to a temporary folder, and prints the processor seconds and the peak memory of a
process that loads the attempts, of one that makes the tables of `raybench.load`, and of `raybench report`.

    python benchmarks/reading.py --trials 10000 --epochs 24
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from raybench.core.cell import Cell
from raybench.core.events import events_file
from raybench.results.executions import Execution
from raybench.results.folder import add_event, attempt_folder
from raybench.results.history import GridHistory

RECORDED = Path(__file__).parent.parent / "notebooks" / "recorded" / "quickstart"
REPEATS = 10

LOAD = "import sys; from raybench.sources import load_grids; load_grids(sys.argv[1], attempts='all')"
TABLES = "import sys, raybench; results = raybench.load(sys.argv[1]); results.trials, results.epochs"


def write_grid(folder: Path, trials: int, epochs: int) -> int:
    """Write the files of a grid like a recorded one; return their size in bytes."""
    chance, size, cells = random.Random(0), 0, {}
    (file, *_) = sorted(RECORDED.glob("attempts/*/*.jsonl"))
    recorded = [json.loads(line) for line in file.read_text().splitlines()]
    (execution,) = RECORDED.glob("executions/*.json")
    request = json.loads(execution.read_text())
    planned = request["request"]["cells"][0]
    for number in range(trials):
        batch, repeat = 8 * (1 + number // REPEATS), number % REPEATS
        cell = json.loads(json.dumps(recorded[0]["cell"]))
        cell["settings"] |= {"batch_size": batch, "epochs": epochs}
        trial, run = f"{Cell.from_json(cell).cell_id}-r{repeat}", UUID(int=chance.getrandbits(128)).hex
        cells[batch] = cell
        lines = []
        for event in recorded:
            event = {**event, "trial": trial}
            if event["event"] == "trial_started":
                lines.append(event | {"cell": cell, "run": run, "repeat": repeat, "label": f"b{batch} r{repeat}"})
            elif event["event"] != "epoch_ended":
                lines.append(event)
            elif event["epoch"] == 1:
                for epoch in range(1, epochs + 1):
                    ledger = {name: round(s * chance.uniform(0.9, 1.1), 6) for name, s in event["ledger"].items()}
                    lines.append({**event, "epoch": epoch, "ledger": ledger})
        attempt = attempt_folder(folder, trial, run)
        for event in lines:
            add_event(attempt, event)
        size += events_file(attempt).stat().st_size
    request["request"]["baseline"] = {}
    request["request"]["cells"] = [
        planned
        | {"cell_id": Cell.from_json(cell).cell_id, "axes": {"batch_size": batch}, "content": cell, "repeats": REPEATS}
        for batch, cell in cells.items()
    ]
    del request["digest"]
    Execution(**request).write(folder)
    return size


def measure(command: list[str], folder: Path) -> str:
    """Run a command; return its processor seconds and its peak memory as text."""
    pid = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, str(folder / "out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)],
    )
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, command
    return f"{usage.ru_utime + usage.ru_stime:5.1f} s of processor time, {usage.ru_maxrss / 1000:5.0f} MB"


def main() -> None:
    """Write the grid and measure each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=24)
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "large"
        size = write_grid(folder, options.trials, options.epochs)
        print(f"{options.trials:,} trials x {options.epochs} epochs, {size / 1e6:,.0f} MB in {options.trials:,} files")
        python = sys.executable
        for name, command in {
            "start": [python, "-c", "import raybench.sources, pandas"],
            "load": [python, "-c", LOAD, str(folder)],
            "tables": [python, "-c", TABLES, str(folder)],
            "report": [python, "-m", "raybench", "report", str(folder), "--html", str(folder.parent / "page.html")],
        }.items():
            print(f"{name:7} {measure(command, folder.parent)}", flush=True)
        assert len(GridHistory.read(folder).attempts) == options.trials


if __name__ == "__main__":
    main()

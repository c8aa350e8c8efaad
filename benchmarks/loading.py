"""How long do results take to load and to report? raybench beside MLflow's own client, on one store; long journals.

    python benchmarks/loading.py [--runs 1000] [--epochs 24] [--trials 10000] [--rounds 5] [--json FILE]

A real sqlite store of MLflow is filled as `raybench sync` does: parameters, tags, the metrics of every epoch and the
summary of each run, and the journal in parts. It is loaded by `raybench.load`, which reads the journal, and by MLflow's
`search_runs` and `get_metric_history` for every metric of an epoch, in turn in each round; which of them is first
changes every round. Printed is the ratio of the processor times as a geometric mean over the rounds, with the 95 %
interval of a paired t on logarithms. Then a journal is written and loaded. Last, journals of as many trials as the
store has and as the journal has are reported: what `raybench report FILE --html PAGE` does once it has started, from
the reading of the journal to the page with its figures, the data and the text of the terminal.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

from measuring import ratio

import raybench
from raybench.cli.report_view import show_report
from raybench.core import events
from raybench.reporting import build
from raybench.reporting import build as reports
from raybench.results.history import GridHistory
from raybench.tracking import mapping as p
from raybench.tracking.store import Store, store_from_uri
from raybench.tracking.sync import sync

GRID = "loading"
START = 1795251600000

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "journal.jsonl"


def told(trials: int, epochs: int, seed: int = 0) -> Iterator[events.Event]:
    """The events of so many trials: the contract's, with other numbers; three of a cell, and cells on two devices.

    One trial after another, as on one machine.
    """
    started, _, second, ended = (json.loads(line) for line in GOLDEN.read_text().splitlines())
    chance = random.Random(seed)
    for number in range(trials):
        cell = json.loads(json.dumps(started["cell"]))
        place, repeat = divmod(number, 3)
        profile = ("box", "rack")[place % 2]
        cell["device"]["model"] = f"a {profile}"
        cell["settings"]["batch_size"] = 2 ** (place // 2 % 8)
        cell["settings"]["weight_decay"] = place // 16 * 1e-5
        trial = f"{place:012x}-r{repeat}"
        own = {"trial": trial, "attempt": 1}
        target = {"metric": "val/accuracy", "at_least": 0.9, "at_most": None}
        labels = {"label": f"net {profile} {trial}", "profile": profile, "grid": GRID, "target": target}
        begun = START / 1000 + number * 5.2 * epochs
        yield {**started, **own, **labels, "cell": cell, "t": clock(begun)}
        for epoch in range(1, epochs + 1):
            ledger = {
                "compile": 0.6 if epoch == 1 else 0.0,
                "train": round(3.9 + chance.gauss(0, 0.1), 6),
                "input_wait": 0.01,
                "evaluate": 0.4,
            }
            metrics = {name: round(chance.random(), 6) for name in second["metrics"]}
            yield {**second, **own, "epoch": epoch, "t": clock(begun + 5 * epoch), "ledger": ledger, "metrics": metrics}
        yield {**ended, **own, "wall": 5.0 * epochs, "t": clock(begun + 5.1 * epochs)}


def clock(seconds: float) -> str:
    """A time since 1970 as a journal has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fill(folder: Path, runs: int, epochs: int) -> Store:
    """A store with so many runs, as `raybench sync` writes them and their journal."""
    store = store_from_uri(f"sqlite:///{folder.as_posix()}/mlflow.db")
    write(folder / GRID / "journal.jsonl", runs, epochs)
    sync(GridHistory.read(folder / GRID / "journal.jsonl"), store, GRID)
    return store


def by_mlflow(store: Store) -> dict[str, dict[str, list[float]]]:
    """What MLflow's own client gives without the journal: by run and metric the values by epoch."""
    from raybench.tracking.mlflow import MlflowClient

    client = MlflowClient(store.uri)
    experiment = client.get_experiment_by_name(GRID).experiment_id
    found, token = [], None
    while True:
        clause = f"tags.`{p.TRIAL}` LIKE '%'"
        page = client.search_runs([experiment], clause, max_results=1000, page_token=token)
        found += page
        token = page.token
        if not token:
            break
    return {
        run.data.tags[p.TRIAL]: {
            name: [
                point.value
                for point in sorted(client.get_metric_history(run.info.run_id, name), key=lambda point: point.step)
            ]
            for name in run.data.metrics
            if not name.startswith("summary/")
        }
        for run in found
    }


def write(path: Path, trials: int, epochs: int) -> int:
    """A journal of so many trials; its size in bytes."""
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in told(trials, epochs)))
    return path.stat().st_size


def reported(path: Path) -> dict[str, str]:
    """Everything that `raybench report` makes of a journal."""
    report = build.from_source(str(path), path.parent)
    with redirect_stdout(StringIO()) as screen:
        show_report(report)
    return {**build.files(report), "screen": screen.getvalue()}


def timed(work, *arguments):
    """Wall seconds and processor seconds, of which others on the machine cost less, and the result."""
    begun = time.perf_counter(), time.process_time()
    result = work(*arguments)
    return [time.perf_counter() - begun[0], time.process_time() - begun[1]], result


def shown(seconds: list[list[float]]) -> str:
    wall, cpu = (statistics.median(column) for column in zip(*seconds, strict=True))
    return f"{wall:.1f} s, processor time {cpu:.1f} s"


def loaded_in_turn(store: Store, runs: int, epochs: int, rounds: int) -> dict[str, list[list[float]]]:
    """Seconds of loading a store by its journal and by MLflow's client; both must give the same numbers."""
    seconds: dict[str, list[list[float]]] = {"raybench": [], "mlflow": []}
    for number in range(rounds):
        results, histories = None, {}
        for which in ("raybench", "mlflow")[:: 1 if number % 2 else -1]:
            if which == "raybench":
                took, results = timed(raybench.load, store.uri)
            else:
                took, histories = timed(by_mlflow, store)
            seconds[which].append(took)
        assert results and (len(results.trials), len(results.epochs), len(histories)) == (runs, runs * epochs, runs)
        for trial, rows in results.epochs.groupby("trial"):
            for column, metric in (("epoch_s", "time/epoch_s"), ("val/accuracy", "val/accuracy")):
                assert list(rows[column]) == histories[trial][metric]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--trials", type=int, default=10_000, help="in the journal")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    # Loading them is no part of loading results.
    import pandas  # noqa: F401

    import raybench.tracking.mlflow

    seconds: dict[str, list[list[float]]] = {"journal": [], "report": [], "long_report": []}
    with tempfile.TemporaryDirectory() as folder:
        filling, store = timed(fill, Path(folder) / "store", options.runs, options.epochs)
        seconds |= loaded_in_turn(store, options.runs, options.epochs, options.rounds) | {"sync": [filling]}
        path = Path(folder) / "long" / "journal.jsonl"
        size = write(path, options.trials, options.epochs)
        for _ in range(options.rounds):
            took, results = timed(raybench.load, path)
            seconds["journal"].append(took)
            assert len(results.epochs) == options.trials * options.epochs
        short = Path(folder) / "short" / "journal.jsonl"
        write(short, options.runs, options.epochs)
        pages = {}
        for which, journal, trials in (("report", short, options.runs), ("long_report", path, options.trials)):
            for _ in range(options.rounds):
                took, files = timed(reported, journal)
                seconds[which].append(took)
                pages[which] = len(files[reports.HTML])
                assert len(json.loads(files[reports.DATA])["cells"]) == -(-trials // 3)
    median = f"(median of {options.rounds})"
    print(f"a store of {options.runs} runs × {options.epochs} epochs, filled in {shown(seconds['sync'])}")
    print(f"  raybench.load: {shown(seconds['raybench'])} {median}")
    print(f"  search_runs + get_metric_history: {shown(seconds['mlflow'])} {median}")
    pairs = zip(seconds["mlflow"], seconds["raybench"], strict=True)
    value, low, high = ratio([(theirs[1], ours[1]) for theirs, ours in pairs])
    print(f"  processor time, the latter ÷ the former: {value:.1f} (95 %: {low:.1f} to {high:.1f})")
    print(f"a journal of {options.trials} trials × {options.epochs} epochs, {size / 1e6:.0f} MB")
    print(f"  raybench.load: {shown(seconds['journal'])} {median}")
    for which, trials in (("report", options.runs), ("long_report", options.trials)):
        print(f"the report of {trials} trials × {options.epochs} epochs, a page of {pages[which] / 1e6:.1f} MB")
        print(f"  from its journal to page, data and screen: {shown(seconds[which])} {median}")
    if options.json:
        about = {name: value for name, value in vars(options).items() if name != "json"}
        options.json.write_text(json.dumps(about | {"journal_bytes": size, "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()

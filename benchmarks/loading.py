"""How long do results take to load and to report? raybench beside MLflow's own client, on one store; long journals.

    python benchmarks/loading.py [--runs 1000] [--epochs 24] [--mlflow-runs 1000] [--trials 10000] [--json FILE]

A real sqlite store of MLflow is filled by bulk insert with what raybench writes of each run: parameters, tags, the
metrics of every epoch and the summary. It is loaded by `raybench.load`, and by MLflow's `search_runs` and
`get_metric_history` for every metric of an epoch, in turn; the latter, where asked, for fewer of the runs. Then a
journal is written and loaded. Last, journals of as many trials as the store has and as the journal has are reported:
what `raybench report FILE --html PAGE` does once it has started, from the reading of the journal to the page with its
figures, the data and the text of the terminal.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import raybench
from raybench import reports
from raybench.analysis.results import Attempt, attempts
from raybench.cli.verdict import show_report
from raybench.tracking import projection as p
from raybench.tracking.store import Store, at
from raybench.trial import events

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
    """A store with so many runs, made by MLflow and filled by bulk insert."""
    from raybench.tracking.mlflow import Runs

    store = at(f"sqlite:///{folder.as_posix()}/mlflow.db")
    Runs(store, GRID)
    rows: dict[str, list[tuple]] = {"runs": [], "params": [], "tags": [], "metrics": [], "latest_metrics": []}
    connection = sqlite3.connect(store.path)
    ((experiment,),) = connection.execute("select experiment_id from experiments where name = ?", (GRID,))
    for number, attempt in enumerate(attempts(told(runs, epochs)).values()):
        run = f"{number:032x}"
        rows["runs"].append(
            (
                run,
                p.run_name(attempt),
                "FINISHED",
                START + number,
                START + number + 9800,
                "active",
                experiment,
                "nobody",
                "",
            )
        )
        rows["params"] += [(key, value, run) for key, value in p.parameters(attempt).items()]
        rows["tags"] += [(key, value, run) for key, value in p.tags(attempt, GRID).items()]
        points = list(points_of(attempt))
        rows["metrics"] += [(key, value, START + step, step, run, False) for key, value, step in points]
        last = {key: (value, step) for key, value, step in points}
        rows["latest_metrics"] += [(key, v, START + step, step, run, False) for key, (v, step) in last.items()]
    columns = {
        "runs": "run_uuid, name, status, start_time, end_time, lifecycle_stage, experiment_id, user_id, artifact_uri",
        "params": "key, value, run_uuid",
        "tags": "key, value, run_uuid",
        "metrics": "key, value, timestamp, step, run_uuid, is_nan",
        "latest_metrics": "key, value, timestamp, step, run_uuid, is_nan",
    }
    with connection:
        for table, names in columns.items():
            places = ", ".join("?" * len(names.split(", ")))
            connection.executemany(f"insert into {table} ({names}) values ({places})", rows[table])
    connection.close()
    return store


def points_of(attempt: Attempt) -> Iterator[tuple[str, float, int]]:
    for epoch in attempt.epochs:
        for name, value in p.epoch_metrics(epoch).items():
            yield name, value, epoch.epoch
    for name, value in p.summary_metrics(attempt).items():
        yield name, value, 0


def by_mlflow(store: Store, most: int) -> dict[str, dict[str, list[float]]]:
    """What MLflow's own client gives: by run and metric the values by epoch, of at most so many runs."""
    from raybench.tracking.mlflow import MlflowClient

    client = MlflowClient(store.uri)
    experiment = client.get_experiment_by_name(GRID).experiment_id
    found, token = [], None
    while len(found) < most:
        page = client.search_runs([experiment], max_results=min(1000, most - len(found)), page_token=token)
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
    path.parent.mkdir()
    path.write_text("".join(json.dumps(event) + "\n" for event in told(trials, epochs)))
    return path.stat().st_size


def reported(path: Path) -> dict[str, str]:
    """Everything that `raybench report` makes of a journal."""
    report = reports.of_source(str(path), path.parent)
    with redirect_stdout(StringIO()) as screen:
        show_report(report)
    return {**reports.files(report), "screen": screen.getvalue()}


def timed(work, *arguments):
    """Wall seconds and processor seconds, of which others on the machine cost less, and the result."""
    begun = time.perf_counter(), time.process_time()
    result = work(*arguments)
    return [time.perf_counter() - begun[0], time.process_time() - begun[1]], result


def shown(seconds: list[list[float]]) -> str:
    wall, cpu = (statistics.median(column) for column in zip(*seconds, strict=True))
    return f"{wall:.1f} s, processor time {cpu:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--mlflow-runs", type=int, default=1000, help="of them, for MLflow's own client")
    parser.add_argument("--trials", type=int, default=10_000, help="in the journal")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    import pandas  # noqa: F401 — loading it is no part of loading results

    seconds: dict[str, list[list[float]]] = {
        "raybench": [],
        "mlflow": [],
        "journal": [],
        "report": [],
        "long_report": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        store = fill(Path(folder), options.runs, options.epochs)
        asked = min(options.mlflow_runs, options.runs)
        for number in range(options.rounds):
            took, results = timed(raybench.load, store.uri)
            seconds["raybench"].append(took)
            assert (len(results.trials), len(results.epochs)) == (options.runs, options.runs * options.epochs)
            if number == 0:
                took, histories = timed(by_mlflow, store, asked)
                seconds["mlflow"].append(took)
                for trial, epochs in results.epochs.groupby("trial"):
                    if trial in histories:
                        assert list(epochs["epoch_s"]) == histories[trial]["time/epoch_s"]
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
    print(f"a store of {options.runs} runs × {options.epochs} epochs")
    print(f"  raybench.load: {shown(seconds['raybench'])} (median of {options.rounds})")
    print(f"  search_runs + get_metric_history: {shown(seconds['mlflow'])}, for {asked} of the runs, once")
    each = seconds["mlflow"][0][1] / asked / (statistics.median(cpu for _, cpu in seconds["raybench"]) / options.runs)
    print(f"  processor time of a run: {each:.0f} × as much")
    print(f"a journal of {options.trials} trials × {options.epochs} epochs, {size / 1e6:.0f} MB")
    print(f"  raybench.load: {shown(seconds['journal'])} (median of {options.rounds})")
    for which, trials in (("report", options.runs), ("long_report", options.trials)):
        print(f"the report of {trials} trials × {options.epochs} epochs, a page of {pages[which] / 1e6:.1f} MB")
        print(f"  from its journal to page, data and screen: {shown(seconds[which])} (median of {options.rounds})")
    if options.json:
        about = {name: value for name, value in vars(options).items() if name != "json"}
        options.json.write_text(json.dumps(about | {"journal_bytes": size, "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()

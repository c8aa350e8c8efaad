"""Do long grids stay cheap? Commands on large results, and the driver and Ray from the first trial to the last.

    python benchmarks/large_grids.py sizes [--trials 1000 10000 100000] [--epochs 24] [--only plan report load]
    python benchmarks/large_grids.py sizes [--trials 1000 10000] --only sync stored [--store URI] [--limit 3600]
    python benchmarks/large_grids.py sizes [--trials 10000] --only report report_parts load load_parts export import
    python benchmarks/large_grids.py table --store URI [--grid large-10000] [--loads 4]
    python benchmarks/large_grids.py page [--trials 10000] [--loads 4] [--picture FILE]
    python benchmarks/large_grids.py plans [--trials 100000 700000]
    python benchmarks/large_grids.py driver [--trials 20000] [--epochs 24] [--tracking]
    python benchmarks/large_grids.py ray [--trials 2000]

`sizes` writes a grid file and a journal of all its trials for each size, and runs `raybench plan`, `raybench report`,
`raybench.load` alone and with the tables of trials and of epochs, and a sync to an MLflow store on them (`sync`), and
`raybench.load` on that store (`stored`), each in a process of its own. `report_parts` and `load_parts` are the report
and `raybench.load` of the same trials in two results folders, each with one half of them, `export` writes a bundle of
all trials, and `import` adds it to the results of the first half. Printed: wall time, processor time and peak
memory of each, and for the sync also the times per run of each thousand. The store is an empty sqlite one, or that of
`--store`, such as an empty database of PostgreSQL, in which each size is a grid of its own name. A command that takes
longer than `--limit` seconds is ended.

`table` opens the runs of such a store, filled by `sizes --only sync --store URI`, in Chromium: `raybench ui` serves
them, and the time is that from the address to the first rows of MLflow's table, in the order that `raybench ui` links
to. The first load also gets MLflow's scripts, and makes the server's first connection to the database.

`page` opens the page of a report in Chromium. The time is that from the address until the page is complete, and drawn
again after it was scrolled.

`plans` does the same as `sizes` for `raybench plan` alone, on grids without results: for each number of trials with 1,
5 and 100 repeats, in a product of four axes, and with 5 repeats of the values of a single axis, as far as a grid file
can hold them. All times include the start of Python, which the plan of a single trial shows.

`driver` runs a grid in this process with an executor that starts nothing: the events of a trial arrive at once. What
is left is the work of `raybench grid` itself: the schedule, the jobs, the journal, the history and the display, and
with `--tracking` the thread that writes MLflow (sqlite). `ray` runs a grid of a training function that takes no time
on a real local Ray. Both print, for each block of trials, processor time per trial and the memory at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from threading import Timer
from typing import Any

import psutil
from loading import told

from raybench import datasets
from raybench.cli.console import Terminal
from raybench.cli.live import Display
from raybench.config import load_grid
from raybench.core.cell import PROCESS
from raybench.core.events import Event, to_line
from raybench.execution.base import MakeJob, Sink, Tell
from raybench.execution.inline import InlineExecutor
from raybench.execution.scheduler import Dispatcher
from raybench.planning.node import Node, probe_node
from raybench.planning.plan import Plan, make_plan
from raybench.results.journal import JOURNAL
from raybench.run import Options, run_grid

GRID = "large"
BATCH_SIZES, REPEATS = (16, 32, 64, 128), 5
MULTIPLE = len(BATCH_SIZES) * REPEATS
"""The number of trials is a multiple of this: the other axis, the weight decay, has one value for each."""

GRID_FILE = """\
name: {name}
workload: {workload}
epochs: {epochs}
repeats: {repeats}
axes:
  device: [cpu]
  batch_size: {batch_sizes}
  weight_decay: {decays}
"""

FUNCTION = """\
def train(trial, *, batch_size: int, weight_decay: float, epochs: int):
    for epoch in trial.epochs(epochs):
        trial.log({"val/accuracy": 1 / (1 + batch_size * weight_decay)})
"""
"""A training function that takes no time."""

LOAD = "import sys, raybench; raybench.load(sys.argv[1])"
TABLES = "import sys, raybench; results = raybench.load(sys.argv[1]); results.trials; results.epochs"
SYNC = """\
import json, sys, time
from pathlib import Path
from raybench.results.history import GridHistory
from raybench.tracking.store import store_from_uri
from raybench.tracking.sync import sync

def progress(done, total):
    print(json.dumps([time.perf_counter(), time.process_time()]), flush=True)

journal, uri, grid = sys.argv[1:]
sync(GridHistory.recover(Path(journal)), store_from_uri(uri), grid, progress)
"""
"""A sync that prints the time at the end of each run."""

STORED = "import sys, raybench; raybench.load(sys.argv[1], grid=sys.argv[2])"
LOAD_PARTS = "import sys, raybench; raybench.load(sys.argv[1:])"
COMMANDS = ("plan", "report", "report_parts", "load", "load_parts", "tables", "export", "import", "sync", "stored")
BLOCK = 1000


def multiple(text: str) -> int:
    """A number of trials, as an argument."""
    number = int(text)
    if number < MULTIPLE or number % MULTIPLE:
        raise argparse.ArgumentTypeError(f"{text} is not a multiple of {MULTIPLE}")
    return number


def write_grid(folder: Path, trials: int, epochs: int, workload: str = "digits_cnn") -> Path:
    """A grid file of so many trials."""
    path = folder / "grid.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nothing.py").write_text(FUNCTION)
    decays = [number * 1e-6 for number in range(trials // MULTIPLE)]
    texts = {"batch_sizes": list(BATCH_SIZES), "decays": [float(f"{decay:g}") for decay in decays]}
    path.write_text(GRID_FILE.format(name=GRID, workload=workload, epochs=epochs, repeats=REPEATS, **texts))
    return path


def write_journal(path: Path, plan: Plan, epochs: int) -> int:
    """A journal with the results of all trials of a plan; its size in bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trials = iter(plan.trials)
    with path.open("w") as file:
        for event in told(len(plan.trials), epochs):
            if event["event"] == "trial_started":
                trial = next(trials)
                cell = {"cell": trial.cell.content.to_json(), "request_id": trial.cell.request_id}
                event |= cell | {"seed": trial.seed, "grid": GRID, "profile": "cpu", "label": plan.label(trial)}
            file.write(to_line(event | {"trial": trial.trial_id}))
    return path.stat().st_size


def write_parts(journal: Path, paths: list[Path], trials: int) -> None:
    """Journals with equal parts of the trials of a journal."""
    with journal.open() as file:
        for path in paths:
            path.parent.mkdir(parents=True)
            ends = 0
            with path.open("w") as part:
                while ends < trials // len(paths):
                    line = next(file)
                    part.write(line)
                    ends += '"trial_ended"' in line


@dataclass
class Cost:
    """The cost of one process; `done` is false if it was ended at the limit."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    done: bool = True


def measure(command: list[str], folder: Path, limit: float) -> Cost:
    """Run a command to its end, or to the limit in seconds."""
    began = time.perf_counter()
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        timer = Timer(limit, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode and wall < limit:
        raise SystemExit(f"{' '.join(command)}\n{(folder / 'output.txt').read_text()}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, not process.returncode)


def sizes(options: argparse.Namespace) -> dict[str, Any]:
    """The costs of the commands for each number of trials."""
    numbers: dict[str, Any] = {}
    for trials in options.trials:
        with tempfile.TemporaryDirectory(prefix="rb-") as name:
            folder = Path(name)
            path = write_grid(folder, trials, options.epochs)
            journal = folder / "results" / GRID / JOURNAL
            plan = make_plan(load_grid(path), [probe_node()], datasets.data_root())
            size = write_journal(journal, plan, options.epochs)
            print(f"{trials:,} trials x {options.epochs} epochs, a journal of {size / 1e6:.1f} MB")
            raybench, results = [sys.executable, "-m", "raybench"], ["--results", "results"]
            parts = [str(folder / half / GRID / JOURNAL) for half in ("first", "second")]
            if {"report_parts", "load_parts", "import"} & set(options.only):
                write_parts(journal, list(map(Path, parts)), trials)
                shutil.copytree(folder / "first", folder / "imported")
            store = [options.store or f"sqlite:///{folder}/mlflow.db", f"{GRID}-{trials}"]
            commands = {
                "plan": [*raybench, "plan", str(path), *results],
                "report": [*raybench, "report", str(journal), "--html", "page.html"],
                "report_parts": [*raybench, "report", *parts, "--html", "page.html"],
                "load": [sys.executable, "-c", LOAD, str(journal)],
                "load_parts": [sys.executable, "-c", LOAD_PARTS, *parts],
                "tables": [sys.executable, "-c", TABLES, str(journal)],
                "export": [*raybench, "export", str(path), *results, "-o", "bundle.zip"],
                "import": [*raybench, "import", "bundle.zip", "--results", "imported"],
                "sync": [sys.executable, "-c", SYNC, str(journal), *store],
                "stored": [sys.executable, "-c", STORED, *store],
            }
            costs = numbers[str(trials)] = {"journal_bytes": size}
            for each in options.only:
                needed = {"stored": "sync", "import": "export"}.get(each)
                if not costs.get(needed, {"done": True})["done"]:
                    continue
                cost = measure(commands[each], folder, options.limit)
                costs[each] = asdict(cost)
                end = "" if cost.done else f", ended after {options.limit:g} s"
                print(
                    f"  {each:<12} {cost.wall_s:8.1f} s, processor time {cost.cpu_s:8.1f} s, "
                    f"at most {cost.peak_mib:7.0f} MiB{end}",
                    flush=True,
                )
                if each == "sync" and cost.done:
                    costs["runs"] = run_costs((folder / "output.txt").read_text())
    return numbers


def run_costs(output: str) -> list[dict[str, float]]:
    """The costs per run of each thousand of a sync's runs (`SYNC`)."""
    times = [json.loads(line) for line in output.splitlines() if line.startswith("[")]
    costs = []
    for first in range(0, len(times), BLOCK):
        block = times[first : first + BLOCK]
        per_run = 1000 / max(1, len(block) - 1)
        wall_ms, cpu_ms = ((end - begin) * per_run for begin, end in zip(block[0], block[-1], strict=True))
        costs.append({"wall_ms": wall_ms, "cpu_ms": cpu_ms})
        print(
            f"    runs {first + 1:,} to {first + len(block):,}: {wall_ms:.1f} ms per run, "
            f"processor time {cpu_ms:.1f} ms",
            flush=True,
        )
    return costs


ROWS = """[...document.querySelectorAll("[role=row]")].filter((row) => / r\\d/.test(row.innerText)).length"""
"""Number of rows of MLflow's table that name a run."""

SCROLLED = """new Promise((done) => {
    scrollTo(0, 1000);
    requestAnimationFrame(() => requestAnimationFrame(() => done(document.readyState === "complete" && scrollY)));
})"""
"""Pixels by which the page is scrolled, once it is complete and drawn again."""

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
    "--window-size=1600,1000",
]


class Chromium:
    """A browser, controlled by its DevTools protocol through two pipes."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            raise SystemExit("there is no Chromium")
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        # The browser reads from file descriptor 3 and writes to 4.
        command = ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", program, *FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._calls, self._buffer, self._session = 0, b"", {}
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]}

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """The result of a method."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": arguments, **self._session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                self._buffer += os.read(self._read, 2**20) or sys.exit("Chromium has ended")
            answer, _, self._buffer = self._buffer.partition(b"\0")
            received = json.loads(answer)
            if received.get("id") == self._calls:
                return dict(received.get("result", {}))

    def seconds_to(self, number: str, address: str) -> tuple[float, int]:
        """The time from an address to the first number above 0 that a JavaScript expression has there, and it."""
        self.call("Page.navigate", url="about:blank")
        time.sleep(1)
        began = time.perf_counter()
        self.call("Page.navigate", url=address)
        arguments: dict[str, Any] = {"expression": number, "awaitPromise": True}
        # A promise is lost with the page before.
        while not (value := self.call("Runtime.evaluate", **arguments).get("result", {}).get("value")):
            time.sleep(0.02)
            if time.perf_counter() - began > 120:
                raise SystemExit(f"nothing within 120 s: {address}")
        return time.perf_counter() - began, value

    def picture(self) -> bytes:
        """The page as PNG."""
        return b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        """End the browser."""
        self._session = {}
        self.call("Browser.close")
        self._process.wait(60)
        os.close(self._read)
        os.close(self._write)


def table(options: argparse.Namespace) -> dict[str, Any]:
    """The seconds until MLflow's table of a grid's runs is displayed."""
    with tempfile.TemporaryDirectory(prefix="rb-", ignore_cleanup_errors=True) as name:
        output = Path(name) / "ui.txt"
        command = [sys.executable, "-m", "raybench", "ui", "--tracking-uri", options.store, "--port", str(options.port)]
        with output.open("w") as file:
            server = subprocess.Popen(command, cwd=name, stdout=file, stderr=file)
        try:
            link = f"Runs of {options.grid}: "
            while not (found := [line for line in output.read_text().splitlines() if line.startswith(link)]):
                if server.poll() is not None or "All grids" in output.read_text():
                    raise SystemExit(output.read_text())
                time.sleep(0.2)
            with closing(Chromium(Path(name) / "browser")) as browser:
                loads = []
                for number in range(1, options.loads + 1):
                    seconds, rows = browser.seconds_to(ROWS, found[0].removeprefix(link))
                    loads.append(seconds)
                    print(f"load {number}: {rows} rows after {seconds:.2f} s", flush=True)
                if options.picture:
                    options.picture.write_bytes(browser.picture())
        finally:
            server.terminate()
            server.wait()
    return {"loads_s": loads}


def page(options: argparse.Namespace) -> dict[str, Any]:
    """The seconds until the page of a report can be scrolled."""
    with tempfile.TemporaryDirectory(prefix="rb-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        path = write_grid(folder, options.trials, options.epochs)
        plan = make_plan(load_grid(path), [probe_node()], datasets.data_root())
        journal, html = folder / "results" / GRID / JOURNAL, folder / "page.html"
        write_journal(journal, plan, options.epochs)
        measure([sys.executable, "-m", "raybench", "report", str(journal), "--html", str(html)], folder, 600)
        print(f"{options.trials:,} trials x {options.epochs} epochs, a page of {html.stat().st_size / 1e6:.1f} MB")
        with closing(Chromium(folder / "browser")) as browser:
            loads = []
            for number in range(1, options.loads + 1):
                loads.append(browser.seconds_to(SCROLLED, html.as_uri())[0])
                print(f"load {number}: scrolled after {loads[-1]:.2f} s", flush=True)
            if options.picture:
                options.picture.write_bytes(browser.picture())
        return {"page_bytes": html.stat().st_size, "loads_s": loads}


PLAN_REPEATS = (1, 5, 100)
ONE_AXIS = 20_000
"""The most values of an axis that fit a grid file, about."""


def product_of(cells: int) -> dict[str, list[Any]]:
    """Four axes whose product is a number of cells."""
    sizes = []
    for _ in range(3):
        sizes.append(max(size for size in range(1, 11) if cells % size == 0))
        cells //= sizes[-1]
    batches, epochs, rates = map(range, sizes)
    return {
        "batch_size": [8 * (number + 1) for number in batches],
        "epochs": [number + 2 for number in epochs],
        "learning_rate": [(number + 1) / 100 for number in rates],
        "weight_decay": [float(f"{number * 1e-6:g}") for number in range(cells)],
    }


def plan_cost(axes: dict[str, list[Any]], repeats: int, limit: float) -> Cost:
    """The cost of `raybench plan` for a grid without results."""
    with tempfile.TemporaryDirectory(prefix="rb-") as name:
        grid = {"name": GRID, "workload": "digits_cnn", "repeats": repeats, "axes": {"device": ["cpu"], **axes}}
        (Path(name) / "grid.yaml").write_text(json.dumps(grid))
        return measure([sys.executable, "-m", "raybench", "plan", "grid.yaml"], Path(name), limit)


def plans(options: argparse.Namespace) -> dict[str, Any]:
    """The cost of `raybench plan` for grids without results."""
    numbers: dict[str, Any] = {}
    grids: list[tuple[str, dict[str, list[Any]], int]] = [("1 trial", {}, 1)]
    for trials in options.trials:
        for repeats in PLAN_REPEATS:
            cells = trials // repeats
            if cells * repeats == trials:
                grids.append((f"{cells:,} cells x {repeats} repeats, 4 axes", product_of(cells), repeats))
        cells = trials // REPEATS
        if cells <= ONE_AXIS:
            axis = {"weight_decay": [float(f"{number * 1e-6:g}") for number in range(cells)]}
            grids.append((f"{cells:,} cells x {REPEATS} repeats, 1 axis", axis, REPEATS))
    for name, axes, repeats in grids:
        cost = plan_cost(axes, repeats, options.limit)
        numbers[name] = asdict(cost)
        end = "" if cost.done else f", ended after {options.limit:g} s"
        print(
            f"{name:<39} {cost.wall_s:6.1f} s, processor time {cost.cpu_s:6.2f} s, "
            f"at most {cost.peak_mib:5.0f} MiB{end}",
            flush=True,
        )
    return numbers


class NoTrials(InlineExecutor):
    """Runs nothing: each trial has completed as soon as it starts."""

    isolation = PROCESS

    def __init__(self, trials: int, epochs: int) -> None:
        self._events = told(trials, epochs)

    def nodes(self, environments: Any = ()) -> list[Node]:
        """This machine."""
        return [probe_node()]

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Pass on the made-up events of each trial."""
        while placement := dispatcher.next():
            job = make_job(placement)
            own = {"trial": job.trial, "attempt": job.attempt}
            for event in self._events:
                start = {"cell": job.cell.to_json(), **job.labels} if event["event"] == "trial_started" else {}
                if event["event"] == "trial_ended":
                    dispatcher.release(job.trial, job.attempt)
                sink(event | start | own)
                if event["event"] == "trial_ended":
                    break


RAYS_OWN = ("gcs_server", "raylet")
"""The processes of Ray that a trial's messages pass through."""


@dataclass
class Block:
    """Consecutive trials of a run: the number of trials so far, costs per trial, memory and files at the end.

    `ray_cpu_ms` and `ray_mib` are of Ray's `RAYS_OWN`, `files` and `files_mib` of temporary files and folders, all
    of them Ray's, and the `children` are all processes of this one.
    """

    trials: int
    wall_ms: float
    cpu_ms: float
    ray_cpu_ms: float
    driver_mib: float
    ray_mib: float
    children_mib: float
    files: int
    files_mib: float


@dataclass
class BlockListener(Display):
    """The display of `raybench grid`, which also measures each block of trials."""

    size: int
    temporary: Path
    blocks: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(Terminal(file=StringIO()))
        self._ends, self._mark = 0, (0.0, 0.0, 0.0)

    def event(self, event: Event) -> None:
        """Measure at the end of each block."""
        super().event(event)
        if event["event"] == "trial_started" and not self._ends:
            self._mark = self._now()
        self._ends += event["event"] == "trial_ended"
        if event["event"] == "trial_ended" and self._ends % self.size == 0:
            costs = [(end - begin) * 1000 / self.size for begin, end in zip(self._mark, self._now(), strict=True)]
            children = psutil.Process().children(recursive=True)
            own = [child for child in children if name_of(child) in RAYS_OWN]
            sizes = [sum(map(memory, each)) for each in ([psutil.Process()], own, children)]
            block = Block(self._ends, *costs, *sizes, *files_of(self.temporary))
            self.blocks.append(block)
            with_ray = (
                f"; Ray: processor time {block.ray_cpu_ms:6.2f} ms, memory {block.ray_mib:5.0f} MiB, with all child "
                f"processes {block.children_mib:5.0f} MiB, {block.files:5,} files of {block.files_mib:4.1f} MiB"
            )
            print(
                f"{block.trials:>7,} trials: {block.wall_ms:8.2f} ms per trial, processor time {block.cpu_ms:7.2f} ms, "
                f"memory {block.driver_mib:6.0f} MiB{with_ray if own else ''}",
                flush=True,
            )
            self._mark = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Wall time, and the processor time of this process and of Ray's own, in seconds."""
        own = [child for child in psutil.Process().children() if name_of(child) in RAYS_OWN]
        return time.perf_counter(), time.process_time(), sum(map(processor_time, own))


def name_of(process: psutil.Process) -> str:
    """The name of a process; empty if it has ended."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def processor_time(process: psutil.Process) -> float:
    """Processor time of a process in seconds; 0 if it has ended."""
    try:
        times = process.cpu_times()
        return times.user + times.system
    except psutil.Error:
        return 0.0


def files_of(root: Path) -> tuple[int, float]:
    """The number of files and folders in a folder, and their size in MiB."""
    sizes = []
    for path in root.rglob("*"):
        with suppress(OSError):  # it has just been removed
            sizes.append(path.lstat().st_size)
    return len(sizes), sum(sizes) / 2**20


def memory(process: psutil.Process) -> float:
    """Resident memory of a process in MiB; 0 if it has ended."""
    try:
        return process.memory_info().rss / 2**20
    except psutil.Error:
        return 0.0


def blocks_of(options: argparse.Namespace, executor: Any, workload: str) -> dict[str, Any]:
    """The blocks of a run of a grid, and the seconds after its last trial."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, tempfile.TemporaryDirectory(prefix="rb") as temporary:
        tempfile.tempdir = temporary  # for Ray
        view = BlockListener(min(options.block, options.trials), Path(temporary))
        folder = Path(name)
        spec = load_grid(write_grid(folder, options.trials, options.epochs, workload))
        tracking = f"sqlite:///{folder}/mlflow.db" if options.tracking else None
        run_options = Options(folder / "results", tracking=tracking, checks=False)
        outcome = run_grid(spec, executor, view, run_options)
        assert len(outcome.ended) == options.trials, outcome.warnings
        end_s = time.perf_counter() - view._mark[0]
        print(f"from the last trial to the end, with the report: {end_s:.1f} s")
    return {"blocks": [asdict(block) for block in view.blocks], "end_s": end_s}


def driver(options: argparse.Namespace) -> dict[str, Any]:
    """Blocks of trials that take no time, without Ray."""
    return blocks_of(options, NoTrials(options.trials, options.epochs), "digits_cnn")


def ray(options: argparse.Namespace) -> dict[str, Any]:
    """Blocks of trials of a training function that takes no time, with Ray."""
    from raybench.execution.ray_tune import RayTuneExecutor

    return blocks_of(options, RayTuneExecutor(), "nothing.py:train")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("sizes", help="commands on large results")
    part.set_defaults(run=sizes)
    part.add_argument("--trials", type=multiple, nargs="+", default=[1000, 10_000, 100_000])
    part.add_argument("--only", nargs="+", choices=COMMANDS, default=COMMANDS)
    part.add_argument("--store", metavar="URI", help="an MLflow store for `sync` and `stored`, instead of a new one")
    part.add_argument("--limit", type=float, default=300.0, help="seconds after which a command is ended")
    part.add_argument("--epochs", type=int, default=24)
    part = parts.add_parser("table", help="MLflow's table of runs in a browser")
    part.set_defaults(run=table)
    part.add_argument("--store", metavar="URI", required=True, help="the MLflow store")
    part.add_argument("--grid", default=f"{GRID}-10000", help="the grid's name in the store")
    part.add_argument("--loads", type=int, default=4, help="how often the table is opened")
    part.add_argument("--port", type=int, default=25899, help="port for the server")
    part.add_argument("--picture", type=Path, help="write a picture of the page here")
    part = parts.add_parser("page", help="the page of a report in a browser")
    part.set_defaults(run=page)
    part.add_argument("--trials", type=multiple, default=10_000)
    part.add_argument("--epochs", type=int, default=24)
    part.add_argument("--loads", type=int, default=4, help="how often the page is opened")
    part.add_argument("--picture", type=Path, help="write a picture of the page here, where it was scrolled to")
    part = parts.add_parser("plans", help="plans of grids without results")
    part.set_defaults(run=plans)
    part.add_argument("--trials", type=int, nargs="+", default=[100_000, 700_000])
    part.add_argument("--limit", type=float, default=300.0, help="seconds after which a command is ended")
    for run, trials, block, epochs in ((driver, 20_000, 1000, 24), (ray, 2000, 100, 1)):
        part = parts.add_parser(run.__name__, help=run.__doc__)
        part.set_defaults(run=run)
        part.add_argument("--trials", type=multiple, default=trials)
        part.add_argument("--block", type=int, default=block, help="trials per line")
        part.add_argument("--epochs", type=int, default=epochs)
        part.add_argument("--tracking", action="store_true", help="write to MLflow too")
    for part in parts.choices.values():
        part.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    numbers = options.run(options)
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()

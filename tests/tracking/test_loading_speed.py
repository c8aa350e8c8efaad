"""A store is loaded at once, and not with one request for each metric of each run."""

import importlib.util
import time
import tracemalloc
from pathlib import Path

import pytest

import raybench
from raybench.reporting import build
from raybench.sources import load_grids

pytestmark = pytest.mark.exhaustive  # it measures

RUNS, EPOCHS = 60, 24


@pytest.fixture(scope="module")
def benchmark():
    path = Path(__file__).parent.parent.parent / "benchmarks" / "loading.py"
    spec = importlib.util.spec_from_file_location("loading", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))  # as Python does for a program
        spec.loader.exec_module(module)
    return module


def test_a_store_loads_several_times_as_fast_as_by_mlflow_s_own_client(benchmark, tmp_path):
    store = benchmark.fill(tmp_path, RUNS, EPOCHS)
    raybench.load(store.uri)  # loads the libraries
    begun = time.process_time()
    found = raybench.load(store.uri)
    ours = time.process_time() - begun
    begun = time.process_time()
    histories = benchmark.by_mlflow(store)
    theirs = time.process_time() - begun
    assert len(found.trials) == len(histories) == RUNS
    assert len(found.epochs) == RUNS * EPOCHS
    for trial, epochs in found.epochs.groupby("trial"):
        assert list(epochs["epoch_s"]) == histories[trial]["time/epoch_s"]
        assert list(epochs["val/accuracy"]) == histories[trial]["val/accuracy"]
    assert theirs > 3 * ours, "processor time, so that a busy machine does not decide it"


def test_two_parts_take_little_more_time_and_memory_than_the_whole(benchmark, tmp_path):
    """What keeps their events takes several times as much."""
    trials = 300
    whole, *parts = (tmp_path / name / "journal.jsonl" for name in ("whole", "first", "second"))
    benchmark.write(whole, trials, EPOCHS)
    lines = whole.read_text().splitlines(keepends=True)
    half = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    for path, text in zip(parts, half, strict=True):
        path.parent.mkdir()
        path.write_text("".join(text))
    sources = {"whole": [whole], "parts": parts}
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    peaks: dict[str, int] = {}
    for _ in range(4):
        for name, paths in sources.items():
            begun = time.process_time()
            assert len(raybench.load(paths, grid=None).trials) == trials
            seconds[name].append(time.process_time() - begun)
    for name, paths in sources.items():
        tracemalloc.start()
        results = load_grids(paths)
        peaks[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(len(each.records) for each in results) == trials
    assert min(seconds["parts"]) < 1.5 * min(seconds["whole"])
    assert peaks["parts"] < 1.5 * peaks["whole"]


def test_a_report_of_eight_times_as_many_trials_takes_no_more_than_twice_eight_times_as_long(benchmark, tmp_path):
    """What looks at every cell for each cell takes 64 times as long."""
    took: dict[int, list[float]] = {150: [], 1200: []}
    for trials in took:
        benchmark.write(tmp_path / str(trials) / "journal.jsonl", trials, epochs=2)
    for _ in range(3):
        for trials, rounds in took.items():
            begun = time.process_time()
            report = build.from_source(str(tmp_path / str(trials) / "journal.jsonl"), tmp_path)
            rounds.append(time.process_time() - begun)
            assert len(report.comparisons) == trials / 3
    short, long = map(min, took.values())
    assert long < 16 * short, "processor time, of which others on the same core take none but make it longer"

"""The programs in benchmarks/ still run, in a short form; how they come out is for a quiet machine."""

from __future__ import annotations

import json
import math
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.servers import free_port

BENCHMARKS = {path.stem: path for path in sorted((Path(__file__).parent.parent / "benchmarks").glob("*.py"))}
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(\.\d+)?")

SHORT = {
    "before_after": "--pairs 1 --repeats 2",
    "cluster": "changes --nodes 2 --trials 16 --seconds 0.3",
    "davidnet_forms": "--batch 4 --examples 8 --val-examples 8 --epochs 2 --rounds 2 --kind cpu",
    "dispatch_counts": "--only davidnet pytorch_loop",
    "findings": "--grids 2",
    "fresh_process": "--rounds 1",
    "gpu": "--short --device cpu --rounds 2 --parts airbench94 davidnet kernels compiled",
    "kills": "--kills 2 --epochs 1 --seed 11 --folder work",
    "large_grids": "sizes --trials 20 40 --epochs 2",
    "loading": "--runs 6 --epochs 2 --trials 9 --rounds 2",
    "loop": "--batch 4 --steps 1 --rounds 2 --precision bf16 --kind cpu",
    "measuring": "--seconds 0.5 --steps 1 --rounds 2",
    "overhead": "--trials 1 --rounds 1",
    "passive_waiting": "--rounds 2 --processes 1 --jobs digits_cnn:32 --steps 2 --patience 1",
    "replicas": "--batch 8 --replicas 2 --steps 1 --rounds 2 --kind cpu",
    "store": "--seconds 0.5 --steps 1 --rounds 2 --delay 0.1",
    "training_loop": "--seconds 0.01 --rounds 3",
}
WITHOUT_JSON = {"fresh_process"}


def test_every_program_has_a_short_form() -> None:
    assert list(SHORT) == list(BENCHMARKS)


@pytest.mark.slow
def test_what_the_programs_import_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS["store"].parent))  # as Python does for a program
    for path in BENCHMARKS.values():
        assert callable(runpy.run_path(str(path), run_name="benchmark")["main"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SHORT)
def test_a_short_run_prints_all_its_figures(name: str, tmp_path: Path, request: pytest.FixtureRequest, snapshot: Any):
    """The lines with each number as `#`, and the names in the JSON file."""
    if name in ("davidnet_forms", "gpu", "loop", "replicas"):
        request.getfixturevalue("real_data")
    written = tmp_path / "numbers.json"
    asked = SHORT[name].split() + ([] if name in WITHOUT_JSON else ["--json", str(written)])
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS[name]), *asked], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in map(without_numbers, done.stdout.splitlines()) if not line.startswith("kill ")] == snapshot
    if name not in WITHOUT_JSON:
        numbers = json.loads(written.read_text())
        assert all(math.isfinite(number) for number in numbers_in(numbers))
        assert names_in(numbers) == snapshot


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", ["driver --epochs 2", "driver --epochs 2 --tracking", "ray"])
def test_large_grids_shows_each_block_of_trials(part: str, tmp_path: Path) -> None:
    asked = [*part.split(), "--trials", "20", "--block", "10", "--json", str(tmp_path / "numbers.json")]
    command = [sys.executable, str(BENCHMARKS["large_grids"]), *asked]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    *blocks, end = done.stdout.splitlines()
    assert len(blocks) == 2 and all(" trials: " in line and " ms per trial" in line for line in blocks)
    assert without_numbers(end) == "from the last trial to the end, with the report: # s"
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert [block["trials"] for block in numbers["blocks"]] == [10, 20]
    assert all(block["driver_mib"] > 0 and block["cpu_ms"] > 0 for block in numbers["blocks"])


@pytest.mark.exhaustive
@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no Chromium")
def test_large_grids_shows_how_soon_the_table_of_a_store_is_displayed(tmp_path: Path) -> None:
    command, store = [sys.executable, str(BENCHMARKS["large_grids"])], ["--store", f"sqlite:///{tmp_path}/mlflow.db"]
    filled = [*command, "sizes", "--trials", "20", "--epochs", "2", "--only", "sync", *store]
    subprocess.run(filled, check=True, capture_output=True, timeout=300)
    asked = ["table", *store, "--grid", "large-20", "--loads", "2", "--port", str(free_port())]
    written = ["--json", str(tmp_path / "numbers.json"), "--picture", str(tmp_path / "page.png")]
    done = subprocess.run([*command, *asked, *written], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [without_numbers(line) for line in done.stdout.splitlines()] == ["load #: # rows after # s"] * 2
    assert "load 2: 20 rows after" in done.stdout
    assert all(seconds > 0 for seconds in json.loads((tmp_path / "numbers.json").read_text())["loads_s"])
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.exhaustive
@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no Chromium")
def test_large_grids_shows_how_soon_the_page_of_a_report_can_be_scrolled(tmp_path: Path) -> None:
    asked = ["page", "--trials", "40", "--epochs", "2", "--loads", "2", "--json", str(tmp_path / "numbers.json")]
    command = [sys.executable, str(BENCHMARKS["large_grids"]), *asked, "--picture", str(tmp_path / "page.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *loads = (without_numbers(line) for line in done.stdout.splitlines())
    assert first == "# trials x # epochs, a page of # MB" and loads == ["load #: scrolled after # s"] * 2
    assert all(seconds > 0 for seconds in json.loads((tmp_path / "numbers.json").read_text())["loads_s"])
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "part", ["busy --trials 8 --epochs 1 --seconds 0.1", "messages --trials 4 --epochs 5 --idle 1"]
)
def test_cluster_shows_how_its_nodes_and_its_head_are_used(part: str, tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS["cluster"]), *part.split(), "--nodes", "2", "--json", "numbers.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert all(math.isfinite(number) for number in numbers_in(numbers))
    if part.startswith("busy"):
        assert 0 < numbers["all_busy"] <= numbers["busy"] <= 1
    else:
        assert numbers["trials_per_s"] > 0 and numbers["epochs_per_s"] > 0 and numbers["driver"]["trial_ms"] > 0


@pytest.mark.exhaustive
def test_large_grids_shows_the_cost_of_plans(tmp_path: Path) -> None:
    asked = ["plans", "--trials", "200", "--json", str(tmp_path / "numbers.json")]
    command = [sys.executable, str(BENCHMARKS["large_grids"]), *asked]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    cells = ["200 cells x 1 repeats, 4 axes", "40 cells x 5 repeats, 4 axes", "2 cells x 100 repeats, 4 axes"]
    assert list(numbers) == ["1 trial", *cells, "40 cells x 5 repeats, 1 axis"]
    for (name, cost), line in zip(numbers.items(), done.stdout.splitlines(), strict=True):
        assert line.startswith(name) and without_numbers(line).endswith("# s, processor time # s, at most # MiB")
        assert cost["done"] and cost["cpu_s"] > 0 and cost["peak_mib"] > 0


def without_numbers(line: str) -> str:
    return re.sub(" +", " ", NUMBER.sub("#", line))


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(part)
    elif isinstance(value, int | float):
        yield value


def names_in(value: Any) -> Any:
    """The names in a JSON value; of a list the names of its first entry."""
    if isinstance(value, dict):
        return {name: names_in(part) for name, part in value.items()}
    if isinstance(value, list):
        return [names_in(value[0])] if value and isinstance(value[0], dict) else []
    return None

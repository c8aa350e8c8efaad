"""`devices`, `data`, `plan --schema` and shipped grids."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pandas as pd
import pytest
from support import ROOT
from support.machines import results_of
from support.small_data import FILES, loose, serving

from raybench import datasets
from raybench.checks import machine_speed
from raybench.config import GridSpec, load_grid
from raybench.environments import RECIPES
from raybench.execution.inline import InlineExecutor
from raybench.results.datasheets import MEASURED


def test_devices_and_ready_environments(raybench, tmp_path):
    from raybench.planning.node import probe_node

    said = raybench("devices")
    assert (said.status, said.err) == (0, "")
    cpu = next(line for line in said.lines if line.startswith("cpu "))
    (entry,) = probe_node().find("cpu")
    assert entry.model in cpu
    assert f" {entry.count} " in cpu
    assert any(line.startswith("frameworks: torch 2.") for line in said.lines)
    (tmp_path / "environments" / "tensorflow" / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "environments" / "tensorflow" / "venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "environments" / "tensorflow" / "built.json").write_text(RECIPES["tensorflow"].stamp)
    assert any(line.startswith("environment tensorflow: ") for line in raybench("devices").lines)


def test_speed_of_this_machine_beside_that_of_others(raybench, tmp_path, monkeypatch):
    """Others are those of runs, also imported ones, and of earlier measurements."""
    probes = {"product": 198042161768.15604, "convolution": 193053493670.05463, "memory": 53331478677.89177}
    rates = {**probes, "product": 0.88 * probes["product"], "memory": 1.02 * probes["memory"], "core": 1e8}
    speed = machine_speed.Speed("here 1", "AMD EPYC", "torch", "fp32", 2, rates)
    monkeypatch.setattr(machine_speed, "measured_here", lambda *_: iter([speed]))
    monkeypatch.setattr(InlineExecutor, "host_load", lambda _: None)
    monkeypatch.setattr("raybench.execution.base.make_executor", lambda *_: InlineExecutor())
    shutil.copytree(results_of(tmp_path / "a", "vm-a") / "quickstart", tmp_path / "raybench-results" / "quickstart")
    said = raybench("devices", "--measure")
    assert said.status == 0, said.err
    compared = [line.split("fp32  ")[1].split() for line in said.lines if "fp32" in line]
    assert compared[0][:3] == ["product", "0.174", "TFLOP/s"] and " ".join(compared[0][3:]) == "12% below the other one"
    assert [each[-1] for each in compared[1:]] == ["normal", "normal", "with"]
    there = dataclasses.replace(speed, machine="there 2", rates={"core": 2e8})
    monkeypatch.setattr(machine_speed, "measured_here", lambda *_: iter([there]))
    assert any("100% above the other one" in line for line in raybench("devices", "--measure").lines)
    assert [each.machine for each in machine_speed.kept(tmp_path / "raybench-results")] == ["here 1", "there 2"]
    h200 = machine_speed.Speed("x", "NVIDIA H200", "torch", "bf16", 0, {"product": 600e12})
    ((_, _, text),) = machine_speed.verdicts(h200, [])
    assert text == "28% below the one in raybench's table"
    trials = pd.read_csv(ROOT / "benchmarks" / "results" / "gpu_h200_trials.csv")
    for (_, precision), rate in MEASURED["NVIDIA H200"].items():
        same = trials[trials["precision"] == precision]
        assert (same["flop_rate"] / same["mfu"]).sub(rate).abs().min() < 0.5e12


@pytest.mark.slow
def test_speed_of_this_machine_is_measured():
    command = [sys.executable, "-m", "raybench.checks.machine_speed", "cpu", "torch", "fp32"]
    rates = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert rates.keys() == machine_speed.UNITS.keys() and min(rates.values()) > 0


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A data set that raybench knows, with the server that it is fetched from."""
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "data"))
    with serving() as server:
        monkeypatch.setitem(datasets._KNOWN, "small", loose(server))
        yield datasets.get("small")


def states(raybench):
    said = raybench("data")
    assert (said.status, said.err) == (0, "")
    return {line.split()[0]: line.split()[1:4] for line in said.lines[3:]}


def test_data_are_listed_and_fetched(raybench, small, tmp_path):
    before = states(raybench)
    real = ["digits", "python-code", "mnist", "imdb", "cifar10"]
    generated = ["mnist", "imdb", "cifar10", "scenes", "imagenet"]
    assert list(before) == [*real, *(f"{name}-synthetic" for name in generated), "small"]
    assert before["small"] == ["missing", "–", "–"]
    assert before["digits"][0] == "ready", "it comes with scikit-learn"
    assert not (tmp_path / "data").exists(), "looking makes nothing"
    fetched = raybench("data", "fetch", "small")
    assert fetched.status == 0
    assert fetched.out == f"small: ready in {tmp_path / 'data'}\n"
    assert fetched.err == f"Downloading small to {tmp_path / 'data'} …\n"
    assert {path: (tmp_path / "data" / path).read_bytes() for path in FILES} == FILES
    assert states(raybench)["small"] == ["ready", small.official_digest, "yes"]
    assert raybench("data", "fetch", "small", "digits").status == 0, "what is there is left as it is"


def test_schema_is_printed(raybench):
    """tests/config/test_load_grid.py validates the grids of the repository by it."""
    said = raybench("plan", "--schema")
    assert (said.status, said.err) == (0, "")
    schema = json.loads(said.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema == GridSpec.model_json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"name": "x", "workload": "digits_cnn", "epochs": 3})
    assert not validator.is_valid({"name": "x", "workload": "digits_cnn", "epoch": 3})


def test_shipped_grids_plan_by_name(raybench):
    spec = load_grid(Path("quickstart"))
    plan = raybench("plan", "quickstart", "--set", "axes.device=[cpu]")
    assert f": {len(spec.axes['batch_size']) * 2 * spec.repeats} trials, " in plan.lines[0]

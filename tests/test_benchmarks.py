"""The programs in benchmarks/ run in a short form; their numbers are for a quiet machine."""

import runpy
import subprocess
import sys

import pytest
from support import ROOT

BENCHMARKS = {path.stem: path for path in sorted((ROOT / "benchmarks").glob("*.py"))}
SHORT = {
    "agent_loop": "--changes 1",
    "before_after": "--pairs 1",
    "coverage": "--draws 20",
    "fresh_process": "--rounds 1",
    "kills": "--kills 2 --epochs 1 --seed 11 --folder work",
    "loop": "--batch 4 --steps 1 --rounds 2 --precision bf16",
    "overhead": "--trials 1 --rounds 1",
    "race": "--draws 1",
    "reading": "--trials 50 --epochs 3",
    "replicas": "--batch 8 --replicas 2 --steps 1 --rounds 2 --kind cpu",
    "until": "--grids 1",
    "training_loop": "--seconds 0.01 --rounds 3",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_imports_resolve(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # as Python does for a program
    assert callable(runpy.run_path(str(BENCHMARKS[name]), run_name="benchmark")["main"])


@pytest.mark.slow
def test_record_of_the_h200_is_from_its_trials(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    runpy.run_path(str(BENCHMARKS["gpu_h200"]), run_name="benchmark")["main"]()
    assert capsys.readouterr().out == (ROOT / "benchmarks" / "results" / "gpu_h200.txt").read_text(), (
        "run python benchmarks/gpu_h200.py > benchmarks/results/gpu_h200.txt"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BENCHMARKS)
def test_short_run(name, tmp_path, request):
    if name in ("loop", "replicas"):
        request.getfixturevalue("real_data")
    command = [sys.executable, str(BENCHMARKS[name]), *SHORT.get(name, "").split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert any(letter.isdigit() for letter in done.stdout)

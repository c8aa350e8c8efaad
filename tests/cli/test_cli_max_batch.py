"""`raybench grid --find-max-batch`: how it says what it found, and what it refuses."""

import pytest

from raybench.checks.max_batch import search
from raybench.checks.max_batch.search import BatchOutcome, BatchProbe, MaxBatchResult, Search

ABOUT = {"framework": "torch", "precision": "fp32"}
OOM = "OutOfMemory"
TRIED = {
    "cpu": [
        BatchProbe(64, True, 3 << 20),
        BatchProbe(128, False, 2 << 20, 1 << 31, 1 << 30, OOM),
        BatchProbe(96, True, 5 << 20),
    ],
    "slow": [BatchProbe(64, True, 3 << 20), BatchProbe(128, False, why="Timeout")],
    "small": [BatchProbe(1, False, 2 << 20, why=OOM)],
    "large": [BatchProbe(1437, True, 7 << 30)],
}


@pytest.fixture
def say(raybench, digits, monkeypatch):
    """Runs the command where this is found."""

    def run(found, skipped=(), *options):
        monkeypatch.setattr(search, "find_max_batch", lambda *_, **__: BatchOutcome(found, skipped))
        return raybench("grid", digits, "--find-max-batch", *options)

    return run


def test_a_row_for_each_search(say):
    said = say([MaxBatchResult({"device": name, **ABOUT}, Search(64, tries=tries)) for name, tries in TRIED.items()])
    assert said.status == 0, said
    rows = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "cpu torch fp32 96 5.0 MiB 128 asked 2.0 GiB, peak 2.0 MiB, limit 1.0 GiB" in rows
    assert "slow torch fp32 64 3.0 MiB 128 timed out" in rows
    assert "small torch fp32 none – 1 peak 2.0 MiB" in rows
    assert "large torch fp32 1437 7.0 GiB – the whole training set fits" in rows


def test_what_went_wrong_is_status_1_and_said(say):
    said = say([MaxBatchResult({"device": "cpu", **ABOUT}, Search(64), error="KeyError: 'no such thing'")])
    assert said.status == 1
    assert "stopped: KeyError: 'no such thing'" in said.out


def test_what_cannot_run_here_is_status_3_and_said(say):
    said = say([], ["tpu: no TPU"])
    assert (said.status, said.out) == (3, "skipped: tpu: no TPU\n")


def test_it_takes_processes(raybench, digits):
    said = raybench("grid", digits, "--find-max-batch", "--inline")
    assert (said.status, said.out) == (2, "")
    assert said.err == "--find-max-batch needs separate processes; remove --inline\n"


def test_help_has_an_example(raybench):
    assert "raybench grid grids/cifar_cpu.yaml --find-max-batch --where device=cpu" in raybench("grid", "--help").out

"""The examples run, as they are written."""

import subprocess
import sys

import pytest
from support import ROOT
from support.executors import ForkingExecutor

from raybench.config import load_grid
from raybench.run import Options, run_grid

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/grid.yaml"))
SMALL = {
    "shell_command": ["axes.params.examples=[100, 200]", "epochs=2"],
    "torchrun_ddp": [
        "params.examples=1024",
        "epochs=2",
        "axes.device=[two_processes]",
        "axes.batch_size=[64, 256]",
    ],
    "pytorch_loop": ["params.train_examples=256", "params.val_examples=64", "epochs=2", "axes.device=[two_cores]"],
}


def test_every_example_is_run_and_in_the_list():
    assert sorted(SMALL) == [path.name for path in EXAMPLES]
    listed = (ROOT / "examples" / "README.md").read_text()
    assert [path.name for path in EXAMPLES if f"({path.name})" not in listed] == []


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_the_number_of_lines_for_raybench_is_right(folder):
    marked = sum("# raybench" in line for path in folder.glob("*.py") for line in path.read_text().splitlines()[5:])
    (row,) = [line for line in (ROOT / "examples" / "README.md").read_text().splitlines() if f"({folder.name})" in line]
    assert row.split("|")[-2].strip() == str(marked)


@pytest.mark.slow
@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_a_small_grid_of_it(folder, tmp_path, fork_server, monkeypatch):
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "no_data"))
    spec = load_grid(folder / "grid.yaml", ["repeats=1", "baseline={}", *SMALL[folder.name]])
    options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
    outcome = run_grid(spec, ForkingExecutor(fork_server), options=options)
    assert {attempt.status for attempt in outcome.latest.values()} == {"completed"}, outcome.latest
    examples = {"pytorch_loop": 256, "torchrun_ddp": 1024}.get(folder.name)
    for attempt in outcome.latest.values():
        assert len(attempt.epochs) == 2
        for epoch in attempt.epochs:
            assert {"train/loss", "val/accuracy"} <= set(epoch.metrics)
            assert epoch.ledger["train"] > 0
            if examples:
                assert (epoch.steps, epoch.examples) == (examples // attempt.cell.settings.batch_size, examples)
                assert epoch.optimizers[0]["class"] == "SGD"
                assert epoch.ledger["input_wait"] > 0
        assert not examples or attempt.ledger["data"] > 0
    codes = {finding.code for findings in outcome.report.results.findings.values() for finding in findings}
    assert not codes & {"other_batch_size", "few_threads", "seed_unused", "output_buffered"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_the_whole_grid_of_it(folder, tmp_path):
    command = [sys.executable, "-m", "raybench", "grid", str(folder / "grid.yaml"), "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "baseline" in done.stdout

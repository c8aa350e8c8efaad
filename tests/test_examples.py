"""The examples run, as they are written."""

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import pytest
from support import ROOT
from support.executors import ForkingExecutor

from raybench.config import load_grid
from raybench.run import Options, run_grid

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/grid.yaml"))
MNIST = ["params.train_examples=256", "params.val_examples=64", "epochs=2", "axes.batch_size=[64]"]
SMALL = {
    "airbench94": [
        "params.train_examples=256",
        "params.val_examples=64",
        "epochs=2",
        "batch_size=64",
        "axes.device=[cpu]",
        "axes.compile=[false]",
        "devices={}",
    ],
    "jax_loop": MNIST,
    "keras_fit": MNIST,
    "lightning_module": MNIST,
    "shell_command": ["axes.params.examples=[5000, 10000]", "epochs=2"],
    "torchrun_ddp": [
        "params.examples=1024",
        "epochs=2",
        "axes.device=[two_processes]",
        "axes.batch_size=[64, 256]",
    ],
    "pytorch_loop": ["params.train_examples=256", "params.val_examples=64", "epochs=2", "axes.device=[two_cores]"],
    "sklearn_partial_fit": [*MNIST, "axes={}", "batch_size=64"],
    "transformers_imdb": MNIST,
}
LIBRARIES = {
    "airbench94": "torch",
    "jax_loop": "jax",
    "keras_fit": "keras",
    "lightning_module": "lightning",
    "pytorch_loop": "torch",
    "sklearn_partial_fit": "sklearn",
    "torchrun_ddp": "torch",
    "transformers_imdb": "transformers",
}
COMMANDS = ("shell_command", "torchrun_ddp")
OPTIMIZERS = {
    "airbench94": "SGD",
    "lightning_module": "AdamW",
    "pytorch_loop": "SGD",
    "torchrun_ddp": "SGD",
    "transformers_imdb": "AdamW",
}


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def folder(request):
    library = LIBRARIES.get(request.param.name)
    if library and find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    return request.param


def test_every_example_is_run_and_in_the_list():
    assert sorted(SMALL) == [path.name for path in EXAMPLES]
    listed = (ROOT / "examples" / "README.md").read_text()
    assert [path.name for path in EXAMPLES if f"({path.name})" not in listed] == []


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_the_number_of_lines_for_raybench_is_right(folder):
    (script,) = folder.glob("train.*")
    lines = script.read_text().split('"""\n', 1)[-1].splitlines()
    marked = [line for line in lines if "# raybench" in line]
    assert [line for line in lines if re.search(r"\b(trial|raybench)\b", line) and line not in marked] == []
    (row,) = [line for line in (ROOT / "examples" / "README.md").read_text().splitlines() if f"({folder.name})" in line]
    assert row.split("|")[-2].strip() == str(len(marked))


def test_the_oldest_libraries_are_those_that_are_promised():
    pins = dict(re.findall(r"^(\w+)==(\S+)$", (ROOT / ".ci" / "oldest.txt").read_text(), re.MULTILINE))
    table = (ROOT / "docs" / "how_to" / "libraries.md").read_text().split("## Versions", 1)[1]
    tested = {
        name.lower(): oldest for name, oldest in re.findall(r"^\| (\w+)[^|]* \| ([\d.]+) \|", table, re.MULTILINE)
    }
    assert tested == {name: pins[name] for name in ("transformers", "lightning", "keras", "jax")}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["examples"]
    bounds = {name: bound for each in extras for name, bound in re.findall(r"^(\w+)[^>]*>=(\S+)$", each)}
    assert all(f"{tested[name]}.".startswith(f"{bounds[name]}.") for name in tested), (tested, bounds)


@pytest.mark.slow
def test_a_small_grid_of_it(folder, tmp_path, fork_server, monkeypatch):
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "no_data"))
    spec = load_grid(folder / "grid.yaml", ["repeats=1", "baseline={}", *SMALL[folder.name]])
    options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
    outcome = run_grid(spec, ForkingExecutor(fork_server), options=options)
    assert {attempt.status for attempt in outcome.latest.values()} == {"completed"}, outcome.latest
    examples = {"shell_command": 0, "torchrun_ddp": 1024}.get(folder.name, 256)
    for attempt in outcome.latest.values():
        assert len(attempt.epochs) == 2
        for epoch in attempt.epochs:
            assert "val/accuracy" in epoch.metrics
            if folder.name in OPTIMIZERS:
                assert epoch.optimizers[0]["class"] == OPTIMIZERS[folder.name]
            if examples:
                steps = examples // attempt.cell.settings.batch_size
                assert (epoch.steps, epoch.examples) == (steps, steps * attempt.cell.settings.batch_size)
                assert epoch.ledger["evaluate"] > 0
            if examples and folder.name != "keras_fit":
                assert epoch.ledger["input_wait"] > 0
            # A busy machine may read the lines of two short epochs of a command at once.
            assert epoch.ledger["train"] > 0 or (folder.name == "shell_command" and epoch.epochs_in_read)
        assert not examples or attempt.ledger["data"] > 0
    codes = {finding.code for findings in outcome.report.results.findings.values() for finding in findings}
    read_at_once = any(epoch.epochs_in_read for attempt in outcome.latest.values() for epoch in attempt.epochs)
    expected = {"output_buffered"} if read_at_once else set()
    assert codes & {"other_batch_size", "few_threads", "seed_unused", "output_buffered"} == expected


@pytest.mark.slow
def test_a_smoke_run_of_it(folder, tmp_path, fork_server, monkeypatch):
    if folder.name in COMMANDS:
        pytest.skip("a command has no smoke run unless its grid names the arguments for it")
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "no_data"))
    changes = ["repeats=1", "baseline={}", *SMALL[folder.name], "params.train_examples=320"]
    options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
    outcome = run_grid(
        load_grid(folder / "grid.yaml", changes).as_smoke(), ForkingExecutor(fork_server), options=options
    )
    for attempt in outcome.latest.values():
        assert attempt.status == "completed", attempt.error
        assert [epoch.steps for epoch in attempt.epochs] == [min(4, 320 // attempt.cell.settings.batch_size)] * 2


@pytest.mark.exhaustive
def test_the_whole_grid_of_it(folder, tmp_path):
    command = [sys.executable, "-m", "raybench", "grid", str(folder / "grid.yaml"), "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "baseline" in done.stdout

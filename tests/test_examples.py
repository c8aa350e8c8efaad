"""The examples run as they are written."""

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import pytest
from support import ROOT
from support.executors import ForkingExecutor
from support.project import run_trials

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
    "torchrun_ddp": ["params.examples=1024", "epochs=2", "axes.count=[2]", "axes.batch_size=[256]"],
    "pytorch_loop": ["params.train_examples=256", "params.val_examples=64", "epochs=2", "axes.device=[two_cores]"],
    "sklearn_partial_fit": [*MNIST, "axes={}", "batch_size=64"],
    "transformers_imdb": MNIST,
    "lora_transformers": ["params.layers=1", "steps_per_epoch=2", "epochs=2", "axes.batch_size=[4]"],
}
LIBRARIES = {
    "jax_loop": "jax",
    "keras_fit": "keras",
    "lightning_module": "lightning",
    "sklearn_partial_fit": "sklearn",
    "transformers_imdb": "transformers",
    "lora_transformers": "transformers",
}


MARKS = {"airbench94": pytest.mark.exhaustive, "keras_fit": pytest.mark.tensorflow}


@pytest.fixture(params=[pytest.param(path, marks=MARKS.get(path.name, ()), id=path.name) for path in EXAMPLES])
def folder(request):
    library = LIBRARIES.get(request.param.name, "torch")
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    return request.param


def test_every_example_is_listed():
    listed = (ROOT / "examples" / "README.md").read_text()
    assert [path.name for path in EXAMPLES if f"({path.name})" not in listed] == []


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_number_of_lines_for_raybench(folder):
    lines = next(folder.glob("train.*")).read_text().split('"""\n', 1)[-1].splitlines()
    marked = [line for line in lines if "# raybench" in line]
    assert [line for line in lines if re.search(r"\b(trial|raybench)\b", line) and line not in marked] == []
    rows = (ROOT / "examples" / "README.md").read_text().splitlines()
    (row,) = [row for row in rows if f"({folder.name})" in row]
    assert row.split("|")[-2].strip() == str(len(marked))


def test_oldest_versions_are_the_lower_bounds():
    texts = ((ROOT / ".ci" / name).read_text() for name in ("oldest.txt", "oldest_dependencies.txt"))
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", "\n".join(texts), re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in (*project["dependencies"], *project["optional-dependencies"]["examples"]):
        name, bound = re.match(r"([\w-]+)[^>]*>=([\d.]+)", text).groups()
        is_untested = name in ("tensorflow", "torch", "platformdirs")
        assert is_untested or f"{pins[name]}.".startswith(f"{bound}."), name


@pytest.mark.slow
def test_small_grid(folder, tmp_path, fork_server, monkeypatch):
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "no_data"))
    changes = ["repeats=1", "baseline={}", *SMALL.get(folder.name, [])]
    outcome = run_trials(folder, executor=ForkingExecutor(fork_server), set=changes, results=tmp_path / "results")
    assert {attempt.status for attempt in outcome.latest.values()} == {"completed"}, outcome.latest
    examples = {"shell_command": 0, "lora_transformers": 0, "torchrun_ddp": 1024}.get(folder.name, 256)
    for attempt in outcome.latest.values():
        assert len(attempt.epochs) == 2
        for epoch in attempt.epochs:
            assert {"val/accuracy", "val/loss"} & {*epoch.metrics}
            if examples:
                assert epoch.examples == examples // attempt.cell.settings.batch_size * attempt.cell.settings.batch_size
                assert epoch.ledger["evaluate"] > 0 and epoch.ledger["train"] > 0


@pytest.mark.exhaustive
def test_whole_grid(folder, tmp_path):
    command = [sys.executable, "-m", "raybench", "grid", str(folder / "grid.yaml"), "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

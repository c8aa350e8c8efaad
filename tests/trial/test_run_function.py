"""A training function from its grid file to the journal, in this process and in one of its own."""

import textwrap

import pytest
import support.project

from raybench.core.ledger import SECTIONS

TRAIN = """
import numpy as np
from helper import BATCHES

def train(trial, *, batch_size: int, weight_decay: float = 0.0, hidden: int = 4, norm="batch", note=("a", 1)):
    with trial.section("data"):
        inputs = np.ones((BATCHES * batch_size, hidden))
    for epoch in trial.epochs():
        for batch in trial.steps(np.split(inputs, BATCHES)):
            assert len(batch) == batch_size
        with trial.evaluation():
            accuracy = hidden / 100 + weight_decay + trial.seed / 1000
        trial.log({"val/accuracy": accuracy, "train/loss": 1 / (epoch + 1)})
    assert (norm, note) == ("batch", ("a", 1))
    with trial.evaluation("test"):
        trial.log({"test/accuracy": 0.5})
"""


class Project(support.project.Project):
    def run(self, train=TRAIN, grid="epochs: 2\n", **options):
        self.write("helper.py", "BATCHES = 5\n")
        return super().run(train, "script.py:train", f"batch_size: 8\n{textwrap.dedent(grid)}", **options)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_a_function_runs_with_the_grid_s_values(project):
    attempt = project.one()
    assert attempt.status == "completed", attempt.error
    (started,) = project.events("trial_started")
    cell = started["cell"]
    assert cell["settings"] == {"batch_size": 8, "epochs": 2, "weight_decay": 0.0}, "no defaults of an engine"
    assert cell["params"] == {"hidden": 4, "norm": "batch", "note": ["a", 1]}
    assert (cell["framework"], cell["workload"]["name"]) == ("none", "train")
    first, last = project.events("epoch_ended")
    assert (first["steps"], first["examples"]) == (5, 40)
    assert first["metrics"] == {"val/accuracy": 0.04, "train/loss": 1.0}
    assert last["metrics"] == {"val/accuracy": 0.04, "train/loss": 0.5, "test/accuracy": 0.5}
    (ended,) = project.events("trial_ended")
    assert set(ended["ledger"]) <= set(SECTIONS)
    assert sum(ended["ledger"].values()) == pytest.approx(ended["wall"], rel=0.01, abs=0.005)
    assert all(ended["ledger"][name] > 0 for name in ("setup", "data", "build", "train", "input_wait", "evaluate"))


def test_params_are_axes(project):
    grid = """
    epochs: 1
    params: {norm: batch}
    axes: {params.hidden: [4, 8], weight_decay: [0, 0.5]}
    exclude: [{params.hidden: 8, weight_decay: 0.5}]
    include: [{params.hidden: 16, weight_decay: 0.25}]
    baseline: {params.hidden: 4}
    """
    outcome = project.run(grid=grid)
    attempts = outcome.latest.values()
    assert {attempt.status for attempt in attempts} == {"completed"}
    accuracies = {
        (attempt.cell.params["hidden"], attempt.cell.settings.weight_decay): attempt.last_metrics["val/accuracy"]
        for attempt in attempts
    }
    assert accuracies == {(4, 0): 0.04, (4, 0.5): 0.54, (8, 0): 0.08, (16, 0.25): pytest.approx(0.41)}
    labels = {attempt.label for attempt in attempts}
    assert any("hidden 16" in label and "params" not in label for label in labels)


def test_the_output_folder_is_kept(project):
    train = """
    def train(trial, *, batch_size):
        (trial.output_dir / "mine.txt").write_text("kept")
        for _ in trial.epochs():
            batch_size
    """
    attempt = project.one(train, "epochs: 1\n")
    assert attempt.status == "completed", attempt.error
    (kept,) = project.folder.rglob("mine.txt")
    assert kept.read_text() == "kept"


ERRORS = {
    "exception": ("for _ in trial.epochs():\n    batch_size / 0", "ZeroDivisionError", 4, "division by zero"),
    "no epoch": ("batch_size", "UsageError", 2, "ended without an epoch: write `for epoch in trial.epochs"),
    "early log": ("trial.log({'val/a': batch_size})", "RuntimeError", 3, "before the first epoch"),
    "exit": ("import sys\nbatch_size\nsys.exit(3)", "SystemExit", 5, "called sys.exit(3)"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_has_the_users_line(project, name):
    body, kind, line, message = ERRORS[name]
    attempt = project.one("\ndef train(trial, *, batch_size):\n" + textwrap.indent(body, "    ") + "\n")
    assert attempt.status == "failed"
    assert attempt.error["type"] == kind
    assert message in attempt.error["message"]
    assert attempt.error["where"] == f"{project.folder / 'script.py'}:{line}"
    assert attempt.warnings == []
    assert not attempt.epochs


def test_target_that_is_never_logged(project):
    attempt = project.one(grid="epochs: 1\ntarget: {metric: val/f1, at_least: 0.5}\n")
    assert attempt.status == "failed"
    assert (
        "'val/f1' was never logged; trial.log had test/accuracy, train/loss, val/accuracy" in attempt.error["message"]
    )
    assert project.one(grid="epochs: 1\ntarget: {metric: val/f1, at_least: 0.5}\n").attempt == 1
    corrected = project.one(grid="epochs: 1\ntarget: {metric: val/accuracy, at_least: 0.5}\n")
    assert (corrected.status, corrected.attempt) == ("completed", 2)


def test_epoch_with_infinite_loss_is_recorded(project):
    train = TRAIN.replace("1 / (epoch + 1)", 'float("nan") if epoch else 1.0')
    attempt = project.one(train, "epochs: 3\n")
    assert attempt.status == "diverged"
    assert attempt.error["message"] == "train/loss is nan in epoch 2"
    assert [len(epoch.metrics) for epoch in attempt.epochs] == [2, 1]


@pytest.mark.parametrize(
    ("loop", "phase"),
    [
        ("for _ in trial.epochs():\n        with trial.evaluation():\n            raise MemoryError", "evaluate"),
        ("for _ in trial.epochs():\n        raise MemoryError", "train"),
        (
            "for _ in trial.epochs():\n        for _ in trial.steps([[1]], examples=1):\n            raise MemoryError",
            "train",
        ),
        ("for _ in trial.steps([[1]], examples=1):\n        raise MemoryError", "train"),
        ("for _ in trial.epochs():\n        pass\n    raise MemoryError", "other"),
        ("raise MemoryError", "build"),
    ],
)
def test_no_memory_is_oom_of_its_section(project, loop, phase):
    attempt = project.one(f"def train(trial, batch_size):\n    {loop}\n")
    assert (attempt.status, attempt.error["phase"]) == ("oom", phase)


def test_batches_that_cannot_be_counted_have_no_rate(project):
    body = "for _ in trial.epochs():\n        assert list(trial.steps(range(3))) == [0, 1, 2]"
    attempt = project.one(f"def train(trial, batch_size):\n    {body}\n", "epochs: 2\n")
    assert attempt.status == "completed", attempt.error
    assert (attempt.examples_per_s, attempt.steps_per_s is None) == (None, False)
    (warning,) = attempt.warnings
    assert "a batch (int) has no array" in warning and "examples=lambda" in warning


def test_epochs_may_stand_in_the_loop_alone(project):
    attempt = project.one(TRAIN.replace("trial.epochs()", "trial.epochs(3)"), "")
    assert (attempt.status, len(attempt.epochs)) == ("completed", 3), attempt.error
    assert "epochs" not in project.events("trial_started")[0]["cell"]["settings"]


def test_checkpoint_every_without_functions_is_a_warning(project):
    attempt = project.one(grid="epochs: 1\ncheckpoint_every: 1\n")
    assert "checkpoint_every was ignored: the function does not call trial.checkpoint(save, load)" in attempt.warnings


TORCH = """
import torch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.ones(3), index % 2

def train(trial, *, batch_size: int, weight_decay: float = 0.0, threads: int = 1):
    torch.manual_seed(trial.seed)
    assert torch.get_num_threads() == threads
    model = torch.nn.Linear(3, 2).to(trial.device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, weight_decay=weight_decay)
    loader = torch.utils.data.DataLoader(Data(), batch_size, num_workers=2)
    for epoch in trial.epochs():
        for inputs, targets in trial.steps(loader):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        trial.log({"train/loss": loss})
"""


@pytest.mark.slow
def test_torch_loop_with_loader_processes(tmp_path, fork_server):
    project = Project(tmp_path, fork_server)
    attempt = project.one(TORCH, "epochs: 2\nweight_decay: 0.01\nthreads: 1\n")
    assert attempt.status == "completed", attempt.error
    assert attempt.cell.framework == "torch"
    for event in project.events("epoch_ended"):
        assert (event["steps"], event["optimizer_steps"], event["examples"]) == (4, 4, 32)
        assert event["optimizers"] == [{"class": "SGD", "lr": 0.1, "weight_decay": 0.01}]
        assert event["ledger"]["input_wait"] > 0


TENSORFLOW = """
import numpy as np
import tensorflow as tf

def train(trial, *, batch_size: int, learning_rate: float = 0.1):
    weights = tf.Variable(np.zeros((3, 1), np.float32))

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ weights - 1) ** 2)
        weights.assign_sub(learning_rate * tape.gradient(loss, weights))
        return loss

    data = tf.data.Dataset.from_tensor_slices(np.ones((32, 3), np.float32)).batch(batch_size)
    with tf.device(trial.device):
        for epoch in trial.epochs():
            for inputs in trial.steps(data):
                loss = step(inputs)
            with trial.evaluation():
                accuracy = tf.reduce_sum(weights)
            trial.log({"train/loss": loss, "val/accuracy": accuracy})
"""


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_tensorflow_loop(tmp_path, fork_server):
    project = Project(tmp_path, fork_server)
    attempt = project.one(TENSORFLOW, "epochs: 2\n")
    assert attempt.status == "completed", attempt.error
    assert attempt.cell.framework == "tensorflow"
    assert [(epoch.steps, epoch.examples) for epoch in attempt.epochs] == [(4, 32), (4, 32)]
    first, second = (epoch.metrics["train/loss"] for epoch in attempt.epochs)
    assert second < first < 1
    assert attempt.epochs[0].ledger["compile"] > 0, "tracing"


def test_a_wait_that_is_not_measured_is_absent(project):
    from raybench import load

    train = TRAIN.replace("trial.steps(np.split(inputs, BATCHES))", "np.split(inputs, BATCHES)")
    attempt = project.one(train)
    assert attempt.status == "completed", attempt.error
    (ended,) = project.events("trial_ended")
    assert "input_wait" not in ended["ledger"]
    found = load(project.folder / "results")
    assert found.trials["input_wait_s"].isna().all() and found.epochs["input_wait_s"].isna().all()
    assert found.epochs["epoch_s"].notna().all()

"""What a grid file says of a training function's parameters."""

import pytest

from raybench.config import load_grid
from raybench.errors import GridFileError

TRAIN = """
def train(trial, *, batch_size: int, weight_decay: float = 0.0, hidden: int = 4, model="small", start=len("a")):
    return batch_size, weight_decay, hidden, model, start
"""


@pytest.fixture
def problems(tmp_path):
    (tmp_path / "my.py").write_text(TRAIN)

    def problems(text, workload="my.py:train", values="batch_size: 8\nparams: {start: 1}\n"):
        path = tmp_path / "grid.yaml"
        path.write_text(f"name: x\nworkload: {workload}\n{values}{text}\n")
        try:
            load_grid(path)
        except GridFileError as error:
            return [str(problem).replace(f"{tmp_path}/", "") for problem in error.problems]
        return []

    return problems


@pytest.mark.parametrize(
    "text",
    [
        "epochs: 2\nsteps_per_epoch: 3\nthreads: 1\nprecision: fp32\nframework: none",
        "axes: {params.hidden: [1, 2], params.model: [a, b], weight_decay: [0, 0.1]}",
        "axes: {device: [cpu]}\noverrides: [{when: {device: cpu}, set: {params: {hidden: 3}, weight_decay: 1.0}}]",
        "include: [{device: cpu, params.hidden: 7}]",
    ],
)
def test_what_fits(problems, text):
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("momentum: 0.9", "grid.yaml:5:11: momentum: train (my.py:2) has no parameter momentum; it has batch_size, "
         "weight_decay, hidden, model, start"),
        ("axes: {params.hiden: [1, 2]}", "grid.yaml:5:22: axes.params.hiden: train (my.py:2) has no parameter "
         "hiden; did you mean hidden?"),
        ("axes: {params.hidden: [1, x]}", "grid.yaml:5:27: axes.params.hidden[1]: wanted a whole number, not 'x'"),
        ("axes: {params.weight_decay: [1, 2]}", "grid.yaml:5:29: axes.params.weight_decay: weight_decay is a setting "
         "of raybench; write it without params"),
        ("axes: {params.start: [1, 2]}", "grid.yaml:4:17: params.start: both an axis and a fixed value; remove one"),
        ("replicas: 2", "grid.yaml:5:11: replicas: not for a training function: the batch is divided by a loop of "
         "raybench; give the device a count"),
        ("precision: bf16", "grid.yaml:5:12: precision: train (my.py:2) has no parameter precision; it has batch_size, "
         "weight_decay, hidden, model, start"),
        ("model: {side: 2}", "grid.yaml:5:8: model: train gets model from params; write params: {model: …}, on an axis "
         "params.model"),
        ("devices: {a: {kind: cpu, replicas: 2}}", "grid.yaml:5:36: devices.a.replicas: not for a training function: "
         "the batch is divided by a loop of raybench; give the device a count"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error_with_its_line(problems, text, problem):
    assert problems(text) == [problem]


def test_a_parameter_without_a_value_is_an_error(problems):
    said = problems("epochs: 1", values="")
    assert said == [
        "grid.yaml:2:11: workload: my.py:2: batch_size has no default, and the grid no value; add `batch_size: …`",
    ]


@pytest.mark.parametrize(
    ("text", "key", "change"),
    [
        ("axes: {lr: [1, 2]}", "axes.lr", "params.lr"),
        ("lr: 0.1", "lr", "params: {lr: …}"),
        ("overrides: [{when: {lr: 1}, set: {epochs: 2}}]", "overrides[0].when.lr", "params.lr"),
        ("overrides: [{when: {batch_size: 8}, set: {lr: 1}}]", "overrides[0].set.lr", "params: {lr: …}"),
    ],
)
def test_a_parameter_without_params_is_named(problems, tmp_path, text, key, change):
    (tmp_path / "other.py").write_text("def train(trial, *, batch_size: int, lr: float = 0.1):\n    batch_size, lr\n")
    (said,) = problems(text, workload="other.py:train", values="batch_size: 8\n")
    assert said.endswith(f": {key}: lr is a parameter of train (other.py:1); write {change}")


def test_a_misspelt_setting_is_suggested_if_it_is_no_parameter(problems):
    (said,) = problems("lr: 0.1")
    assert said == "grid.yaml:5:1: lr: unknown setting; did you mean learning_rate?"


def test_params_are_for_training_functions(problems):
    (said,) = problems("params: {hidden: 3}", workload="digits_cnn", values="")
    assert "params are of a training function of your own; digits_cnn has its options under `model`" in said


def test_a_param_can_be_changed_on_the_command_line(tmp_path):
    (tmp_path / "my.py").write_text(TRAIN)
    (tmp_path / "grid.yaml").write_text("name: x\nworkload: my.py:train\nbatch_size: 8\n")
    changes = ["params.start=1", "params.model=large", "axes.params.hidden=[1,2]"]
    spec = load_grid(tmp_path / "grid.yaml", changes)
    assert (spec.params, spec.axes) == ({"start": 1, "model": "large"}, {"params.hidden": [1, 2]})

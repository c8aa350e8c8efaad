"""What the plan reads of a training function without running it."""

import pytest

from raybench.errors import WorkloadError
from raybench.workloads import read_reference
from raybench.workloads.static_function import is_function, read_function


def read(text, name="train"):
    return read_function(text.encode(), "my.py", name)


def test_parameters_have_a_type_and_a_default():
    function = read("""
def train(trial, batch_size: int, *, learning_rate: float = 1, hidden=128, name: "str" = "a", clip: float | None = None,
          layers=(1, 2), widths: list[int] = [3], start=HERE, flag=True):
    return batch_size, learning_rate, hidden, name, clip, layers, widths, start, flag
""")
    read_as = {name: (each.type, each.required, each.default) for name, each in function.parameters.items()}
    assert read_as == {
        "batch_size": ("int", True, None),
        "learning_rate": ("float", False, 1),
        "hidden": ("int", False, 128),
        "name": ("str", False, "a"),
        "clip": ("float", False, None),
        "layers": ("", False, (1, 2)),
        "widths": ("", False, [3]),
        "start": ("", False, None),
        "flag": ("bool", False, True),
    }
    assert not function.parameters["start"].known
    assert function.parameters["learning_rate"].converted(2) == 2.0
    assert function.parameters["hidden"].problem("x") == "wanted a whole number, not 'x'"
    assert function.parameters["hidden"].problem(True) == "wanted a whole number, not True"
    assert function.parameters["clip"].problem(None) is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("def train(): pass", 1, "the first parameter of train is the trial"),
        ("def train(trial, **settings): settings", 1, "**settings hides the parameters"),
        ("def train(trial, *values): values", 1, "*values hides the parameters"),
        ("def train(\n    trial,\n    device='cpu',\n): device", 3, "device is no parameter: use trial.device"),
        ("def train(trial, *, seed=0): seed", 1, "seed is no parameter: use trial.seed"),
        ("def train(trial, *,\n  unused=1): pass", 2, "unused is a parameter of train, which does not use it"),
        ("def train(trial, x, /): x", 1, "x is passed by its name"),
        ("async def train(trial): pass", 1, "does not run when it is called"),
        ("def train(trial):\n  yield 1", 1, "does not run when it is called"),
        ("def train(trial, *, x: int = 'a'): x", 1, "the default of x: wanted a whole number, not 'a'"),
        (
            "import argparse\na = argparse.ArgumentParser().parse_args()\ndef train(trial): pass",
            2,
            "parse_args() reads",
        ),
    ],
)
def test_a_wrong_signature_is_an_error_with_its_line(text, line, message):
    with pytest.raises(WorkloadError) as error:
        read(text)
    assert str(error.value).startswith(f"my.py:{line}: ")
    assert message in str(error.value)


@pytest.mark.parametrize("call", ["Config(**locals())", "vars()", "dict(locals(), other=1)"])
def test_a_function_that_asks_for_all_local_names_uses_its_parameters(call):
    assert list(read(f"def train(trial, *, hidden=1):\n    config = {call}").parameters) == ["hidden"]


@pytest.mark.parametrize("call", ["vars(trial)", "self.locals()", "locals"])
def test_a_function_that_asks_for_other_names_does_not(call):
    with pytest.raises(WorkloadError, match="does not use it"):
        read(f"def train(trial, *, hidden=1):\n    config = {call}")


def test_all_problems_of_a_signature_are_reported_together():
    with pytest.raises(WorkloadError) as error:
        read('def train(trial, *, batch_size: int, device="cpu",\n          seed=0, unused=1, **rest): batch_size')
    assert str(error.value).splitlines() == [
        "my.py:2: **rest hides the parameters from the plan: write def train(trial, *, batch_size: int, …)",
        "my.py:1: device is no parameter: use trial.device",
        "my.py:2: seed is no parameter: use trial.seed",
        "my.py:2: unused is a parameter of train, which does not use it: it would change no result",
    ]


def test_the_command_line_may_be_read_where_the_file_is_a_program():
    text = "def main(): p.parse_args()\ndef train(trial): pass\nif __name__ == '__main__':\n    p.parse_args()\n"
    assert read(text).parameters == {}


def test_a_function_and_a_declared_workload_are_told_apart_by_the_text():
    text = b"def train(trial): pass\ndef both(): pass\nboth = Workload(model=1, dataset='digits')\n"
    assert is_function(text, "my.py", "train")
    assert not is_function(text, "my.py", "both")
    assert not is_function(text, "my.py", "other")


def test_libraries_of_local_modules_count_too(tmp_path):
    (tmp_path / "my.py").write_text("import os, helper\ndef train(trial): pass\n")
    (tmp_path / "helper.py").write_text("from sklearn import datasets\nimport numpy.random\n")
    info = read_reference("my.py:train", tmp_path)
    assert info.is_function
    assert info.libraries == ("numpy", "sklearn")
    assert type(info).from_json(info.to_json()) == info


def test_an_unknown_name_suggests_training_functions(tmp_path):
    (tmp_path / "my.py").write_text("def train(trial): pass\ndef build(): pass\n")
    with pytest.raises(WorkloadError, match="no top-level 'trian' in it; did you mean train"):
        read_reference("my.py:trian", tmp_path)

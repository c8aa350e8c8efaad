"""Lookup of workloads by name and in files of the user."""

import json
import sys

import numpy as np
import pytest
from support import WORKLOADS

from raybench import Workload, workloads
from raybench.core.cell import CellWorkload
from raybench.errors import WorkloadError
from raybench.workloads import load_workload, read_info, read_workload
from raybench.workloads.parameters import Parameter

DECLARED = """
from __future__ import annotations
import pickle
from dataclasses import dataclass
import numpy as np
from raybench import Data, Split, Workload

@dataclass
class Mine:
    x: int = 1

def read(root):
    values = np.load(root / "mine/x.npy")
    return Data(Split(values, values[:, 0]), Split(values, values[:, 0]))

def build():
    return pickle.loads(pickle.dumps(Mine()))

mine: Workload = Workload(
    {"torch": build, "tensorflow": "models:build"},
    data=read,
    defaults={"epochs": 2, "schedule": {"name": "exponential", "decay_steps": 10}, "weight_decay": -0.0},
    held_out=10,
    loss=lambda outputs, targets: (outputs[:, 0] - targets) ** 2,
    name="my own",
)
common = {"model": build, "dataset": "mnist"}
other = Workload(**common)
"""


def write(folder, text, name="w.py"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def problem(folder, reference):
    """The message about a wrong reference, without the folder."""
    with pytest.raises(WorkloadError) as caught:
        read_workload(reference, folder)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


def sent(info):
    """The information as another process receives it."""
    return read_info(json.loads(json.dumps(info.to_json())))


def test_a_built_in_workload(tmp_path):
    info = read_workload("katnoria_cnn", tmp_path)
    assert info.identity() == CellWorkload("katnoria_cnn", 1)
    assert (info.dataset, info.held_out, info.frameworks) == ("cifar10", 10_000, ("torch", "tensorflow"))
    assert load_workload(info, tmp_path) is workloads.get("katnoria_cnn")


@pytest.mark.parametrize("reference", [*workloads.names(), "my_file.py:my_workload"])
def test_information_is_the_same_as_json(reference):
    info = read_workload(reference, WORKLOADS)
    assert sent(info) == info


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("davidnt", "unknown workload 'davidnt'; did you mean davidnet? (your own"),
        ("zzzz", "use one of davidnet, digits_cnn"),
        *((name, "unknown workload") for name in ("", "../base", "raybench", "base", "davidnet.torch", "a:b", "os")),
        ("my_fil.py:mine", "cannot read my_fil.py: No such file or directory; did you mean my_file.py?"),
        ("there/is/no.py:mine", "cannot read there/is/no.py: No such file or directory"),
        ("my_file.py", "name the workload in the file: file.py:name; the file has mine, other"),
        ("my_file.py:", "name the workload in the file: file.py:name; the file has mine, other"),
        ("folder.py:mine", "folder.py: it is not a file"),
    ],
)
def test_a_wrong_reference_names_the_nearest(tmp_path, reference, message):
    write(tmp_path, DECLARED, "my_file.py")
    (tmp_path / "folder.py").mkdir()
    assert message in problem(tmp_path, reference)


def test_everything_that_a_file_declares(tmp_path):
    write(tmp_path, DECLARED)
    info = read_workload("w.py:mine", tmp_path)
    assert info.identity() == CellWorkload("my own", digest=info.digest)
    assert info.frameworks == ("torch", "tensorflow")
    assert info.defaults["schedule"] == {"name": "exponential", "decay_steps": 10}
    assert (info.held_out, info.dataset) == (10, None)
    assert read_workload("w.py:other", tmp_path).dataset == "mnist"
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine/x.npy", np.ones((40, 2)))
    workload = load_workload(sent(info), tmp_path)
    assert (workload.name, workload.build_model("torch").x) == ("my own", 1)
    assert (len(workload.data(tmp_path).train), workload.loss(np.ones((1, 1)), 0)) == (40, 1)


def test_import_runs_elsewhere_and_is_cached(tmp_path):
    write(tmp_path, DECLARED + f"open({str(tmp_path / 'ran')!r}, 'a').write('x')\n", "unseen.py")
    for _ in range(2):
        read_workload("unseen.py:mine", tmp_path)
    assert (tmp_path / "ran").read_text() == "x", "imported once"
    assert "unseen" not in sys.modules


def test_paths(tmp_path, monkeypatch):
    path = write(tmp_path, DECLARED)
    monkeypatch.setenv("HOME", str(tmp_path))
    for reference in (f"{path}:mine", "~/w.py:mine"):
        assert read_workload(reference, tmp_path / "nowhere").file == str(path)


HEAD = "from raybench import Workload\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("my_w = Workload(model=list, dataset='digits')", "w.py: no top-level 'w' in it; the file has my_w"),
        ("", "w.py: no top-level 'w' in it; the file has no workload"),
        ("w = 3", "w.py: w is of type int; write `w = Workload(...)` or `def w(trial, *, …)`"),
        ("\nw = make()", "w.py:3: NameError: name 'make' is not defined"),
        ("w = Workload(model=list)", "w.py:2: ValueError: a workload needs either a dataset or a data function, not"),
        ("w = Workload(model=list, dataset='digits', held=5)", "w.py:2: TypeError: Workload.__init__() got an"),
        ("w = Workload(model=list,\n dataset='cifar')", "DataError: unknown data set 'cifar'; did you mean"),
        ("import helper\nw = 1", "helper.py:2: ValueError: broken"),
        ("import sys\nsys.exit(2)", "w.py:3: ends the process when the file is imported; put it under `if __name__"),
        ("x = 1\nw = Workload(\n", "w.py:3: '(' was never closed"),
        ("\0", "w.py"),
        ("w = " + "(" * 500 + ")" * 500, "w.py"),
        ("def w(): pass", "w.py:2: the first parameter of w is the trial: write def w(trial, *, batch_size: int"),
        ("def w(*, trial): pass", "w.py:2: the first parameter of w is the trial"),
        ("\ndef w(trial, **kw): pass", "w.py:3: **kw hides the parameters from the plan"),
        ("def w(trial, *a): pass", "w.py:2: *a hides the parameters from the plan"),
        ("def w(trial, device): pass", "w.py:2: device is not a parameter: use trial.device"),
        ("def train(trial): pass\ndef other(x): pass", "no top-level 'w' in it; the file has train"),
    ],
)
def test_a_mistake_has_one_line_with_its_place(tmp_path, text, message):
    write(tmp_path, "\nraise ValueError('broken')\n", "helper.py")
    write(tmp_path, HEAD + text)
    assert message in problem(tmp_path, "w.py:w")


FUNCTIONS = """
import functools

COUNT = 7

def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

@logged
def train(trial, *, batch_size: int, lr: float | None = None, hidden=COUNT, path=len, flag: 'bool' = True): pass
"""


def test_parameters_have_a_type_and_a_default(tmp_path):
    write(tmp_path, FUNCTIONS)
    info = read_workload("w.py:train", tmp_path)
    assert info.place == "w.py:12" or info.place.endswith("/w.py:12")
    assert info.parameters == {
        "batch_size": Parameter("int"),
        "lr": Parameter("float", False, None, True),
        "hidden": Parameter("int", False, 7, True),
        "path": Parameter("", False, None, False),
        "flag": Parameter("bool", False, True, True),
    }


def test_the_environment_of_the_trials_imports_the_file(tmp_path):
    """If this interpreter lacks a library that the file imports."""
    import venv

    venv.create(tmp_path / "env", symlinks=True)
    site = next((tmp_path / "env" / "lib").glob("python3*/site-packages"))
    (site / "faraway.py").write_text("WIDTH = 5\n")
    write(tmp_path, "import faraway\ndef train(trial, *, width=faraway.WIDTH): pass\n")
    assert "w.py:1: ModuleNotFoundError: No module named 'faraway'" in problem(tmp_path, "w.py:train")
    info = read_workload("w.py:train", tmp_path, pythons=[tmp_path / "env" / "bin" / "python"])
    assert info.parameters["width"].default == 5 and list(info.files) == ["w.py"]


def test_a_model_for_each_framework():
    workload = Workload(model={"torch": "collections:OrderedDict", "tensorflow": list}, dataset="digits", name="w")
    assert workload.frameworks == ("torch", "tensorflow")
    assert type(workload.build_model("torch")).__name__ == "OrderedDict"
    assert workload.build_model("tensorflow") == []
    assert Workload(model=list, dataset="digits").build_model("torch") == []

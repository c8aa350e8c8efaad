from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import WORKLOADS

from raybench import Workload, workloads
from raybench.core.cell import CellWorkload
from raybench.errors import DataError, UsageError, WorkloadError
from raybench.workloads import WorkloadInfo, load_workload, read_workload
from raybench.workloads.base import PARITY_TOLERANCE
from raybench.workloads.parameters import Parameter

HERE = WORKLOADS

OWN_DATA = """
import numpy as np
from torch import nn
from raybench import Data, Split, Workload

def read(root):
    values = np.load(root / "mine/x.npy")
    return Data(Split(values, values[:, 0]), Split(values, values[:, 0]))

def build():
    return nn.Linear(2, 1)

mine: Workload = Workload(
    {"torch": build, "tensorflow": "models:build"},
    data=read,
    data_files=["mine/x.npy"],
    defaults={"epochs": 2, "schedule": {"name": "exponential", "decay_steps": 10}, "weight_decay": -0.0},
    examples={"train": 30},
    held_out=10,
    loss=lambda outputs, targets: (outputs[:, 0] - targets) ** 2,
    name="my own",
    parity_tolerance={"losses": 0.01, "statistics": 1},
)
other = Workload(model=build, dataset="mnist", data=None)
"""


def write(folder: Path, text: str, name: str = "w.py") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def problem(folder: Path, text: str, attribute: str = "w") -> str:
    """What is said about a file, without the folder."""
    write(folder, text)
    with pytest.raises(WorkloadError) as caught:
        read_workload(f"w.py:{attribute}", folder)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


# Shipped workloads


def test_a_shipped_workload() -> None:
    info = read_workload("katnoria_cnn", Path("/nowhere"))
    assert info.identity() == CellWorkload("katnoria_cnn", 1)
    assert (info.dataset, info.held_out, info.frameworks) == ("cifar10", 10_000, ("torch", "tensorflow"))
    assert info.files == {}
    assert load_workload(info, Path("/nowhere")) is workloads.get("katnoria_cnn")


def test_shipped_workloads_have_tolerances_that_there_are() -> None:
    named = {name: set(read_workload(name, Path()).parity_tolerance) for name in workloads.names()}
    assert {name: unknown for name, found in named.items() if (unknown := found - set(PARITY_TOLERANCE))} == {}


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(WorkloadError, match=r"unknown workload 'davidnt'; did you mean davidnet\? \(your own"):
        read_workload("davidnt", Path())
    with pytest.raises(WorkloadError, match="use one of davidnet, digits_cnn"):
        read_workload("zzzz", Path())


def test_nothing_else_is_imported_by_name() -> None:
    for name in ("", "../base", "raybench", "base", "davidnet.torch", "a:b", "os"):
        with pytest.raises(WorkloadError, match="unknown workload"):
            read_workload(name, Path())


def test_what_is_known_travels_as_json() -> None:
    for reference in [*workloads.names(), "my_file.py:my_workload"]:
        info = read_workload(reference, HERE)
        assert WorkloadInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


# A person's own


def test_the_example(tmp_path: Path) -> None:
    info = read_workload("my_file.py:my_workload", HERE)
    assert info.identity() == CellWorkload("my_workload", digest=info.digest)
    assert (info.dataset, info.frameworks) == ("digits", ("torch",))
    assert info.defaults == {"epochs": 3, "batch_size": 32, "learning_rate": 0.05}
    assert (list(info.files), info.file) == (["my_file.py"], str(HERE / "my_file.py"))
    workload = load_workload(info, HERE)
    assert workload.name == "my_workload"
    assert sum(p.numel() for p in workload.build_model("torch").parameters()) == 64 * 128 + 128 + 1290


@pytest.mark.slow
def test_everything_a_file_can_declare(tmp_path: Path) -> None:
    write(tmp_path, OWN_DATA)
    info = read_workload("w.py:mine", tmp_path)
    assert info.name == "my own"
    assert info.frameworks == ("torch", "tensorflow")
    assert info.data_files == ("mine/x.npy",)
    assert info.defaults["schedule"] == {"name": "exponential", "decay_steps": 10}
    assert (info.examples, info.held_out, info.dataset) == ({"train": 30}, 10, None)
    assert info.parity_tolerance == {"losses": 0.01, "statistics": 1}
    assert read_workload("w.py:other", tmp_path).dataset == "mnist"


def test_the_import_is_not_in_this_process_and_is_kept(tmp_path: Path) -> None:
    write(tmp_path, OWN_DATA + f"open({str(tmp_path / 'ran')!r}, 'a').write('x')\n")
    for _ in range(2):
        read_workload("w.py:mine", tmp_path)
    assert (tmp_path / "ran").read_text() == "x", "imported once"
    assert "w" not in sys.modules


@pytest.mark.slow
def test_any_edit_is_another_workload(tmp_path: Path) -> None:
    write(tmp_path, OWN_DATA)
    before = read_workload("w.py:mine", tmp_path)
    write(tmp_path, OWN_DATA + "# \n")
    assert read_workload("w.py:mine", tmp_path).identity() != before.identity()


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, OWN_DATA)
    monkeypatch.setenv("HOME", str(tmp_path))
    for reference in (f"{path}:mine", "~/w.py:mine"):
        assert read_workload(reference, Path("/nowhere")).file == str(path)


HEAD = "from raybench import Workload\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("my_w = Workload(model=list, dataset='digits')", "w.py: no top-level 'w' in it; the file has my_w"),
        ("", "w.py: no top-level 'w' in it; the file has no workload"),
        ("w = 3", "w.py: w is of type int; write `w = Workload(...)` or `def w(trial, *, …)`"),
        ("\nw = make()", "w.py:3: NameError: name 'make' is not defined"),
        ("w = Workload(model=list)", "w.py:2: ValueError: a workload needs either a dataset or a data function, not"),
        (
            "w = Workload(model=list, dataset='digits', held=5)",
            "argument 'held'; did you mean held_out",
        ),
        (
            "w = Workload(model=list,\n dataset='cifar')",
            "DataError: unknown data set 'cifar'; did you mean",
        ),
        ("w = Workload(model=list, dataset='digits', examples={'test': 5})", "w.py:2: ValueError: examples must map"),
        ("w = Workload(model=list, dataset='digits', held_out=-1)", "w.py:2: ValueError: held_out must be at least 0"),
        ("w = Workload(model=list, dataset='digits', name=5)", "w.py:2: TypeError: name must be text, not 5"),
        ("w = Workload(model=list, dataset='digits', parity_tolerance={'loses': 1})", "did you mean losses?"),
        ("import helper\nw = 1", "helper.py:2: ValueError: broken"),
        ("import sys\nsys.exit(2)", "w.py:3: ends the process when the file is imported; put it under `if __name__"),
        ("x = 1\nw = Workload(\n", "w.py:3: '(' was never closed"),
        ("\0", "w.py"),
        ("w = " + "(" * 500 + ")" * 500, "w.py"),
    ],
)
def test_a_mistake_has_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "\nraise ValueError('broken')\n", "helper.py")
    assert message in problem(tmp_path, HEAD + text)


def test_arguments_from_a_dictionary(tmp_path: Path) -> None:
    write(tmp_path, HEAD + "common = {'model': list, 'dataset': 'digits'}\nw = Workload(**common)\n")
    assert read_workload("w.py:w", tmp_path).dataset == "digits"


FUNCTIONS = """
import functools

COUNT = 7

def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

@logged
def train(trial, *, batch_size: int, lr: float | None = None, hidden=COUNT, path=len, "flag: bool" = True): pass
""".replace('"flag: bool"', "flag: 'bool'")


def test_parameters_have_a_type_and_a_default(tmp_path: Path) -> None:
    write(tmp_path, FUNCTIONS)
    info = read_workload("w.py:train", tmp_path)
    assert info.is_function and info.function_line == 12
    assert info.parameters == {
        "batch_size": Parameter("int"),
        "lr": Parameter("float", False, None, True),
        "hidden": Parameter("int", False, 7, True),
        "path": Parameter("", False, None, False),
        "flag": Parameter("bool", False, True, True),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def w(): pass", "w.py:1: the first parameter of w is the trial: write def w(trial, *, batch_size: int"),
        ("def w(*, trial): pass", "w.py:1: the first parameter of w is the trial"),
        ("\ndef w(trial, **kw): pass", "w.py:2: **kw hides the parameters from the plan"),
        ("def w(trial, *a): pass", "w.py:1: *a hides the parameters from the plan"),
        ("def w(trial, x, /): pass", "w.py:1: x is passed by its name: remove the / after it"),
        ("def w(trial, device): pass", "w.py:1: device is not a parameter: use trial.device"),
        ("async def w(trial): pass", "w.py:1: w does not run when it is called: write it without async and yield"),
        ("def w(trial): yield", "w.py:1: w does not run when it is called"),
        ("def train(trial): pass\ndef other(x): pass", "no top-level 'w' in it; the file has train"),
    ],
)
def test_a_wrong_signature_is_an_error_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert message in problem(tmp_path, text)


def test_the_environment_of_the_trials_imports_the_file(tmp_path: Path) -> None:
    """If this interpreter lacks a library that the file imports."""
    import venv

    venv.create(tmp_path / "env", symlinks=True)
    site = next((tmp_path / "env" / "lib").glob("python3*/site-packages"))
    (site / "faraway.py").write_text("WIDTH = 5\n")
    write(tmp_path, "import faraway\ndef train(trial, *, width=faraway.WIDTH): pass\n")
    with pytest.raises(WorkloadError, match=r"w\.py:1: ModuleNotFoundError: No module named 'faraway'"):
        read_workload("w.py:train", tmp_path)
    info = read_workload("w.py:train", tmp_path, pythons=[tmp_path / "env" / "bin" / "python"])
    assert info.parameters["width"].default == 5 and list(info.files) == ["w.py"]


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "w.py").write_bytes(b"# \xff\xfe\nw = 1\n")
    with pytest.raises(WorkloadError, match=r"w\.py"):
        read_workload("w.py:w", tmp_path)


def test_a_missing_file_or_name(tmp_path: Path) -> None:
    write(tmp_path, OWN_DATA, "my_file.py")
    with pytest.raises(WorkloadError, match=r"cannot read .*my_fil\.py: No such file.*did you mean my_file"):
        read_workload("my_fil.py:mine", tmp_path)
    with pytest.raises(WorkloadError, match=r"No such file or directory$"):
        read_workload("there/is/no.py:mine", tmp_path)
    for reference in ("my_file.py", "my_file.py:"):
        with pytest.raises(
            WorkloadError, match=r"name the workload in the file: file.py:name; the file has mine, other"
        ):
            read_workload(reference, tmp_path)
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(WorkloadError, match=r"folder\.py: it is not a file"):
        read_workload("folder.py:mine", tmp_path)


# Its data


@pytest.mark.slow
def test_data_files_are_digested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(tmp_path, OWN_DATA)
    info = read_workload("w.py:mine", tmp_path)
    with pytest.raises(DataError, match=r"workload my own: cannot read .*mine/x\.npy: No such file.*RAYBENCH_DATA"):
        info.data_digest(tmp_path)
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine/x.npy", np.ones((40, 2)))
    before = info.data_digest(tmp_path)
    np.save(tmp_path / "mine/x.npy", np.zeros((40, 2)))
    assert before is not None
    assert before != info.data_digest(tmp_path)
    assert read_workload("w.py:other", tmp_path).data_digest(tmp_path) is None


# In the trial's process


def loaded(folder: Path, text: str, name: str = "w") -> Workload:
    """A workload as a trial loads it."""
    write(folder, text)
    info = read_workload(f"w.py:{name}", folder)
    return load_workload(WorkloadInfo.from_json(json.loads(json.dumps(info.to_json()))), folder)


def test_a_trial_has_its_data_and_loss(tmp_path: Path) -> None:
    workload = loaded(tmp_path, OWN_DATA, "mine")
    assert workload.data is not None and workload.loss is not None
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine/x.npy", np.ones((40, 2)))
    assert len(workload.data(tmp_path).train) == 40
    assert workload.loss(np.ones((1, 1)), 0) == 1


def test_classes_of_the_file_can_be_pickled_and_be_dataclasses(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\n"
        "import pickle\n"
        "from dataclasses import dataclass\n"
        "from raybench import Workload\n"
        "@dataclass\n"
        "class Mine:\n"
        "    x: int = 1\n"
        "def build():\n"
        "    return pickle.loads(pickle.dumps(Mine()))\n"
        "w = Workload(model=build, dataset='digits')\n"
    )
    assert loaded(tmp_path, text).build_model("torch").x == 1


# The class itself


def test_a_workload_has_one_source_of_data() -> None:
    with pytest.raises(ValueError, match="either a dataset or a data function"):
        Workload(model=list)
    with pytest.raises(ValueError, match="either a dataset or a data function"):
        Workload(model=list, dataset="digits", data=lambda root: None)  # type: ignore[arg-type, return-value]


def test_a_model_for_each_framework() -> None:
    workload = Workload(model={"torch": "collections:OrderedDict", "tensorflow": list}, dataset="digits", name="w")
    assert workload.frameworks == ("torch", "tensorflow")
    assert type(workload.build_model("torch")).__name__ == "OrderedDict"
    assert workload.build_model("tensorflow") == []
    with pytest.raises(LookupError, match="workload w has no model for jax; use torch, tensorflow"):
        workload.build_model("jax")
    assert Workload(model=list, dataset="digits").build_model("torch") == []


def test_errors_are_the_users() -> None:
    assert issubclass(WorkloadError, UsageError)


def test_looking_up_is_light() -> None:
    """No framework and nothing slow is imported to read, list or look at workloads and data sets."""
    program = (
        "import sys; from pathlib import Path\n"
        "from raybench import datasets, workloads\n"
        f"workloads.read_workload('my_file.py:my_workload', Path({str(HERE)!r}))\n"
        "[workloads.read_workload(name, Path()) for name in workloads.names()]\n"
        "datasets.get('digits').status(datasets.data_root())\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'pooch', 'requests', 'filelock', 'pydantic', 'ray', 'mlflow', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_trial_needs_numpy_and_its_framework_only(tmp_path: Path) -> None:
    """Loading data and a workload works where the driver's packages are not installed."""
    write(tmp_path, "from raybench import Workload\nw = Workload(model=list, dataset='digits')\n")
    info = read_workload("w.py:w", tmp_path)
    program = (
        "import json, sys; from pathlib import Path\n"
        "for name in ('ray', 'mlflow', 'pydantic', 'click', 'rich', 'pooch', 'requests', 'filelock', 'scipy'):\n"
        "    sys.modules[name] = None\n"
        "from raybench import datasets, workloads\n"
        "info = workloads.WorkloadInfo.from_json(json.load(sys.stdin))\n"
        "workload = workloads.load_workload(info, Path(sys.argv[1]))\n"
        "print(len(datasets.get(workload.dataset).load(Path()).train))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, input=json.dumps(info.to_json()), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1437"

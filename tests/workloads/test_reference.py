from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

from raybench import Workload, workloads
from raybench.errors import DataError, UsageError, WorkloadError
from raybench.workloads import WorkloadInfo, load_workload, read_reference

HERE = Path(__file__).parent

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
)
other = raybench.Workload(model=build, dataset="mnist", data=None)
"""


def write(folder: Path, text: str, name: str = "w.py") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def problem(folder: Path, text: str, attribute: str = "w") -> str:
    """What is said about a file, without the folder."""
    write(folder, text)
    with pytest.raises(WorkloadError) as caught:
        read_reference(f"w.py:{attribute}", folder)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


# Shipped workloads


def test_a_shipped_workload() -> None:
    info = read_reference("katnoria_cnn", Path("/nowhere"))
    assert info.identity() == {"name": "katnoria_cnn", "version": 1}
    assert (info.dataset, info.held_out, info.frameworks) == ("cifar10", 10_000, ("torch", "tensorflow"))
    assert info.source is None
    assert load_workload(info, Path("/nowhere")) is workloads.get("katnoria_cnn")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(WorkloadError, match=r"unknown workload 'davidnt'; did you mean davidnet\? \(one of"):
        read_reference("davidnt", Path())
    with pytest.raises(WorkloadError, match="there are airbench94, davidnet, digits_cnn"):
        read_reference("zzzz", Path())


@pytest.mark.parametrize("name", ["", "../base", "raybench", "base", "davidnet.torch", "a:b", "os"])
def test_nothing_else_is_imported_by_name(name: str) -> None:
    with pytest.raises(WorkloadError, match="unknown workload"):
        read_reference(name, Path())


@pytest.mark.parametrize("reference", [*workloads.names(), "my_file.py:my_workload"])
def test_what_is_known_travels_as_json(reference: str) -> None:
    info = read_reference(reference, HERE)
    assert WorkloadInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


# A person's own


def test_the_example(tmp_path: Path) -> None:
    info = read_reference("my_file.py:my_workload", HERE)
    content = (HERE / "my_file.py").read_bytes()
    digest = "sha256:" + hashlib.sha256(content).hexdigest()[:16]
    assert info.identity() == {"name": "my_workload", "digest": digest}
    assert (info.dataset, info.frameworks) == ("digits", ("torch",))
    assert info.defaults == {"epochs": 3, "batch_size": 32, "learning_rate": 0.05}
    assert (info.source, info.file) == (content.decode(), str(HERE / "my_file.py"))
    workload = load_workload(info, tmp_path)
    assert workload.name == "my_workload"
    assert sum(p.numel() for p in workload.build_model("torch").parameters()) == 64 * 128 + 128 + 1290


def test_everything_a_file_can_declare(tmp_path: Path) -> None:
    write(tmp_path, OWN_DATA)
    info = read_reference("w.py:mine", tmp_path)
    assert info.name == "my own"
    assert info.frameworks == ("torch", "tensorflow")
    assert info.data_files == ("mine/x.npy",)
    assert info.defaults["schedule"] == {"name": "exponential", "decay_steps": 10}
    assert (info.examples, info.held_out, info.dataset) == ({"train": 30}, 10, None)
    assert read_reference("w.py:other", tmp_path).dataset == "mnist"


def test_reading_runs_nothing(tmp_path: Path) -> None:
    bomb = f"open({str(tmp_path / 'ran')!r}, 'w')\nimport no_such_module\nw = Workload(model=b, dataset='digits')\n"
    write(tmp_path, bomb)
    assert read_reference("w.py:w", tmp_path).dataset == "digits"
    assert not (tmp_path / "ran").exists()


def test_any_edit_is_another_workload(tmp_path: Path) -> None:
    write(tmp_path, OWN_DATA)
    before = read_reference("w.py:mine", tmp_path)
    write(tmp_path, OWN_DATA + "# \n")
    assert read_reference("w.py:mine", tmp_path).identity() != before.identity()


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, OWN_DATA)
    monkeypatch.setenv("HOME", str(tmp_path))
    for reference in (f"{path}:mine", "~/w.py:mine"):
        assert read_reference(reference, Path("/nowhere")).file == str(path)


GOOD = "w = Workload(model=build, dataset='digits'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nw = Workload(\n", "w.py:2: '(' was never closed"),
        ("w = 1 +\n", "w.py:1: invalid syntax"),
        ("\0", "w.py:1: source code string cannot contain null bytes|w.py: not readable as Python"),
        ("my_w = Workload(model=b, dataset='digits')\n", "w.py: no top-level 'w' in it; it has my_w"),
        (
            "wrkload = Workload(model=b, dataset='mnist')\n",
            "w.py: no top-level 'workload' in it; did you mean wrkload?",
        ),
        ("", "w.py: no top-level 'w' in it; it has no workload"),
        ("def f():\n    w = Workload(model=b, dataset='mnist')\n", "w.py: no top-level 'w' in it; it has no workload"),
        ("\nw = make()\n", "w.py:2: write w = Workload(...) there: the file is read without being run"),
        ("w = 3\n", "w.py:1: write w = Workload(...) there"),
        (GOOD + ",\n  defaults=DEFAULTS)", "w.py:2: defaults has to be written out (a dictionary of settings)"),
        (GOOD + ",\n\n  defaults={'epochs': 2 * N})", "w.py:3: defaults has to be written out"),
        (GOOD + ", defaults=[1])", "w.py:1: defaults is a dictionary of settings, not [1]"),
        (GOOD + ", defaults={1: 2})", "w.py:1: the keys of defaults are the names of settings"),
        (GOOD + ", version='1')", "w.py:1: version is a whole number, not '1'"),
        (GOOD + ", name=5)", "w.py:1: name is text, not 5"),
        (GOOD + ", held_out=True)", "w.py:1: held_out is a whole number, not True"),
        (GOOD + ", held_out=-1)", "w.py:1: held_out is at least 0, not -1"),
        (GOOD + ", examples={'test': 5})", "w.py:1: examples has a whole number of at least 1 for train, val or both"),
        (GOOD + ", examples={'train': 0})", "w.py:1: examples has a whole number of at least 1"),
        (GOOD + ", data_files='x.npy')", "w.py:1: data_files is a list of paths, not 'x.npy'"),
        (GOOD + ", data_files=[1])", "w.py:1: data_files is a list of paths, not [1]"),
        (GOOD + ",\n  held=5)", "w.py:2: Workload has no 'held'; did you mean held_out?"),
        (GOOD + ", **more)", "w.py:1: write the arguments of Workload out: * and ** hide them"),
        (GOOD + ", data=f)", "w.py:1: Workload needs either a dataset or a data function of your own"),
        ("w = Workload(model=b)", "w.py:1: Workload needs either a dataset or a data function of your own"),
        ("w = Workload(dataset='digits')", "w.py:1: Workload needs a model"),
        ("w = Workload(model=b,\n dataset='cifar')", "w.py:2: unknown data set 'cifar'; did you mean cifar10?"),
        ("w = Workload(model={F: b}, dataset='digits')", "w.py:1: the keys of model are names of frameworks"),
        ("w = Workload(model={}, dataset='digits')", "w.py:1: the keys of model are names of frameworks"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    said = problem(tmp_path, text, "workload" if text.startswith("wrkload") else "w")
    assert any(part in said for part in message.split("|")), said


def test_a_deep_file_is_no_crash(tmp_path: Path) -> None:
    assert "w.py" in problem(tmp_path, "w = " + "(" * 5000 + ")" * 5000)
    assert "w.py" in problem(tmp_path, GOOD + ", defaults=" + "-" * 5000 + "1)")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "w.py").write_bytes(b"# \xff\xfe\nw = 1\n")
    with pytest.raises(WorkloadError, match=r"w\.py"):
        read_reference("w.py:w", tmp_path)


def test_a_missing_file_or_name(tmp_path: Path) -> None:
    write(tmp_path, OWN_DATA, "my_file.py")
    with pytest.raises(WorkloadError, match=r"the workload's file .*my_fil\.py: No such file.*did you mean my_file"):
        read_reference("my_fil.py:mine", tmp_path)
    with pytest.raises(WorkloadError, match=r"No such file or directory$"):
        read_reference("there/is/no.py:mine", tmp_path)
    for reference in ("my_file.py", "my_file.py:"):
        with pytest.raises(WorkloadError, match=r"say which workload of it: file.py:name; it has mine, other"):
            read_reference(reference, tmp_path)
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(WorkloadError, match=r"folder\.py: Is a directory"):
        read_reference("folder.py:mine", tmp_path)


# Its data


def test_data_files_are_digested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(tmp_path, OWN_DATA)
    info = read_reference("w.py:mine", tmp_path)
    with pytest.raises(DataError, match=r"workload my own: cannot read .*mine/x\.npy: No such file.*RAYBENCH_DATA"):
        info.data_digest(tmp_path)
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine/x.npy", np.ones((40, 2)))
    before = info.data_digest(tmp_path)
    np.save(tmp_path / "mine/x.npy", np.zeros((40, 2)))
    assert before is not None
    assert before != info.data_digest(tmp_path)
    assert read_reference("w.py:other", tmp_path).data_digest(tmp_path) is None


# In the trial's process


def info_of(folder: Path, text: str, name: str = "w") -> WorkloadInfo:
    """What the plan read, after its file is gone: the text travels."""
    path = write(folder, text)
    info = read_reference(f"w.py:{name}", folder)
    path.unlink()
    return WorkloadInfo.from_json(json.loads(json.dumps(info.to_json())))


def test_the_source_travels(tmp_path: Path) -> None:
    workload = load_workload(info_of(tmp_path, OWN_DATA.replace("raybench.W", "W"), "mine"), tmp_path / "trial")
    assert workload.data is not None
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine/x.npy", np.ones((40, 2)))
    assert len(workload.data(tmp_path).train) == 40
    assert workload.loss is not None
    assert workload.loss(np.ones((1, 1)), 0) == 1


def test_tracebacks_show_the_file(tmp_path: Path) -> None:
    text = (
        "from raybench import Workload\n"
        "def build():\n"
        "    return 1 / 0  # my line\n"
        "w = Workload(model=build, dataset='digits')\n"
        "where = __file__\n"
    )
    workload = load_workload(info_of(tmp_path, text), tmp_path / "trial")
    with pytest.raises(ZeroDivisionError) as caught:
        workload.build_model("torch")
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno, frame.line) == (str(tmp_path / "trial/w.py"), 3, "return 1 / 0  # my line")


def test_what_the_file_raises_comes_through(tmp_path: Path) -> None:
    info = info_of(tmp_path, "import no_such_module\nw = Workload(model=b, dataset='digits')\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load_workload(info, tmp_path / "trial")


def test_another_class_called_workload(tmp_path: Path) -> None:
    info = info_of(tmp_path, "Workload = dict\nw = Workload(model=1, dataset='digits')\n")
    with pytest.raises(WorkloadError, match=r"w\.py: w is a dict, not a raybench\.Workload"):
        load_workload(info, tmp_path / "trial")


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
    assert load_workload(info_of(tmp_path, text), tmp_path / "trial").build_model("torch").x == 1


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
    with pytest.raises(LookupError, match="workload w has no model for jax, only for torch, tensorflow"):
        workload.build_model("jax")
    assert Workload(model=list, dataset="digits").build_model("torch") == []


def test_errors_are_the_users() -> None:
    assert issubclass(WorkloadError, UsageError)


def test_looking_up_is_light() -> None:
    """No framework and nothing slow is imported to read, list or look at workloads and data sets."""
    program = (
        "import sys; from pathlib import Path\n"
        "from raybench import datasets, workloads\n"
        f"workloads.read_reference('my_file.py:my_workload', Path({str(HERE)!r}))\n"
        "[workloads.read_reference(name, Path()) for name in workloads.names()]\n"
        "datasets.get('digits').status(datasets.data_root())\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'pooch', 'requests', 'filelock', 'pydantic', 'ray', 'mlflow', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_trial_needs_numpy_and_its_framework_only(tmp_path: Path) -> None:
    """Loading data and a workload works where the driver's packages are not installed."""
    info = info_of(tmp_path, "from raybench import Workload\nw = Workload(model=list, dataset='digits')\n")
    program = (
        "import json, sys; from pathlib import Path\n"
        "for name in ('ray', 'mlflow', 'pydantic', 'click', 'rich', 'pooch', 'requests', 'filelock', 'scipy'):\n"
        "    sys.modules[name] = None\n"
        "from raybench import datasets, workloads\n"
        "info = workloads.WorkloadInfo.from_json(json.load(sys.stdin))\n"
        "workload = workloads.load_workload(info, Path(sys.argv[1]))\n"
        "print(len(datasets.get(workload.dataset).load(Path()).train))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "trial")]
    done = subprocess.run(command, input=json.dumps(info.to_json()), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1437"

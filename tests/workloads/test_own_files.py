"""A workload that is more than one file: what belongs to it, and that an edit of any of it makes another cell."""

import os
import subprocess
import sys

import pytest

from raybench.config import load_grid
from raybench.errors import DataError, WorkloadError
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid
from raybench.workloads import read_reference
from raybench.workloads.own_files import collect

FILES = {
    "mine.py": """
import numpy as np
import torch
from helper import build_model
from raybench import Data, Split, Workload

def data(root):
    from parts.inputs import inputs
    return Data(Split(inputs, (inputs[:, 0] > 0).astype(int)), Split(inputs, (inputs[:, 0] > 0).astype(int)))

workload = Workload(model=build_model, data=data)
""",
    "helper.py": """
import torch
def build_model():
    return torch.nn.Linear(4, 2)
""",
    "parts/__init__.py": "",
    "parts/inputs.py": """
import numpy as np
from . import numbers_of
from .numbers_of import seed
inputs = np.random.default_rng(seed()).normal(size=(32, 4)).astype(np.float32)
""",
    "parts/numbers_of.py": "def seed():\n    return 1\n",
    "never.py": "raise AssertionError('nobody imports this')\n",
    "grid.yaml": "name: mine\nworkload: mine.py:workload\nepochs: 1\nbatch_size: 16\n",
}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def write_files(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run(project, **options):
    own = Options(project / "results", tracking=None, checks=False, report=False, **options)
    return run_grid(load_grid(project / "grid.yaml"), InlineExecutor(), options=own)


def only(outcome):
    (attempt,) = outcome.latest.values()
    return attempt


def test_modules_of_its_folder_travel_and_the_rest_of_it_does_not(project):
    info = read_reference("mine.py:workload", project)
    assert list(info.files) == ["helper.py", "mine.py", "parts/__init__.py", "parts/inputs.py", "parts/numbers_of.py"]
    attempt = only(run(project))
    assert attempt.status == "completed", attempt.error
    (code,) = (project / "results" / "mine" / "code").iterdir()
    assert sorted(path.relative_to(code).as_posix() for path in code.rglob("*.py")) == list(info.files)


@pytest.mark.parametrize(
    "name",
    [
        "parts/numbers_of.py",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("mine.py", "helper.py", "parts/__init__.py")),
    ],
)
def test_an_edit_of_any_of_them_makes_another_cell_that_is_run_again(project, name):
    first = only(run(project))
    assert only(run(project)).trial == first.trial, "done"
    (project / name).write_text((project / name).read_text() + "\n# edited\n")
    second = only(run(project))
    assert (second.status, second.trial != first.trial) == ("completed", True)


@pytest.mark.slow
def test_the_edited_module_is_the_one_that_runs(project):
    assert only(run(project)).status == "completed"
    (project / "helper.py").write_text("def build_model():\n    raise RuntimeError('edited')\n")
    attempt = only(run(project))
    assert (attempt.status, attempt.error["message"]) == ("failed", "edited")
    assert attempt.error["where"] == f"{project / 'helper.py'}:2"


def test_an_edit_of_what_it_does_not_import_changes_nothing(project):
    before = read_reference("mine.py:workload", project).digest
    (project / "never.py").write_text("another = 1\n")
    assert read_reference("mine.py:workload", project).digest == before


def test_a_file_alone_has_its_own_digest(project):
    (project / "helper.py").unlink()
    text = "import numpy\nfrom raybench import Workload\nworkload = Workload(model=len, dataset='digits')\n"
    (project / "mine.py").write_text(text)
    info = read_reference("mine.py:workload", project)
    assert info.files == {"mine.py": info.digest}


def test_an_import_that_reading_cannot_find_names_the_remedy(project):
    (project / "hidden.py").write_text("def build_model():\n    import torch\n    return torch.nn.Linear(4, 2)\n")
    (project / "helper.py").write_text(
        "import importlib\ndef build_model():\n    return importlib.import_module('hid' + 'den').build_model()\n"
    )
    attempt = only(run(project))
    assert attempt.status == "failed"
    assert attempt.error["message"] == (
        f"No module named 'hidden'; {project / 'hidden.py'} was not copied for the trial: "
        "add `files: [hidden.py]` or, for large data, `links: [hidden.py]` to the grid file"
    )
    (project / "grid.yaml").write_text(FILES["grid.yaml"] + "files: [hidden.py]\n")
    assert only(run(project)).status == "completed"


def test_data_files_are_part_of_the_cell_and_links_are_not(project):
    (project / "tables").mkdir()
    (project / "tables" / "scale.txt").write_text("2")
    (project / "large").mkdir()
    (project / "large" / "numbers.txt").write_text("3")
    (project / "helper.py").write_text(
        "from pathlib import Path\nhere = Path(__file__).parent\n"
        "def build_model():\n    import torch\n"
        "    count = int((here / 'tables/scale.txt').read_text()) + int((here / 'large/numbers.txt').read_text())\n"
        "    return torch.nn.Sequential(torch.nn.Linear(4, count), torch.nn.Linear(count, 2))\n"
    )
    attempt = only(run(project))
    assert attempt.error["message"].endswith(
        "add `files: [tables/scale.txt]` or, for large data, `links: [tables]` to the grid file"
    )
    (project / "grid.yaml").write_text(FILES["grid.yaml"] + "files: [tables]\nlinks: [large]\n")
    first = only(run(project))
    assert first.status == "completed", first.error
    (project / "large" / "numbers.txt").write_text("4")
    assert only(run(project)).trial == first.trial
    (project / "tables" / "scale.txt").write_text("5")
    assert only(run(project)).trial != first.trial


@pytest.mark.slow
def test_a_linked_folder_may_have_modules_that_are_part_of_the_cell(project):
    files = {
        "data/dataset.py": "count = 2\n",
        "data/large/more.py": "count = 1\n",
        "data/large/numbers.txt": "3",
        "data/images/one.txt": "4",
    }
    write_files(project, files)
    (project / "helper.py").write_text(
        "from pathlib import Path\nfrom data.dataset import count\nfrom data.large import more\n"
        "def build_model():\n    import torch\n"
        "    folder = Path(__file__).parent / 'data'\n"
        "    assert (folder / 'large/numbers.txt').read_text() + (folder / 'images/one.txt').read_text() == '34'\n"
        "    return torch.nn.Linear(4, count * more.count)\n"
    )
    (project / "grid.yaml").write_text(FILES["grid.yaml"] + "links: [data/images, data, data/large, helper.py]\n")
    first = only(run(project))
    assert first.status == "completed", first.error
    (code,) = (project / "results" / "mine" / "code").iterdir()
    links = [path for path in code.rglob("*") if path.is_symlink()]
    assert {path.relative_to(code).as_posix() for path in links} == {"data/images", "data/large/numbers.txt"}
    (project / "data/images/one.txt").write_text("4 ")
    assert only(run(project)).trial == first.trial, "done"
    (project / "data/dataset.py").write_text("count = 3\n")
    assert only(run(project)).trial != first.trial


def test_packages_without_a_file_at_their_top_travel(project):
    files = {
        "src/models/deep/net.py": "from src.layers import linear\nwidth = linear.width\n",
        "src/layers/linear.py": "width = 2\n",
        "numpy/notes.txt": "a folder that has the name of a library",
    }
    write_files(project, files)
    (project / "helper.py").write_text(
        "from src.models.deep import net\ndef build_model():\n    import torch\n"
        "    return torch.nn.Linear(4, net.width)\n"
    )
    info = read_reference("mine.py:workload", project)
    assert {"src/models/deep/net.py", "src/layers/linear.py"} < set(info.files)
    assert {"numpy", "torch"} <= collect(project, [project / "mine.py"]).libraries
    assert "src" not in collect(project, [project / "mine.py"]).libraries
    attempt = only(run(project))
    assert attempt.status == "completed", attempt.error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("files: [nothing/*.txt]", "'nothing/*.txt' matches no file in {folder}"),
        ("files: [../other.py]", "'../other.py' is outside of the workload's folder {folder}; move it there"),
        ("links: [nothing]", "there is no nothing in {folder}"),
    ],
)
def test_a_wrong_name_is_a_mistake_of_the_grid_file(project, line, message):
    (project / "grid.yaml").write_text(FILES["grid.yaml"] + line + "\n")
    with pytest.raises(WorkloadError) as caught:
        run(project)
    assert str(caught.value) == f"{project / 'grid.yaml'}:5: " + message.format(folder=project)


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ("pipe.py:w", "cannot read {folder}/pipe.py: it is not a file"),
        ("large.py:w", "{folder}/large.py is larger than 10 MiB; list its folder under `links:` instead"),
        (
            "~nobody-here/x.py:w",
            "workload's file {folder}/~nobody-here/x.py: No such file or directory",
        ),
        (f"{'x' * 5000}.py:w", "File name too long"),
    ],
)
def test_a_workload_file_that_cannot_be_one_is_a_message_at_once(project, workload, says):
    os.mkfifo(project / "pipe.py")
    (project / "large.py").write_bytes(b"#" * ((10 << 20) + 1))
    (project / "grid.yaml").write_text(f"name: g\nworkload: {workload}\n")
    with pytest.raises(WorkloadError) as caught:
        run(project)
    assert says.format(folder=project) in str(caught.value)


def test_a_data_file_that_is_no_regular_file_is_a_message_at_once(project, tmp_path, monkeypatch):
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    text = "from raybench import Workload\nw = Workload(model=print, data=print, data_files=['pipe'])\n"
    (project / "piped.py").write_text(text)
    (project / "grid.yaml").write_text("name: g\nworkload: piped.py:w\n")
    with pytest.raises(DataError, match="pipe: not a regular file"):
        run(project)


@pytest.mark.slow
def test_a_helper_that_is_no_python_is_named(project):
    (project / "helper.py").write_text("def build_model(:\n")
    with pytest.raises(WorkloadError, match=r"helper\.py:1: invalid syntax"):
        run(project)


def test_a_module_imported_while_training_counts_from_then_on(project, tmp_path_factory, monkeypatch):
    library = tmp_path_factory.mktemp("library")
    (library / "latelib.py").write_text("WIDTH = 2\n")
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    (project / "helper.py").write_text(
        "import importlib\ndef build_model():\n    import torch\n"
        "    return torch.nn.Linear(4, importlib.import_module('late' + 'lib').WIDTH)\n"
    )
    first = only(run(project))
    assert first.status == "completed", first.error
    assert any("latelib.py was imported while training" in warning for warning in first.warnings)
    assert only(run(project)).trial == first.trial, "done"
    (library / "latelib.py").write_text("WIDTH = 3\n")
    assert only(run(project)).trial != first.trial


@pytest.mark.slow
def test_modules_loaded_by_path_are_part_of_the_cell(project):
    (project / "presets").mkdir()
    (project / "presets" / "small.py").write_text("WIDTH = 2\n")
    (project / "helper.py").write_text(
        "import importlib.util, pathlib\n"
        "file = pathlib.Path(__file__).parent / 'presets' / 'small.py'\n"
        "spec = importlib.util.spec_from_file_location('preset', file)\n"
        "preset = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(preset)\n"
        "def build_model():\n    import torch\n    return torch.nn.Linear(4, preset.WIDTH)\n"
    )
    first = only(run(project))
    assert first.status == "completed", first.error
    (project / "presets" / "small.py").write_text("WIDTH = 3\n")
    assert only(run(project)).trial != first.trial


def test_files_are_for_a_workload_of_ones_own(project):
    (project / "grid.yaml").write_text("name: g\nworkload: digits_cnn\nfiles: [mine.py]\n")
    with pytest.raises(WorkloadError, match="files only apply to your own workload file"):
        run(project)


SCRIPT = """
import sys
from pathlib import Path
from raybench.workloads import read_reference
print(read_reference("mine.py:workload", Path(sys.argv[1])).elsewhere)
"""


@pytest.mark.slow
def test_modules_on_the_path_are_part_of_the_cell_where_they_are(project, tmp_path_factory):
    """A module that is found on `PYTHONPATH` is not copied, and its digest counts."""
    library = tmp_path_factory.mktemp("library")
    (library / "mylib").mkdir()
    (library / "mylib" / "__init__.py").write_text("from mylib.layers import Net\n")
    (library / "mylib" / "layers.py").write_text("Net = None\n")
    (project / "helper.py").write_text("import mylib\nimport json, torch\n" + FILES["helper.py"])

    def elsewhere():
        command = [sys.executable, "-c", SCRIPT, str(project)]
        found = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(library)})
        return eval(found.stdout)

    before = elsewhere()
    assert before.keys() == {"mylib", "mylib.layers"}
    (library / "mylib" / "layers.py").write_text("Net = 1\n")
    after = elsewhere()
    assert after["mylib"] == before["mylib"] and after["mylib.layers"] != before["mylib.layers"]

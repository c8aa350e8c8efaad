"""Where a user's program runs, and which edits make new trials."""

import os
import textwrap

import pytest
from support.grid_files import events_of

PROGRAM = """
import importlib
from pathlib import Path
import mingpt.model
exec(open("configurator.py").read())
assert Path("../data/words.txt").read_text() == "a b"
Path("cache.txt").write_text("kept")
layers = importlib.import_module("mingpt.layers")
print("epoch 1")
"""
FUNCTION = """
import importlib.util
import helper

def by_path(name):
    spec = importlib.util.spec_from_file_location("loaded", f"{__file__.rpartition('/')[0]}/{name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

SMALL = by_path("presets/small.py")

def train(trial, *, batch_size: int = 1):
    import parts.inner
    assert open("../data/words.txt").read() == "a b"
    for epoch in trial.epochs():
        trial.log({"val/width": SMALL.WIDTH})
"""
FILES = {
    "data/words.txt": "a b",
    "code/train.py": PROGRAM,
    "code/mingpt/model.py": "from . import layers\n",
    "code/mingpt/layers.py": "",
    "code/configurator.py": "x = 1\n",
    "code/vocab/a.txt": "a",
    "code/mine.py": FUNCTION,
    "code/helper.py": "",
    "code/parts/inner.py": "",
    "code/presets/small.py": "WIDTH = 1\n",
    "code/never.py": "",
}


class Project:
    """A grid in the folder `code`, run by the command."""

    def __init__(self, folder, command):
        self.folder, self._command = folder, command
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(textwrap.dedent(text))

    def edit(self, name):
        self.write(name, (self.folder / name).read_text() + "#\n")

    def grid(self, workload, more=""):
        self.write("code/grid.yaml", f"name: mine\nworkload: {workload}\n{more}")
        return self._command("code/grid.yaml", "--results", "results")

    def run(self, workload, more=""):
        """The ends of all trials so far."""
        self.grid(workload, more)
        return [each for each in events_of(self.folder / "results" / "mine") if each["event"] == "trial_ended"]


@pytest.fixture
def project(tmp_path, grid):
    return Project(tmp_path, grid)


COMMAND = "{command: python train.py, epoch: 'epoch (.)'}"


def test_a_command_runs_where_the_user_runs_it(project):
    (end,) = project.run(COMMAND)
    assert end["status"] == "completed", end["error"]
    assert (project.folder / "code/cache.txt").read_text() == "kept"


@pytest.mark.parametrize(
    ("workload", "more", "used", "unused"),
    [
        (COMMAND, "", ["code/train.py", "code/mingpt/layers.py", "code/configurator.py"], "code/never.py"),
        (
            COMMAND,
            "inputs: [vocab, 'nev*.py', ../data/words.txt]\n",
            ["code/vocab/a.txt", "code/never.py", "data/words.txt"],
            "code/helper.py",
        ),
        (
            "mine.py:train",
            "epochs: 1\n",
            ["code/mine.py", "code/helper.py", "code/parts/inner.py", "code/presets/small.py"],
            "code/never.py",
        ),
    ],
)
def test_an_edit_of_a_used_file_makes_new_trials(project, workload, more, used, unused):
    (end,) = project.run(workload, more)
    assert end["status"] == "completed", end["error"]
    project.edit(unused)
    assert len(project.run(workload, more)) == 1
    for number, name in enumerate(used, 2):
        project.edit(name)
        assert len(project.run(workload, more)) == number, name


ISOLATED = """
    from pathlib import Path
    import mingpt.model
    assert not Path("never" + ".py").exists() and Path("vocab/a.txt").read_text() == "a"
    Path("vocab/a.txt").write_text("changed")
"""


@pytest.mark.parametrize(("workload", "more"), [("{command: python train.py}", ""), ("mine.py:train", "epochs: 1\n")])
def test_an_isolated_trial_has_copies_of_its_files(project, workload, more):
    project.write("code/train.py", ISOLATED)
    body = textwrap.indent(textwrap.dedent(ISOLATED), "    ")
    project.write("code/mine.py", f"def train(trial):\n{body}\n    for _ in trial.epochs(): pass\n")
    (end,) = project.run(workload, f"isolate: true\ninputs: [vocab]\n{more}")
    assert end["status"] == "completed", end["error"]
    assert (project.folder / "code/vocab/a.txt").read_text() == "a"


@pytest.mark.parametrize(
    ("workload", "more", "message"),
    [
        (COMMAND, "inputs: [nothing/*]\n", "grid.yaml:3:9: inputs: there is no file 'nothing/*' in "),
        ("mine.py:train", "inputs: [nothing]\n", "grid.yaml:3:1: there is no file 'nothing' in "),
        (
            "digits_cnn",
            "inputs: [never.py]\n",
            "inputs is not for digits_cnn, which is not your own program",
        ),
        ("digits_cnn", "isolate: true\n", "isolate is not for digits_cnn"),
        ("{command: python trian.py}", "", "there is no trian.py in "),
        ("min.py:train", "", "No such file or directory; did you mean code/mine.py?"),
        ("data.py:train", "", "it is not a file"),
    ],
)
def test_a_wrong_name_is_one_message(project, workload, more, message):
    os.mkfifo(project.folder / "code/data.py")
    said = project.grid(workload, more)
    assert said.status == 2
    assert message in said.err


def test_an_edit_while_the_grid_runs_stops_it(project):
    project.write("code/train.py", "open('train.py', 'a').write('#')")
    said = project.grid("{command: python train.py}", "repeats: 3\n")
    assert said.status == 1
    assert "train.py was changed after the grid was planned; run the same command again" in said.err
    assert len(project.run("{command: python -c 1}")) == 2


@pytest.mark.slow
def test_modules_on_the_import_path_count(project, monkeypatch):
    project.write("library/mylib/__init__.py", "from mylib.layers import Net\n")
    project.write("library/mylib/layers.py", "Net = None\n")
    project.write("code/helper.py", "import mylib\n")
    monkeypatch.setenv("PYTHONPATH", str(project.folder / "library"))
    monkeypatch.syspath_prepend(str(project.folder / "library"))
    assert len(project.run("mine.py:train", "epochs: 1\n")) == 1
    project.edit("library/mylib/layers.py")
    assert len(project.run("mine.py:train", "epochs: 1\n")) == 2

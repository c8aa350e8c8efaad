"""The notebooks run from top to bottom, in a kernel of their own, on small or made-up grids."""

import json
import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support import ROOT
from support.made_up_grids import SPEED, cell_of, told

from raybench.results.bundle import read_bundle

NOTEBOOKS = ROOT / "notebooks"


class Client(NotebookClient):
    """Runs a notebook, and keeps the texts of outputs that are replaced while their cell runs."""

    def __init__(self, notebook, folder):
        super().__init__(notebook, timeout=500, resources={"metadata": {"path": str(folder)}})
        self.replaced = []

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "update_display_data":
            self.replaced.append(msg["content"]["data"]["text/plain"])
        return super().process_message(msg, cell, cell_index)


def ran(name, folder, monkeypatch):
    """Everything that a notebook shows when it is run in a folder: texts, and the kinds of all else."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    Client(notebook, folder).execute()
    return shown(notebook)


def shown(notebook):
    """The texts of all outputs of a notebook, and the kinds of its data."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    data = [output.data for output in outputs if "data" in output]
    texts = [output.text for output in outputs if output.output_type == "stream"]
    texts += [one[kind] for one in data for kind in ("text/html", "text/markdown", "text/plain") if kind in one]
    return "\n".join(texts), [kind for one in data for kind in one]


@pytest.fixture
def quickstart(tmp_path):
    """A results folder with the journal of a made-up grid: two devices, two weight decays, and a target."""
    made = []
    for device in ("cpu", "gpu"):
        for decay, gain in ((0.0, 0.0), (5e-4, 0.02)):
            for repeat in range(3):
                seconds = [SPEED[device] * (1 + 0.01 * repeat + 0.002 * epoch) for epoch in range(3)]
                accuracies = [each + gain + 0.002 * repeat for each in (0.5, 0.6, 0.7)]
                made += told(cell_of(device, weight_decay=decay, epochs=3), repeat, seconds, accuracies, profile=device)
    for event in made:
        if event["event"] == "trial_started":
            event["target"] = {"metric": "val/accuracy", "at_least": 0.6}
    folder = tmp_path / "raybench-results" / "quickstart"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text("".join(json.dumps(event) + "\n" for event in made))


@pytest.mark.slow
@pytest.mark.usefixtures("quickstart")
def test_cross_hardware_on_a_made_up_grid(tmp_path, monkeypatch):
    text, kinds = ran("cross_hardware.ipynb", tmp_path, monkeypatch)
    assert "<em>gpu</em>" in text and "katnoria_cnn" in text and "baseline" in text
    assert kinds.count("image/png") >= 6
    assert "neither" not in text and "no device of the grid has a price_per_hour" in text
    assert "Time to the target" in text and "ratio" in text


@pytest.mark.slow
def test_cross_hardware_without_any_grid_of_ones_own(tmp_path, monkeypatch):
    shutil.copytree(NOTEBOOKS / "recorded", tmp_path / "recorded")
    text, kinds = ran("cross_hardware.ipynb", tmp_path, monkeypatch)
    assert "<em>batch 128</em>" in text and "baseline" in text and kinds.count("image/png") >= 5


@pytest.mark.slow
def test_published_on_what_is_shipped(tmp_path, monkeypatch):
    text, _ = ran("published.ipynb", tmp_path, monkeypatch)
    for number in ("159.42", "52.25", "8.83", "3.22", "3.57", "1.50", "421", "8.25", "31.4", "42.35", "112.9"):
        assert number.rstrip("0") in text, number


WITH_DRIVE = "colab with Drive"

SMALL = """name: small
workload: digits_cnn
epochs: 1
steps_per_epoch: 3
examples: {train: 256, val: 64}
axes: {device: available, batch_size: [32, 64]}
"""

DOWNLOAD = """from pathlib import Path


def download(name):
    Path("downloaded").write_text(name)
"""


MOUNT = """from pathlib import Path


def mount(folder):
    (Path(folder) / "MyDrive").mkdir(parents=True, exist_ok=True)
"""


def hosted_notebook(home, host, folder):
    """The notebook `colab.ipynb`, with a folder in place of a host's working folder.

    Colab's own modules are there too, outside of that folder. `colab with Drive` keeps the results there.
    """
    text = (NOTEBOOKS / "colab.ipynb").read_text()
    hosts = {"colab": "/content", "kaggle": "/kaggle/working"}
    for name, usual in hosts.items():
        assert f'"{usual}"' in nbformat.reads(text, as_version=4).cells[1].source
        text = text.replace(usual, str(folder if name == str(host).partition(" ")[0] else home / "missing"))
    if str(host).startswith("colab"):
        modules = home / "modules" / "google" / "colab"
        modules.mkdir(parents=True, exist_ok=True)
        (modules / "files.py").write_text(DOWNLOAD)
        (modules / "drive.py").write_text(MOUNT)
    if host == WITH_DRIVE:
        assert "KEEP_ON_DRIVE = False" in text
        text = text.replace("KEEP_ON_DRIVE = False", "KEEP_ON_DRIVE = True")
    notebook = nbformat.reads(text, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("print(f'data: {raybench.datasets.data_root()}')"))
    return notebook


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize(
    "host", [WITH_DRIVE, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("colab", "kaggle", None))]
)
def test_a_notebook_as_a_machine(host, tmp_path, monkeypatch):
    """With an empty home folder, and a grid that the user has uploaded in place of the shipped one."""
    home, folder = tmp_path / "home", tmp_path / "working"
    home.mkdir()
    (folder / "grids").mkdir(parents=True)
    (folder / "grids" / "machines.yaml").write_text(SMALL)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("IPYTHONDIR", str(home / "ipython"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(home / "modules")]))
    monkeypatch.delenv("RAYBENCH_DATA", raising=False)
    notebook = hosted_notebook(home, host, folder)
    client = Client(notebook, home if host else folder)
    client.execute()

    text, _ = shown(notebook)
    (run,) = [cell for cell in notebook.cells if "raybench.run_grid(" in cell.source]
    assert [output.output_type for output in run.outputs] == ["display_data", "execute_result"], "no terminal's output"
    assert any("/2 trials" in shown for shown in client.replaced) and len(client.replaced) > 3, "live"
    assert "small" in run.outputs[0].data["text/plain"] and "ipywidgets" not in run.outputs[0].data["text/plain"]
    assert "<table>" in run.outputs[1].data["text/html"]
    assert "2 to run" in text or "1 to run" in text
    assert "<iframe srcdoc=" in text and "&lt;!DOCTYPE html&gt;" in text
    bundles = list(folder.glob("*.zip"))
    assert [read_bundle(path).attempts for path in bundles] == [2]
    if str(host).startswith("colab"):
        assert (folder / "downloaded").read_text() == "colab.zip"
    else:
        assert f"href='{bundles[0].name}'" in text
    assert f"data: {folder / 'raybench-data' if host else home / '.cache/raybench/data'}" in text
    kept = {path.name for path in (home / ".cache").rglob("*") if path.is_file()}
    assert kept <= {"digests.json"}, "only what is made again in a moment"
    if host == WITH_DRIVE:
        goes_on_after_a_lost_runtime(home, folder, text)


def goes_on_after_a_lost_runtime(home, folder, text):
    """Run the notebook again on an empty disk, with the same Drive."""
    journal = Path("drive/MyDrive/raybench-results/small/journal.jsonl")
    assert f"results: {folder / journal.parents[1]}" in text
    events = (folder / journal).read_text().split('"event":"')
    lost = folder.rename(folder.with_name("lost"))
    (folder / "grids").mkdir(parents=True)
    (folder / "grids" / "machines.yaml").write_text(SMALL)
    (lost / "drive").rename(folder / "drive")
    notebook = hosted_notebook(home, WITH_DRIVE, folder)
    Client(notebook, home).execute()
    text, _ = shown(notebook)
    assert "2 done" in text
    kinds = [event.partition('"')[0] for event in (folder / journal).read_text().split('"event":"')]
    assert kinds.count("trial_started") == 2 and len(kinds) >= len(events)
    assert [read_bundle(path).attempts for path in folder.glob("*.zip")] == [2]


INTERRUPTED = """import os
import signal
import threading
import time
from pathlib import Path

import raybench

JOURNAL = Path("raybench-results/small/journal.jsonl")


def interrupt():
    while not JOURNAL.exists() or '"trial_ended"' not in JOURNAL.read_text():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)  # what the button does


threading.Thread(target=interrupt, daemon=True).start()
raybench.run_grid("small.yaml", repeats=30, tracking=None, checks=False)
"""

CONTINUED = """before = len(JOURNAL.read_text().split('"trial_ended"')) - 1
results = raybench.run_grid("small.yaml", repeats=2, tracking=None, checks=False)
print(before, results.trials["status"].value_counts().to_dict())
"""


@pytest.mark.ray
@pytest.mark.exhaustive
def test_an_interrupted_cell_keeps_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "small.yaml").write_text(SMALL)
    cells = [
        nbformat.v4.new_code_cell(INTERRUPTED, metadata={"tags": ["raises-exception"]}),
        nbformat.v4.new_code_cell(CONTINUED),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    Client(notebook, tmp_path).execute()
    progress, error = cells[0].outputs
    assert "Stopping: ending the running trials" in progress.data["text/plain"]
    assert (error.ename, error.evalue) == (
        "KeyboardInterrupt",
        "The grid was stopped. Finished trials are kept; the same call runs the rest.",
    )
    before, statuses = cells[1].outputs[-1].text.split(" ", 1)
    assert 1 <= int(before) < 60
    assert re.fullmatch(r"{'completed': ([4-9]|\d\d)(, 'killed': 1)?}\n", statuses), "two of each cell, or more"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_they_are_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")

"""The notebooks run from top to bottom in a kernel of their own."""

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support import ROOT

NOTEBOOKS = ROOT / "notebooks"
SMALL = """name: small
workload: digits_cnn
epochs: 1
steps_per_epoch: 3
examples: {train: 256, val: 64}
axes: {device: available, batch_size: [32, 64]}
"""


def read(name):
    return nbformat.read(NOTEBOOKS / name, as_version=4)


def execute(notebook, folder):
    """Run a notebook in a folder; return the texts that it shows and the kinds of its outputs."""
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    data = [output.data for output in outputs if "data" in output]
    texts = [output.text for output in outputs if output.output_type == "stream"]
    texts += [one[kind] for one in data for kind in ("text/html", "text/markdown", "text/plain") if kind in one]
    return "\n".join(texts), [kind for one in data for kind in one]


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path / "modules")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


@pytest.mark.slow
def test_cross_hardware_with_recorded_results(tmp_path):
    shutil.copytree(NOTEBOOKS / "recorded", tmp_path / "recorded")
    text, kinds = execute(read("cross_hardware.ipynb"), tmp_path)
    assert "batch 128" in text and kinds.count("image/png") >= 3


def colab(folder):
    """The notebook `colab.ipynb` with `folder` as Colab's working folder, and the results on Drive."""
    notebook = read("colab.ipynb")
    for cell in notebook.cells:
        cell.source = cell.source.replace("/content", str(folder)).replace(
            "KEEP_ON_DRIVE = False", "KEEP_ON_DRIVE = True"
        )
    return notebook


@pytest.mark.exhaustive
@pytest.mark.ray
def test_colab_continues_after_a_lost_runtime(tmp_path, monkeypatch):
    modules, folder = tmp_path / "modules" / "google" / "colab", tmp_path / "working"
    modules.mkdir(parents=True)
    (modules / "files.py").write_text("def download(name):\n    print('downloaded', name)\n")
    (modules / "drive.py").write_text(
        "from pathlib import Path\n\n\n"
        "def mount(folder):\n    Path(folder, 'MyDrive').mkdir(parents=True, exist_ok=True)\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAYBENCH_DATA", raising=False)
    texts = []
    for _ in range(2):
        (folder / "grids").mkdir(parents=True)
        (folder / "grids" / "machines.yaml").write_text(SMALL)
        if texts:
            shutil.move(tmp_path / "lost" / "drive", folder / "drive")
        texts.append(execute(colab(folder), tmp_path)[0])
        if len(texts) == 1:
            folder.rename(tmp_path / "lost")
    assert "\x1b[2K" not in texts[0], "a live display"
    assert " to run" in texts[0] and "table class" in texts[0] and "downloaded colab.zip" in texts[0]
    assert "2 done" in texts[1], "the results on Drive count"
    assert (Path(folder) / "colab.zip").is_file()


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")

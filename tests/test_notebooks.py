"""The notebooks run from top to bottom, in a kernel of their own; the first on a made-up grid."""

import json
import shutil

import nbformat
import pytest
from nbclient import NotebookClient
from support import ROOT
from support.made_up_grids import SPEED, cell_of, told

NOTEBOOKS = ROOT / "notebooks"


def ran(name, folder, monkeypatch):
    """Everything that a notebook shows when it is run in a folder: texts, and the kinds of all else."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(folder)}}).execute()
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


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_they_are_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")

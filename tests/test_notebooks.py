"""The notebooks run from top to bottom, in a kernel of their own; the first on a grid made here."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid
from raybench.spec import load_grid

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"

GRID = """\
name: quickstart
workload: digits_cnn
epochs: 3
steps_per_epoch: 4
examples: {train: 256, val: 64}
axes: {batch_size: [32, 64], weight_decay: [0.0, 5.0e-4]}
repeats: 2
target: {metric: val/accuracy, at_least: 0.05}
baseline: {batch_size: 32}
"""


def ran(name, folder, monkeypatch):
    """Everything that a notebook shows when it is run in a folder: texts, and the kinds of all else."""
    root = str(NOTEBOOKS.parent)
    monkeypatch.setenv("PYTHONPATH", root)
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    data = [output.data for output in outputs if "data" in output]
    texts = [output.text for output in outputs if output.output_type == "stream"]
    texts += [one[kind] for one in data for kind in ("text/markdown", "text/plain") if kind in one]
    return "\n".join(texts), [kind for one in data for kind in one]


def test_cross_hardware_on_a_grid_made_here(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "grid.yaml").write_text(GRID)
    run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=Options(tmp_path / "raybench-results"))
    text, kinds = ran("cross_hardware.ipynb", tmp_path, monkeypatch)
    assert "*batch 64* trains `digits\\_cnn`" in text or "*batch 64* trains `digits_cnn`" in text
    assert kinds.count("image/svg+xml") >= 6
    assert "neither" not in text and "no device of the grid has a price_per_hour" in text
    assert "Time to the target" in text and "ratio" in text


def test_published_on_what_is_shipped(tmp_path, monkeypatch):
    text, _ = ran("published.ipynb", tmp_path, monkeypatch)
    for number in ("159.42", "52.25", "8.83", "3.22", "3.57", "1.50", "421", "8.25", "31.4", "42.35", "105.7"):
        assert number.rstrip("0") in text, number


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_they_are_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")

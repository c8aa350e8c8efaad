"""A picture of predictions beside a run: made after its account is closed, read again by another library."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid
from raybench.trial.predictions import SHEET, png
from raybench.workloads.resunet_preview import draw

MINE = """
import numpy as np
from torch import nn
from raybench import Workload

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def sheet(inputs, targets, outputs):
    assert inputs.dtype == np.uint8 and outputs.shape == (len(targets), 10)
    return np.repeat(inputs.reshape(-1, 8, 1), 3, 2) * 15

mine = Workload(model=build, dataset="digits", std=(16.0,), preview=SHEET, defaults={"epochs": 1})
"""


def test_a_png_is_what_other_libraries_read() -> None:
    image = pytest.importorskip("PIL.Image")
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    assert np.array_equal(np.asarray(image.open(io.BytesIO(png(picture)))), picture)


def run(folder: Path, sheet: str, tracking: str | None):
    (folder / "w.py").write_text(MINE.replace("SHEET", sheet))
    (folder / "grid.yaml").write_text("name: g\nworkload: w.py:mine\nexamples: {train: 256, val: 100}\n")
    options = Options(folder / "results", tracking=tracking, checks=False, report=False)
    (attempt,) = run_grid(load_grid(folder / "grid.yaml"), InlineExecutor(), options=options).latest.values()
    assert attempt.status == "completed"
    return attempt


@pytest.mark.slow
def test_a_workload_with_a_sheet_leaves_it_in_the_runs_artifacts(tmp_path: Path, mlflow_results: Path) -> None:
    run(tmp_path, "sheet", f"sqlite:///{mlflow_results}/mlflow.db")
    found = [path for path in tmp_path.rglob(SHEET) if "artifacts" in path.parts]
    assert len(found) == 1, "one copy beside the run in MLflow"
    assert found[0].read_bytes().startswith(b"\x89PNG")


def test_a_sheet_that_cannot_be_made_is_a_warning_and_no_failure(tmp_path: Path) -> None:
    attempt = run(tmp_path, "lambda inputs, targets, outputs: 1 / 0", None)
    assert any("no image of predictions: ZeroDivisionError" in words for words in attempt.warnings)
    assert not list(tmp_path.rglob(SHEET))


def test_the_sheet_of_the_u_nets() -> None:
    inputs = np.arange(2 * 4 * 4 * 6, dtype=np.uint8).reshape(2, 4, 4, 6)
    targets = np.zeros((2, 2, 4, 4), np.uint8)
    targets[0, 0] = 255
    outputs = np.where(targets > 0, 9.0, -9.0)
    outputs[1, 1] = 0.0
    sheet = draw(inputs, targets, outputs)
    assert (sheet.shape, sheet.dtype) == ((8, 24, 3), np.uint8)
    assert np.array_equal(sheet[:4, :4], inputs[0, ..., :3])
    assert np.array_equal(sheet[:4, 8:12], sheet[:4, 12:16]), "the true mask and the found one"
    assert (sheet[:4, 8:12] == 255).all()
    assert (sheet[4:, 20:24] == 128).all(), "depth half way"

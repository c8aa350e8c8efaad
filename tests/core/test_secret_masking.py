"""Users, passwords and queries of URIs are in no stored text."""

import pytest
import yaml

from raybench.config import load_grid
from raybench.core.secret_masking import mask, mask_yaml
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid

GRID = """name: g  # see https://me:hunter1@example.org/
description: see https://me:hunter2@example.org/
workload: digits_cnn
steps_per_epoch: 2
epochs: 1
tracking_uri: &store "postgresql://me:hunter3@db/runs?sslkey=hunter4"
"""


def test_only_secrets_are_masked_in_a_grid_file():
    masked = mask_yaml(GRID)
    assert "hunter" not in masked
    data = yaml.safe_load(masked)
    assert data["tracking_uri"] == "postgresql://***@db/runs?sslkey=***"
    assert {**data, "tracking_uri": 0, "description": 0} == {
        **yaml.safe_load(GRID),
        "tracking_uri": 0,
        "description": 0,
    }
    assert mask_yaml("a: 1 # b\n") == "a: 1 # b\n"


def test_only_secrets_are_masked_in_data():
    assert mask({"a": ["https://me:hunter2@example.org/", 3, "b"]}) == {"a": ["https://***@example.org/", 3, "b"]}


@pytest.mark.slow
@pytest.mark.mlflow
def test_no_results_file_has_a_secret(tmp_path, mlflow_results):
    (tmp_path / "grid.yaml").write_text(GRID)
    store = f"sqlite:///{mlflow_results}/mlflow.db"
    options = Options(mlflow_results, tracking=store, checks=False)
    run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options)
    files = [path for path in mlflow_results.rglob("*") if path.is_file()]
    assert [path for path in files if b"hunter" in path.read_bytes()] == []
    assert {"report.html", "mlflow.db"} <= {path.name for path in files}

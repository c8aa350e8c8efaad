"""Users, passwords and queries of URIs are in no stored text."""

import pytest

from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.core.secret_masking import mask
from raybench.execution.inline import InlineExecutor
from raybench.run import run_grid

GRID = """name: g  # see https://me:hunter1@example.org/
description: see https://me:hunter2@example.org/
workload: digits_cnn
steps_per_epoch: 2
epochs: 1
tracking_uri: "postgresql://me:hunter3@db/runs?sslkey=hunter4"
"""


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("see https://me:hunter1@example.org/ or x@y", "see https://***@example.org/ or x@y"),
        ('uri: "postgresql://me:pa\'s/s@db/runs?sslkey=hunter4"', 'uri: "postgresql://***@db/runs?sslkey=***"'),
        ("{uri: http://h:5000, user: 'a@b'}", "{uri: http://h:5000, user: 'a@b'}"),
        ("[http://me:pw@h/a?b=c], d", "[http://***@h/a?b=***], d"),
    ],
)
def test_only_secrets_are_masked(text, masked):
    assert mask(text) == masked


@pytest.mark.slow
@pytest.mark.mlflow
def test_no_results_file_has_a_secret(tmp_path, mlflow_results):
    (tmp_path / "grid.yaml").write_text(GRID)
    store = f"sqlite:///{mlflow_results}/mlflow.db"
    options = GridOptions(results=mlflow_results, tracking=store, checks=False)
    run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options)
    files = [path for path in mlflow_results.rglob("*") if path.is_file()]
    assert [path for path in files if b"hunter" in path.read_bytes()] == []
    assert {"report.html", "mlflow.db"} <= {path.name for path in files}

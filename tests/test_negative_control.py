"""The negative control, trained for real: a model so small that no device is what its training waits for."""

import pytest

from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid

GRID = """
name: control
workload: katnoria_cnn
epochs: 2
steps_per_epoch: 6
examples: {train: 64, val: 16}
threads: 1
axes:
  device: [cpu]
  batch_size: [8]
"""


@pytest.mark.exhaustive  # it measures
def test_katnoria_cnn_is_not_bound_by_the_device(real_data, tmp_path):
    (tmp_path / "grid.yaml").write_text(GRID)
    options = Options(tmp_path / "results", tracking=None, report=False)
    outcome = run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options)
    (attempt,), (row,) = outcome.latest.values(), outcome.rows
    assert outcome.warnings == ()
    assert attempt.roofline["work"] == {"flops": 6_818_304, "values": 257_246, "parameters": 111_498}
    assert row.bottleneck.causes == ("overhead",)
    assert row.bottleneck.share == pytest.approx(0.0, abs=0.25)

"""The negative control, trained for real: steps so small that no device is what their training waits for."""

import pytest

from raybench.checks.roofline.judge import roofline
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
  batch_size: [1, 32]
"""


@pytest.mark.exhaustive  # it measures
def test_katnoria_cnn_with_single_examples_is_not_bound_by_the_device(real_data, tmp_path):
    (tmp_path / "grid.yaml").write_text(GRID)
    options = Options(tmp_path / "results", tracking=None, report=False)
    outcome = run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options)
    assert outcome.warnings == ()
    attempts = {attempt.cell.settings.batch_size: attempt for attempt in outcome.latest.values()}
    work = {"flops": 6_818_304, "values": 257_246, "parameters": 111_498}
    assert [attempt.roofline["work"] for attempt in attempts.values()] == [work, work]
    rows = {row.axes["batch_size"]: row for row in outcome.rows}
    # On two cores the shares were 0.07 to 0.08 and 0.25 to 0.33, so both conditions allow for a noisy machine.
    assert rows[1].bottleneck.causes == ("overhead",)
    assert roofline(attempts[32]).compute > 2 * roofline(attempts[1]).compute

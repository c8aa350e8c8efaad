"""A grid run from a program that has started Ray itself."""

import subprocess
import sys
import tempfile

import pytest

GRID = """
name: mine
workload: digits_cnn
epochs: 1
steps_per_epoch: 2
devices: {cpu: {kind: cpu, cpus: 1}}
axes: {device: [cpu]}
"""

SCRIPT = """
import sys
from pathlib import Path

import ray

ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=sys.argv[1])
before = ray.get_runtime_context().get_node_id()

from raybench.execution.deferred_ray import DeferredRayExecutor
from raybench.run import Options, run_grid
from raybench.config import load_grid

if __name__ == "__main__":
    executor = DeferredRayExecutor()
    options = Options(Path("results"), tracking=None, checks=False, report=False)
    outcome = run_grid(load_grid(Path("grid.yaml")), executor, options=options)
    executor.close()
    after = ray.get_runtime_context().get_node_id()
    print([(row.counts.completed, row.counts.planned) for row in outcome.rows], ray.is_initialized(), after == before)
    ray.shutdown()
"""


@pytest.mark.slow
@pytest.mark.ray
def test_it_is_used_and_stays_up(tmp_path):
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "script.py").write_text(SCRIPT)
    with tempfile.TemporaryDirectory(prefix="rb") as folder:  # a short path: Ray's sockets are in it
        command = [sys.executable, "script.py", folder]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["[(1, 1)] True True"], done.stdout + done.stderr

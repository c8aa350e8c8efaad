"""The largest batch that fits: the search, and under a limit on the memory of a trial on the CPU."""

import sys
from pathlib import Path

import pytest
from support.executors import ForkingExecutor
from support.workloads import hungry

from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.planning.largest import MOST, search
from raybench.results.history import GridHistory
from raybench.run import run_grid


@pytest.mark.parametrize(("limit", "most"), [(1, MOST), (37, MOST), (700, MOST), (5000, MOST), (700, 500), (0, MOST)])
def test_search_finds_it_to_a_sixteenth(limit, most):
    tried = []

    def fits(size):
        tried.append(size)
        return size <= limit

    found, best = search(fits, most), min(limit, most)
    assert found <= best and best - found <= max(1, best // 16) and len(tried) == len({*tried})
    assert not found or found == most or any(found < size for size in tried)


GRID = """
name: hungry
workload: {file}:in_training
epochs: 2
repeats: 2
memory_limit: {limit}MiB
threads: 1
axes: {{device: [cpu], batch_size: [16, largest]}}
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a limit on memory")
def test_largest_batch_on_a_cpu_with_little_memory(fork_server, tmp_path):
    """Each example of a batch takes a mebibyte."""
    (tmp_path / "hungry.py").write_text((Path(hungry.__file__)).read_text())
    (tmp_path / "grid.yaml").write_text(GRID.format(file="hungry.py", limit=900))
    options = GridOptions(results=tmp_path / "results", checks=False, tracking=None, report=False)
    outcome = run_grid(load_grid(tmp_path / "grid.yaml"), ForkingExecutor(fork_server), None, options)
    assert outcome.exit_status == 0
    small, largest = outcome.report.answer.configurations
    batch = next(run.cell.settings.batch_size for run in outcome.latest.values() if run.cell_id == largest.cell_id)
    assert largest.axes["batch_size"] == "largest" and largest.label == f"batch largest ({batch})"
    assert small.label == "batch 16" and largest.completed == 2
    probes = run_grid(load_grid(tmp_path / "grid.yaml"), ForkingExecutor(fork_server), None, options)
    assert probes.ran == 0, "nothing is tried or trained again"
    tried = GridHistory.read(tmp_path / "results" / "hungry~largest").attempts.values()
    fitting = {run.cell.settings.batch_size for run in tried if run.status == "completed"}
    failing = {run.cell.settings.batch_size for run in tried if run.status != "completed"}
    assert max(fitting) == batch and failing and min(failing) - batch <= batch // 16

"""Ray shuts down while other threads of the process run."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import threading

import ray

from raybench.execution.ray_tune import RayTuneExecutor

executor = RayTuneExecutor()
executor.nodes()
references = [ray.put(number) for number in range(20_000)]
closed = threading.Event()


class Cycle:
    def __init__(self, reference):
        self.itself, self.reference = self, reference


def allocate():
    while references and not closed.is_set():
        Cycle(references.pop())


thread = threading.Thread(target=allocate)
thread.start()
executor.close()
closed.set()
thread.join()
print("left", len(references))
"""


@pytest.mark.slow
@pytest.mark.ray
def test_a_thread_that_collects_garbage_does_not_end_the_process(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left" in done.stdout

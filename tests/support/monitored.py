"""Real processes in the place of trials, and what is audited of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from raybench.core.cell import Cell, CellDevice
from raybench.core.job import Job
from raybench.monitoring import Monitor

BUSY = "while True: pass"
IDLE = "import time; time.sleep(60)"


class Process:
    """A Python program in a session of its own, perhaps on one core."""

    def __init__(self, program=IDLE, core=None):
        self.process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        if core is not None:
            os.sched_setaffinity(self.pid, [core])

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def make_job(folder, core):
    return Job("t-r0", 1, 0, 0, Cell(device=CellDevice("cpu")), {}, "", str(folder), [core])


def audited(job, leader, seconds, wait=lambda: None):
    with Monitor(job) as audit:
        audit.begin(leader)
        wait()
        time.sleep(seconds)
        return audit.end()

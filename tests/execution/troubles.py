"""Workloads that end badly, each in its own way; run by the trial's process only."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import torch

from raybench import Data, Split, Workload


def data(root):
    inputs = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    return Data(Split(inputs, (inputs[:, 0] > 0).astype(int)), Split(inputs, (inputs[:, 0] > 0).astype(int)))


class Trouble(torch.nn.Linear):
    def __init__(self, what):
        super().__init__(1, 2)
        self.what = what

    def forward(self, inputs):
        self.what()
        return super().forward(inputs)


def raises():
    raise KeyError("no such thing")


def hangs():
    if not torch.is_grad_enabled():  # in training, not where the model is only counted
        return
    print("about to hang", flush=True)
    time.sleep(600)


def dies():
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def leaves():
    os._exit(7)


def fills_memory():
    torch.empty(1 << 60)


def family():
    """A child of its own that would burn a core for ever."""
    import subprocess
    import sys

    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    print(f"child {child.pid}", flush=True)
    time.sleep(600)


def kills_its_worker():
    """At the first attempt only: the worker is the parent of the template, which is the parent of this process."""
    if "attempt-1" in __file__:
        template = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(template.rsplit(") ")[1].split()[1]), signal.SIGKILL)
        time.sleep(600)


def nothing():
    pass


class Infinite(torch.nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs) * float("nan")


fine = Workload(model=lambda: Trouble(nothing), data=data)
raising = Workload(model=lambda: Trouble(raises), data=data)
hanging = Workload(model=lambda: Trouble(hangs), data=data)
dying = Workload(model=lambda: Trouble(dies), data=data)
killed = Workload(model=lambda: Trouble(is_killed), data=data)
leaving = Workload(model=lambda: Trouble(leaves), data=data)
greedy = Workload(model=lambda: Trouble(fills_memory), data=data)
parent = Workload(model=lambda: Trouble(family), data=data)
orphaned = Workload(model=lambda: Trouble(kills_its_worker), data=data)
infinite = Workload(model=lambda: Infinite(1, 2), data=data)

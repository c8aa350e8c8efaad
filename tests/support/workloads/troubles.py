"""Workloads that end badly, each in its own way; run by the trial's process only."""

import errno
import os
import signal
import sys
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


def exits():
    sys.exit(3)


def interrupts():
    raise KeyboardInterrupt


def raises_a_surrogate():
    raise ValueError("caf\udce9")


def fills_the_disk():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")


def forks():
    """A child at the first training step, which then goes on like its parent."""
    if torch.is_grad_enabled() and "attempt" in output() and not globals().setdefault("forked", False):
        globals()["forked"] = True
        print(os.fork(), flush=True)


def raises_at_length():
    raise KeyError("x" * 10_000_000 + "\ud800")


def hangs():
    if not torch.is_grad_enabled():  # in training, not where the model is only counted
        return
    print("about to hang", flush=True)
    time.sleep(600)


def dies():
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def is_killed_with_memory():
    path = Path("/dev/shm", f"raybench-test-{os.getpid()}")
    path.write_bytes(bytes(2 << 20))
    print(path, flush=True)
    is_killed()


def patches_json():
    import json

    json.dumps = json.JSONEncoder = lambda *_, **__: "nonsense"


def leaves():
    os._exit(7)


def fills_memory():
    torch.empty(1 << 60)


def family():
    """A forked child in a session of its own that would burn a core for ever."""
    child = os.fork()
    if not child:
        os.setsid()
        while True:
            pass
    print(f"child {child}", flush=True)
    time.sleep(600)


def output():
    """The file that this process writes its output to: in the folder of its attempt."""
    return str(Path("/proc/self/fd/1").readlink())


def leaves_things():
    """A child that would stay, under no session, group or name of its parent's; and temporary files."""
    import subprocess
    import tempfile

    if not torch.is_grad_enabled() or "attempt" not in output() or globals().setdefault("left", False):
        return
    globals()["left"] = True
    child = subprocess.Popen(["sleep", "600"], env={}, start_new_session=True)
    Path(tempfile.mkdtemp(), "x").write_text("left")
    print(child.pid, tempfile.gettempdir(), flush=True)


def nothing():
    pass


def pauses():
    time.sleep(0.05)


class Infinite(torch.nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs) * float("nan")


slow = Workload(model=lambda: Trouble(pauses), data=data)
fine = Workload(model=lambda: Trouble(nothing), data=data)
raising = Workload(model=lambda: Trouble(raises), data=data)
exiting = Workload(model=lambda: Trouble(exits), data=data)
interrupting = Workload(model=lambda: Trouble(interrupts), data=data)
surrogate = Workload(model=lambda: Trouble(raises_a_surrogate), data=data)
disk_full = Workload(model=lambda: Trouble(fills_the_disk), data=data)
forking = Workload(model=lambda: Trouble(forks), data=data)
raising_at_length = Workload(model=lambda: Trouble(raises_at_length), data=data)
hanging = Workload(model=lambda: Trouble(hangs), data=data)
dying = Workload(model=lambda: Trouble(dies), data=data)
killed = Workload(model=lambda: Trouble(is_killed), data=data)
killed_with_memory = Workload(model=lambda: Trouble(is_killed_with_memory), data=data)
patching = Workload(model=lambda: Trouble(patches_json), data=data)
leaving = Workload(model=lambda: Trouble(leaves), data=data)
greedy = Workload(model=lambda: Trouble(fills_memory), data=data)
careless = Workload(model=lambda: Trouble(leaves_things), data=data)
parent = Workload(model=lambda: Trouble(family), data=data)
infinite = Workload(model=lambda: Infinite(1, 2), data=data)

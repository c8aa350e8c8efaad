"""What the tests of the torch_xla engine do in its interpreter, in a process each; plain values in and out."""

import os
import re
import tempfile
from functools import partial
from pathlib import Path

# Programs that are compiled five times as fast and compute the same: read when the first device is asked for.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

import torch
import torch_xla
from support import weights
from support.declared import Training
from support.small_training import MEAN, STD, pictures, torch_network
from torch_xla.debug import metrics

from raybench.datasets.splits import Data
from raybench.devices import Assignment, frameworks, open_device
from raybench.workloads.base import Workload


def train(kind="xla_cpu", seed=3, dropout=0.0, there=None, **changes):
    """Train and evaluate for some epochs; what every epoch came to, the weights, and what XLA counted."""
    (framework,) = [name for name in frameworks(kind) if name.startswith("torch")]
    device = open_device(kind, framework, Assignment([], [], 1, there or changes.get("devices", 1)))
    device.hide_others()
    device.open(changes.get("precision", "fp32"))
    workload = Workload(model=partial(torch_network, dropout), dataset="digits", mean=MEAN, std=STD)
    data = Data(pictures(210, seed=0), pictures(70, seed=1))
    training = Training(framework, workload, data, device, seed, **changes)
    device.synchronize()
    before = metrics.metric_data("CompileTime") or (0, 0)
    epochs = training.epochs()
    count, spent, *_ = metrics.metric_data("CompileTime") or (0, 0)
    sections, wall = training.ledger.close()
    return {
        "epochs": epochs,
        "weights": {name: array.tolist() for name, array in weights.read(training.model).items()},
        "dtypes": sorted({str(parameter.dtype) for parameter in training.model.parameters()}),
        "compiled": [count - before[0], (spent - before[1]) * 1e-9],
        "ledger": sections,
        "wall": wall,
    }


def exchanged(**how):
    """The kinds of collective operations in the program of a step that XLA spreads over devices."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FLAGS"] += f" --xla_dump_to={folder} --xla_dump_hlo_as_text"
        train(epochs=1, devices=8, **how)
        programs = sorted(Path(folder).glob("*after_optimizations.txt"), key=lambda path: path.stat().st_size)
        text = programs[-1].read_text()
    names = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter", "collective-broadcast")
    return [name for name in names if re.search(rf" {name}(-start)?\(", text)]


def described(devices=1, precision="bf16"):
    """What the adapter says of the device, what XLA has, and its program for a product of two matrices."""
    import torch_xla
    from torch_xla import runtime

    device = open_device("xla_cpu", "torch_xla", Assignment([], [], 2, devices))
    device.hide_others()
    device.open(precision)
    hardware = device.describe()
    matrix = torch.ones(4, 4).to("xla")
    return {
        "program": torch_xla._XLAC._get_xla_tensors_hlo([matrix @ matrix]),
        "kind": hardware.kind,
        "model": hardware.model,
        "threads": device.threads(),
        "devices": runtime.global_runtime_device_count(),
        "type": runtime.device_type(),
        "peak": device.peak_memory(),
    }


def elapsed():
    """The nanoseconds of ten multiplications: as they are handed over, and until they are done."""
    device = open_device("xla_cpu", "torch_xla", Assignment([], [], 1))
    device.hide_others()
    device.open("fp32")
    values = torch.rand(1200, 1200).to("xla")

    def measure(wait):
        device.synchronize()
        start = device.mark()
        product = values
        for _ in range(10):
            product = product @ values * 0.001
        torch_xla.sync()
        if wait:
            device.synchronize()
        return device.elapsed(start, device.mark())

    measure(wait=True)
    return measure(wait=False), measure(wait=True)

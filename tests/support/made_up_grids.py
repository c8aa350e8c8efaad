"""Grids whose truth is known: the events of made-up trials, in the forms of the journal."""

import math
import random
from itertools import product

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_results import GridResults
from raybench.core import events
from raybench.core.identity import cell_id, trial_id
from raybench.results.attempt import attempts, latest

SPEED = {"cpu": 4.0, "gpu": 1.0, "tpu": 0.4}
PRICES = {"cpu": 0.10, "gpu": 0.35, "tpu": 4.50}


def cell_of(device="cpu", batch_size=256, weight_decay=5e-4, epochs=4, **further):
    """A cell as the journal has it."""
    return {
        "data": {"name": "cifar10", "digest": "sha256:5d3f0a1c", "examples": {"train": 40000, "val": 10000}},
        "device": {"kind": device, "model": f"a {device}", "count": 1, "replicas": 1, "threads": 2},
        "engine": {"name": "torch", "framework_version": "2.13"},
        "framework": "torch",
        "settings": {
            "batch_size": batch_size,
            "weight_decay": weight_decay,
            "epochs": epochs,
            "decay": "coupled",
            "precision": "fp32",
            "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "nesterov": True},
            **further,
        },
        "warmup_epochs": 1,
        "workload": {"name": "katnoria_cnn", "version": 1},
    }


def told(cell, repeat, seconds, accuracies, status="completed", error=None, profile=None, start=2.0):
    """The events of one trial: seconds and accuracy of each epoch."""
    trial = trial_id(cell_id(cell), repeat)
    label = f"{cell['workload']['name']} {profile or cell['device']['kind']} r{repeat}"
    host = {"name": "node-1", "boot": "b", "pid": 1}
    versions = {"python": "3.11.7", "torch": "2.13.0", "raybench": "0.1.0"}
    who = {"seed": repeat, "label": label, "profile": profile, "grid": "made_up", "host": host, "versions": versions}
    made = [events.trial_started(trial, 1, cell=cell, **who)]
    for number, (second, accuracy) in enumerate(zip(seconds, accuracies, strict=True), 1):
        ledger = {"compile": 0.6 * (number == 1), "train": second, "input_wait": 0.01, "evaluate": second / 10}
        metrics = {"train/loss": 2 - accuracy, "train/accuracy": accuracy, "val/loss": 2.1 - accuracy}
        metrics["val/accuracy"] = accuracy - 0.02
        made.append(
            events.epoch_ended(
                trial, 1, epoch=number, steps=156, examples=39936, ledger=ledger, cpu_s=second, metrics=metrics
            )
        )
    ledger = {"setup": 0.04, "data": start / 2, "build": start / 4, "compile": 0.6, "train": sum(seconds)}
    ledger |= {"input_wait": 0.01 * len(seconds), "evaluate": sum(seconds) / 10, "other": 0.05}
    wall = sum(ledger.values())
    made.append(events.trial_ended(trial, 1, status, ledger=ledger, wall=wall, template_import=2.4, error=error))
    return made


def contract_events():
    """The grid of the contract's verdict: three repeats of a CPU and of another device, steady epochs as told there."""
    steady = {"cpu": (4.0, 4.1, 4.05), "other": (2.0, 2.02, 1.98)}
    accuracy = (0.561, 0.555, 0.565)
    made = []
    for device, times in steady.items():
        for repeat, seconds in enumerate(times):
            cell = cell_of("cpu", 256, 5e-4, 2)
            cell["device"] = {**cell["device"], "model": f"a {device}"}
            train = (seconds - 0.01, seconds - 0.01)
            made += told(cell, repeat, train, (0.5, accuracy[repeat] + 0.02), profile=device)
    return made


def made_up(devices=("cpu", "gpu"), batches=(256,), decays=(5e-4,), repeats=3, seed=0, noise=0.01, epochs=4, ends=None):
    """A grid of made-up trials, as it stands.

    Args:
        ends: from (device, batch, decay, repeat) to a status other than `completed`; "not run" leaves the trial out,
            and "skipped" makes its cell one that cannot run.
    """
    chance = random.Random(seed)
    ends = ends or {}
    cells, made = [], []
    for device, batch, decay in product(devices, batches, decays):
        content = cell_of(device, batch, decay, epochs)
        where = (device, batch, decay)
        skip = "no node has a tpu" if "skipped" in {ends.get((*where, repeat)) for repeat in range(repeats)} else None
        axes = {"device": device, "batch_size": batch, "weight_decay": decay}
        cells.append(PlannedCell(cell_id(content), axes, repeats, skip, PRICES.get(device)))
        for repeat in range(repeats):
            status = ends.get((*where, repeat), "completed")
            if skip or status == "not run":
                continue
            process = SPEED[device] * (256 / batch) ** 0.3 * math.exp(chance.gauss(0, noise))
            lived = epochs if status == "completed" else 1
            top = 0.9 - 0.02 * abs(math.log(batch / 256)) - 0.03 * abs(math.log10(decay / 5e-4) if decay else 1)
            seconds = [process * math.exp(chance.gauss(0, noise / 2)) for _ in range(lived)]
            reached = [top * (1 - 0.6 * math.exp(-n / 1.5)) + chance.gauss(0, 0.004) for n in range(lived)]
            error = None if status == "completed" else {"type": "MemoryError", "message": "out", "phase": "train"}
            made += told(content, repeat, seconds, reached, status, error, device)
    found = latest(attempts(made).values())
    baseline = {"device": devices[0]} if len(devices) > 1 else {}
    return GridResults("made_up", "katnoria_cnn", cells, found, baseline)


ODD_ENDS = {
    ("gpu", 512, 5e-4, 0): "oom",
    ("gpu", 512, 5e-4, 1): "oom",
    ("gpu", 512, 5e-4, 2): "oom",
    ("gpu", 256, 0.0, 0): "diverged",
    ("gpu", 256, 0.0, 1): "diverged",
    ("gpu", 256, 0.0, 2): "diverged",
    ("tpu", 512, 0.0, 0): "skipped",
    ("cpu", 512, 0.0, 2): "not run",
}
"""One cell out of memory, one diverged, one skipped, and one repeat missing."""


def odd():
    """A grid in which those things happened."""
    return made_up(("cpu", "gpu", "tpu"), (256, 512), (0.0, 5e-4), ends=ODD_ENDS)


def small_cell(device, batch=256, **settings):
    """A cell with no more than the verdict reads."""
    return {
        "data": {"name": "cifar10", "examples": {"train": 40000, "val": 10000}},
        "device": {"kind": device, "model": device, "count": 1, "replicas": 1},
        "framework": "torch",
        "settings": {"batch_size": batch, "precision": "fp32", "optimizer": {"name": "sgd"}, **settings},
        "warmup_epochs": 1,
        "workload": {"name": "katnoria_cnn"},
    }


def told_in_three_frameworks(profile=None):
    """The events of one processor in three frameworks.

    Args:
        profile: from a framework to the device's name, as a grid file has one.
    """
    made = []
    for framework, kind, second in (("torch", "cpu", 1.0), ("tensorflow", "cpu", 2.0), ("torch_xla", "xla_cpu", 3.0)):
        for batch in (64, 128):
            cell = {**cell_of(kind, batch), "framework": framework}
            cell["device"] = {**cell["device"], "model": "a processor"}
            for repeat in range(2):
                seconds = [second * 64 / batch + repeat / 100] * 3
                name = profile(framework) if profile else None
                made += told(cell, repeat, seconds, [0.5, 0.6, 0.5 + batch / 1000], profile=name)
    return made

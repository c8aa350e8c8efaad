"""Grids whose truth is known: the events of made-up trials, in the forms of the journal."""

from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.identity import trial_id


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
    trial = trial_id(Cell.from_json(cell).cell_id, repeat)
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

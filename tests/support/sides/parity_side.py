"""Some steps of a workload from given weights and batches, in a process of a framework's own."""

import os
from importlib import import_module
from pathlib import Path

import numpy as np
from support.declared import Training
from support.weights import renamed

from raybench import datasets, workloads
from raybench.core.settings import DEFAULTS, TRAINING, Settings
from raybench.datasets.splits import Data
from raybench.devices import Assignment, open_device
from raybench.engines import FRAMEWORKS
from raybench.engines.images import model_inputs
from raybench.workloads.own_files import import_file

RATE = 0.01
"""Factor on the learning rate.

Training amplifies rounding: at DavidNet's own rate the tenth loss differs by 6 % between two memory layouts of one
framework, at a hundredth of it by 3e-5."""


def train(framework, kind, workload, folder, name, root, steps=10, batch_size=16, **settings):
    """Start from the weights in `start.npz`, or write them; write outputs, losses and updates to `NAME.npz`.

    Dropout is off. Outputs are those of the first batch in evaluation mode, before and after the steps.
    """
    os.environ.pop("XLA_FLAGS", None)  # in a program without optimizations sums are rounded otherwise
    models = FRAMEWORKS[framework].models
    weights = import_module("support.weights" if models == "torch" else "support.keras_weights")
    file, _, attribute = workload.partition(":")
    made = getattr(import_file(Path(file)), attribute) if attribute else workloads.get(workload)
    data = made.prepare_data(made.data(Path(root)) if made.data else datasets.get(made.dataset).load(Path(root)))
    count = min(steps * batch_size, len(data.train))
    data = Data(data.train.first(count), data.val.first(batch_size))
    own = DEFAULTS | {"epochs": steps} | {k: v for k, v in made.defaults.items() if k in TRAINING} | settings
    own |= {"epochs": steps, "steps_per_epoch": 1, "batch_size": batch_size, "precision": "fp32"}
    recipe = Settings.of(own)
    recipe = vars(recipe) | {"learning_rate": RATE * recipe.learning_rate}
    device = open_device(kind, framework, Assignment([], [], 2))
    device.hide_others()
    device.open("fp32")
    training = Training(framework, made, data, device, seed=0, **recipe)
    model = training.model
    weights.without_dropout(model)
    start = Path(folder) / "start.npz"
    if not start.exists():
        np.savez(start, **weights.read(model))
    weights.write(model, dict(np.load(start)))
    first = weights.read(model)
    inputs = model_inputs(np.asarray(data.train.inputs[:batch_size]), made, models)
    before, losses = weights.outputs(model, inputs), training.losses()
    first, last = (renamed(each, dict(np.load(start))) for each in (first, weights.read(model)))
    moved = [(last[key] - first[key]).ravel() for key in first if "running" not in key]
    np.savez(
        Path(folder) / f"{name}.npz",
        outputs=before,
        losses=np.array(losses),
        updates=np.concatenate(moved),
        trained=weights.outputs(model, inputs),
    )

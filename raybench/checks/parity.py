"""Measurement of one framework for the parity check, from given weights and batches.

It runs in its own process, as every trial does, with the engine that trains trials. The first framework of a comparison
reads the data and initializes the weights, and saves both in `start.npz`; the others start from that file. Each writes
its results to `result.npz`, with torch's names and layouts (`raybench.engines.weights`), so that arrays can be compared
without a framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from raybench.core.job import Job, Recipe
from raybench.datasets.splits import Array, Data, Split
from raybench.engines import FRAMEWORKS, open_inspection
from raybench.engines.base import EngineParts
from raybench.engines.images import model_inputs
from raybench.engines.loop_facts import open_loop
from raybench.engines.weights import STATISTICS, Mismatch, Weights, renamed, role, under
from raybench.training.declared import DeclaredTraining
from raybench.trial.opening import open_assigned
from raybench.trial.run import load_data, workload_of

START, RESULT = "start.npz", "result.npz"


def measure(job: Job) -> dict[str, Any]:
    """Compute all compared quantities; save arrays in `result.npz` in the job's folder.

    Every epoch of the job is one step, so that the engine reports the loss of each step. Dropout is off, and the rest
    of training (augmentation, schedule, optimizer, decay) is the workload's own. Outputs are those of the first batch
    in evaluation mode, before and after the steps: running statistics show in the latter.

    Returns:
        `parameters`, the number of trained values; and `mismatch`, the reason why the model cannot load the weights of
        `start.npz`, in which case nothing else was computed.
    """
    framework, folder = job.cell.framework, Path(job.folder)
    recipe = Recipe.from_cell(job.cell)
    device = open_assigned(job)
    workload = workload_of(job)
    start = read_arrays(folder / START) if (folder / START).exists() else {}
    data = _stored(start) if start else load_data(job, workload)
    parts = EngineParts(recipe, workload, device, open_loop(framework, device), job.seed)
    training = DeclaredTraining.alone(framework, parts)
    training.build(lambda: data)
    model, inspection = training.engine.model, open_inspection(framework)
    inspection.without_dropout(model)
    result: dict[str, Any] = {"parameters": inspection.parameter_count(model), "mismatch": None}
    try:
        weights = under("weights", start) or inspection.read_weights(model)
        inspection.write_weights(model, weights)
    except Mismatch as exc:
        return result | {"mismatch": str(exc)}
    if not start:
        np.savez(folder / START, **_prefixed("weights", weights), **_arrays(data))
    inputs = np.asarray(data.train.inputs[: recipe.batch_size])
    inputs = model_inputs(inputs, workload, FRAMEWORKS[framework].models)
    arrays = {"outputs/": inspection.outputs(model, inputs)}
    losses = [training.train_epoch()["loss"] for _ in training.trial.epochs()]
    arrays["losses"] = np.array(losses, np.float64)
    arrays |= _prefixed("updates", _moved(weights, inspection.read_weights(model)))
    arrays["trained/"] = inspection.outputs(model, inputs)
    np.savez(folder / RESULT, **arrays)
    return result


def read_arrays(path: Path) -> dict[str, Array]:
    """Read an `np.savez` file into plain arrays in memory."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _moved(start: Weights, end: Weights) -> dict[str, Array]:
    """The change of each parameter by training."""
    initial = renamed(start, end)
    return {name: array - initial[name] for name, array in end.items() if role(name) not in STATISTICS}


def _prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Any]:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def _arrays(data: Data) -> dict[str, Any]:
    splits = {"train": data.train, "val": data.val}
    return {f"{name}/{part}": getattr(split, part) for name, split in splits.items() for part in ("inputs", "targets")}


def _stored(start: Mapping[str, Array]) -> Data:
    return Data(Split(**under("train", start)), Split(**under("val", start)))

"""What the shipped Keras models are, told from inside a TensorFlow process."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from support import keras_weights
from support.published import MODELS

from raybench import workloads
from raybench.engines.tensorflow import flops


def build(name: str) -> Any:
    keras.utils.set_random_seed(0)
    return workloads.get(name).build_model("tensorflow")


def about(name: str, weights: str) -> dict[str, Any]:
    """What is known of a published model, of ours; every weight at the start goes to a file, in torch's layouts."""
    model = build(name)
    np.savez(weights, **keras_weights.read(model))
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    return {
        "counts": counts(model),
        "forward_flops": flops.count(model, MODELS[name].inputs(1))["flops"],
        "norms": [[layer.epsilon, layer.momentum] for layer in norms],
        "is_fresh": differs(model, workloads.get(name).build_model("tensorflow")),
        "outputs": outputs_of(model, name),
    }


def counts(model: Any) -> dict[str, int]:
    values = {"trained": model.trainable_variables, "statistics": model.non_trainable_variables}
    return {
        what: sum(math.prod(v.shape) for v in variables if v.dtype == "float32") for what, variables in values.items()
    }


def differs(first: Any, second: Any) -> bool:
    pairs = zip(first.trainable_variables, second.trainable_variables, strict=True)
    return any(not np.array_equal(np.asarray(one), np.asarray(other)) for one, other in pairs)


def outputs(name: str, policy: str) -> dict[str, Any]:
    """What comes out for three examples, and in which types the layers compute."""
    keras.config.set_dtype_policy(policy)
    return outputs_of(build(name), name)


def outputs_of(model: Any, name: str) -> dict[str, Any]:
    out = model(MODELS[name].inputs(3))
    computed = {layer.compute_dtype for layer in model.layers if layer.trainable_weights}
    return {
        "shape": list(out.shape),
        "dtype": out.dtype.name,
        "finite": bool(np.isfinite(np.asarray(out)).all()),
        "computed": sorted(computed),
        "least": float(np.asarray(out).min()),
    }

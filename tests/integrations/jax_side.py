"""A loop in plain JAX, in a process that has it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from support.recorded_trial import make_trial


@partial(jax.jit, donate_argnums=0)
def _update(weights, inputs):
    for _ in range(4):
        weights = jnp.tanh(weights @ weights)
    return weights, (weights.sum() + inputs.sum()).astype(jnp.float32)


def train(epochs=2, options=None):
    """Train; return what the trial reported."""
    trial, kept, ledger = make_trial(epochs, "jax", **(options or {}))
    batches = [(np.ones((8, 3), np.float32), np.ones(8))] * 5
    weights = jax.random.normal(jax.random.key(trial.seed), (800, 800)) / 100
    for _ in trial.epochs():
        for inputs, _ in trial.steps(batches):
            weights, loss = _update(weights, inputs)
        trial.log({"train/loss": loss})
        with trial.evaluation():
            accuracy = jnp.float32(0.5)
        trial.log({"val/accuracy": accuracy})
        del loss, accuracy
    return {"device": trial.device, "epochs": kept.epochs, "warnings": kept.warnings, "ledger": ledger.close()[0]}

"""`model.fit` of Keras, in a process that has TensorFlow."""

import time
from pathlib import Path

import keras
import numpy as np
from support.recorded_trial import make_trial

from raybench.core.job import Target
from raybench.integrations.keras import TrialCallback
from raybench.training.epoch_record import Diverged


class _SlowTest(keras.callbacks.Callback):
    def on_test_batch_end(self, batch, logs=None):
        time.sleep(0.01)


def train(folder, epochs=2, fit_epochs=None, options=None, target=None, steps=None, nan=False, test=False):
    """Train a small model; return what its trial reported."""
    options = {**(options or {}), **({"target": Target(*target), "stop_at_target": True} if target else {})}
    trial, kept, ledger = make_trial(epochs, "tensorflow", output_dir=Path(folder) / "output", seed=3, **options)
    keras.utils.set_random_seed(trial.seed)
    inputs = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
    targets = inputs.sum(1, keepdims=True) * (float("nan") if nan else 1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
    callback = TrialCallback(trial, examples_per_epoch=40)
    callbacks = [callback, _SlowTest()]
    problem = None
    try:
        model.fit(
            inputs, targets, batch_size=8, epochs=fit_epochs or epochs, steps_per_epoch=steps, shuffle=False,
            validation_data=(inputs, targets), verbose=0, callbacks=callbacks,
        )  # fmt: skip
    except (Diverged, ValueError) as error:
        problem = str(error)
    if test:
        model.evaluate(inputs, targets, verbose=0, callbacks=callbacks)
    return {**kept.told(), "problem": problem, "ledger": ledger.close()[0]}


def hooks():
    """The callbacks that Keras calls."""
    base = keras.callbacks.Callback
    return [
        name for name in vars(base) if name.startswith("on_") and getattr(TrialCallback, name) != getattr(base, name)
    ]

"""`fit` of Keras: `model.fit(…, callbacks=[TrialCallback(trial, examples_per_epoch=n)])`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from raybench.training import Trial
from raybench.training.library_loop import LibraryLoop


class TrialCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports the epochs, evaluations and metrics of `model.fit`.

    Steps are not timed one by one, and `input_wait` is not measured: with a callback for each step, Keras would fetch
    the metrics from the device after each. `loss` becomes `train/loss` and `val_loss` becomes `val/loss`; an
    `evaluate` after training with this callback logs `test/loss`.

    Args:
        trial: the trial; call `keras.utils.set_random_seed(trial.seed)` before.
        examples_per_epoch: how many examples an epoch trains on.
    """

    def __init__(self, trial: Trial, examples_per_epoch: int) -> None:
        super().__init__()
        self._loop = LibraryLoop(trial)
        self._examples = examples_per_epoch

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        loop, epochs, steps = self._loop, self.params["epochs"], self.params["steps"]
        if loop.epochs is None or epochs < loop.epochs:  # of more, training ends after the grid's
            _check("epochs", epochs, loop.epochs)
        _check("steps_per_epoch", steps, loop.steps_per_epoch)
        loop.begin(epochs)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Begin an epoch; the one before ends here, after the work of other callbacks."""
        self._loop.end_epoch()
        self._loop.begin_epoch()

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._evaluated = "val" if self._loop.in_epoch else "test"
        self._loop.begin_evaluation(self._evaluated)

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._loop.end_evaluation({f"{self._evaluated}/{name}": value for name, value in (logs or {}).items()})

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Log the metrics of training, and stop at the target."""
        values = {name: value for name, value in (logs or {}).items() if not name.startswith("val_")}
        values.pop("learning_rate", None)
        self._loop.log({f"train/{name}": value for name, value in values.items()})
        steps = self.params["steps"]
        self._loop.trial.count(examples=self._examples, **({"steps": steps} if steps else {}))
        if self._loop.is_last:
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        self._loop.end_epoch(more=False)


def _check(name: str, used: Any, wanted: float | None) -> None:
    """Check that `fit` has the grid's number.

    Raises:
        ValueError: it has a different one.
    """
    if wanted is not None and used != wanted:
        raise ValueError(
            f"model.fit has {name}={used}, and the grid {name}={wanted:g}: give the function a parameter `{name}`, "
            f"and write model.fit(…, {name}={name})"
        )

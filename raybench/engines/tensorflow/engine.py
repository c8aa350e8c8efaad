"""The TensorFlow engine: compiled steps of a Keras 3 model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from raybench.core.text import join_words
from raybench.datasets.splits import Array, Split
from raybench.devices.tensorflow import TensorFlowDevice
from raybench.engines.base import Engine, EngineParts, check_per_example
from raybench.engines.batch_order import Augmentation
from raybench.engines.images import plain
from raybench.engines.tensorflow.images import ImageAugmenter
from raybench.engines.tensorflow.inputs import DeviceInput, Fed, HostInput, Input
from raybench.engines.tensorflow.optimizers import build_optimizer

POLICIES = {"fp32": "float32", "tf32": "float32", "bf16": "mixed_bfloat16"}
"""Keras's name of each precision; the device decides if float32 uses TF32."""

Rows = Mapping[str, tf.Tensor]  # draws and optimizer scalars of an epoch, each [steps, …], or of one step


def cross_entropy(outputs: tf.Tensor, targets: tf.Tensor, smoothing: float = 0.0) -> tf.Tensor:
    """Loss of each example [batch] from logits [batch, …, classes] and classes [batch, …]; a mean if it has several.

    The target of a class is 1 - smoothing at it, plus smoothing ÷ classes at every class.
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, outputs)
    if smoothing:
        losses = (1.0 - smoothing) * losses - smoothing * tf.reduce_mean(tf.nn.log_softmax(outputs), axis=-1)
    return tf.reduce_mean(losses, axis=range(1, losses.shape.rank))


def accuracy(outputs: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
    """1 for each example whose largest logit is its class, else 0; shape [batch]."""
    return {"accuracy": tf.cast(tf.argmax(outputs, axis=-1) == targets, tf.float32)}


def check_compiles(model: Any) -> None:
    """Check that XLA can compile every layer, by Keras's declaration.

    Raises:
        ValueError: it cannot compile some of them, such as an LSTM that cuDNN computes.
    """
    names = [f"{layer.name} ({type(layer).__name__})" for layer in model._flatten_layers() if not layer.supports_jit]
    if names:
        raise ValueError(f"Keras cannot compile {join_words(names)} on this device; set compile: false")


class TensorFlowEngine(Engine):
    """The `tensorflow` engine, for any device kind that TensorFlow supports."""

    def __init__(self, parts: EngineParts) -> None:
        super().__init__(parts, cross_entropy, accuracy, "tensorflow")
        self._device = cast(TensorFlowDevice, parts.device)
        self._traces = 0
        parts.loop.graphs, parts.loop.settling = lambda: self._traces, 0

    def _open_input(self, train: Split, val: Split, size: tuple[int, int], augmentation: Augmentation) -> None:
        recipe, workload = self._recipe, self._workload
        self._augmenter = ImageAugmenter(workload.mean, workload.std, size, augmentation) if any(size) else None
        self.evaluation_batch = min(recipe.evaluation_batch, len(val))
        if recipe.input == "device":
            self._input: Input = DeviceInput(train, val, self._augmenter)
        else:
            self._input = HostInput(train, val, self._augmenter, self._device.copy_to)
        self._sample = self._first_of(val, 2)

    def build(self) -> None:
        """Build the model from its seed and its optimizer, and check loss and metrics.

        Raises:
            TypeError: the workload's function returns no model.
            ValueError: loss or metrics do not return one number per example, or the model cannot be compiled.
        """
        recipe = self._recipe
        keras.config.set_dtype_policy(POLICIES[recipe.precision])
        keras.utils.set_random_seed(self._seed)
        self.model = self._workload.build_model("tensorflow")
        if not isinstance(self.model, keras.layers.Layer):
            kind = type(self.model).__name__
            raise TypeError(f"the workload's model function returns a {kind}, not a keras.Model")
        self._names = list(self._forward(*self._sample, training=False)[1])
        self._variables = [variable.value for variable in self.model.trainable_variables]
        self._smallest = min(self._variables, key=lambda variable: int(np.prod(variable.shape)))
        self._optimizer = build_optimizer(self._variables, recipe.optimizer_settings, recipe.acting_decay, recipe.decay)
        if recipe.compile:
            check_compiles(self.model)
        self._train = tf.function(self._train_call, jit_compile=bool(recipe.compile), autograph=False)
        self._evaluate = tf.function(self._evaluate_call, jit_compile=bool(recipe.compile), autograph=False)

    def weights(self) -> list[Array]:
        return [variable.numpy() for variable in self._variables]

    def set_weights(self, weights: Sequence[Array]) -> None:
        for variable, array in zip(self._variables, weights, strict=True):
            variable.assign(array)

    def save(self, path: Path) -> None:
        """Save all variables of the model, with those of its random generators, and of the optimizer."""
        arrays = {name: part.numpy() for name, part in self._parts().items()}
        with path.open("wb") as file:
            np.savez(file, epochs=np.array(self._epochs), **arrays)

    def restore(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as file:
            state = {name: file[name] for name in file.files}
        epochs, parts = int(state.pop("epochs")), self._parts()
        if {name: tuple(part.shape) for name, part in parts.items()} != {name: state[name].shape for name in state}:
            raise ValueError("it belongs to a model or an optimizer of a different shape")
        for name, part in parts.items():
            part.assign(state[name].view(part.dtype.as_numpy_dtype))
        self._go_on_after(epochs)

    def _parts(self) -> dict[str, tf.Variable]:
        sections = {"model": [variable.value for variable in self.model.variables], "optimizer": self._optimizer.state}
        return {f"{name}/{index}": part for name, parts in sections.items() for index, part in enumerate(parts)}

    def _first_of(self, split: Split, count: int) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, targets = (tf.constant(plain(values[:count])) for values in (split.inputs, split.targets))
        return self._augmenter.finish(inputs) if self._augmenter else inputs, targets

    def _forward(self, inputs: Any, targets: Any, training: bool) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        outputs = self.model(inputs, training=training)
        outputs = tf.cast(outputs, tf.float32) if isinstance(outputs, tf.Tensor) else outputs
        losses = (self._trained_loss if training else self._loss)(outputs, targets)
        values = {"loss": losses, **self._metrics(outputs, targets)}
        check_per_example(values, targets.shape[0])
        return losses, values

    def _sums(self, values: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return tf.stack([tf.reduce_sum(tf.cast(values[name], tf.float32)) for name in self._names])

    def _train_step(self, draws: Rows, fed: Fed) -> tf.Tensor:
        """One step; returns the sums, [metrics]."""
        count = self._recipe.gradient_accumulation
        total, gradients = tf.zeros([len(self._names)]), list[tf.Tensor | None]()
        for inputs, targets in zip(*(tf.split(values, count) for values in self._input.train(fed, draws)), strict=True):
            earlier_gradients = [gradient for gradient in gradients if gradient is not None]
            with tf.control_dependencies(earlier_gradients), tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(self._variables)
                losses, values = self._forward(inputs, targets, training=True)
                loss = tf.add_n([tf.reduce_mean(losses), *self.model.losses]) / count
            # An embedding's gradients are sparse rows, and several may belong to the same row.
            new = [None if g is None else tf.convert_to_tensor(g) for g in tape.gradient(loss, self._variables)]
            gradients = [b if a is None else a + b for a, b in zip(gradients, new, strict=True)] if gradients else new
            total += self._sums(values)
        if (clipping := self._recipe.gradient_clipping) is not None:  # by torch's formula
            gradients, _ = tf.clip_by_global_norm(gradients, clipping, tf.linalg.global_norm(gradients) + 1e-6)
        self._optimizer.apply(gradients, draws["scalars"])
        return total

    def _train_call(self, rows: Rows, fed: Fed, step: tf.Tensor) -> tf.Tensor:
        """The compiled function: the sums, [metrics], of a step of the epoch.

        Draws are gathered, because XLA would take the index in `values[step]` as a constant and compile for each.
        """
        self._traces += 1  # Python runs this line only in a trace, once per shape
        return self._train_step({name: tf.gather(values, step) for name, values in rows.items()}, fed)

    def _evaluate_call(self, fed: Fed, counts: tf.Tensor) -> tf.Tensor:
        """The compiled function: sums over the unpadded examples of one batch."""
        self._traces += 1
        inputs, targets = self._input.evaluation_examples(fed)
        _, values = self._forward(inputs, targets, training=False)
        real = tf.range(self.evaluation_batch) < counts
        return self._sums({name: tf.where(real, tf.cast(value, tf.float32), 0.0) for name, value in values.items()})

    def begin_epoch(self) -> Iterator[tuple[int, Fed]]:
        """Draw the next epoch; its batches are the numbers of steps, with their fed values.

        The draws and the optimizer's scalars are copied to the device at once, so that no step waits for a copy.
        """
        self._drawn, self._first_step = self._order.epoch(), self._step
        order = self._drawn.filled(self._order.steps)  # a shorter epoch would be a new shape, and traced again
        steps = range(self._step, self._step + len(order.index))
        scalars = self._optimizer.scalars([self._rate(step) for step in steps], self._step)
        rows = self._input.rows(order) | {"scalars": scalars.astype(np.float32)}
        self._rows = {name: tf.constant(values) for name, values in rows.items()}
        self._total = tf.zeros([len(self._names)])
        return zip(range(len(self._drawn.index)), self._input.batches(order), strict=False)

    def train_step(self, batch: tuple[int, Fed]) -> None:
        number, fed = batch
        self._total += self._train(self._rows, fed, tf.constant(number))
        self._step += 1

    def train_means(self) -> dict[str, float]:
        return self._means(self._trained_examples)

    def settle(self) -> None:
        self._smallest.numpy()

    def _means(self, examples: int) -> dict[str, float]:
        values = self._total.numpy().tolist()  # the only copy to the host
        return {name: value / examples for name, value in zip(self._names, values, strict=True)}

    def validation(self) -> Iterator[tuple[Fed, int]]:
        self._total = tf.zeros([len(self._names)])
        return self._input.validation(self.evaluation_batch)

    def evaluation_step(self, batch: tuple[Fed, int]) -> None:
        fed, counts = batch
        self._total += self._evaluate(fed, tf.constant(counts))

    def evaluation_means(self) -> dict[str, float]:
        return self._means(self._examples)

"""What the tests of the TensorFlow engine do in a TensorFlow process; plain values in and out."""

import os
import time

import keras
import numpy as np
import tensorflow as tf
from support.declared import Training
from support.declared import part as metrics_of
from support.sides.keras_workloads import network as digits_network
from support.small_training import MEAN, STD, pictures

from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment, open_device
from raybench.devices.host import usable_cores
from raybench.engines.batch_order import Augmentation, BatchSampler, EpochPlan
from raybench.engines.images import reflect
from raybench.engines.tensorflow.engine import cross_entropy
from raybench.engines.tensorflow.images import ImageAugmenter, draws_of
from raybench.engines.tensorflow.inputs import HostInput
from raybench.engines.tensorflow.optimizers import build_optimizer
from raybench.workloads.base import Workload

layers = keras.layers
SEED = 3


def network():
    norm = layers.BatchNormalization(momentum=0.9)
    inner = keras.Sequential([keras.Input((8, 8, 8)), norm, layers.ReLU()])  # a model inside the model
    return keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Conv2D(8, 3, padding="same"), inner, layers.Flatten(), layers.Dense(2)]
    )


def flat(width, classes=2):
    return lambda: keras.Sequential([keras.Input((width,)), layers.Dense(classes)])


MODELS = {
    "network": network,
    "digits": digits_network,
    "flat": flat(4),
    "one": flat(4, 1),
}
DATA = {"pictures": lambda: Data(pictures(), pictures(70, seed=1))}


def make_training(model="network", data=None, loss=None, metrics=None, mean=MEAN, std=STD, **settings):
    settings |= {"augmentation": tuple(settings.get("augmentation", ()))}
    device = open_device("cpu", "tensorflow", Assignment([], [], 2))
    device.hide_others()
    device.open(settings.get("precision", "fp32"))
    build = MODELS[model] if isinstance(model, str) else model
    how = {"loss": loss, "metrics": metrics}
    workload = Workload({"tensorflow": build}, "digits", mean=mean, std=std, name="test", **how)
    return Training("tensorflow", workload, data or DATA["pictures"](), device, SEED, **settings)


def refused_compilation():
    """The message about a layer inside a model inside the model, of which Keras says that it cannot be compiled."""

    def model():
        built = network()
        inner = keras.Sequential([keras.Input((2,)), layers.Dense(2, name="slow")])
        inner.layers[0].supports_jit = False
        return keras.Sequential([built, inner])

    make_training(model)
    try:
        make_training(model, compile="default")
    except ValueError as error:
        return str(error)
    return None


def weights(model):
    return {variable.path.split("/", 1)[-1]: variable.numpy().tolist() for variable in model.weights}


def trained(**how):
    """The epochs of a training, and its weights."""
    training = make_training(**how)
    return {"epochs": training.epochs(), "weights": weights(training.model)}


def trained_from_a_slow_loader(seconds):
    """One epoch whose every batch comes so much later: its account, and the wall time."""
    opened = HostInput._open

    def open_slowly(self, *how):
        index, batches = opened(self, *how)

        def wait(*fed):
            told = tf.py_function(lambda *values: (time.sleep(seconds), values)[1], fed, [value.dtype for value in fed])
            return tuple(tf.ensure_shape(value, like.shape) for value, like in zip(told, fed, strict=True))

        return index, batches.map(wait)

    HostInput._open = open_slowly
    training = make_training(input="host", epochs=1)
    begun = time.perf_counter()
    (epoch,) = training.epochs(evaluates=False)
    return {"wall": time.perf_counter() - begun, "ledger": epoch["ledger"]}


def plain_loop():
    """Two epochs as anyone would write them, with Keras's own optimizer, which is the same where the rate is still."""
    train, val = pictures(), pictures(70, seed=1)
    keras.utils.set_random_seed(SEED)
    model = network()
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True)
    order = BatchSampler(len(train), 32, None, (8, 8), Augmentation(), SEED)

    def normalized(inputs):
        return ((inputs - np.array(MEAN)) / np.array(STD)).astype(np.float32)

    losses = []
    for _ in range(2):
        for index in order.epoch().index:
            with tf.GradientTape() as tape:
                loss = cross_entropy(train.targets[index], model(normalized(train.inputs[index]), training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            pairs = zip(gradients, model.trainable_variables, strict=True)
            optimizer.apply_gradients([(g + 1e-3 * w, w) for g, w in pairs])
            losses.append(float(loss))
    outputs = model(normalized(val.inputs), training=False)
    right = float(np.mean(np.argmax(outputs, 1) == val.targets))
    return {"losses": losses, "val": [float(cross_entropy(val.targets, outputs)), right], "weights": weights(model)}


def _moved(model, data, loss, **changes):
    """How far ten steps move the weights of a model."""
    how = {"epochs": 1, "weight_decay": 0.0, "momentum": 0.0, "nesterov": False, "learning_rate": 1.0}
    training = make_training(model, data, loss=loss, metrics=lambda outputs, targets: {}, **how, **changes)
    begun = [variable.numpy() for variable in training.model.trainable_variables]
    training.losses()
    ended = [variable.numpy() for variable in training.model.trainable_variables]
    return np.concatenate([(one - other).ravel() for one, other in zip(begun, ended, strict=True)])


def three_and_four(clipping, small):
    """The same of a model whose gradient is always (3, 4) * small."""
    split = Split(np.tile(np.array([3.0, 4.0], np.float32), (320, 1)), np.zeros(320, int))
    build = lambda: keras.Sequential([keras.Input((2,)), layers.Dense(1, use_bias=False)])  # noqa: E731
    loss = lambda outputs, targets: outputs[:, 0] * small  # noqa: E731
    return (_moved(build, Data(split, split), loss, gradient_clipping=clipping) / (10 * small)).tolist()


def looked_up(clipping):
    """The same of an embedding of two words, of which every example has the first, with a gradient of 5."""
    split = Split(np.zeros((320, 1), np.int64), np.zeros(320, int))
    build = lambda: keras.Sequential([keras.Input((1,)), layers.Embedding(2, 1), layers.Flatten()])  # noqa: E731
    loss = lambda outputs, targets: outputs[:, 0] * 5.0  # noqa: E731
    return _moved(build, Data(split, split), loss, gradient_clipping=clipping).tolist()


def moving_steps(settings, weight_decay, decay, start, gradients, rates):
    """Weights after each step, in float32, in a compiled function; the rates come in two parts."""
    variables = [tf.Variable(tf.constant(value, tf.float32)) for value in start]
    optimizer = build_optimizer(variables, settings, weight_decay, decay)
    apply = tf.function(optimizer.apply)
    scalars = np.concatenate([optimizer.scalars(rates[:4], 0), optimizer.scalars(rates[4:], 4)]).astype(np.float32)
    found = []
    for row, given in zip(scalars, gradients, strict=True):
        apply([tf.constant(gradient, tf.float32) for gradient in given], tf.constant(row))
        found.append([variable.numpy().tolist() for variable in variables])
    return found


def left_alone():
    still, moving = tf.Variable(tf.ones(2)), tf.Variable(tf.ones(2))
    settings = {"name": "sgd", "learning_rate": 0.1, "momentum": 0.0, "nesterov": False}
    optimizer = build_optimizer([still, moving], settings, 0.5, "coupled")
    optimizer.apply([None, tf.constant([0.0, 1.0])], tf.constant([0.1]))
    return [still.numpy().tolist(), moving.numpy().tolist()]


def augmented(inputs, augmentation, order, mean, std):
    """One drawn step of pictures, as a list, from a compiled function."""
    inputs = np.array(inputs, np.uint8)
    what = Augmentation(**augmentation)
    drawn = EpochPlan(**{name: np.array(value) if isinstance(value, list) else value for name, value in order.items()})
    made = ImageAugmenter(tuple(mean), tuple(std), inputs.shape[1:3], what)
    row = {name: tf.constant(values[0]) for name, values in draws_of(drawn).items()}
    source = tf.constant(reflect(inputs, what.crop)[drawn.index[0]])
    batch = tf.function(lambda: made.augment(source, row))()
    return batch.numpy().tolist()


def classified(kind, epochs=20):
    """Validation accuracy on what is no picture: floats for a dense layer, or words for an embedding."""
    random = np.random.default_rng(0)
    if kind == "floats":
        inputs, model = random.normal(size=(128, 4)), flat(4)
        split = Split(inputs, (inputs[:, 0] > 0).astype(int))
    else:
        inputs = random.integers(0, 30, (128, 6)).astype(np.int32)
        split = Split(inputs, (inputs[:, 0] > 14).astype(int))

        def model():
            return keras.Sequential(
                [keras.Input((6,), dtype="int64"), layers.Embedding(30, 4), layers.Flatten(), layers.Dense(2)]
            )

    found = trained(epochs=epochs, model=model, data=Data(split, split))
    return found["epochs"][-1]["metrics"]["val/accuracy"]


def refused(model="network", **how):
    """What is raised while an engine is made or trains an epoch."""
    try:
        if how.pop("floats", False):
            split = Split(np.zeros((64, 4)), np.zeros(64, int))
            how["data"], model = Data(split, split), "flat"
        make_training(model=model, **how).losses()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def own_loss(shape):
    """Loss and metrics of a person's own, of the right shape or a mean over the batch."""

    def loss(outputs, targets):
        values = (outputs[:, 0] - tf.cast(targets, tf.float32)) ** 2
        return values if shape == "examples" else tf.reduce_mean(values)

    def metrics(outputs, targets):
        return {"distance": tf.abs(outputs[:, 0] - tf.cast(targets, tf.float32))}

    random = np.random.default_rng(0)
    inputs = random.normal(size=(128, 4))
    split = Split(inputs, (inputs[:, 0] > 0).astype(int))
    how = {"model": "one", "data": Data(split, split), "loss": {"tensorflow": loss}, "metrics": {"tensorflow": metrics}}
    try:
        return metrics_of(trained(**how)["epochs"][-1]["metrics"], "val")
    except ValueError as error:
        return str(error)


def cross_entropy_of(outputs, targets, smoothing):
    """The loss of each example."""
    return cross_entropy(tf.constant(outputs, tf.float32), tf.constant(targets), smoothing).numpy().tolist()


def a_fraction(**how):
    """Steps and examples of each epoch of a run."""
    return [[epoch["steps"], epoch["examples"]] for epoch in make_training(**how).epochs()]


def opened(threads=1):
    """What a trial on the CPU sees, and how many threads really compute."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        os.environ[name] = "7"
    device = open_device("cpu", "tensorflow", Assignment([usable_cores()[0]], [], threads))
    device.hide_others()
    device.open("fp32")
    tf.linalg.matmul(tf.ones([500, 500]), tf.ones([500, 500]))
    return {
        "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "threads": device.threads(),
        "own_cores": usable_cores(),
        "cores": device.describe().count,
        "kind": device.describe().kind,
        "devices": len(tf.config.list_logical_devices("CPU")),
    }

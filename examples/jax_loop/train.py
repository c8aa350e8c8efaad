"""A network of two layers on MNIST: a loop in plain JAX, with momentum and weight decay.

`python train.py` runs it by itself, `raybench grid grid.yaml` compares devices and settings. The lines that raybench
needed are marked with `# raybench`.
"""

import gzip
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import raybench  # raybench


def read_mnist(folder: Path, part: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first images of MNIST as numbers from 0 to 1, of shape [N, 28, 28], and their labels."""
    if not (folder / f"{part}-images-idx3-ubyte.gz").exists():
        print(f"no MNIST in {folder}: random images instead")
        random = np.random.default_rng(0)
        return random.random((count, 28, 28), np.float32), random.integers(0, 10, count)
    images = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
    pixels = np.frombuffer(images, np.uint8).reshape(-1, 28, 28)[:count]
    return pixels.astype(np.float32) / 255, np.frombuffer(labels, np.uint8)[:count].astype(np.int64)


def build_model(seed: int, hidden: int) -> dict[str, jax.Array]:
    first, second = jax.random.split(jax.random.key(seed))
    return {
        "w1": jax.random.normal(first, (784, hidden)) * (2 / 784) ** 0.5,
        "b1": jnp.zeros(hidden),
        "w2": jax.random.normal(second, (hidden, 10)) * (1 / hidden) ** 0.5,
        "b2": jnp.zeros(10),
    }


def predict(model, images):
    return jax.nn.relu(images @ model["w1"] + model["b1"]) @ model["w2"] + model["b2"]


def loss_function(model, images, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(predict(model, images)), labels[:, None], axis=1).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def update(model, velocity, images, labels, learning_rate, weight_decay):
    loss, gradient = jax.value_and_grad(loss_function)(model, images, labels)
    gradient = jax.tree.map(lambda g, w: g + weight_decay * w, gradient, model)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, gradient)
    return jax.tree.map(lambda w, v: w - learning_rate * v, model, velocity), velocity, loss


@jax.jit
def count_right(model, images, labels):
    return (predict(model, images).argmax(1) == labels).sum()


def shuffled(random: np.random.Generator, images: np.ndarray, labels: np.ndarray, batch_size: int):
    order = random.permutation(len(images))
    for start in range(0, len(images) - batch_size + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield images[chosen], labels[chosen]


def train(
    trial,  # raybench
    *,
    batch_size: int,
    learning_rate: float = 0.05,
    weight_decay: float = 5e-4,
    hidden: int = 256,
    train_examples: int = 60_000,
    val_examples: int = 10_000,
):
    with trial.section("data"):  # raybench
        folder = trial.data_dir / "mnist"  # raybench
        images, labels = read_mnist(folder, "train", train_examples)
        val_images, val_labels = read_mnist(folder, "t10k", val_examples)
        images, val_images = images.reshape(-1, 784), val_images.reshape(-1, 784)
    random = np.random.default_rng(trial.seed)  # raybench
    model = build_model(trial.seed, hidden)  # raybench
    velocity = jax.tree.map(jnp.zeros_like, model)

    for _ in trial.epochs():  # raybench: was range(epochs)
        batches = shuffled(random, images, labels, batch_size)
        for x, y in trial.steps(batches):  # raybench: was batches
            model, velocity, loss = update(model, velocity, x, y, learning_rate, weight_decay)
        with trial.evaluation():  # raybench
            accuracy = count_right(model, val_images, val_labels) / len(val_images)
        trial.log({"train/loss": loss, "val/accuracy": accuracy})  # raybench: was print


if __name__ == "__main__":
    train(raybench.current_trial(epochs=1), batch_size=64, train_examples=6400)  # raybench

"""A small convolutional network on MNIST with `fit` of Keras.

`python train.py` runs it by itself, `raybench grid grid.yaml` compares devices and settings. The lines that raybench
needed are marked with `# raybench`.
"""

import gzip
from pathlib import Path

import keras
import numpy as np

import raybench  # raybench
from raybench.integrations.keras import TrialCallback  # raybench


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


def build_model(width: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Input((28, 28, 1)),
            keras.layers.Conv2D(width, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(2 * width, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )


def train(
    trial,  # raybench
    *,
    batch_size: int,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    epochs: int = 3,
    steps_per_epoch: int | None = None,
    width: int = 16,
    train_examples: int = 60_000,
    val_examples: int = 10_000,
):
    keras.utils.set_random_seed(trial.seed)  # raybench
    with trial.section("data"):  # raybench
        folder = trial.data_dir / "mnist"  # raybench
        images, labels = read_mnist(folder, "train", train_examples)
        validation = read_mnist(folder, "t10k", val_examples)
    count = (steps_per_epoch or len(images) // batch_size) * batch_size
    model = build_model(width)
    model.compile(
        keras.optimizers.AdamW(learning_rate, weight_decay),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        images[:count, ..., None],
        labels[:count],
        batch_size=batch_size,
        epochs=epochs,
        validation_data=(validation[0][..., None], validation[1]),
        validation_batch_size=500,
        verbose=0,
        callbacks=[TrialCallback(trial, examples_per_epoch=count)],  # raybench
    )


if __name__ == "__main__":
    train(raybench.current_trial(epochs=1), batch_size=64, train_examples=6400)  # raybench

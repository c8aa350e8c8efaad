"""A linear classifier of scikit-learn on MNIST that learns chunk by chunk with `partial_fit`.

`python train.py` runs it by itself, `raybench grid grid.yaml` compares devices and settings. The lines that raybench
needed are marked with `# raybench`.
"""

import gzip
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss

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


def train(
    trial,  # raybench
    *,
    batch_size: int,
    weight_decay: float = 1e-4,
    average: bool = False,
    train_examples: int = 60_000,
    val_examples: int = 10_000,
):
    with trial.section("data"):  # raybench
        folder = trial.data_dir / "mnist"  # raybench
        images, labels = read_mnist(folder, "train", train_examples)
        val_images, val_labels = read_mnist(folder, "t10k", val_examples)
        images, val_images = images.reshape(-1, 784), val_images.reshape(-1, 784)
    random = np.random.default_rng(trial.seed)  # raybench
    classifier = SGDClassifier("log_loss", alpha=weight_decay, average=average, random_state=trial.seed)  # raybench
    classes = np.arange(10)

    for _ in trial.epochs():  # raybench: was range(epochs)
        order = random.permutation(len(images) // batch_size * batch_size)
        chunks = ((images[chosen], labels[chosen]) for chosen in order.reshape(-1, batch_size))
        for x, y in trial.steps(chunks):  # raybench: was chunks
            classifier.partial_fit(x, y, classes)
        with trial.evaluation():  # raybench
            probabilities = classifier.predict_proba(val_images)
            accuracy = np.mean(probabilities.argmax(1) == val_labels)
            loss = log_loss(val_labels, probabilities, labels=classes)
        trial.log({"val/loss": loss, "val/accuracy": accuracy})  # raybench: was print


if __name__ == "__main__":
    train(raybench.current_trial(epochs=2), batch_size=500, train_examples=5000)  # raybench

"""A small convolutional network on MNIST, as a LightningModule.

`python train.py` runs it by itself, `raybench grid grid.yaml` compares devices and settings. The lines that raybench
needed are marked with `# raybench`.
"""

import gzip
from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import raybench  # raybench
from raybench.integrations.lightning import TrialCallback  # raybench


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


def data_set(folder: Path, part: str, count: int) -> TensorDataset:
    images, labels = read_mnist(folder, part, count)
    return TensorDataset(torch.from_numpy(images)[:, None], torch.from_numpy(labels))


class Digits(L.LightningModule):
    """Two convolutions and a linear layer."""

    def __init__(self, width: int, learning_rate: float, weight_decay: float):
        super().__init__()
        self.save_hyperparameters()
        self.model = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * 36, 10),
        )

    def training_step(self, batch, number):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, number):
        images, labels = batch
        self.log("val_accuracy", (self.model(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        settings = self.hparams
        return torch.optim.AdamW(self.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)


def train(
    trial,  # raybench
    *,
    batch_size: int,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    epochs: int = 3,
    width: int = 16,
    train_examples: int = 60_000,
    val_examples: int = 10_000,
):
    L.seed_everything(trial.seed)  # raybench
    with trial.section("data"):  # raybench
        folder = trial.data_dir / "mnist"  # raybench
        train_set, val_set = data_set(folder, "train", train_examples), data_set(folder, "t10k", val_examples)
    trainer = L.Trainer(
        max_epochs=epochs,
        devices=1,
        callbacks=[TrialCallback(trial)],  # raybench
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(train_set, batch_size, shuffle=True, drop_last=True)
    trainer.fit(Digits(width, learning_rate, weight_decay), loader, DataLoader(val_set, 500))


if __name__ == "__main__":
    train(raybench.current_trial(epochs=1), batch_size=64, train_examples=6400)  # raybench

"""A small residual network on CIFAR-10: a plain PyTorch loop with a DataLoader, transforms and a schedule.

`python train.py` runs it by itself, `raybench grid grid.yaml` compares devices and settings. The lines that raybench
needed are marked with `# raybench`.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import raybench  # raybench

MEAN, STD = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1), torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)


class Cifar10(Dataset):
    """Pictures of CIFAR-10's binary files, cropped and mirrored at random for training."""

    def __init__(self, folder: Path, files: list[str], count: int, augment: bool):
        if (folder / files[0]).exists():
            records = np.concatenate([np.fromfile(folder / name, np.uint8) for name in files]).reshape(-1, 3073)[:count]
        else:
            print(f"no CIFAR-10 in {folder}: random pictures instead")
            records = np.random.default_rng(0).integers(0, 256, (count, 3073), np.uint8)
        self.labels = torch.from_numpy(records[:, 0] % 10).long()
        self.pictures = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32))
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        picture = (self.pictures[index] / 255 - MEAN) / STD
        if self.augment:
            top, left = torch.randint(0, 9, (2,)).tolist()
            picture = nn.functional.pad(picture, (4, 4, 4, 4))[:, top : top + 32, left : left + 32]
            picture = picture.flip(2) if torch.rand(()) < 0.5 else picture
        return picture, self.labels[index]


class Block(nn.Module):
    """Two convolutions around a shortcut, at half the resolution."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=2, bias=False)

    def forward(self, x):
        return nn.functional.relu(self.path(x) + self.shortcut(x))


def build_model(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Block(width, 2 * width),
        Block(2 * width, 4 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    right = sum((model(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def train(
    trial,  # raybench
    *,
    batch_size: int,
    weight_decay: float = 5e-4,
    learning_rate: float = 0.1,
    epochs: int = 5,
    width: int = 16,
    train_examples: int = 50_000,
    val_examples: int = 10_000,
    workers: int = 2,
):
    device = trial.device  # raybench
    torch.manual_seed(trial.seed)  # raybench
    with trial.section("data"):  # raybench
        folder = trial.data_dir / "cifar-10-batches-bin"  # raybench
        train_set = Cifar10(folder, [f"data_batch_{i}.bin" for i in range(1, 6)], train_examples, augment=True)
        val_set = Cifar10(folder, ["test_batch.bin"], val_examples, augment=False)
    pinned = device.startswith("cuda")
    loader = DataLoader(
        train_set, batch_size, shuffle=True, drop_last=True, num_workers=workers, pin_memory=pinned,
        persistent_workers=workers > 0,
    )  # fmt: skip
    val_loader = DataLoader(val_set, 500)
    model = build_model(width).to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), learning_rate, momentum=0.9, nesterov=True, weight_decay=weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=epochs * len(loader) + 1)
    loss_function = nn.CrossEntropyLoss()

    for _ in trial.epochs():  # raybench: was range(epochs)
        model.train()
        for pictures, labels in trial.steps(loader):  # raybench: was loader
            pictures, labels = pictures.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = loss_function(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with trial.evaluation():  # raybench
            accuracy = evaluate(model, val_loader, device)
        trial.log({"train/loss": loss, "val/accuracy": accuracy})  # raybench: was print


if __name__ == "__main__":
    train(raybench.current_trial(epochs=1), batch_size=128, epochs=1, train_examples=2048, val_examples=500)  # raybench

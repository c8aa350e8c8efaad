"""The published airbench94 as it is, with its own times: published.py FOLDER/airbench94.py [--trainings 3] [--short]

It trains on CIFAR-10 in the folder of `RAYBENCH_DATA`, or on random images. Replaced in memory are the loading of the
data and torchvision's normalization, and with `--short` (a few steps on the CPU) also CUDA and half precision. The
first training is a warm-up; of the others the means are printed.
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

REPLACED = {
    "import torchvision\n": "",
    "import torchvision.transforms as T\n": "",
    "if not os.path.exists(data_path):": "if False:",
    "torch.load(data_path, map_location=torch.device(gpu))": "DATA[train]",
}
ON_CPU = {
    "self.images.half()": "self.images.float()",
    ".half().cuda()": ".float()",
    "torch.cuda.Event": "HostEvent",
    "torch.cuda.synchronize()": "None",
}


class HostEvent:
    """A CUDA event on a machine without CUDA."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.at_s = 0.0

    def record(self) -> None:
        """Read the clock."""
        self.at_s = time.perf_counter()

    def elapsed_time(self, other: "HostEvent") -> float:
        """Milliseconds until another event."""
        return (other.at_s - self.at_s) * 1e3


def normalize(mean, std):
    """As torchvision's class, for a batch of tensors."""

    def normalized(images: torch.Tensor) -> torch.Tensor:
        shift, scale = (torch.as_tensor(each).to(images).view(-1, 1, 1) for each in (mean, std))
        return (images - shift).div_(scale)

    return normalized


def data(train: bool, count: int, device: str) -> dict:
    """Images and classes of CIFAR-10 on the device."""
    folder = Path(os.environ.get("RAYBENCH_DATA", "")) / "cifar-10-batches-bin"
    paths = [folder / f"data_batch_{part}.bin" for part in range(1, 6)] if train else [folder / "test_batch.bin"]
    if all(path.is_file() for path in paths):
        rows = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, 3073) for path in paths])[:count]
    else:
        print(f"no CIFAR-10 in {folder}: random images")
        rows = np.random.default_rng(0).integers(0, 10, (count, 3073), np.uint8)
    images = np.ascontiguousarray(rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    labels = torch.from_numpy(rows[:, 0].astype(np.int64))
    return {"images": torch.from_numpy(images).to(device), "labels": labels.to(device), "classes": None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--trainings", type=int, default=3)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    text, device = options.program.read_text(), "cpu" if options.short else "cuda"
    for old, new in (REPLACED | (ON_CPU if options.short else {})).items():
        assert old in text, f"{options.program} has no {old!r}: another version of the program"
        text = text.replace(old, new)
    counts = (16, 8) if options.short else (50_000, 10_000)
    sides = {train: data(train, count, device) for train, count in zip((True, False), counts, strict=True)}
    program = {"__name__": "program", "T": SimpleNamespace(Normalize=normalize), "DATA": sides, "HostEvent": HostEvent}
    exec(compile(text, str(options.program), "exec"), program)
    if options.short:
        program["hyp"]["opt"] |= {"batch_size": 8, "train_epochs": 2}
    seconds, accuracies = [], []

    def keep(variables, is_final_entry) -> None:
        if is_final_entry:
            seconds.append(variables["total_time_seconds"])
            accuracies.append(variables["tta_val_acc"])

    program["print_training_details"] = keep
    networks = []
    if "torch.compile" in text:
        networks = [program["make_net"]() for _ in range(2)]
        networks[1][0].bias.requires_grad = False
        networks = [torch.compile(network, mode="max-autotune") for network in networks]
    for number in range(options.trainings + 1):
        program["main"](number or "warmup", *networks)
    print(f"seconds {statistics.fmean(seconds[1:]):.4f} accuracy {statistics.fmean(accuracies[1:]):.4f}")


if __name__ == "__main__":
    main()

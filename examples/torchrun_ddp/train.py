"""Data-parallel training with torchrun: each process takes its part of every batch, on GPUs or on CPU cores.

`torchrun --standalone --nproc-per-node=2 train.py` runs it by itself, `raybench grid grid.yaml` compares one process
with two. The lines that raybench needed are marked with `# raybench`.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import raybench  # raybench


def clusters(count: int, seed: int) -> TensorDataset:
    """Points around ten centers, which the model has to tell apart."""
    centers = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    return TensorDataset(centers[labels] + 2.0 * torch.randn(count, 64, generator=generator), labels)


@torch.no_grad()
def evaluate(model, data: TensorDataset, device: str) -> float:
    inputs, labels = (tensor.to(device) for tensor in data.tensors)
    return (model(inputs).argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=256, help="of all processes together")
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--examples", type=int, default=16_384)
    options = parser.parse_args()

    trial = raybench.current_trial(epochs=3)  # raybench
    device = trial.device  # raybench: was f"cuda:{local_rank}" or "cpu"
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    torch.manual_seed(trial.seed)  # raybench: was 0
    with trial.section("data"):  # raybench
        train_set, val_set = clusters(options.examples, 1), clusters(2000, 2)
    sampler = DistributedSampler(train_set, seed=trial.seed, drop_last=True)  # raybench: had no seed
    loader = DataLoader(train_set, options.batch_size // dist.get_world_size(), sampler=sampler, drop_last=True)
    layers = nn.Sequential(
        nn.Linear(64, options.hidden), nn.ReLU(), nn.Linear(options.hidden, options.hidden), nn.ReLU(),
        nn.Linear(options.hidden, 10),
    )  # fmt: skip
    model = DistributedDataParallel(layers.to(device))
    optimizer = torch.optim.SGD(model.parameters(), options.learning_rate, momentum=0.9)

    for epoch in trial.epochs():  # raybench: was range(epochs)
        sampler.set_epoch(epoch)
        for inputs, labels in trial.steps(loader):  # raybench: was loader
            loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            with trial.evaluation():  # raybench
                accuracy = evaluate(model.module, val_set, device)
            trial.log({"train/loss": loss, "val/accuracy": accuracy})  # raybench: was print
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""LoRA fine-tuning of a small GPT-2 of Transformers, from random weights, on the source code of Python.

`python train.py` runs it by itself, `raybench grid grid.yaml` compares devices and settings. The lines that raybench
needed are marked with `# raybench`. Nothing is downloaded, and PEFT is not needed: a layer with an update of low rank
is ten lines. For a model of your own, `from_pretrained` takes the place of the configuration.
"""

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

import raybench  # raybench


class LoRA(nn.Module):
    """A frozen layer plus a trained update of low rank, which begins at zero."""

    def __init__(self, layer: nn.Module, inputs: int, outputs: int, rank: int):
        super().__init__()
        self.layer = layer
        self.down, self.up = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs) + 2 * self.up(self.down(inputs))


def add_lora(model: nn.Module, rank: int) -> list[nn.Parameter]:
    """Freeze a model and give each projection of queries, keys and values an update; return what is trained."""
    model.requires_grad_(False)
    for block in model.transformer.h:
        layer: Conv1D = block.attn.c_attn
        block.attn.c_attn = LoRA(layer, *layer.weight.shape, rank)
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def train(
    trial,  # raybench
    *,
    batch_size: int,
    rank: int = 8,
    trains: str = "lora",
    epochs: int = 3,
    steps_per_epoch: int = 20,
    learning_rate: float = 1e-3,
    layers: int = 4,
    width: int = 128,
    tokens: int = 64,
):
    device = trial.device  # raybench
    torch.manual_seed(trial.seed)  # raybench
    with trial.section("data"):  # raybench
        data = trial.load("python-code")  # raybench
        texts, val_texts = (torch.tensor(split.inputs[:, :tokens].astype("int64")) for split in (data.train, data.val))
    config = GPT2Config(
        vocab_size=256, n_positions=tokens, n_embd=width, n_layer=layers, n_head=4, bos_token_id=None, eos_token_id=None
    )
    model = GPT2LMHeadModel(config).to(device)
    parameters = add_lora(model, rank) if trains == "lora" else list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate)
    model.to(device)

    for _ in trial.epochs(epochs):  # raybench
        model.train()
        batches = texts[torch.randperm(len(texts))[: steps_per_epoch * batch_size]].split(batch_size)
        for batch in trial.steps(batches):  # raybench
            loss = model(batch.to(device), labels=batch.to(device)).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            trial.count(tokens=batch.numel())  # raybench
        model.eval()
        with trial.evaluation(), torch.no_grad():  # raybench
            part = val_texts[:64].to(device)
            val_loss = model(part, labels=part).loss
        trial.log({"train/loss": loss, "val/loss": val_loss})  # raybench


if __name__ == "__main__":
    train(raybench.current_trial(), batch_size=16, epochs=1)  # raybench

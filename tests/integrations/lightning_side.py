"""Trainers of Lightning, in a process that has the library."""

import logging
import time
import warnings
from pathlib import Path

import lightning as L
import torch
from support.recorded_trial import make_trial
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from raybench.core.job import Target
from raybench.integrations.lightning import TrialCallback
from raybench.training.epoch_record import Diverged


class _Model(L.LightningModule):
    def __init__(self, diverges):
        super().__init__()
        self.layer, self._diverges = nn.Linear(3, 1), diverges

    def _loss(self, batch):
        return ((self.layer(batch[0]) - batch[1]) ** 2).mean()

    def training_step(self, batch, number):
        loss = self._loss(batch) * (float("nan") if self._diverges else 1)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.log("size", loss.detach() * 0 + len(batch[0]))
        return loss

    def validation_step(self, batch, number):
        time.sleep(0.01)
        self.log("val_loss", self._loss(batch))
        self.log("hard/loss", self._loss(batch))
        self.log("seen", 1.0)

    def test_step(self, batch, number):
        self.log("loss", self._loss(batch))

    def on_train_epoch_end(self):
        self.log("late", float(self.current_epoch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)


class _Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.001)
        return super().__getitem__(index)


def train(folder, epochs=2, options=None, target=None, diverges=False, test=False, **given):
    """Train a small model; return what its trial reported."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    if target:
        options = {**(options or {}), "target": Target(*target), "stop_at_target": True}
    output = Path(folder) / "output"
    trial, kept, ledger = make_trial(epochs, "torch", output_dir=output, seed=3, **(options or {}))
    L.seed_everything(trial.seed)
    data = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    data = _Slow(data, data.sum(1, keepdim=True))
    model = _Model(diverges)
    callback = TrialCallback(trial)
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = L.Trainer(
        callbacks=[callback],
        accelerator="cpu",
        default_root_dir=output,
        **{"max_epochs": None if "max_steps" in given else 1, **quiet, **given},
    )
    loader = DataLoader(data, 4, shuffle=True)
    diverged = None
    try:
        trainer.fit(model, loader, DataLoader(data, 25))
    except Diverged as error:
        diverged = str(error)
    if test:
        trainer.test(model, DataLoader(data, 25), verbose=False)
    return {**kept.told(), "diverged": diverged, "ledger": ledger.close()[0]}


def several_devices(folder):
    """The message if Lightning would start this program again."""
    trial, _, _ = make_trial(1, "torch", output_dir=Path(folder))
    trainer = L.Trainer(accelerator="cpu", devices=2, callbacks=[callback := TrialCallback(trial)], logger=False)
    try:
        callback.setup(trainer, _Model(False), "fit")
    except RuntimeError as error:
        return str(error)

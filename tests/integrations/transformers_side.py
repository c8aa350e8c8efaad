"""Trainers of Transformers, in a process that has the library."""

from pathlib import Path

import torch
from support.recorded_trial import make_trial
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from raybench.core.job import Target
from raybench.integrations.transformers import attach
from raybench.training.epoch_record import Diverged


def _data(count):
    random = torch.Generator().manual_seed(0)
    return [{"input_ids": torch.randint(0, 50, (12,), generator=random), "labels": i % 2} for i in range(count)]


class _Schedule(TrainerCallback):
    """Keeps the learning rate of each step."""

    def __init__(self):
        self.rates = []

    def on_step_end(self, args, state, control, optimizer, **kwargs):
        self.rates.append(optimizer.param_groups[0]["lr"])


class _Nan(TrainerCallback):
    """Makes the model useless after some steps."""

    def on_step_begin(self, args, state, control, model, **kwargs):
        if state.global_step == 6:
            with torch.no_grad():
                model.classifier.weight.fill_(float("nan"))


def train(folder, epochs=2, options=None, evaluated=None, target=None, nan=False, test=False, arguments=None):
    """Train a small model; return what its trial reported."""
    if target:
        options = {**(options or {}), "target": Target(*target), "stop_at_target": True}
    output = Path(folder) / "output"
    trial, kept, ledger = make_trial(epochs, "torch", output_dir=output, seed=3, **(options or {}))
    torch.manual_seed(trial.seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, **sizes))
    given = {
        "per_device_train_batch_size": 4,
        "eval_strategy": "epoch",
        "logging_steps": 2,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": trial.seed,
        "learning_rate": 0.01,
        **(arguments or {}),
    }
    schedule = _Schedule()
    trainer = Trainer(
        model,
        TrainingArguments(str(output / "own"), **given),
        train_dataset=_data(44),
        eval_dataset={name: _data(8) for name in evaluated} if evaluated else _data(8),
        compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(1) == p.label_ids).mean())},
        callbacks=[schedule, *([_Nan()] if nan else [])],
    )
    diverged = None
    try:
        attach(trial, trainer)
        trainer.train()
    except Diverged as error:
        diverged = str(error)
    if test:
        trainer.predict(_data(8))
    return {
        **kept.told(),
        "diverged": diverged,
        "rates": schedule.rates,
        "ledger": ledger.close()[0],
        "saved": sorted(path.name for path in (output / "own").glob("checkpoint-*")),
    }


def steps_instead_of_epochs(folder):
    """The message if the Trainer counts steps."""
    try:
        train(folder, arguments={"max_steps": 7})
    except ValueError as error:
        return str(error)

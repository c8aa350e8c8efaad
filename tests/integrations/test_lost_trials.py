"""A trial whose process is killed goes on after its last epoch, in a grid."""

from importlib.util import find_spec

import pytest
from support.executors import ForkingExecutor
from support.project import run_trials

KILL = """
import os
import signal
from pathlib import Path

def lose(epoch):
    if epoch == 2 and not Path("marks/lost").exists():
        Path("marks/lost").touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""
TRANSFORMERS = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from raybench.integrations.transformers import attach

class Lose(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        lose(int(state.epoch))

def train(trial, *, batch_size: int):
    torch.manual_seed(0)
    data = [{"input_ids": torch.tensor([i % 50, 1]), "labels": i % 2} for i in range(16)]
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, **sizes))
    arguments = TrainingArguments(
        "own", per_device_train_batch_size=batch_size, seed=trial.seed, use_cpu=True, save_strategy="no",
        logging_strategy="epoch", report_to="none", learning_rate=0.01,
    )
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[Lose()])
    attach(trial, trainer)
    trainer.train()
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
def test_a_lost_trial_goes_on_from_its_checkpoint(tmp_path, fork_server):
    (tmp_path / "marks").mkdir()
    (tmp_path / "my.py").write_text(KILL + TRANSFORMERS)
    text = "name: mine\nworkload: my.py:train\nbatch_size: 4\nepochs: 4\ncheckpoint_every: 1\n"
    (attempt,) = run_trials(tmp_path, text, ForkingExecutor(fork_server)).latest.values()
    assert attempt.status == "completed", attempt.error
    assert (attempt.attempt, attempt.gaps) == (2, (2,))
    assert [epoch.epoch for epoch in attempt.epochs] == [1, 2, 3, 4]
    assert [(epoch.steps, epoch.examples) for epoch in attempt.epochs] == [(4, 16)] * 4
    losses = [epoch.metrics["train/loss"] for epoch in attempt.epochs]
    assert losses[3] < losses[1], "it goes on with the weights of the second epoch"

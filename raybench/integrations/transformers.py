"""The Trainer of Transformers: `attach(trial, trainer)`, then `trainer.train()`."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback

from raybench.training import Trial
from raybench.training.library_loop import LibraryLoop

RESUMED = "resumed"
"""Subfolder of the trial's output folder with the Trainer's checkpoint from which an attempt goes on."""

_NOT_METRICS = re.compile(
    r"epoch|step|learning_rate|grad_norm|total_flos|num_input_tokens_seen|(train_)?runtime|model_preparation_time"
    r"|jit_compilation.*|.*_per_second"
)
"""Entries of logs and of an evaluation's result that are not metrics."""


def attach(trial: Trial, trainer: Trainer) -> None:
    """Let a Trainer report its epochs, steps, evaluations and metrics; before `trainer.train()`.

    `epochs` and `steps_per_epoch` of the grid replace the Trainer's own. Metrics `eval_x` become `val/x`, those of an
    evaluation data set `eval_name_x` become `name/x`, and logged training values `train/x`. A gradient norm that is not
    finite ends the training as `diverged`, since the Trainer hides a loss that is not finite. Tokens are counted with
    `include_num_input_tokens_seen`. With `checkpoint_every` a lost trial continues after its last epoch. With
    `max_steps`, an epoch is the training between two evaluations or, without any, between two logs.

    Args:
        trial: the trial.
        trainer: a Trainer; give its arguments `seed=trial.seed`.

    Raises:
        ValueError: the Trainer counts steps, and the grid epochs.
    """
    loop = LibraryLoop(trial)
    if trainer.args.max_steps > 0 and loop.epochs is not None:
        raise ValueError(
            f"TrainingArguments(max_steps={trainer.args.max_steps}), and the grid has epochs={loop.epochs:g}: remove "
            "one of them"
        )
    _Attached(loop, trainer)


class _Attached(TrainerCallback):  # type: ignore[misc]
    """Reports what a Trainer does.

    Callbacks are not enough: batches are fetched before `on_step_begin`, and evaluations and checkpoints of an epoch
    follow `on_epoch_end`.
    """

    def __init__(self, loop: LibraryLoop, trainer: Trainer) -> None:
        self._loop, self._trainer = loop, trainer
        self._ends = False
        self._tokens = 0
        self._steps = _steps_of_epoch(trainer.args)
        self._save = trainer._save_checkpoint
        trainer.get_batch_samples = self._timed_batches(trainer.get_batch_samples)
        trainer.get_train_dataloader = self._limited(trainer.get_train_dataloader)
        trainer.evaluate = self._evaluation(trainer.evaluate)
        trainer.predict = self._evaluation(trainer.predict)
        trainer._save_checkpoint = self._checkpoint
        trainer._maybe_log_save_evaluate = self._last_of_epoch(trainer._maybe_log_save_evaluate)
        trainer.train = self._train(trainer.train)
        trainer.add_callback(self)
        loop.resumable(self._save_state, self._load_state)

    # Training -------------------------------------------------------------------------------------------------------

    def _train(self, train: Callable[..., Any]) -> Callable[..., Any]:
        def of_trial(resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
            arguments = self._trainer.args
            if self._loop.epochs is not None:
                arguments.num_train_epochs = self._loop.epochs
            if self._loop.begin(arguments.max_steps / self._steps if self._steps else arguments.num_train_epochs):
                resume_from_checkpoint = str(next((self._loop.trial.output_dir / RESUMED).glob("checkpoint-*")))
            return train(resume_from_checkpoint, *args, **kwargs)

        return of_trial

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to count tokens where the checkpoint of an earlier attempt ended."""
        self._tokens = state.num_input_tokens_seen

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin an epoch, unless several passes through the data are one."""
        if not self._steps or not self._loop.in_epoch:
            self._ends = False
            self._loop.begin_epoch()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a step of the optimizer, and count its tokens if the Trainer does; it adds up those of all processes."""
        self._loop.end_step()
        if tokens := state.num_input_tokens_seen - self._tokens:
            self._loop.trial.count(tokens=tokens / args.world_size)
            self._tokens += tokens
        if self._steps:
            self._ends = state.global_step % self._steps == 0 or state.global_step >= args.max_steps
        if not self._ends and state.global_step < state.max_steps and self._loop.spends_budget():
            self._ends = control.should_training_stop = control.should_log = True
            control.should_evaluate = args.eval_strategy != "no"

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note that the epoch ends with the evaluation and the checkpoint that follow."""
        self._ends = self._ends or not self._steps

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **kwargs: Any) -> None:
        """Log training values; those of evaluations are logged with their time."""
        if "train_loss" in logs or any(name.startswith(("eval_", "test_")) for name in logs):
            return
        norm = logs.get("grad_norm")
        # With 16-bit floats the norm overflows until the loss's scale fits; such a step is skipped.
        if norm is not None and (math.isnan(norm) or (math.isinf(norm) and not args.fp16)):
            self._loop.diverged(f"grad_norm is {float(norm)}")
            control.should_training_stop = True
        self._loop.log(_named(logs, "", "train"))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the last epoch, if an error of the data has left it open."""
        self._loop.end_epoch(more=False)

    def _last_of_epoch(self, log_save_evaluate: Callable[..., Any]) -> Callable[..., Any]:
        def of_trial(*args: Any, **kwargs: Any) -> Any:
            result = log_save_evaluate(*args, **kwargs)
            if self._ends and self._loop.in_epoch:
                control = self._trainer.control
                control.should_training_stop |= self._loop.is_last
                self._loop.end_epoch(more=not control.should_training_stop)
                if self._steps and not control.should_training_stop:
                    self._ends = False
                    self._loop.begin_epoch()
            return result

        return of_trial

    # Batches --------------------------------------------------------------------------------------------------------

    def _timed_batches(self, get_batch_samples: Callable[..., Any]) -> Callable[..., Any]:
        def of_trial(epoch_iterator: Any, *args: Any, **kwargs: Any) -> Any:
            batches, items = get_batch_samples(self._waiting(epoch_iterator), *args, **kwargs)
            self._loop.begin_step(*batches)
            return batches, items

        return of_trial

    def _waiting(self, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self._loop.waiting():
                batch = next(batches, self)
            if batch is self:
                return
            yield batch

    def _limited(self, get_train_dataloader: Callable[[], Any]) -> Callable[[], Any]:
        """Make the loader as long as an epoch of the grid.

        The Trainer derives its number of steps, and with it the schedule of the learning rate, from the length.
        """

        def of_trial() -> Any:
            loader, limit = get_train_dataloader(), self._loop.steps_per_epoch
            if limit is not None:
                # Accelerate's loaders have a property of this name, which hides Python's own.
                vars(object)["__class__"].__set__(loader, _limited_class(type(loader), limit))
            return loader

        return of_trial

    # Evaluations ----------------------------------------------------------------------------------------------------

    def _evaluation(self, evaluate: Callable[..., Any]) -> Callable[..., Any]:
        parameters = signature(evaluate)

        def of_trial(*args: Any, **kwargs: Any) -> Any:
            bound = parameters.bind(*args, **kwargs)
            bound.apply_defaults()
            dataset, prefix = next(iter(bound.arguments.values())), bound.arguments["metric_key_prefix"]
            if isinstance(self._trainer.eval_dataset if dataset is None else dataset, dict):
                return evaluate(*args, **kwargs)  # the Trainer calls `evaluate` again for each
            name = "val" if prefix == "eval" else prefix.removeprefix("eval_")
            self._loop.end_step()
            self._loop.begin_evaluation(name)
            result = evaluate(*args, **kwargs)
            metrics = getattr(result, "metrics", result)
            self._loop.end_evaluation(_named(metrics, prefix, name))
            return result

        return of_trial

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def _checkpoint(self, *args: Any, **kwargs: Any) -> None:
        with self._loop.trial.section("checkpoint"):
            self._save(*args, **kwargs)

    def _save_state(self, path: Path) -> None:
        """Save what `train(resume_from_checkpoint=…)` needs to a folder."""
        arguments = self._trainer.args
        kept = arguments.output_dir, arguments.save_only_model
        arguments.output_dir, arguments.save_only_model = str(path), False
        try:
            self._save(self._trainer.model, None)
        finally:
            arguments.output_dir, arguments.save_only_model = kept

    def _load_state(self, path: Path) -> None:
        """Keep such a folder until `train` reads it."""
        shutil.copytree(path, self._loop.trial.output_dir / RESUMED, dirs_exist_ok=True)


def _steps_of_epoch(arguments: Any) -> int:
    """The steps between two evaluations or logs, if the Trainer counts steps; else 0."""
    most = max(0, int(arguments.max_steps))
    steps = float(most)
    if arguments.eval_strategy == "steps":
        steps = arguments.eval_steps
    elif arguments.logging_strategy == "steps":
        steps = arguments.logging_steps
    return min(most, math.ceil(steps * most if steps < 1 else steps))


def _named(logs: Mapping[str, Any], prefix: str, name: str) -> dict[str, Any]:
    """The metrics of a log or of an evaluation by names as `val/loss`."""
    short = {key.removeprefix(f"{prefix}_"): value for key, value in logs.items() if isinstance(value, Real)}
    return {f"{name}/{key}": value for key, value in short.items() if not _NOT_METRICS.fullmatch(key)}


def _limited_class(loader: type, limit: int) -> type:
    """A class of data loaders like this one that end after some batches."""

    class Limited(loader):  # type: ignore[misc]
        def __len__(self) -> int:
            try:
                return min(int(super().__len__()), limit)
            except TypeError:  # a stream of examples
                return limit

        def __iter__(self) -> Iterator[Any]:
            return islice(super().__iter__(), limit)

    return Limited

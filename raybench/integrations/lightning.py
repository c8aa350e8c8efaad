"""The Trainer of Lightning: `L.Trainer(callbacks=[TrialCallback(trial)])`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from raybench.training import Trial
from raybench.training.library_loop import LibraryLoop


class TrialCallback(Callback):  # type: ignore[misc]
    """Reports the epochs, steps, evaluations and metrics of a Lightning Trainer.

    `epochs` and `steps_per_epoch` of the grid replace `max_epochs` and `limit_train_batches`. A metric keeps its name
    if that has a `/`; `val_x` becomes `val/x`, `train_x` becomes `train/x`, and others get the name of their data as
    prefix. The sanity check is part of `build`.

    Args:
        trial: the trial; call `L.seed_everything(trial.seed)` before.
    """

    def __init__(self, trial: Trial) -> None:
        self._loop = LibraryLoop(trial)
        self._before: Mapping[str, Any] = {}
        self._evaluated: set[str] = set()

    # Training -------------------------------------------------------------------------------------------------------

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Set the number of epochs and steps, and time what the profiler is asked to time."""
        if stage != "fit":
            return
        if trainer.world_size > 1 and not trainer.strategy.cluster_environment.creates_processes_externally:
            raise RuntimeError(
                f"Lightning starts this program again for each of {trainer.world_size} devices, and raybench's trial "
                "with it: start the processes with torchrun, or set L.Trainer(devices=1)"
            )
        if self._loop.epochs is not None:
            trainer.fit_loop.max_epochs = math.ceil(self._loop.epochs)
        if self._loop.steps_per_epoch is not None:
            trainer.limit_train_batches = self._loop.steps_per_epoch
        _Profiled(trainer.profiler, self._loop)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        most, batches = trainer.max_epochs or -1, trainer.num_training_batches
        if most < 0 and trainer.max_steps > 0:
            most = trainer.max_steps * trainer.accumulate_grad_batches / batches
        self._loop.begin((most or 1) if most >= 0 else None)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin an epoch; the one before ends here, with the metrics and checkpoints after its last batch."""
        self._end_epoch(trainer, more=True)
        self._loop.begin_epoch()
        self._before, self._evaluated = dict(trainer.callback_metrics), set()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._loop.begin_step(batch)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step, and training in a part of an epoch."""
        self._loop.end_step()
        batches = trainer.num_training_batches
        limit = self._loop.limit(int(batches) if math.isfinite(batches) else None)
        ends_before = limit is not None and self._loop.taken >= limit and limit < batches
        if ends_before or (batch_idx + 1 < batches and self._loop.spends_budget()):
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop the Trainer if the target is reached."""
        self._log(trainer)
        if self._loop.is_last:
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end_epoch(trainer, more=False)

    def _end_epoch(self, trainer: Trainer, more: bool) -> None:
        if self._loop.in_epoch:
            self._log(trainer)
            self._loop.end_epoch(more)

    def _log(self, trainer: Trainer) -> None:
        fresh = _fresh(trainer.callback_metrics, self._before)
        self._loop.log(_named({name: value for name, value in fresh.items() if name not in self._evaluated}, "train"))

    # Evaluations ----------------------------------------------------------------------------------------------------

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._begin_evaluation(trainer, "val")

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._end_evaluation(trainer, "val")

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin_evaluation(trainer, "test")

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end_evaluation(trainer, "test")

    def _begin_evaluation(self, trainer: Trainer, name: str) -> None:
        self._before_evaluation = dict(trainer.callback_metrics)
        self._loop.begin_evaluation(name)

    def _end_evaluation(self, trainer: Trainer, name: str) -> None:
        fresh = _fresh(trainer.callback_metrics, self._before_evaluation)
        self._evaluated.update(fresh)
        self._loop.end_evaluation(_named(fresh, name))


def _fresh(metrics: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that were computed since; Lightning keeps those of earlier epochs."""
    return {name: value for name, value in metrics.items() if value is not before.get(name)}


def _named(metrics: Mapping[str, Any], data: str) -> dict[str, Any]:
    """Metrics by names that begin with their data, without the parts of which Lightning has the whole."""
    parts = {f"{name}_{part}" for name in metrics for part in ("step", "epoch")}
    return {_name(name, data): value for name, value in metrics.items() if name not in parts}


def _name(name: str, data: str) -> str:
    if "/" in name.strip("/"):
        return name
    for split in ("train", "val", "test"):
        if name.startswith(f"{split}_"):
            return f"{split}/{name.removeprefix(f'{split}_')}"
    return f"{data}/{name}"


class _Profiled:
    """Times what the Trainer asks its profiler to time: waits for batches, and checkpoints."""

    def __init__(self, profiler: Any, loop: LibraryLoop) -> None:
        self._loop = loop
        self._open: dict[str, Any] = {}
        self._start: Callable[[str], None] = profiler.start
        self._stop: Callable[[str], None] = profiler.stop
        profiler.start, profiler.stop = self.start, self.stop

    def start(self, action_name: str) -> None:
        context = None
        if action_name.endswith("train_dataloader_next"):
            context = self._loop.waiting()
        elif action_name == "save_checkpoint":
            context = self._loop.trial.section("checkpoint")
        if context is not None:
            self._open[action_name] = context
            context.__enter__()
        self._start(action_name)

    def stop(self, action_name: str) -> None:
        self._stop(action_name)
        context = self._open.pop(action_name, None)
        if context is not None:
            context.__exit__(None, None, None)

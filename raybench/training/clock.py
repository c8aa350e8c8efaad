"""The clock of a user's training loop: it charges all time of the process to the sections of the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raybench.core.ledger import COMPILATION, NANO, Ledger
from raybench.core.rank import current_rank
from raybench.devices.base import Device
from raybench.engines.loop_facts import LoopFacts
from raybench.engines.step_timer import StepTimer


class TrainingClock:
    """The sections of a loop, and the times of its steps.

    The device is synchronized where sections change, except around `input_wait`, where this would change what is
    measured. Before the first epoch the time outside of sections is `build`, in an epoch it is `train`, and after the
    last one it is `other`.

    Attributes:
        waited_ns: time of waits for batches in the open section; the loop adds to it, and it becomes `input_wait`. The
            device is not synchronized.
        timer: of the steps of the open epoch; None outside of epochs.
    """

    def __init__(self, ledger: Ledger, device: Device, loop: LoopFacts) -> None:
        self.ledger, self.loop, self.device = ledger, loop, device
        self._section = "build"
        self.timer: StepTimer | None = None
        self._is_first = True
        self._compile_ns = self._compiled_elsewhere_ns = 0
        self.waited_ns = 0
        ledger.enter("build")

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Charge the enclosed time to a section."""
        outer = self._section
        self.end_step()
        if self.timer:
            self.timer.pause()
        self._change(name)
        compiled_ns = self.loop.compile_ns()
        elsewhere_ns = self._compiled_elsewhere_ns
        begun = self.device.mark() if name == "evaluate" and self.device.own_clock else None
        try:
            yield
        except BaseException:
            self._section = outer
            self.ledger.fail(outer)  # a device that has failed cannot be synchronized
            raise
        ended = None if begun is None else self.device.mark()
        self._change(outer)
        if begun is not None:
            self.ledger.note_device(name, self.device.elapsed(begun, ended))
        compiled_ns = self.loop.compile_ns() - compiled_ns - (self._compiled_elsewhere_ns - elsewhere_ns)
        self._compiled_elsewhere_ns += compiled_ns
        if name in COMPILATION:
            self.ledger.move(compiled_ns, name, COMPILATION[name])

    def _change(self, name: str, all_ranks: bool = False) -> None:
        self._synchronize(all_ranks)
        self._charge_waits()
        self._section, self.ledger.failed = name, ""
        self.ledger.enter(name)

    def _synchronize(self, all_ranks: bool = False) -> None:
        """Wait for the device and, if asked or if the ranks have the same sections, for those of all ranks."""
        self.device.synchronize()
        if all_ranks or self.loop.ranks_in_step:
            current_rank().meet(None)

    def begin_epoch(self) -> None:
        """Begin an epoch: what is in no other section is `train` from here on."""
        self._change("other", all_ranks=True)  # what was recorded before is not work of the epoch
        loop = self.loop
        loop.begin_epoch()
        self.timer = StepTimer(
            self.device,
            self._is_first and not loop.counts_compilation,
            loop.graphs,
            loop.settling,
            loop.after_step,
            compile_ns=lambda: loop.compile_ns() - self._compiled_elsewhere_ns,
        )
        self._is_first = False
        self._compile_ns, self._compiled_elsewhere_ns = self.loop.compile_ns(), 0
        self.ledger.begin_epoch()
        self._section = "train"
        self.ledger.enter("train")

    def end_epoch(self, all_ranks: bool = True) -> dict[str, Any]:
        """End an epoch, by default of all ranks, so that the slowest counts; return its fields of `epoch_ended`."""
        timer = self.timer
        assert timer
        self.end_step()
        self._synchronize(all_ranks)
        self._charge_waits()
        self._section, self.timer = "other", None
        ledger = self.ledger
        ledger.enter("other")
        if self.loop.counts_compilation:
            ledger.move(
                self.loop.compile_ns() - self._compile_ns - self._compiled_elsewhere_ns, "train", COMPILATION["train"]
            )
        else:
            timer.charge(ledger, "train")
        cpu_s, step_s, by_device = ledger.epoch_cpu_s(), timer.blocks(), ledger.epoch_device()
        if by_device:
            by_device["input_wait"] = round(timer.gaps() * NANO, 6)
        return {
            "ledger": ledger.epoch(),
            "cpu_s": cpu_s,
            **({"device_s": by_device} if by_device else {}),
            **({"step_s": step_s} if step_s else {}),
            **({"recompiles": timer.compilations} if self.loop.graphs else {}),
        }

    @property
    def is_evaluating(self) -> bool:
        """Whether the open section is an evaluation."""
        return self._section == "evaluate"

    def training_s(self, compile: bool) -> float:
        """Seconds of training in all epochs so far: train, input_wait and, if asked, compile."""
        seconds = self.ledger.seconds("train", "input_wait", *(["compile"] if compile else []))
        if compile or not self.timer:
            return seconds
        if self.loop.counts_compilation:
            return seconds - (self.loop.compile_ns() - self._compile_ns - self._compiled_elsewhere_ns) * NANO
        return seconds - self.timer.compiled_ns() * NANO

    def catch_up(self) -> None:
        """Wait until at most the last step is left for the device to do; none, if it has no clock of its own."""
        if self.device.own_clock and self.timer:
            self.timer.wait_for_last_but_one()
        elif not self.device.own_clock:
            self.device.synchronize()

    def _charge_waits(self) -> None:
        """Move the time of all waits in the open section to `input_wait`."""
        if self.waited_ns:
            self.ledger.enter(self._section)
            self.ledger.move(self.waited_ns, self._section, "input_wait")
            self.waited_ns = 0

    def end_step(self) -> None:
        """Mark the end of a step, if one has begun and has not ended."""
        if self.timer and self.timer.in_step:
            self.timer.end(wait=True)

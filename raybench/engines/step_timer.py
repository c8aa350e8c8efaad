"""Step times of one pass over data: compilation, device time and blocks of steps."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median
from typing import Any

from raybench.core.ledger import COMPILATION, NANO, Ledger
from raybench.devices.base import Device

BLOCKS = 64  # maximum number of step times per epoch: enough to show when they change, in a short line of a file


SETTLING = 2
"""Steps after a compiled one that count as compilation too: CUDA graphs are captured in them.

A graph of a new shape is run once as it is and recorded in the next step; from then on the recording is replayed. A
recording that depends on memory still in use, such as gradients of the step before, may take one more step."""


class StepTimer:
    """Marks before and after each step, or each call that takes several steps.

    If a mark is accurate and almost free (the host's clock on a synchronous device, an event in the stream of a device
    with its own clock), every step is marked. Otherwise only the steps of a pass with a new shape are marked, and used
    only to measure compilation: such a mark waits for the device, or is the time of submission.

    Args:
        first: whether the first step of this pass has a new shape.
        compiled: returns the number of graphs made by the framework's compiler, if known: a step in which it rises was
            compiled, wherever it is in the pass.
        settling: number of steps after a compiled one that count as compilation too, such as those in which CUDA graphs
            are captured.
        after_step: finishes the work of a step, before its end is marked.
        compile_ns: returns the nanoseconds that the compiler took, by its own clock, if known.

    Attributes:
        in_step: whether a step has begun and has not ended.
    """

    def __init__(
        self,
        device: Device,
        first: bool,
        compiled: Callable[[], int] | None = None,
        settling: int = 0,
        after_step: Callable[[], None] | None = None,
        compile_ns: Callable[[], int] | None = None,
    ) -> None:
        self.in_step, self._after_step = False, after_step
        self._device, self._mark, self.first, self._settling = device, device.mark, first, settling
        self._compiled, self._before = compiled, compiled() if compiled else 0
        self._compile_ns, self._compile_ns_before = compile_ns, 0
        self._graphs = self._before
        self._new: set[int] = {0} if first else set()
        self._timed = device.synchronous or device.own_clock
        self._wanted = first or self._timed
        self._marks: list[tuple[Any, Any, int]] = []
        self._begun: Any = None
        self._steps = 1
        self._segments = [0]

    def begin(self, at_last_end: bool = False, steps: int = 1) -> None:
        """Mark the beginning of a step, or of a call of several steps.

        Args:
            at_last_end: the step begins at the mark of the last step's end, if nothing else took place since.
        """
        self.in_step, self._steps = True, steps
        if self._compile_ns and not self._marks:
            self._compile_ns_before = self._compile_ns()
        if self._wanted:
            directly = at_last_end and len(self._marks) > self._segments[-1]
            self._begun = self._marks[-1][1] if directly else self._mark()

    def pause(self) -> None:
        """Note that something else than steps takes place before the next one, such as an evaluation."""
        if self._segments[-1] != len(self._marks):
            self._segments.append(len(self._marks))

    def end(self, wait: bool = False) -> None:
        """Mark the submission of a step, or of a call of several steps.

        Args:
            wait: whether to wait for the device after the first step of a new shape.
        """
        self.in_step = False
        if self._after_step:
            self._after_step()
        if self._wanted:
            self._marks.append((self._begun, self._mark(), self._steps))
            if wait and self.first and len(self._marks) == 1:
                self._device.synchronize()
            if self._compiled and self._graphs != (graphs := self._compiled()):
                number = len(self._marks) - 1
                self._new.update(range(number, number + 1 + self._settling))
                self._graphs = graphs

    @property
    def compilations(self) -> int:
        """Number of graphs compiled in this pass; if it is not known, 1 for a new shape."""
        return self._compiled() - self._before if self._compiled else int(self.first)

    def charge(self, ledger: Ledger, section: str) -> None:
        """Record the device's time, and move compilation from the section to its own (`ledger.COMPILATION`)."""
        if self._device.own_clock and self._marks:
            for first, last in self._spans():
                ledger.note_device(section, self._device.elapsed(self._marks[first][0], self._marks[last][1]))
        ledger.move(self._compiled_ns(), section, COMPILATION[section])

    def wait_for_last_but_one(self) -> None:
        """Wait until the device has done all steps but the last."""
        if len(self._marks) > 1:
            self._device.wait_for(self._marks[-2][1])

    def compiled_ns(self) -> int:
        """Nanoseconds of compilation in this pass so far; waits for the device."""
        if self._new:
            self._device.synchronize()
        return self._compiled_ns()

    def _compiled_ns(self) -> int:
        """Nanoseconds of compilation in this pass so far, after a `synchronize`.

        It is the time of the first step of a new shape, or of a compiled step, beyond the median of the last others; if
        there are no others, the time that the compiler reports, or nothing.
        """
        if not self._new:
            return 0
        usual = [index for index in range(len(self._marks)) if index not in self._new][-BLOCKS:]
        if not usual:
            return self._compile_ns() - self._compile_ns_before if self._compile_ns else 0
        usual_ns = median(self._per_step(index) for index in usual)
        new = [index for index in self._new if index < len(self._marks)]
        return sum(max(0, int((self._per_step(index) - usual_ns) * self._marks[index][2])) for index in new)

    def gaps(self) -> int:
        """Nanoseconds between the end of each step and the beginning of the next one, by the device's marks."""
        return sum(
            self._device.elapsed(self._marks[index][1], self._marks[index + 1][0])
            for first, last in self._spans()
            for index in range(first, last)
        )

    def _spans(self) -> list[tuple[int, int]]:
        """The first and the last step of each run of steps without a pause."""
        ends = [*self._segments[1:], len(self._marks)]
        return [(first, end - 1) for first, end in zip(self._segments, ends, strict=True) if end > first]

    def blocks(self) -> list[float]:
        """Mean seconds of a step in at most 64 consecutive blocks of equal length.

        The last block may be shorter. Steps that are partly `compile` are excluded; empty if steps are not timed.
        """
        usual = [index for index in range(len(self._marks)) if index not in self._new] if self._timed else []
        times_ns = list(map(self._per_step, usual))
        length = -(-len(times_ns) // BLOCKS)
        return [round(fmean(times_ns[i : i + length]) * NANO, 9) for i in range(0, len(times_ns), length or 1)]

    def _per_step(self, index: int) -> float:
        start, end, steps = self._marks[index]
        return self._device.elapsed(start, end) / steps

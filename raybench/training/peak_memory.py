"""The peak memory of a user's training loop, without the search for the fastest algorithms."""

from __future__ import annotations

from raybench.devices.base import Device
from raybench.engines.loop_facts import LoopFacts


class PeakMemory:
    """The device's peak, without what was needed only in the first step or the first evaluation of a kind.

    There, libraries such as cuDNN try algorithms that need more memory than the fastest, and compilers measure kernels.
    What is left out counts after all if training ends without more work of the kind, or if CUDA graphs were captured,
    whose replays use memory without allocating it again.

    Args:
        device: open.
        loop: the facts of the framework.
    """

    def __init__(self, device: Device, loop: LoopFacts) -> None:
        self._device, self._loop = device, loop
        self._highest = 0
        self._known: set[str] = set()
        self._single: dict[str, int] = {}

    def begin(self, work: str) -> None:
        """Note that work of a kind begins."""
        if work not in self._known:
            self._device.begin_search()
        self._single.pop(work, None)

    def end(self, work: str, training: bool = True) -> None:
        """Note that work of a kind was submitted, and leave the first of its kind out.

        Args:
            training: whether it is part of the training, so that it counts if it does not take place again.
        """
        if work in self._known:
            return
        if training:
            self._known.add(work)
        peak = self._device.peak_memory()
        if not self._loop.holds_graphs() and self._device.end_search() and training:
            self._single[work] = peak

    def again(self, work: str) -> None:
        """Note that work of a kind took place again, so that its first time need not count."""
        self._single.pop(work, None)

    def now(self, ended: bool) -> int | None:
        """The peak in bytes since the trial began; None if nothing but the first step of the training is known.

        It does not fall if the user's function resets the statistics of the framework.

        Args:
            ended: whether the training has ended.
        """
        if "train" in self._single and not ended:
            return None
        self._highest = max(self._highest, self._device.peak_memory(), *(self._single.values() if ended else ()))
        return self._highest

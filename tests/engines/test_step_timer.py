"""Steps by their marks, on made-up devices whose clock is moved by hand."""

import pytest

from raybench.core.ledger import Ledger
from raybench.engines.step_timer import SETTLING, StepTimer


class Made:
    """A device whose steps take as many nanoseconds as it is told."""

    def __init__(self, synchronous=True, own_clock=False):
        self.synchronous, self.own_clock = synchronous, own_clock
        self.now = self.marks = self.waits = 0

    def __call__(self):
        return self.now

    def mark(self):
        self.marks += 1
        return self.now

    def elapsed(self, start, end):
        return end - start

    def synchronize(self):
        self.waits += 1


def went(device, took, first=True, gap=0, counts=None, graphs=None, compiling=(), **settling):
    """A pass of steps that took so many ms, with a pause between them: the steps and the ledger.

    Args:
        graphs: how many were compiled before; one more is in each of the steps `compiling`, by their places.
    """
    count = [graphs]
    counting = {} if graphs is None else {"compiled": lambda: count[0]}
    ledger, steps = Ledger(clock=device), StepTimer(device, first, **counting, **settling)
    ledger.begin_epoch()
    with ledger.section("train"):
        for number, ms in enumerate(took):
            steps.begin(steps=counts[number] if counts else 1)
            device.now += int(ms * 1e6)
            if number in compiling:
                count[0] += 1
            steps.end(wait=True)
            device.now += int(gap * 1e6)
    steps.charge(ledger, "train")
    return steps, ledger


def test_first_step_beyond_the_median_is_compilation():
    device = Made()
    steps, ledger = went(device, [500, 10, 12, 90])
    assert ledger.epoch() == {"compile": 0.488, "train": 0.124, "input_wait": 0.0, "evaluate": 0.0}
    assert steps.blocks() == [0.01, 0.012, 0.09], "the first step of a new shape is not among them"
    assert device.waits == 1


def test_later_passes_are_not_waited_for():
    device = Made()
    steps, ledger = went(device, [500, 10], first=False)
    assert ledger.epoch()["compile"] == 0.0
    assert steps.blocks() == [0.5, 0.01]
    assert device.waits == 0


def test_calls_of_several_steps():
    steps, ledger = went(Made(), [100, 40, 20], counts=[4, 4, 2])
    assert ledger.epoch()["compile"] == 0.06, "four steps at 10 ms each are no compilation"
    assert steps.blocks() == [0.01, 0.01]


def test_device_with_its_own_clock():
    _, ledger = went(Made(synchronous=False, own_clock=True), [30, 10, 10], gap=5)
    assert ledger.epoch_device() == {"train": 0.06}, "with the gaps between them, without the last"
    assert went(Made(), [30, 10])[1].epoch_device() == {}, "the host's clock is none of the device's own"


def test_device_with_unusable_events():
    device = Made(synchronous=False)
    steps, ledger = went(device, [500, 10, 10])
    assert ledger.epoch()["compile"] == 0.49
    assert steps.blocks() == []
    device.marks = 0
    steps, _ = went(device, [10, 10], first=False)
    assert (device.marks, steps.blocks()) == (0, [])


def test_later_compiled_step_is_compilation():
    steps, ledger = went(Made(), [500, 10, 10, 300, 10], graphs=7, compiling=(0, 3))
    assert ledger.epoch() == {"compile": 0.78, "train": 0.05, "input_wait": 0.0, "evaluate": 0.0}
    assert (steps.blocks(), steps.compilations) == ([0.01, 0.01, 0.01], 2)


@pytest.mark.parametrize(("took", "compile_s"), [([500], 0.4), ([500, 60, 10], 0.4), ([500, 60, 10, 10], 0.55)])
def test_compiler_clock_without_other_steps(took, compile_s):
    """It reports 400 ms of the first step, and 50 ms of what was compiled before this pass."""
    device, spent, graphs = Made(), [0], [0]
    counts = {"compiled": lambda: graphs[0], "compile_ns": lambda: spent[0]}
    ledger, steps = Ledger(clock=device), StepTimer(device, first=True, settling=SETTLING, **counts)
    ledger.begin_epoch()
    spent[0] = 50 * 10**6
    with ledger.section("train"):
        for number, ms in enumerate(took):
            steps.begin()
            device.now += ms * 10**6
            if number == 0:
                graphs[0], spent[0] = 1, 450 * 10**6
            steps.end()
    steps.charge(ledger, "train")
    assert ledger.epoch()["compile"] == pytest.approx(compile_s - 0.01 * (len(took) == 4))
    assert sum(ledger.epoch().values()) == pytest.approx(sum(took) / 1e3)


def test_capture_of_cuda_graphs_is_compilation():
    device = Made(synchronous=False, own_clock=True)
    took = [500, 60, 10, 10, 12]  # warm-up, recording, replays
    steps, ledger = went(device, took, graphs=0, compiling=(0,), settling=SETTLING)
    assert ledger.epoch()["compile"] == pytest.approx(0.5 + 0.06 - 2 * 0.011)
    assert (steps.blocks(), steps.compilations) == ([0.01, 0.012], 1)

"""The peak memory of a user's loop: a CPU with the adapter for CUDA, and made-up numbers of its allocator."""

import textwrap

import pytest
import torch
from support.grid_files import events_of

from raybench.config import load_grid
from raybench.devices.cpu import Cpu
from raybench.devices.cuda import Cuda
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid

HELD, STEP, EVALUATION, SEARCH = 100, 300, 200, 1000


class Allocator:
    """Torch's statistics of the memory of a GPU that holds 100 bytes."""

    def __init__(self):
        self.peak, self.known, self.graphs = 0, set(), False

    def reset(self):
        self.peak = HELD

    def need(self, work, needed, searches=True):
        """Do work that needs so much, the first time with a search for algorithms."""
        self.peak = max(self.peak, needed if work in self.known or not searches else SEARCH)
        self.known.add(work)


@pytest.fixture
def peaks(tmp_path, monkeypatch):
    """A function that runs a loop and returns the peaks of its epochs."""
    allocator = Allocator()
    for name in ("peak_memory", "begin_search", "end_search"):
        monkeypatch.setattr(Cpu, name, getattr(Cuda, name), raising=False)
    for name, value in {"_peak": 0, "_used": (0,), "own_clock": True}.items():
        monkeypatch.setattr(Cpu, name, value, raising=False)
    segments = [{"segment_pool_id": (0, 0)}, {"segment_pool_id": (0, 1)}]
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda number: allocator.peak)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda number: allocator.reset())
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments[: 1 + allocator.graphs])
    monkeypatch.setattr(torch, "of_this_test", allocator, raising=False)

    def run(loop, epochs=2, steps=3):
        (tmp_path / "my.py").write_text(
            textwrap.dedent(
                """
                import torch
                def train(trial):
                    memory = torch.of_this_test
                    batches = [torch.ones(2)] * STEPS
                    def step():
                        memory.need("step", 300)
                    def evaluate(name="val", needed=200):
                        with trial.evaluation(name):
                            memory.need(name, needed)
                """
            ).replace("STEPS", str(steps))
            + textwrap.indent(textwrap.dedent(loop), "    ")
        )
        (tmp_path / "grid.yaml").write_text(
            f"name: mine\nworkload: my.py:train\nepochs: {epochs}\ndevices: {{cpu: {{kind: cpu, framework: torch}}}}\n"
            "axes: {device: [cpu]}\n"
        )
        options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
        (attempt,) = run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options).latest.values()
        events = [event for event in events_of(tmp_path / "results" / "mine") if event["event"] == "epoch_ended"]
        assert attempt.status == "completed", attempt.error
        return [event.get("memory_peak_bytes") for event in events]

    return run


PLAIN = """
for epoch in trial.epochs():
    for batch in trial.steps(batches):
        step()
    evaluate()
"""


REHEARSAL = f"""
with trial.section("compile"):
    step()
    memory.need("val", 200)
{PLAIN}
"""
GRAPHS = """
with trial.section("compile"):
    memory.need("captured", 900, searches=False)
    memory.graphs = True
for epoch in trial.epochs():
    for batch in trial.steps(batches):
        pass
"""
RESETS = """
for epoch in trial.epochs():
    memory.reset()
    for batch in trial.steps(batches):
        step()
        memory.need("first", 500 - 100 * epoch, searches=False)
"""
CASES = {
    "search of the first step": (PLAIN, 2, 3, [STEP] * 2),
    "one step per epoch": (PLAIN, 3, 1, [None, STEP, STEP]),
    "one step": (PLAIN, 1, 1, [SEARCH]),
    "one evaluation": (PLAIN, 1, 3, [SEARCH]),
    "two evaluations": (PLAIN.replace("evaluate()", "evaluate(); evaluate('large', 800)"), 2, 3, [STEP, 800]),
    "rehearsal": (REHEARSAL, 2, 3, [STEP] * 2),
    "before the first step": ("memory.need('data', 700, searches=False)\n" + PLAIN, 2, 3, [700] * 2),
    "CUDA graphs": (GRAPHS, 2, 3, [900] * 2),
    "statistics reset by the loop": (RESETS, 2, 3, [500] * 2),
    "no steps": ("for epoch in trial.epochs():\n    step()\n    trial.count(steps=1)\n", 2, 3, [SEARCH] * 2),
}


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("one step", "statistics reset by the loop") else pytest.param(name, marks=pytest.mark.slow)
        for name in CASES
    ],
)
def test_peaks_of_epochs(peaks, name):
    loop, epochs, steps, expected = CASES[name]
    assert peaks(loop, epochs, steps) == expected

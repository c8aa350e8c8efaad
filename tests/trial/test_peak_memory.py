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


@pytest.mark.parametrize(("epochs", "steps", "expected"), [(2, 3, [STEP] * 2), (3, 1, [None, STEP, STEP])])
def test_the_search_of_the_first_step_is_left_out_if_more_follow(peaks, epochs, steps, expected):
    assert peaks(PLAIN, epochs, steps) == expected


def test_a_training_of_one_step_has_the_peak_that_it_had(peaks):
    assert peaks(PLAIN, epochs=1, steps=1) == [SEARCH]


def test_the_only_evaluation_counts(peaks):
    assert peaks(PLAIN, epochs=1, steps=3) == [SEARCH]


def test_evaluations_of_another_name_are_another_search(peaks):
    loop = PLAIN.replace("evaluate()", "evaluate(); evaluate('large', 800)")
    assert peaks(loop) == [STEP, 800]


def test_an_evaluation_that_takes_place_once_counts(peaks):
    loop = PLAIN.replace("evaluate()", "evaluate()\n    if epoch: evaluate('once', 500)")
    assert peaks(loop) == [STEP, SEARCH]


def test_a_rehearsal_in_the_section_compile_is_left_out(peaks):
    loop = f"""
    with trial.section("compile"):
        step()
        memory.need("val", 200)
    {textwrap.indent(PLAIN, "    ").strip()}
    """
    assert peaks(loop) == [STEP] * 2


def test_what_is_needed_before_the_first_step_counts(peaks):
    loop = "memory.need('data', 700, searches=False)\n" + PLAIN
    assert peaks(loop) == [700] * 2


def test_the_preparation_of_the_first_batch_counts(peaks):
    loop = """
    def made():
        memory.need("preparation", 600, searches=False)
        yield from batches
    for epoch in trial.epochs():
        for batch in trial.steps(made() if epoch == 0 else batches):
            step()
    """
    assert peaks(loop) == [600] * 2


def test_the_memory_of_cuda_graphs_is_not_left_out_as_a_replay_allocates_nothing(peaks):
    loop = """
    with trial.section("compile"):
        memory.need("captured", 900, searches=False)
        memory.graphs = True
    for epoch in trial.epochs():
        for batch in trial.steps(batches):
            pass
    """
    assert peaks(loop) == [900] * 2


def test_a_loop_that_resets_the_statistics_itself_loses_no_peak(peaks):
    loop = """
    for epoch in trial.epochs():
        memory.reset()
        for batch in trial.steps(batches):
            step()
            memory.need("first", 500 - 100 * epoch, searches=False)
    """
    assert peaks(loop) == [500] * 2


def test_a_loop_that_does_not_report_its_steps_has_the_whole_peak(peaks):
    assert peaks("for epoch in trial.epochs():\n    step()\n    trial.count(steps=1)\n") == [SEARCH] * 2

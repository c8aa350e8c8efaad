"""What a person sees while a grid runs, from made-up events, and once on a real terminal."""

import os
import pty
import re
import sys
from io import StringIO
from pathlib import Path

import pytest

from raybench import datasets
from raybench.cli.console import Terminal
from raybench.cli.live import Display, quality_text
from raybench.config import load_grid
from raybench.core import events
from raybench.planning.node import probe_node
from raybench.planning.plan import WorkItem, make_plan
from raybench.results.history import GridHistory

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("val/accuracy", 0.9753, "accuracy 97.53%"),
        ("val/accuracy", 97.5, "accuracy 97.50%"),
        ("val/loss", 0.123456, "loss 0.123"),
        ("train/accuracy", 0.5, "train/accuracy 50.00%"),
    ],
)
def test_a_metric(name, value, text):
    assert quality_text(name, value) == text


@pytest.fixture
def plan(digits, request):
    digits.write_text(digits.read_text().replace("epochs: 1", "epochs: 4") + getattr(request, "param", ""))
    return make_plan(load_grid(digits), [probe_node()], datasets.data_root())


class Watched:
    """A display on a page of its own, told of a plan's trials by their number."""

    def __init__(self, plan, terminal, monkeypatch, width=100):
        self.plan, self.page, self.now = plan, StringIO(), 1000.0
        monkeypatch.setattr("raybench.cli.live.time.monotonic", lambda: self.now)
        console = Terminal(file=self.page, force_terminal=terminal, width=width, color_system=None)
        self.display, self.history = Display(console), GridHistory(Path("grid"))
        self.display.begin(plan, [WorkItem(trial) for trial in plan.trials], self.history)

    def tell(self, event):
        self.history.take(event)
        self.display.event(event)

    def start(self, number, attempt=1):
        trial = self.plan.trials[number]
        fields = {"cell": trial.cell.content.to_json(), "label": self.plan.label(trial), "run": "run-1"}
        self.tell(events.trial_started(trial.trial_id, attempt, **fields))

    def epoch(self, number, epoch, accuracy, train=2.0):
        ledger = {"compile": 1.0 if epoch == 1 else 0.0, "train": train, "input_wait": 0.0, "evaluate": 0.5}
        trial = self.plan.trials[number].trial_id
        fields = {"epoch": epoch, "steps": 3, "examples": 96, "ledger": ledger, "metrics": {"val/accuracy": accuracy}}
        self.tell(events.epoch_ended(trial, 1, **fields))

    def end(self, number, status="completed", **fields):
        self.tell(events.trial_ended(self.plan.trials[number].trial_id, 1, status, **fields))

    def lines(self):
        """Everything on the page so far, without what moves the cursor."""
        return ESCAPES.sub("\n", self.page.getvalue()).replace("\r", "").splitlines()

    def frame(self):
        """The last picture; the display is over then."""
        before = len(self.lines())
        self.display.end()
        return [line.strip() for line in self.lines()[before:] if line.strip()]


@pytest.fixture
def terminal(plan, monkeypatch):
    watched = Watched(plan, terminal=True, monkeypatch=monkeypatch)
    yield watched
    watched.display.end()


@pytest.fixture
def plain(plan, monkeypatch):
    return Watched(plan, terminal=False, monkeypatch=monkeypatch)


def test_line_of_a_running_trial(terminal):
    terminal.start(0)
    terminal.now += 4
    terminal.epoch(0, 1, 0.5)
    terminal.now += 2.5
    terminal.epoch(0, 2, 0.8125)
    trial = terminal.plan.trials[0]
    head, row = terminal.frame()[:2]
    assert head.endswith("0/2 trials  6 s so far"), "nothing is known of the second"
    assert f"batch {trial.cell.axes['batch_size']}   2/4 epochs done   2.00 s/epoch   accuracy 81.25%" in row


def test_time_left_counts_down(terminal):
    terminal.start(0)
    for epoch in range(1, 5):
        terminal.epoch(0, epoch, 0.9)
    terminal.end(0, ledger={"setup": 1.0, "compile": 1.0, "train": 8.0, "evaluate": 2.0}, wall=12.0)
    assert 10 < terminal.display.seconds_left() < 25, "like the first: 12 s, or as much again where its batch is larger"
    terminal.start(1)
    begun = terminal.display.seconds_left()
    terminal.now += 3
    assert terminal.display.seconds_left() == pytest.approx(begun - 3)
    terminal.epoch(1, 1, 0.5)
    assert terminal.display.seconds_left() == pytest.approx(3 * 2.5), "its own epochs say it best"
    terminal.now += 1
    assert terminal.display.time_left() == "about 6 s left"
    terminal.now += 100
    assert terminal.display.time_left() == "nearly done"
    terminal.end(1, ledger={"train": 8.0}, wall=12.0)
    head, *rest = terminal.frame()
    assert head.endswith("2/2 trials  2 min so far"), "and nothing of the time left"
    assert not any("epoch" in line for line in rest)


@pytest.mark.parametrize("plan", ["budget: {time: 7s}\n", "budget: {time: 6s, compile: excluded}\n"], indirect=True)
def test_time_left_ends_with_the_budget(plain):
    plain.start(0)
    plain.start(1)
    for number in (0, 1):
        plain.epoch(number, 1, 0.5)
    assert plain.display.seconds_left() == pytest.approx(2 * 2.5), "4 s are left: 2 of its 3 epochs, with evaluations"


def proof(passed, says):
    about = "weight decay: torch on cpu, sgd, 8 replicas"
    return events.check_ended("decay-1", 1, check="weight_decay", about=about, passed=passed, says=says, error=None)


PASSED = proof(True, "passed")


ROOFLINE = events.check_ended(
    "roofline-1",
    1,
    check="roofline",
    subject={"device": {"kind": "cpu"}},
    work={},
    probes={"product": 94.4e9, "convolution": 5e10, "memory": 1e10},
    error=None,
)


def test_checks_are_one_line_before_the_first_trial(terminal):
    for check in (PASSED, PASSED, ROOFLINE):
        terminal.display.event(check)
    terminal.start(0)
    terminal.start(1)
    terminal.display.end()
    line = "Checks: weight decay ok · peak 94.4 GFLOP/s (product) on cpu"
    assert [text for text in terminal.lines() if "Checks" in text] == [line]


def test_failures_stay_above_the_live_display(terminal, tmp_path):
    terminal.start(0)
    terminal.epoch(0, 1, 0.75)
    terminal.end(0, wall=12.0)
    terminal.start(1)
    trial = terminal.plan.trials[1]
    folder = Path("grid/attempts") / trial.trial_id / "run-1"
    folder.mkdir(parents=True)
    (folder / "output.log").write_text("more")
    error = {"type": "ValueError", "message": "[red]no\nmore", "where": "my/model.py:41"}
    terminal.epoch(1, 1, 0.75)
    terminal.end(1, "failed", error=error, wall=0.2)
    terminal.display.end()
    lines = terminal.lines()
    batch = trial.cell.axes["batch_size"]
    start = lines.index(f"Trial failed after 1 epoch: cpu, batch {batch}")
    assert lines[start + 1] == "  ValueError: [red]no (my/model.py:41)"
    assert lines[start + 2] == f"  Full output: {folder}/output.log"
    assert not any("completed" in line for line in lines)


def test_plain_lines_without_a_terminal(plain):
    plain.start(0)
    for epoch in range(1, 4):
        plain.now += 6
        plain.epoch(0, epoch, 0.25 * epoch)
    plain.end(0, wall=18.0)
    plain.start(1)
    plain.end(1, "oom", error={"type": "MemoryError", "message": "too large"})
    first, second = (f"batch {trial.cell.axes['batch_size']}" for trial in plain.plan.trials)
    assert "\x1b" not in plain.page.getvalue()
    assert plain.lines()[1:] == [
        "Starting the first trial …",
        f"started    {first}",
        f"running    {first}   2/4 epochs done   2.00 s/epoch   accuracy 50.00%",
        f"completed  {first}   took 18.0 s   accuracy 75.00%   (1/2, time left not known yet)",
        f"started    {second}",
        f"Trial ran out of memory: cpu, {second}   (2/2)",
        "  MemoryError: too large",
        f"  Files: grid/attempts/{plain.plan.trials[1].trial_id}/run-1",
    ]


@pytest.mark.slow
def test_on_a_real_terminal(digits, tmp_path):
    """The whole command on a pseudo-terminal: a live display, its end, and the cursor back."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="30")
        arguments = [
            "-m",
            "raybench",
            "grid",
            str(digits),
            "--inline",
            "--no-checks",
            "--tracking",
            "none",
            "--set",
            "epochs=2",
        ]
        os.execv(sys.executable, [sys.executable, *arguments])
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # Linux tells the end so
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    text = shown.decode()
    plain = ESCAPES.sub("", text)
    assert "Starting the first trial … " in plain
    assert re.search(r"batch (32|64)   ./2 epochs done", plain), plain
    assert re.search(r"[12]/2 trials", plain), plain
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is back"
    assert plain.index("#  configuration") > plain.rindex(" so far"), "the table comes when the display is gone"
    assert "Traceback" not in plain

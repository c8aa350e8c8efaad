"""`raybench grid --timing`."""

from types import SimpleNamespace

from rich.console import Console

from raybench.cli import timing
from raybench.cli.timing import CHECKS, END, PLAN, START, TRIALS, TimedListener
from raybench.execution.progress import RecordingListener


def test_each_phase_has_the_time_since_the_one_before(monkeypatch, capsys):
    listener = RecordingListener()
    view = TimedListener(listener, started_at=100.0)

    def at(seconds):
        monkeypatch.setattr(timing, "time", SimpleNamespace(time=lambda: seconds))

    at(101.0)
    view.begin(None, [], None)
    at(105.0)
    view.event({"event": "check_ended"})
    at(106.0)
    view.event({"event": "trial_started"})
    at(108.0)
    view.event({"event": "trial_ended"})
    at(108.5)
    view.event({"event": "check_ended"})
    at(110.0)
    view.warn("a warning is passed on")
    view.stop()
    assert view.seconds == {PLAN: 1.0, START: 4.0, CHECKS: 0.5, TRIALS: 3.0, END: 1.5}
    assert [event["event"] for event in listener.events] == [
        "check_ended",
        "trial_started",
        "trial_ended",
        "check_ended",
    ]
    assert listener.warnings == ["a warning is passed on"]
    view.show(Console(width=80))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "This command took 10.0 s:"
    assert lines[3] == "     4.0 s   40%  Ray, MLflow, framework, first check"


def test_a_command_that_runs_nothing_has_one_phase(monkeypatch):
    view = TimedListener(RecordingListener(), started_at=100.0)
    monkeypatch.setattr(timing, "time", SimpleNamespace(time=lambda: 102.0))
    view.stop()
    assert {phase for phase, seconds in view.seconds.items() if seconds} == {PLAN}

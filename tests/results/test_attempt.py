import math

import pytest
from support import ROOT
from support.attempts import attempts
from support.grid_files import file_of

from raybench.core import events
from raybench.core.job import Target
from raybench.results.attempt_file import run_in
from raybench.results.folder import add_event, parse_events
from raybench.results.parsing import number_in
from raybench.results.run_table import latest

TRIAL = "e5728b716bd9-r2"
RECORDED = sorted((ROOT / "notebooks" / "recorded").glob("*/attempts/*/*.jsonl"))


def epoch(number, trial=TRIAL, attempt=1, **fields):
    return events.epoch_ended(
        trial, attempt, epoch=number, steps=1, examples=8, ledger={"train": 1.0}, metrics={}, **fields
    )


def test_an_attempt_is_folded_from_its_events(golden_events):
    (attempt,) = attempts(golden_events).values()
    assert (attempt.trial, attempt.cell_id, attempt.repeat, attempt.attempt) == (
        "e5728b716bd9-r0",
        "e5728b716bd9",
        0,
        1,
    )
    assert (attempt.status, attempt.seed, attempt.wall, attempt.template_import) == ("completed", 0, 9.8, 2.412)
    assert (attempt.started, attempt.ended) == ("2026-11-21T09:00:00.000Z", "2026-11-21T09:00:09.800Z")
    assert (
        attempt.host["pid"] == 4711
        and attempt.versions["ray"] == "2.60.0"
        and attempt.runtime_conditions["threads"] == 2
    )
    assert [epoch.epoch for epoch in attempt.epochs] == [1, 2]
    assert attempt.epochs[0].ledger == {"compile": 0.618, "train": 3.992, "input_wait": 0.011, "evaluate": 0.405}
    assert attempt.epochs[0].recompiles == 2 and attempt.epochs[1].memory_peak_bytes == 612368384
    assert attempt.last_metrics["val/accuracy"] == 0.561
    assert attempt.error is None and attempt.warmup_epochs == 1


def test_a_lost_start_leaves_the_rest(golden_events):
    (attempt,) = attempts(golden_events[1:]).values()
    assert not attempt.cell and attempt.started is None
    assert attempt.status == "completed" and attempt.last_metrics["val/accuracy"] == 0.561
    assert (attempt.cell_id, attempt.repeat, attempt.warmup_epochs) == ("e5728b716bd9", 0, 1)


def test_repeated_and_unordered_epochs_count_once():
    (attempt,) = attempts([epoch(2), epoch(1), epoch(2, cpu_s=3.0)]).values()
    assert [one.epoch for one in attempt.epochs] == [1, 2]
    assert attempt.epochs[1].cpu_s == 3.0


def test_the_first_end_holds():
    told = [events.trial_ended(TRIAL, 1, "completed", wall=2.0), events.trial_ended(TRIAL, 1, "lost")]
    (attempt,) = attempts(told).values()
    assert (attempt.status, attempt.wall) == ("completed", 2.0)


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"event": "from_the_future", "trial": TRIAL, "attempt": 1},
        {"event": "grid_started", "t": "2026-11-21T09:00:00.000Z"},
        {"event": "trial_started"},
        {"event": "trial_started", "trial": 3, "attempt": 1},
        {"event": "trial_started", "trial": TRIAL, "attempt": "1"},
        {"event": "trial_started", "trial": TRIAL, "attempt": True},
        {"event": ["trial_started"], "trial": TRIAL, "attempt": 1},
    ],
)
def test_what_is_not_known_is_left_aside(strange):
    assert attempts([strange]) == {}


@pytest.mark.parametrize(
    "damaged",
    [
        {"event": "trial_started", "seed": "0"},
        {"event": "trial_started", "host": None},
        {"event": "epoch_ended", "epoch": "one"},
        {"event": "epoch_ended", "epoch": 1, "metrics": {"flag": True}},
        {"event": "epoch_ended", "epoch": 1, "metrics": {"val/accuracy": "high"}},
        {"event": "epoch_ended", "epoch": 1, "metrics": {"val/loss": 1e101}},
        {"event": "epoch_ended", "epoch": 1, "ledger": {"train": "1.0"}},
        {"event": "epoch_ended", "epoch": 1, "steps": True},
        {"event": "epoch_ended", "epoch": 1, "step_s": [0.5, "?"]},
        {"event": "epoch_ended", "epoch": 1, "memory_peak_bytes": 1.5},
        {"event": "trial_ended", "status": 3},
        {"event": "trial_ended", "status": "completed", "wall": "long"},
    ],
)
def test_event_with_a_value_that_it_cannot_have_is_left_out_and_named(damaged):
    start = {"event": "trial_started", "trial": TRIAL, "attempt": 1, "label": "mine"}
    run = run_in(file_of([start, start | damaged]), "x.jsonl", places := [])
    assert places == ["x.jsonl:2"]
    assert (run.label, run.status, len(run.epochs)) == ("mine", None, 0)


def test_whole_numbers_and_missing_values_are_read():
    told = events.epoch_ended(TRIAL, 1, epoch=1, ledger={"train": 1}, metrics={}, units={"tokens": 5}, cpu_s=None)
    (epoch,) = run_in(file_of([told]), "x.jsonl", places := []).epochs
    assert (epoch.ledger, epoch.units, epoch.cpu_s, places) == ({"train": 1.0}, {"tokens": 5.0}, None, [])


@pytest.mark.parametrize("path", RECORDED[:3], ids=lambda path: path.parent.name)
def test_recorded_files_are_read_as_their_events(path):
    run = run_in(path.read_bytes(), "", places := [])
    assert run.epochs and not places and [run] == [*attempts(parse_events(path.read_bytes(), "", [])).values()]


def test_label_profile_and_target_of_an_attempt():
    told = events.trial_started(
        TRIAL, 1, label="mine", grid="g", profile="gpu", target={"metric": "val/accuracy", "at_least": 0.94}
    )
    (attempt,) = attempts([told]).values()
    assert (attempt.label, attempt.grid, attempt.profile) == ("mine", "g", "gpu")
    assert attempt.target == Target("val/accuracy", at_least=0.94)


def test_the_latest_attempt_of_each_trial():
    told = [
        events.trial_ended("a-r0", 2, "completed"),
        events.trial_ended("a-r0", 1, "lost"),
        events.trial_ended("a-r1", 1, "failed"),
    ]
    found = latest(attempts(told).values())
    assert {trial: (one.attempt, one.status) for trial, one in found.items()} == {
        "a-r0": (2, "completed"),
        "a-r1": (1, "failed"),
    }


def test_the_evidence_for_an_epoch_s_times():
    told = [
        epoch(1, settle_s={"train": 2.1e-05}, step_s=[0.5, 0.25, 1]),
        epoch(2, device_s={"train": 0.98, "evaluate": 0.4}),
        events.trial_ended(TRIAL, 1, "completed", ledger={"train": 2.0}),
    ]
    (attempt,) = attempts(told).values()
    first, second = attempt.epochs
    assert (first.settle_s, list(first.step_s)) == ({"train": 2.1e-05}, [0.5, 0.25, 1.0])
    assert (first.device_s, second.device_s) == ({}, {"train": 0.98, "evaluate": 0.4})
    assert (second.settle_s, list(second.step_s)) == ({}, [])


@pytest.mark.parametrize("seconds", [1e200, -1e101, math.nan, math.inf])
def test_overflowing_number_is_damage(seconds):
    assert number_in(seconds) is None and number_in(1e99) == 1e99


def test_a_changed_or_lost_line_is_named(tmp_path):
    """A line has its place and a checksum: a value that became another valid one is found, too."""
    folder, places = tmp_path / "run", []
    for event in (events.trial_started(TRIAL, 1, label="é"), epoch(1), epoch(2), events.trial_ended(TRIAL, 1, "oom")):
        add_event(folder, event)
    lines = folder.with_suffix(".jsonl").read_bytes().splitlines(keepends=True)
    run = run_in(b"".join(lines), "x", places)
    assert (places, run.status, len(run.epochs)) == ([], "oom", 2)
    changed = lines[1].replace(b'"train":1.0', b'"train":1.1')
    run = run_in(b"".join([lines[0], changed, *lines[2:]]), "x", places)
    assert (places, run.status, [one.epoch for one in run.epochs]) == (["x:2"], "oom", [2])
    run = run_in(b"".join([lines[0], *lines[2:]]), "x", places := [])
    assert (len(places), places[0][:4], run.status, len(run.epochs)) == (1, "x:2 ", "oom", 1)

"""An event is read with its values, or left out if one of them is damaged."""

from pathlib import Path

import pytest
from support.attempts import attempts
from support.grid_files import file_of

from raybench.results.attempt_file import run_in
from raybench.results.folder import parse_events

RECORDED = sorted((Path(__file__).parents[2] / "notebooks" / "recorded").glob("*/attempts/*/*.jsonl"))


@pytest.mark.parametrize("path", RECORDED[:3], ids=lambda path: path.parent.name)
def test_recorded_files_are_read(path):
    damaged = []
    attempt = run_in(path.read_bytes(), "", damaged)
    assert attempt.epochs and not damaged and [attempt] == [*attempts(parse_events(path.read_bytes(), "", [])).values()]


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("ledger", {"train": 1, "input_wait": 2.5}, {"train": 1.0, "input_wait": 2.5}),
        ("units", {"tokens": 5}, {"tokens": 5.0}),
        ("cpu_s", None, None),
        ("ledger", {"train": "1.0"}, ...),
        ("metrics", {"val/accuracy": "high"}, ...),
        ("metrics", {"val/loss": 1e101}, ...),
        ("steps", True, ...),
        ("step_s", [0.5, "?"], ...),
        ("memory_peak_bytes", 1.5, ...),
    ],
)
def test_epoch_with_a_damaged_value_is_left_out(name, value, read):
    events, damaged = parse_events(RECORDED[0].read_bytes(), "", []), []
    place = next(place for place, event in enumerate(events) if event["event"] == "epoch_ended")
    events[place][name] = value
    first = run_in(file_of(events), "x", damaged).epochs[0]
    if read is ...:
        assert damaged == [f"x:{place + 1}"] and first.epoch == 2
    else:
        assert not damaged and getattr(first, name) == read

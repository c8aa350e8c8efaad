"""An epoch's line is read the same at once, and value by value if one of them is damaged."""

import json
from pathlib import Path

import pytest
from support.attempts import attempts

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
        ("ledger", {"train": -1.0, "input_wait": 2}, {"input_wait": 2.0}),
        ("ledger", {"train": 1, "input_wait": 2.5}, {"train": 1.0, "input_wait": 2.5}),
        ("metrics", {"val/accuracy": "high", "val/loss": 0.5}, {"val/loss": 0.5}),
        ("metrics", {"val/loss": 1e101}, {}),
        ("steps", 2**64, 0),
        ("steps", True, 0),
        ("step_s", [0.5, "?"], ()),
        ("optimizers", [{"lr": 1e200}, {"lr": 0.1}], ({"lr": 0.1},)),
        ("units", {"tokens": 5}, {"tokens": 5.0}),
        ("cpu_s", None, None),
        ("memory_peak_bytes", 1.5, None),
    ],
)
def test_damaged_value_is_missing(name, value, read):
    lines = RECORDED[0].read_bytes().splitlines()
    place = next(place for place, line in enumerate(lines) if b'"epoch_ended"' in line)
    lines[place] = json.dumps(json.loads(lines[place]) | {name: value}, separators=(",", ":")).encode()
    damaged = []
    assert getattr(run_in(b"\n".join(lines), "", damaged).epochs[0], name) == read and not damaged

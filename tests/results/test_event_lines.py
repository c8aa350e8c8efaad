"""Files of events are read the same by both readers: that of whole lines, and that of events with damaged values."""

import json
from pathlib import Path

import pytest

from raybench.results.attempt import DAMAGED, attempt_of_lines, attempts
from raybench.results.folder import parse_events

RECORDED = sorted((Path(__file__).parents[2] / "notebooks" / "recorded").glob("*/attempts/*/*.jsonl"))


def both(lines):
    """Return the attempts of the reader of events, and the attempt of the reader of lines; None for a damaged file."""
    (attempt,) = attempts(parse_events(b"\n".join(lines) + b"\n", "", [])).values()
    try:
        return attempt, attempt_of_lines(lines)
    except DAMAGED:
        return attempt, None


@pytest.mark.parametrize("path", RECORDED[:3], ids=lambda path: path.parent.name)
def test_recorded_files_are_read_from_lines(path):
    attempt, fast = both(path.read_bytes().splitlines())
    assert fast == attempt and fast.epochs


@pytest.mark.parametrize(
    ("name", "value", "damaged"),
    [
        ("ledger", {"train": -1.0, "input_wait": 2}, True),
        ("ledger", {"train": 1, "input_wait": 2.5}, False),
        ("metrics", {"val/accuracy": "high"}, True),
        ("metrics", {"val/loss": 1e101}, True),
        ("steps", 2**64, True),
        ("steps", True, True),
        ("step_s", [0.5, "?"], True),
        ("optimizers", [{"lr": 1e200}, {"lr": 0.1}], False),
        ("units", {"tokens": 5}, False),
        ("cpu_s", None, False),
        ("memory_peak_bytes", 1.5, True),
        ("epoch", 0, True),
    ],
)
def test_damaged_values_are_left_to_the_other_reader(name, value, damaged):
    lines = RECORDED[0].read_bytes().splitlines()
    place = next(place for place, line in enumerate(lines) if b'"epoch_ended"' in line)
    lines[place] = json.dumps(json.loads(lines[place]) | {name: value}, separators=(",", ":")).encode()
    attempt, fast = both(lines)
    assert fast is None if damaged else fast == attempt

"""The golden journal, as its events."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden" / "journal.jsonl"


@pytest.fixture
def golden_events():
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]

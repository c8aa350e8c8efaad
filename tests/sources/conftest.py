"""The golden journal, as its events."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def golden_events():
    golden = Path(__file__).parent.parent / "golden" / "journal.jsonl"
    return [json.loads(line) for line in golden.read_text().splitlines()]

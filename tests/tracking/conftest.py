"""The golden journal, as its file and as its events."""

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def golden_journal():
    return Path(__file__).parent.parent / "golden" / "journal.jsonl"


@pytest.fixture
def golden_events(golden_journal):
    return [json.loads(line) for line in golden_journal.read_text().splitlines()]

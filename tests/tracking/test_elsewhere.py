"""What a store has of a grid, for a journal that has nothing of it."""

import pytest

from raybench.analysis import rules
from raybench.analysis.results import attempts
from raybench.tracking.elsewhere import look
from raybench.tracking.journal import Journal, attempt_folder
from raybench.tracking.projection import attempt_id
from raybench.tracking.store import StoreError, resolve
from raybench.tracking.sync import sync
from raybench.trial import events
from raybench.trial.record import EVENTS, line

KEY = ("960070f40c0c-r0", 1)
LOST = ("960070f40c0c-r1", 3)


@pytest.fixture(params=["with its own events", "of its metrics alone"])
def grid(request, tmp_path, store, golden_events):
    """A grid in a store: one trial that completed, one whose third attempt was lost."""
    name = f"{request.node.name}-{tmp_path.name}"
    journal = tmp_path / name / "journal.jsonl"
    with Journal(journal) as kept:
        for event in golden_events:
            kept.append(event)
        kept.append(events.trial_ended(*LOST, "lost"))
    if request.param == "with its own events":
        own = attempt_folder(journal.parent, *KEY)
        own.mkdir(parents=True)
        (own / EVENTS).write_text("".join(map(line, golden_events)))
    sync(journal, store, name)
    return name


def test_what_completed_is_found_with_its_numbers(store, grid, golden_events):
    found = look(store, grid, {KEY[0], LOST[0]}, set())
    assert (found.taken, found.hosts) == ({KEY[0]: 1, LOST[0]: 3}, ["node-1"])
    assert {event["from"] for event in found.events} == {str(store)}
    (attempt,) = attempts(found.events).values()
    (wanted,) = attempts(golden_events).values()
    assert attempt_id(attempt) == attempt_id(wanted), "so that it is not written to the store again"
    assert (attempt.key, attempt.status, attempt.cell) == (KEY, "completed", wanted.cell)
    for rule in (rules.steady, rules.total, rules.first, rules.airbench):
        assert rule(attempt) == pytest.approx(rule(wanted), abs=1e-9), rule
    assert [epoch.metrics for epoch in attempt.epochs] == [epoch.metrics for epoch in wanted.epochs]


def test_what_is_known_or_was_not_asked_for_is_left(store, grid):
    assert not look(store, grid, {KEY[0]}, {KEY}).events
    assert look(store, grid, {"another-r0"}, set()).taken == {}
    assert look(store, "no such grid", {KEY[0]}, set()).taken == {}


def test_a_store_that_is_not_there_yet_or_no_store(tmp_path):
    assert look(resolve(tmp_path), "x", {"a-r0"}, set()).taken == {}
    (tmp_path / "mlflow.db").write_bytes(b"noise" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        look(resolve(tmp_path), "x", {"a-r0"}, set())

import shutil

import pytest

from raybench.core import events
from raybench.core.events import to_line
from raybench.errors import JournalError
from raybench.results.attempt import attempts
from raybench.results.history import GridHistory
from raybench.results.journal import Journal, attempt_folder, read
from raybench.results.union import events_of

KEY = ("e5728b716bd9-r0", 1)


@pytest.fixture
def own_record(tmp_path, golden_journal):
    """The record a trial kept where it ran."""
    folder = attempt_folder(tmp_path, *KEY)
    folder.mkdir(parents=True)
    return shutil.copy(golden_journal, folder / "events.jsonl")


def recovered(tmp_path, told):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        for event in told:
            journal.append(event)
    history = GridHistory.recover(path)
    written = list(read(path))
    assert history.attempts == attempts(written) == GridHistory.read(path).attempts
    assert written[: len(told)] == told
    return written[len(told) :], history.attempts[KEY]


def every_event(path):
    return list(events_of(path, str(path)).events)


@pytest.mark.parametrize("heard", [1, 2, 3])
def test_what_the_driver_did_not_hear_comes_from_the_trial_s_own_record(tmp_path, golden_events, own_record, heard):
    added, attempt = recovered(tmp_path, golden_events[:heard])
    assert added == golden_events[heard:]
    assert attempt.status == "completed" and attempt.wall == 9.8 and len(attempt.epochs) == 2


def test_reading_completes_a_journal_without_writing(tmp_path, golden_events, own_record):
    path = tmp_path / "journal.jsonl"
    assert every_event(path) == golden_events
    assert not path.exists()
    path.write_bytes(b"")
    assert every_event(path) == golden_events
    path.write_text(to_line(golden_events[0]))
    own_record.unlink()
    assert GridHistory.read(path).attempts[KEY].status is None, "it may be running"
    assert path.read_text() == to_line(golden_events[0])


def test_a_record_that_is_a_link_is_not_read(tmp_path, golden_events, own_record):
    own_record.rename(tmp_path / "elsewhere.jsonl")
    own_record.symlink_to(tmp_path / "elsewhere.jsonl")
    assert every_event(tmp_path / "journal.jsonl") == []


def test_a_journal_that_is_a_link_is_not_written(tmp_path):
    (tmp_path / "private").write_text("mine\n")
    (tmp_path / "journal.jsonl").symlink_to(tmp_path / "private")
    with pytest.raises(JournalError, match=r"journal\.jsonl"):
        Journal(tmp_path / "journal.jsonl")
    assert (tmp_path / "private").read_text() == "mine\n"


def test_an_audit_nobody_heard_of_comes_with_it(tmp_path, golden_events, own_record):
    audited = events.trial_audited(*KEY, seconds=8.2, host={"other_cpu_s": 0.1})
    own_record.write_text(own_record.read_text() + to_line(audited))
    added, attempt = recovered(tmp_path, golden_events[:2])
    assert added == [*golden_events[2:], audited]
    assert attempt.audit == {"seconds": 8.2, "host": {"other_cpu_s": 0.1}}


def test_a_lost_start_is_found_again(tmp_path, golden_events, own_record):
    _, attempt = recovered(tmp_path, golden_events[1:2])
    assert attempt.started == "2026-11-21T09:00:00.000Z" and attempt.cell.framework == "torch"


def test_without_a_record_it_was_lost(tmp_path, golden_events):
    added, attempt = recovered(tmp_path, golden_events[:2])
    assert [event["status"] for event in added] == ["lost"]
    assert attempt.status == "lost" and "its driver ended" in attempt.error["message"] and len(attempt.epochs) == 1


def test_a_record_torn_before_its_end_is_used_as_far_as_it_goes(tmp_path, golden_events, own_record):
    own_record.write_bytes(own_record.read_bytes()[:-30])
    added, attempt = recovered(tmp_path, golden_events[:1])
    assert [event["event"] for event in added] == ["epoch_ended", "epoch_ended", "trial_ended"]
    assert attempt.status == "lost" and len(attempt.epochs) == 2


def test_what_has_ended_is_left_alone(tmp_path, golden_events, own_record):
    added, _ = recovered(tmp_path, golden_events)
    assert added == []


@pytest.mark.parametrize("whole", [True, False])
def test_an_attempt_the_journal_never_heard_of_comes_from_its_own_record(tmp_path, golden_events, own_record, whole):
    if not whole:
        own_record.write_text("".join(to_line(event) for event in golden_events[:2]))
    added, attempt = recovered(tmp_path, [])
    assert added[: 4 if whole else 2] == golden_events[: 4 if whole else 2]
    assert (attempt.status, len(attempt.epochs)) == (("completed", 2) if whole else ("lost", 1))


def test_a_folder_in_which_nothing_was_told_is_no_attempt(tmp_path, own_record):
    own_record.write_bytes(b'{"v":1,"event":"trial_sta')
    (tmp_path / "trials" / "x-r0" / "attempt-two").mkdir(parents=True)
    assert GridHistory.recover(tmp_path / "journal.jsonl").events == []


def test_a_snapshot_stays_as_it_was(tmp_path, golden_events):
    history = GridHistory(tmp_path / "journal.jsonl", golden_events[:2])
    before = history.snapshot(KEY)
    for event in golden_events[2:]:
        history.take(event)
    assert (before.status, len(before.epochs)) == (None, 1)
    assert (history.snapshot(KEY).status, len(history.snapshot(KEY).epochs)) == ("completed", 2)
    assert history.snapshot(KEY) == history.attempts[KEY] == attempts(golden_events)[KEY]


def test_only_events_that_concern_no_attempt_are_kept(tmp_path, golden_events):
    path, check = tmp_path / "journal.jsonl", events.check_ended("canary-1", 1, check="canary", seconds=0.5)
    path.write_text("".join(map(to_line, [check, *golden_events])))
    assert GridHistory.read(path).events == GridHistory.read(path).of_kind("check_ended") == [check]
    assert every_event(path) == [check, *golden_events]


def test_damage_is_reported_once(tmp_path, golden_events):
    path = tmp_path / "journal.jsonl"
    path.write_text("{not\n" + "".join(map(to_line, golden_events)))
    first, second = GridHistory.recover(path), GridHistory.recover(path)
    assert first.warnings == [f"{path}: skipped 1 damaged line (1)"] and second.warnings == []
    assert first.damaged_lines == second.damaged_lines == [1]
    assert [*golden_events, *first.events] == [*golden_events, *second.events] == list(read(path))
    assert second.of_kind("journal_damaged")[0]["lines"] == [1]

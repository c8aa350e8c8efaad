import json
import logging
import threading

import pytest

from raybench.core import events
from raybench.core.status import TrialStatus
from raybench.results.journal import Journal, read


def test_what_is_appended_is_read(tmp_path):
    path = tmp_path / "deep" / "journal.jsonl"
    told = [events.trial_started("a-r0", 1, cell={"ü": [1, None]}), events.trial_ended("a-r0", 1, "completed")]
    with Journal(path) as journal:
        for event in told:
            journal.append(event)
            assert path.read_bytes().endswith(b"\n"), "flushed at once"
    assert list(read(path)) == told
    with Journal(path) as journal:
        journal.append(told[0])
    assert list(read(path)) == [*told, told[0]]


def test_what_is_appended_comes_back_as_it_is_read(tmp_path):
    event = {**events.trial_started("a-r0", 1, cell={1: (2.5, None), "\ud800": "ü"}), "status": TrialStatus.LOST}
    with Journal(tmp_path / "journal.jsonl") as journal:
        written = journal.append(event)
    assert written["cell"]["1"] == [2.5, None]
    assert list(read(journal.path)) == [written]


def test_a_journal_cut_at_every_byte_of_its_last_line_is_read(golden_journal, golden_events, tmp_path):
    whole = golden_journal.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    path = tmp_path / "cut.jsonl"
    for cut in range(start, len(whole) + 1):
        path.write_bytes(whole[:cut])
        damaged: list[int] = []
        assert list(read(path, damaged)) == golden_events[: 4 if cut >= len(whole) - 1 else 3]
        assert damaged == [], "a torn tail is no damage"


def test_appending_after_a_torn_tail_keeps_what_follows(golden_journal, golden_events, tmp_path, caplog):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(golden_journal.read_bytes()[:-40])
    with Journal(path) as journal:
        journal.append(golden_events[3])
    damaged: list[int] = []
    assert list(read(path, damaged)) == golden_events
    assert damaged == [4]
    with caplog.at_level(logging.WARNING, "raybench"):
        list(read(path))
    assert caplog.messages == [f"{path}: skipped 1 damaged line (4)"]


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"5",
        b'["trial_ended"]',
        b"{}",
        b'{"event":["trial_ended"]}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"1" * 10_000,
        b"\x80\x04K\x01.",
        b'{"v":1,"event"',
    ],
    ids=["words", "number", "list", "nameless", "name", "bytes", "brackets", "digits", "pickle", "torn"],
)
def test_a_damaged_line_in_the_middle_is_left_out_and_reported(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"event":"a"}\n' + line + b'\n\n{"event":"b"}\n')
    damaged: list[int] = []
    assert list(read(path, damaged)) == [{"event": "a"}, {"event": "b"}]
    assert damaged == [2]


def test_nothing_but_json_gets_in(tmp_path):
    with Journal(tmp_path / "j") as journal:
        with pytest.raises(ValueError, match="JSON"):
            journal.append({"event": "x", "loss": float("nan")})
        with pytest.raises(TypeError):
            journal.append({"event": "x", "path": tmp_path})
        journal.append({"event": "fine"})
    assert list(read(tmp_path / "j")) == [{"event": "fine"}]


def test_lines_of_many_threads_do_not_mix(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:

        def write(name):
            for number in range(200):
                journal.append({"event": "x", "from": name, "number": number, "filler": "y" * 500})

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    got = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(got) == 800
    assert all([e["number"] for e in got if e["from"] == name] == list(range(200)) for name in range(4))


def test_a_closed_journal_takes_nothing(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.close()
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.append({"event": "x"})


def test_events_share_the_names_of_their_fields(tmp_path):
    """So that a journal of many epochs takes a third less memory; written and read again."""
    path = tmp_path / "journal.jsonl"
    event = {"v": 1, "event": "epoch_ended", "trial": "a-r0", "metrics": {"val/accuracy": 0.5}}
    with Journal(path) as journal:
        first, second = journal.append(event), journal.append(event)
    third = next(iter(read(path)))
    for other in (second, third):
        assert other == first == event
        assert list(map(id, other)) == list(map(id, first))
        assert list(map(id, other["metrics"])) == list(map(id, first["metrics"]))

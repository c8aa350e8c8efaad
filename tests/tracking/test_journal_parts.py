"""A journal in parts, and the journal again."""

import json

import pytest

from raybench.tracking import journal_parts
from raybench.tracking.journal_parts import Part, end_of_lines, join, journal_id, merged, missing_parts, part_named

LINES = [b'{"event":"a"}\n', b'{"event":"bb"}\n', b'{"event":"ccc"}\n']
TEXT = b"".join(LINES)


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(TEXT)
    return path


def parts_of(journal, known=(), start=0):
    return list(missing_parts(journal, known, start, end_of_lines(journal)))


@pytest.fixture
def by_line(monkeypatch):
    monkeypatch.setattr(journal_parts, "LONGEST", 1)


def test_a_store_without_parts_lacks_all_of_it(journal):
    ((part, text),) = parts_of(journal)
    assert (part.start, part.end, text) == (0, len(TEXT), TEXT)
    assert part_named(f"journal/{part.name}") == part
    assert parts_of(journal, [part]) == []


def test_a_long_journal_is_cut_at_ends_of_lines(journal, by_line):
    assert [text for _, text in parts_of(journal)] == LINES


def test_only_what_is_missing_is_yielded(journal, by_line):
    (first, _), (_, middle), (last, _) = parts_of(journal)
    assert [text for _, text in parts_of(journal, [last, first])] == [middle]
    assert [text for _, text in parts_of(journal, [], first.end)] == LINES[1:]


def test_a_part_of_another_journal_does_not_count(journal):
    """A results folder was copied, and both copies went on."""
    other = Part(0, len(TEXT), "0" * 16)
    assert [text for _, text in parts_of(journal, [other])] == [TEXT]


@pytest.mark.parametrize("torn", [b'{"event":', b"x" * (2 * journal_parts.BLOCK)])
def test_a_line_that_is_half_written_waits(journal, torn):
    journal.write_bytes(TEXT + torn)
    assert [text for _, text in parts_of(journal)] == [TEXT]
    journal.write_bytes(torn)
    assert parts_of(journal) == [] and journal_id(journal) is None


def test_the_id_stays_while_the_journal_grows(journal, tmp_path):
    before = journal_id(journal)
    journal.write_bytes(TEXT * 2)
    assert journal_id(journal) == before
    assert journal_id(tmp_path / "missing.jsonl") is None
    (tmp_path / "link.jsonl").symlink_to(journal)
    assert journal_id(tmp_path / "link.jsonl") is None, "it may lead to a private file"


def test_parts_make_the_journal_in_any_order_and_number(journal, by_line):
    parts = parts_of(journal)
    whole = (Part(0, len(TEXT), journal_parts._digest(TEXT)), TEXT)
    for given in (parts, parts[::-1], [*parts, *parts], [*parts, whole], [whole, *parts[1:]]):
        joined = join(given, len(TEXT))
        assert (joined.text, joined.damaged, joined.missing) == (TEXT, 0, 0)


def test_equal_lines_count_once_if_parts_overlap(journal, by_line):
    journal.write_bytes(TEXT + LINES[0])
    parts = parts_of(journal)
    assert join(parts, len(TEXT + LINES[0])).text == TEXT + LINES[0]
    assert join([*parts, parts[1]], len(TEXT + LINES[0])).text == TEXT


def test_what_is_missing_or_damaged_is_counted(journal, by_line):
    first, (middle, text), last = parts_of(journal)
    joined = join([first, last], len(TEXT))
    assert (joined.text, joined.damaged, joined.missing) == (LINES[0] + LINES[2], 0, len(LINES[1]))
    assert join([first], len(TEXT)).missing == len(LINES[1] + LINES[2])
    assert join([], len(TEXT)).missing == len(TEXT)
    cut = (middle, text[:-4])
    joined = join([first, cut, last], len(TEXT))
    assert (joined.text, joined.damaged, joined.missing) == (LINES[0] + text[:-4] + b"\n" + LINES[2], 1, 0)
    assert join([first, cut, (middle, text), last], len(TEXT)).text == TEXT, "it is there once more, and sound"


def test_other_files_are_no_parts():
    names = [
        "grid.json",
        "journal/notes.jsonl",
        f"{5:012}-{5:012}-{'0' * 16}.jsonl",
        f"{0:012}-{5:012}-{'g' * 16}.jsonl",
    ]
    assert list(map(part_named, names)) == [None] * 4


def test_the_attempts_of_several_journals_stay_apart():
    def lines(*events):
        return b"".join(json.dumps(event).encode() + b"\n" for event in events)

    early = lines({"t": "1", "trial": "a", "attempt": 1}, {"t": "2", "trial": "a", "attempt": 2})
    late = (
        lines({"t": "0", "trial": "a", "attempt": 1, "of_attempt": 1}, {"t": "3", "trial": "b", "attempt": 1}) + b"{\n"
    )
    assert merged([early]) == early
    expected = lines({"t": "0", "trial": "a", "attempt": 3, "of_attempt": 3}) + late.split(b"\n", 1)[1]
    assert merged([late, early]) == merged([early, late]) == early + expected

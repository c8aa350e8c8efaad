"""The union of several machines' events: what is the same counts once, what differs is an error."""

import json

import pytest
from support.machines import journal_of, results_of

from raybench.core import events as made
from raybench.errors import UsageError
from raybench.results import stored_events
from raybench.results import union as union_module
from raybench.results.attempt import attempts, latest
from raybench.results.union import EventUnion, GridEvents, as_further_repeats, events_of, latest_of_machines

TIME = "2026-01-01T00:00:00.000Z"


def trial(host, run, attempt=1, repeat=0, status="completed", seconds=1.0):
    name = f"0123456789ab-r{repeat}"
    started = made.trial_started(name, attempt, run=run, host={"name": host}, cell={})
    epoch = made.epoch_ended(name, attempt, epoch=1, ledger={"train": seconds})
    # The same trial is made twice, so it must not have the time at which it is made.
    return [{**event, "t": TIME} for event in (started, epoch, made.trial_ended(name, attempt, status))]


def part(source, *trials):
    return GridEvents(source, "tiny", [event for events in trials for event in events])


def test_the_same_run_counts_once():
    first, second = trial("a", "x"), trial("a", "y", repeat=1)
    union = EventUnion(part("A", first))
    assert union.add(part("B", first)) == ([], {})
    new, numbers = union.add(part("C", first, second))
    assert [event["trial"] for event in new] == ["0123456789ab-r1"] * 3
    assert numbers == {("0123456789ab-r1", 1): 1}


def test_an_attempt_without_a_run_is_known_by_its_events_even_if_one_is_there_twice():
    """A damaged start, which has neither run nor time, is read from the journal and from the attempt's own record."""
    start = {"event": "trial_started", "trial": "a-r0", "attempt": 1}
    union = EventUnion(GridEvents("A", "tiny", [start, start]))
    assert union.add(GridEvents("B", "tiny", [start])) == ([], {})


def test_another_run_of_the_same_trial_gets_the_next_number():
    union = EventUnion(part("A", trial("a", "x")))
    other = part("B", trial("b", "y"), trial("b", "z", attempt=2))
    _, numbers = union.add(other)
    assert numbers == {("0123456789ab-r0", 1): 2, ("0123456789ab-r0", 2): 3}
    assert union.add(other) == ([], {})
    records = attempts(union.events)
    assert [(run.run, run.host["name"]) for run in records.values()] == [("x", "a"), ("y", "b"), ("z", "b")]
    assert [bool(run.origin) for run in records.values()] == [False, True, True]


def test_numbers_of_folders_without_events_are_taken():
    union = EventUnion(GridEvents("A", "tiny", []), used=[("0123456789ab-r0", 4)])
    assert union.add(part("B", trial("b", "y")))[1] == {("0123456789ab-r0", 1): 5}


def test_the_same_run_with_other_content_is_an_error_that_names_both():
    union = EventUnion(part("A.zip", trial("a", "x")))
    with pytest.raises(UsageError, match=r"Attempt 1 at trial 0123456789ab-r0 differs between A\.zip and B\.zip"):
        union.add(part("B.zip", [*trial("a", "x", seconds=2.0)]))


def test_the_same_execution_with_other_content_is_an_error_that_names_both():
    ended = {"event": "grid_ended", "execution": "then vm 1", "counts": {}}
    union = EventUnion(GridEvents("A", "tiny", [ended]))
    union.add(GridEvents("B", "tiny", [dict(ended)]))
    with pytest.raises(UsageError, match="execution then vm 1 differs between A and C"):
        union.add(GridEvents("C", "tiny", [{**ended, "counts": {"failed": 1}}]))


def test_an_unfinished_copy_is_completed_by_a_later_one():
    events = trial("a", "x")
    union = EventUnion(GridEvents("A", "tiny", events[:2]))
    new, numbers = union.add(part("B", events))
    assert [event["event"] for event in new] == ["trial_ended"]
    assert numbers == {("0123456789ab-r0", 1): 1}
    assert EventUnion(part("B", events)).add(GridEvents("A", "tiny", events[:2])) == ([], {})


def test_a_resumed_epoch_refers_to_the_new_number():
    events = [*trial("b", "y"), *trial("b", "z", attempt=2)]
    events[4] |= {"of_attempt": 1}
    union = EventUnion(part("A", trial("a", "x")))
    new, _ = union.add(part("B", events))
    assert [event["of_attempt"] for event in new if "of_attempt" in event] == [2]


def test_an_attempt_number_of_another_type_is_left_alone():
    events = trial("b", "y")
    events[0] |= {"of_attempt": []}
    new, _ = EventUnion(part("A", trial("a", "x"))).add(part("B", events))
    assert new[0]["of_attempt"] == []


def test_later_attempts_of_the_first_sources_own_machine_are_its_own():
    union = EventUnion(part("bundle", trial("a", "x")))
    new, _ = union.add(part("folder", trial("a", "x"), trial("a", "y", attempt=2)))
    assert {event["attempt"] for event in new if "attempt" in event} == {2}
    assert not any("origin" in event for event in new)


def test_repeats_of_further_machines_are_further_repeats():
    union = EventUnion(part("A", trial("a", "x"), trial("a", "x1", repeat=1)))
    union.add(part("B", trial("b", "y"), trial("b", "y1", repeat=1), trial("b", "y2", repeat=2)))
    counted = latest(as_further_repeats(attempts(union.events), {"0123456789ab": 2}).values())
    hosts = {name.removeprefix("0123456789ab-"): run.host["name"] for name, run in counted.items()}
    assert hosts == {"r0": "a", "r1": "a", "r2": "b", "r3": "b", "r4": "b"}


def test_a_later_attempt_on_the_same_machine_replaces_the_earlier_one():
    one_folder = attempts([*trial("a", "x"), *trial("b", "y", attempt=2)])
    assert as_further_repeats(one_folder, {}) == one_folder  # two nodes of one cluster
    union = EventUnion(part("A", trial("a", "x")))
    union.add(part("B", trial("a", "y")))
    assert [run.run for run in latest_of_machines(attempts(union.events).values())] == ["y"]
    union.add(part("C", trial("c", "z", status="failed"), trial("c", "z2", attempt=2)))
    assert [run.run for run in latest_of_machines(attempts(union.events).values())] == ["y", "z2"]


def test_a_machine_that_imported_results_keeps_an_id_of_its_own():
    imported = EventUnion(GridEvents("B", "tiny", []))
    imported.add(part("A", trial("a", "x")))
    both = GridEvents("B", "tiny", [*imported.events, *trial("b", "y", attempt=2)])
    union = EventUnion(part("C", trial("c", "z")))
    union.add(both)
    runs = attempts(union.events).values()
    assert len({run.origin for run in runs}) == 3
    assert sorted(run.run for run in latest_of_machines(runs)) == ["x", "y", "z"]


def written(path, *events):
    path.parent.mkdir(parents=True)
    path.write_text("".join(map(made.to_line, events)))
    return events_of(path, path.parent.name)


SKIPPED = {"event": "trial_skipped", "trial": "0123456789ab-r2", "reason": "no GPU", "t": TIME}
LATER = [*trial("c", "z"), *trial("c", "z2", attempt=2), *trial("a", "x1", repeat=1)]


@pytest.mark.parametrize(
    "sources",
    {
        "disjoint": [trial("a", "x"), trial("b", "y", repeat=1)],
        "other runs of a trial": [trial("a", "x"), [*trial("b", "y"), *trial("b", "y2", attempt=2)], LATER],
        "the same": [trial("a", "x"), trial("a", "x")],
        "the same with another number": [trial("a", "x"), [*trial("b", "y"), *trial("a", "x", attempt=2)]],
        "an end": [trial("a", "x")[:2], trial("b", "y", repeat=1), trial("a", "x")],
        "an end with another number": [trial("a", "x")[:1], trial("a", "x", attempt=3)],
        "a run twice in one source": [trial("b", "y"), [*trial("a", "x")[:2], *trial("a", "x", attempt=2)]],
        "no start": [trial("a", "x")[1:], trial("b", "y")[1:], trial("a", "x")[1:]],
        "skipped": [[SKIPPED], [*trial("b", "y", repeat=2), {**SKIPPED, "reason": "no TPU"}], [SKIPPED]],
        "imported earlier": [
            trial("a", "x"),
            [{**trial("c", "z")[0], "origin": "c"}, *trial("c", "z")[1:], *LATER[6:]],
        ],
        "none": [[], trial("a", "x")],
    }.values(),
)
def test_the_history_of_a_union_is_that_of_its_events(tmp_path, sources):
    """Attempts are moved into it or completed, without reading all events again; from journals and otherwise."""
    lists = [GridEvents(str(number), "tiny", events) for number, events in enumerate(sources)]
    journals = [written(tmp_path / str(number) / "journal.jsonl", *events) for number, events in enumerate(sources)]
    for parts in (lists, journals):
        union = EventUnion(parts[0])
        for each in parts[1:]:
            union.add(each)
        events = list(union.events)
        expected, found = attempts(events), union.history()
        assert list(found.attempts) == list(expected) and found.attempts == expected
        again = EventUnion(parts[0])
        assert [*parts[0].events, *(event for each in parts[1:] for event in again.add(each)[0])] == events
    for journal, events in zip(journals, sources, strict=True):
        assert list(journal.index.records.values()) == list(attempts(events).values()), "they are as they were"


def test_only_copies_that_differ_are_read_again(tmp_path, monkeypatch):
    """Of others, the digests of their lines are compared."""
    first = written(tmp_path / "a" / "journal.jsonl", *trial("a", "x"), *trial("a", "x1", repeat=1))
    copy = written(tmp_path / "b" / "journal.jsonl", *trial("a", "x"), *trial("b", "y", repeat=1))
    longer = written(
        tmp_path / "c" / "journal.jsonl", *trial("a", "x"), *trial("a", "x1", repeat=1), *trial("c", "z", repeat=2)
    )
    changed = written(tmp_path / "d" / "journal.jsonl", *trial("a", "x", status="failed"))
    compared = []
    digest = union_module.content_digest
    monkeypatch.setattr(union_module, "content_digest", lambda event: compared.append(event) or digest(event))
    union = EventUnion(first)
    for source in (copy, longer):
        union.add(source)
        assert len(union.history().attempts) in (3, 4)
    assert compared == []
    with pytest.raises(UsageError, match="differs between a and d"):
        union.add(changed)
    assert len(compared) == 6


def test_lines_that_are_appended_later_do_not_belong_to_what_was_read(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_events, "_CHUNK", 100)  # lines are longer
    path, events = tmp_path / "a" / "journal.jsonl", [*trial("a", "x"), *trial("b", "y", repeat=1)]
    found = written(path, *events)
    with path.open("a") as file:
        file.write(made.to_line(LATER[0]))
    assert list(found.events) == list(found.events) == events
    path.unlink()
    assert list(zip(found.events, found.events, strict=True)) == [(event, event) for event in events]
    path.write_text("".join(map(made.to_line, events))[:-5])
    assert list(events_of(path, "a").events) == events[:-1], "the last line is being written"


def test_events_of_a_journal_have_those_of_the_trials_own_records(tmp_path):
    journal = journal_of(results_of(tmp_path / "a"))
    lines = journal.read_text().splitlines(keepends=True)
    (end,) = (line for line in lines if '"trial_ended"' in line and "a16b927f18eb-r0" in line)
    last = json.loads(end)
    journal.write_text("".join("{damaged\n" if line == end else line for line in lines))
    record = journal.parent / "trials" / last["trial"] / f"attempt-{last['attempt']}" / "events.jsonl"
    record.parent.mkdir(parents=True)
    record.write_text(end)
    found = events_of(journal, "a")
    assert last in found.events
    assert found.problems == ("a: 1 damaged lines of the journal are left out",)
    ((name, files),) = found.executions.items()
    assert sorted(files) == ["grid.json", "grid.yaml", "plan.json"] and "vm-a" in name

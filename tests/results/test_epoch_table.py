"""The epochs of an attempt as columns: nothing is lost, whatever an epoch has, and columns are those of the epochs."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from support.mutations import cases, changed_bytes, changed_value

from raybench.results import epoch_table
from raybench.results.attempt import attempts
from raybench.results.epoch import EPOCH_FIELDS, Epoch, Kind
from raybench.results.epoch_line import epoch_line, epoch_of_line
from raybench.results.epoch_table import Epochs, EpochTable
from raybench.results.history import GridHistory
from raybench.results.journal import read
from raybench.results.parsing import json_object

T = "2026-11-21T09:00:05.000Z"
USUAL = Epoch(
    1,
    T,
    steps=156,
    examples=39936,
    ledger={"compile": 0.5, "train": 3.25, "input_wait": 0.01},
    cpu_s=7.5,
    metrics={"train/loss": 0.25, "val/accuracy": 0.5},
    memory_peak_bytes=2**40,
    recompiles=2,
    step_s=(0.01, 0.02, 0.03),
)
ODD = [
    replace(USUAL, t=None),
    replace(USUAL, t="yesterday"),
    replace(USUAL, t="2026-11-21T09:00:05.000ü"),
    replace(USUAL, steps=0, cpu_s=None, memory_peak_bytes=None, recompiles=0, step_s=()),
    replace(USUAL, memory_peak_bytes=2**53, recompiles=-(2**62)),
    replace(USUAL, ledger={}, metrics={}),
    replace(USUAL, metrics={"val/accuracy": 1e100, "val/other": -0.0}),
    replace(USUAL, metrics={"val/accuracy": math.inf}, ledger={"train": -1.0}),
    replace(USUAL, ledger={"train": 5}, cpu_s=7),
    replace(USUAL, device_s={"train": 3.0}, cpu={"train": 6.0}, settle_s={"train": 1e-5}, units={"tokens": 5.0}),
    replace(USUAL, optimizers=({"class": "SGD", "lr": 0.1},), evaluations=({"name": "val"},), epochs_in_read=3),
    replace(USUAL, metrics={f"loss/{number}": float(number) for number in range(epoch_table.WIDEST)}),
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_every_epoch_comes_back_as_it_was(odd):
    first = replace(USUAL, epoch=7)
    for epochs in ([odd], [odd, first], [replace(odd, epoch=7), replace(USUAL, epoch=8)], [replace(odd, epoch=9)]):
        assert Epochs(EpochTable(epochs)) == epochs
    between = [USUAL, replace(odd, epoch=5), first]
    assert Epochs(EpochTable([first, *between[:2]])) == between


def test_of_two_epochs_with_one_number_the_last_counts():
    for odd in ODD:
        assert Epochs(EpochTable([odd, replace(USUAL, epoch=2), USUAL])) == [USUAL, replace(USUAL, epoch=2)]
        assert Epochs(EpochTable([USUAL, replace(USUAL, epoch=2), odd])) == [odd, replace(USUAL, epoch=2)]


def test_columns_have_what_the_epochs_have():
    epochs = Epochs(EpochTable(replace(odd, epoch=number) for number, odd in enumerate(ODD, 1)))
    chosen = epochs.where(lambda number: number % 3 == 0)
    for view in (epochs, epochs[2:5], epochs[-1:], epochs[::2], epochs[:0], chosen, chosen[1:]):
        made = list(view)
        assert view.numbers == [epoch.epoch for epoch in made] and view.times == [epoch.t for epoch in made]
        for each in EPOCH_FIELDS:
            if each.kind.is_map:
                for key in ("train", "val/accuracy"):
                    values = [getattr(epoch, each.name).get(key, "none") for epoch in made]
                    assert view.column(each.name, key, "none") == values
            else:
                values = [getattr(epoch, each.name) for epoch in made]
                as_lists = each.kind is Kind.SEQUENCE
                column = view.column(each.name)
                assert (list(map(tuple, column)) if as_lists else column) == values, each.name
    assert epochs.keys("metrics")[:2] == ["train/loss", "val/accuracy"] and "val/other" in epochs.keys("metrics")


def test_a_copy_stays_as_it_was():
    table = EpochTable([USUAL])
    copy = table.copy()
    for odd in ODD:
        table.put(odd)
        table.put(replace(odd, epoch=2))
    assert Epochs(copy) == [USUAL] and copy == EpochTable([USUAL]) != table


def test_the_numbers_of_an_epoch_take_8_bytes_each(golden_events):
    """24 epochs with a dozen numbers."""
    event = golden_events[1]
    (attempt,) = attempts({**event, "epoch": number} for number in range(1, 25)).values()
    table = attempt._epochs
    parts = (table._numbers, table._values, table._times)
    assert sum(part.__sizeof__() for part in parts) < 24 * (12 * 8 + 8 + 24) * 1.2 + 300
    assert table._others == {}


def as_read(path):
    """The attempts of a journal, each line of which was read by Python's parser alone."""
    values = [json_object(line) for line in path.read_bytes().split(b"\n")]
    return attempts(value for value in values if value and isinstance(value.get("event"), str))


def check(path):
    assert GridHistory.read(path).attempts == as_read(path)
    assert attempts(read(path, [])) == as_read(path)


@pytest.fixture(scope="module")
def recorded():
    """Lines of a trial of raybench's own loop, with the fields of a training function."""
    path = Path(__file__).parents[2] / "notebooks" / "recorded" / "quickstart" / "journal.jsonl"
    told = [json.loads(line) for line in path.read_text().splitlines()][3:9]
    told[3] |= {"units": {"tokens": 5.0}, "optimizers": [{"lr": 0.5}], "evaluations": [{"metrics": {"a": 1.0}}]}
    return told


def test_usual_lines_are_read_at_once(recorded, golden_events, tmp_path):
    lines = [line for line in map(as_line, recorded + golden_events) if b'"epoch_ended"' in line]
    assert len(lines) >= 5
    for line in [*lines, json.dumps(golden_events[1]).encode()]:
        assert epoch_of_line(epoch_line(line)).epoch == json.loads(line)["epoch"]
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines))
    check(tmp_path / "journal.jsonl")


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": 0},
        {"epoch": True},
        {"epoch": 2**63},
        {"attempt": 1.0},
        {"trial": "../x"},
        {"t": 5},
        {"steps": 156.0},
        {"steps": None},
        {"steps": 2**60},
        {"ledger": {"train": True}},
        {"ledger": {"train": -1}},
        {"ledger": {"train": 5}},
        {"ledger": [1]},
        {"metrics": {"val/loss": 10**30}},
        {"metrics": {"val/loss": 1e99}},
        {"metrics": {"val/loss": None}},
        {"step_s": [0.5, None]},
        {"step_s": [0.5, 1]},
        {"optimizers": [{"lr": 10**400}, {"lr": 1}]},
        {"precision": "fp32"},
        {"precision": {"weights": 5}},
        {"further": "\ud800"},
        {"of_attempt": "x"},
    ],
    ids=str,
)
def test_a_damaged_value_counts_as_missing_in_every_reader(golden_events, tmp_path, change):
    path = tmp_path / "journal.jsonl"
    told = [golden_events[0], golden_events[1], {**golden_events[2], **change}]
    path.write_bytes(b"".join(map(as_line, told)))
    check(path)
    path.write_bytes(b"".join(map(as_line, told[::2])))
    check(path)


def test_a_line_with_damage_that_no_value_shows_is_damaged(golden_events, tmp_path):
    path = tmp_path / "journal.jsonl"
    (line,) = map(as_line, golden_events[1:2])
    for damaged in (line.replace(b'"recompiles"', b'"recomp\xffles"'), line.replace(b"{", b'{"a":01,'), line[:-3]):
        path.write_bytes(damaged + b"\n")
        assert GridHistory.read(path).damaged_lines == [1]
        check(path)
    twice = line.replace(b'"attempt":1', b'"event":"trial_ended","attempt":1')
    path.write_bytes(twice)
    check(path)


@pytest.mark.parametrize("number", [60, pytest.param(2000, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", ["bytes", "values"])
def test_whatever_is_done_to_a_journal_every_reader_reads_the_same(recorded, golden_events, tmp_path, kind, number):
    path, told = tmp_path / "journal.jsonl", recorded + golden_events
    changes = {
        "bytes": changed_bytes(b"".join(map(as_line, told))),
        "values": changed_value(told).map(lambda tree: b"".join(map(as_line, tree if isinstance(tree, list) else []))),
    }

    @cases(number)
    @given(changes[kind])
    def check_case(content):
        path.write_bytes(content)
        check(path)

    check_case()


def as_line(event):
    """A line as raybench writes it, also of NaN and half a surrogate pair."""
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"

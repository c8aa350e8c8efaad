"""A grid's files: what is read of them, also if some are damaged, incomplete or of several machines."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.grid_files import write_events

from raybench.core import events
from raybench.errors import UsageError
from raybench.results.archive import write_archive
from raybench.results.executions import Execution
from raybench.results.folder import add_event, grids_in, has_end, results_id
from raybench.results.grid_request import GridRequest, latest_request
from raybench.results.history import GridHistory
from raybench.results.machines import as_requested

TRIAL = "0123456789ab-r0"


def started(attempt=1, **fields):
    return events.trial_started(TRIAL, attempt, **fields)


def ended(attempt=1, status="completed"):
    return events.trial_ended(TRIAL, attempt, status, wall=2.0)


@pytest.fixture
def grid(tmp_path):
    """A grid's folder with one finished attempt of three epochs."""
    epochs = [events.epoch_ended(TRIAL, 1, epoch=n, ledger={"train": float(n)}) for n in (1, 2, 3)]
    execution = begin("2026-11-28")
    execution.write(tmp_path / "grid")
    return write_events(tmp_path / "grid", [started(seed=4, execution=execution.name), *epochs, ended()])


def begin(name, *earlier, origin="here", **request):
    request = GridRequest("grid", **request).to_json()
    return replace(Execution.begin(origin, "name: grid\n", request, earlier=earlier), name=name)


@pytest.fixture
def file(grid):
    (path,) = grid.glob("attempts/*/*.jsonl")
    return path


def test_attempt_is_read_from_its_file(grid, file):
    (attempt,) = GridHistory.read(grid).attempts.values()
    assert (attempt.key, attempt.run, attempt.seed, attempt.status) == ((TRIAL, 1), file.stem, 4, "completed")
    assert [epoch.ledger["train"] for epoch in attempt.epochs] == [1.0, 2.0, 3.0]


def test_missing_folder_has_nothing(tmp_path):
    history = GridHistory.read(tmp_path / "missing")
    assert not history.attempts and not history.executions and not history.warnings


def test_every_cut_of_a_file_is_read(grid, file):
    data = file.read_bytes()
    for size in range(0, len(data), 37):
        file.write_bytes(data[:size])
        history = GridHistory.read(grid)
        assert not history.damaged
        whole = data[:size].count(b"\n")
        assert sum(1 + len(each.epochs) for each in history.attempts.values()) in (whole, whole + 1)


@pytest.mark.parametrize("damage", [b"\0" * 9, b"[1]", b'{"event": 3}', b"{" * 5000, b'{"event":'])
def test_damaged_line_is_skipped_and_reported(grid, file, damage):
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([*lines[:2], damage, *lines[2:]]))
    history = GridHistory.read(grid)
    assert history.damaged == [f"{file}:3"] and f"({file}:3)" in history.warnings[0]
    assert [len(attempt.epochs) for attempt in history.attempts.values()] == [3]


@pytest.mark.parametrize("event", [{"event": "new"}, {"event": "epoch_ended", "epoch": "x"}, {"event": "trial_ended"}])
def test_unknown_events_are_ignored(grid, file, event):
    add_event(file.with_suffix(""), {"trial": TRIAL, "attempt": 1} | event)
    assert GridHistory.read(grid).attempts[TRIAL, 1].status == "completed"


def test_attempt_without_end_is_closed_once(grid, file):
    data = file.read_bytes()
    file.write_bytes(data[: data.rindex(b'{"v"') + 20])  # killed while it wrote its end
    assert GridHistory.read(grid).attempts[TRIAL, 1].status is None
    for _ in range(2):
        history = GridHistory.read(grid)
        history.close_lost()
        assert history.attempts[TRIAL, 1].status == "lost"
    assert file.read_bytes().count(b"its driver ended") == 1 and has_end(file)
    assert len(GridHistory.read(grid).attempts[TRIAL, 1].epochs) == 3


def test_file_in_the_folder_of_a_different_trial_is_reported(grid, file):
    """Some programs name the copy of a folder so that it comes before the original."""
    copy = shutil.copytree(file.parent, file.parent.with_name("(copy) of a trial"))
    history = GridHistory.read(grid)
    assert [attempt.trial for attempt in history.attempts.values()] == [TRIAL]
    assert history.damaged == [str(copy / file.name)]


def test_hidden_files_are_ignored(grid, file, tmp_path):
    """macOS writes them beside the files when it copies to a disk of a different system."""
    for path in [*grid.rglob("*.json*")]:
        path.with_name(f"._{path.name}").write_bytes(b"\0\5\x16\7\n\n")
    history = GridHistory.read(grid)
    assert len(history.attempts) == len(history.executions) == 1 and not history.damaged
    assert write_archive(grid, tmp_path / "grid.zip") == (1, 0)


def test_links_are_not_followed(grid, file, tmp_path):
    secret = tmp_path / "secret.jsonl"
    shutil.move(file, secret)
    file.symlink_to(secret)
    assert not GridHistory.read(grid).attempts
    file.unlink()
    (tmp_path / "elsewhere").mkdir()
    shutil.move(secret, tmp_path / "elsewhere")
    shutil.rmtree(file.parent)
    file.parent.symlink_to(tmp_path / "elsewhere")
    assert not GridHistory.read(grid).attempts


def test_same_number_on_two_machines_is_counted_up(grid):
    write_events(grid, [{**started(run="b" * 32), "t": "2020-01-01T00:00:00.000Z"}])
    assert [each.status for each in GridHistory.read(grid).attempts.values()] == [None, "completed"]
    for _ in range(2):
        GridHistory.read(grid).close_lost()
        history = GridHistory.read(grid)
        assert [each.status for each in history.attempts.values()] == ["lost", "completed"]


def test_attempt_lost_before_its_start(tmp_path):
    folder = write_events(tmp_path / "grid", [ended(status="lost"), started(2, origin="m"), ended(2)])
    assert [each.status for each in GridHistory.read(folder).attempts.values()] == ["lost", "completed"]
    attempts, _ = as_requested(GridHistory.read(folder), None)
    assert [(each.trial, each.status) for each in attempts] == [(TRIAL, "completed")]


def test_run_in_two_folders_counts_once(grid, file, tmp_path):
    copy = shutil.copytree(grid, tmp_path / "copy" / "grid")
    assert len(GridHistory.read(grid, copy).attempts) == 1
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])  # copied while it ran
    for folders in ((grid, copy), (copy, grid)):
        assert [each.status for each in GridHistory.read(*folders).attempts.values()] == ["completed"]
    file.write_bytes(data.replace(b"completed", b"diverged "))
    with pytest.raises(UsageError, match="differ, although they are of the same run"):
        GridHistory.read(grid, copy)


def test_execution_is_read_back_and_damage_reported(grid):
    execution = begin("2026-11-29")
    execution.write(grid)
    (grid / "executions" / "9999.json").write_text("{")
    history = GridHistory.read(grid)
    assert history.executions[1:] == [execution] and history.damaged == [str(grid / "executions" / "9999.json")]


def link(path):
    path.symlink_to(path.rename(path.with_suffix(".old")))


def edit(path):
    path.write_text(path.read_text().replace("USD", "EUR"))


@pytest.mark.parametrize("damage", [Path.unlink, link, edit])
def test_request_that_is_missing_or_was_edited_is_said(grid, damage):
    (path,) = grid.glob("executions/*.json")
    damage(path)
    history = GridHistory.read(grid)
    assert history.unreadable == [str(path)] and "1 request of it cannot be read" in history.warnings[0]


def test_executions_are_in_the_order_of_their_numbers(grid):
    """Whatever the clock of their folder says; those of different folders by their clocks."""
    (first,) = GridHistory.read(grid).executions
    back = begin("2026-11-27", first, metric="val/loss")
    there = begin("2026-11-26", first, origin="there")
    for each in (back, there):
        each.write(grid)
    history = GridHistory.read(grid)
    assert history.executions == [there, first, back] and latest_request(history).metric == "val/loss"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_file_that_cannot_be_read_is_one_message(grid, file):
    file.chmod(0)
    with pytest.raises(UsageError, match=r"\.jsonl: cannot be read: Permission denied"):
        GridHistory.read(grid)


def test_folder_keeps_its_id(tmp_path):
    assert results_id(tmp_path) == results_id(tmp_path) != ""
    write_events(tmp_path / "b", [started()])
    assert grids_in(tmp_path) == ["b"]

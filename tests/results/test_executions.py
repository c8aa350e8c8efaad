"""What an execution leaves beside the journal, read again by a later command."""

from unittest.mock import Mock

from raybench.results import executions
from raybench.results.executions import Summary
from raybench.results.journal import Journal, read


def test_what_others_put_into_its_folder_is_left_alone(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("a password")
    files = {"grid.yaml": "name: g\n", "comparison.txt": "ä\n"}
    with Journal(tmp_path / "journal.jsonl") as journal:
        executions.write_execution(journal, Summary("2026-11-22T10:00:00Z host 1", files, {"completed": 1}))
    (event,) = read(tmp_path / "journal.jsonl")
    folder = tmp_path / executions.FOLDER / event["folder"]
    (folder / ".DS_Store").write_bytes(b"\x00\x00\x00\x01Bud1\xff\xfe")
    (folder / "damaged.txt").write_bytes(b"\xff\xfe\xff")
    (folder / "figure.svg").mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "plan.json").symlink_to(secret)
    summary = executions.read_execution(tmp_path, event)
    assert summary is not None
    assert summary.files == files
    elsewhere = (tmp_path / executions.FOLDER).rename(tmp_path / "elsewhere")
    (tmp_path / executions.FOLDER).symlink_to(elsewhere)
    linked = executions.read_execution(tmp_path, event)
    assert linked is not None
    assert linked.files == {}


def write(journal, name, files):
    event = executions.write_execution(journal, Summary(f"2026-11-22T1{name}:00:00Z host 1", files, {}))
    return journal.path.parent / executions.FOLDER / event["folder"]


def test_a_file_that_has_not_changed_takes_no_space_again(tmp_path, monkeypatch):
    plan = {"plan.json": '{"wanted": "ä"}'}
    with Journal(tmp_path / "journal.jsonl") as journal:
        first = write(journal, 0, plan | {"comparison.txt": "one"})
        second = write(journal, 1, plan | {"comparison.txt": "two"})
        third = write(journal, 2, {"plan.json": '{"wanted": "ö"}', "comparison.txt": "two"})
        monkeypatch.setattr("os.link", Mock(side_effect=OSError("a file system without links")))
        fourth = write(journal, 3, {"plan.json": '{"wanted": "ö"}'})
    assert (first / "plan.json").samefile(second / "plan.json")
    assert not (second / "plan.json").samefile(third / "plan.json")
    assert [(folder / "comparison.txt").read_text() for folder in (first, second, third)] == ["one", "two", "two"]
    assert (second / "comparison.txt").samefile(third / "comparison.txt")
    assert (fourth / "plan.json").read_text() == (third / "plan.json").read_text() == '{"wanted": "ö"}'
    assert not (fourth / "plan.json").samefile(third / "plan.json")


def test_nothing_is_linked_to_a_file_elsewhere(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("same")
    grid = tmp_path / "grid"
    with Journal(grid / "journal.jsonl") as journal:
        first = write(journal, 0, {"plan.json": "old"})
        (first / "plan.json").unlink()
        (first / "plan.json").symlink_to(secret)
        second = write(journal, 1, {"plan.json": "same"})
    assert not (second / "plan.json").samefile(secret)

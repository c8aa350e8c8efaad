"""What an execution leaves beside the journal, read again by a later command."""

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

"""Results as one zip file: written, imported, and refused if anything in it is not a result."""

import os
import shutil
import stat
import zipfile

import pytest
from support.grid_files import file_of, write_events
from support.machines import GRID, TRIALS, every_file, import_archive, results_of

from raybench.core import events
from raybench.errors import ResultsLockedError, UsageError
from raybench.results import archive as a
from raybench.results.history import GridHistory
from raybench.results.lock import locked

RUN = "a" * 32
FILE = f"{GRID}/attempts/t-r0/{RUN}.jsonl"
LINE = file_of([events.trial_ended("t-r0", 1, "completed")]).decode()


@pytest.fixture
def machines(tmp_path):
    """Results folders of two machines, and a zip file of the second."""
    for host in ("a", "b"):
        results_of(tmp_path / host, host)
    a.write_archive(tmp_path / "b" / GRID, tmp_path / "b.zip")
    return tmp_path


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_import_adds_what_is_new_and_changes_nothing(machines):
    results = machines / "a"
    before = every_file(results)
    done = import_archive(machines / "b.zip", results)
    assert done == (TRIALS, 0)
    after = every_file(results)
    assert before.items() <= after.items()
    assert len(GridHistory.read(results / GRID).attempts) == 2 * TRIALS
    again = import_archive(machines / "b.zip", results)
    assert (*again, every_file(results)) == (0, TRIALS, after)


def test_running_attempts_are_left_out_of_exports(machines):
    folder = machines / "b" / GRID
    file = next(folder.glob("attempts/*/*.jsonl"))
    data = file.read_bytes()
    file.write_bytes(data[: data.rindex(b'"trial_ended"')])
    assert a.write_archive(folder, machines / "part.zip") == (TRIALS - 1, 1)
    file.write_bytes(data)
    assert import_archive(machines / "part.zip", machines / "c")[0] == TRIALS - 1
    assert import_archive(machines / "b.zip", machines / "c")[0] == 1


def test_copy_of_a_running_attempt_is_completed(machines):
    file = next((machines / "b" / GRID).glob("attempts/*/*.jsonl"))
    target = machines / "a" / file.relative_to(machines / "b")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(file.read_bytes()[:500])
    assert import_archive(machines / "b.zip", machines / "a")[0] == TRIALS
    assert target.read_bytes() == file.read_bytes()


def repeated(text):
    return text + "".join(line for line in text.splitlines(True) if '"epoch_ended"' in line)


@pytest.mark.parametrize("change", [lambda text: text.replace("completed", "failed"), repeated])
def test_same_run_with_other_content_is_refused(machines, change):
    shutil.copytree(machines / "b", machines / "c")
    file = next((machines / "b" / GRID).glob("attempts/*/*.jsonl"))
    file.write_text(change(file.read_text()))
    before = every_file(machines / "b")
    with pytest.raises(UsageError, match="has other content, although it is of the same run"):
        import_archive(machines / "b.zip", machines / "b")
    for folders in ("bc", "cb"):
        with pytest.raises(UsageError, match="differ, although they are of the same run"):
            GridHistory.read(*(machines / name / GRID for name in folders))
    assert every_file(machines / "b").items() >= before.items()


def test_nothing_ended_or_no_place_to_write(tmp_path):
    grid = write_events(tmp_path / GRID, [events.trial_started("t-r0", 1)])
    with pytest.raises(UsageError, match="no trial of it has ended"):
        a.write_archive(grid, tmp_path / "x.zip")
    write_events(grid, [events.trial_ended("t-r0", 2, "completed")])
    with pytest.raises(UsageError, match="cannot be written"):
        a.write_archive(grid, tmp_path / "no" / "x.zip")
    assert not list(tmp_path.glob(".*zip*"))


def test_import_ignores_locks_and_links(machines):
    with locked(machines / "a"), pytest.raises(ResultsLockedError):
        import_archive(machines / "b.zip", machines / "a")
    shutil.rmtree(machines / "a" / GRID / "attempts")
    (machines / "else").mkdir()
    (machines / "a" / GRID / "attempts").symlink_to(machines / "else")
    with pytest.raises(UsageError, match="behind a symbolic link"):
        import_archive(machines / "b.zip", machines / "a")
    assert not list((machines / "else").iterdir())


REFUSED = {
    "parent": ({"../x.jsonl": LINE}, "not a result of raybench"),
    "inner parent": ({f"{GRID}/attempts/../{RUN}.jsonl": LINE}, "not a result of raybench"),
    "absolute": ({"/etc/x.jsonl": LINE}, "not a result of raybench"),
    "backslash": ({f"{GRID}\\attempts\\t\\{RUN}.jsonl": LINE}, "not a result of raybench"),
    "hidden grid": ({f".git/attempts/t-r0/{RUN}.jsonl": LINE}, "not a result of raybench"),
    "program": ({f"{GRID}/attempts/t-r0/{RUN}.py": "1"}, "not a result of raybench"),
    "two grids": ({FILE: LINE, FILE.replace(GRID, "other"): LINE}, "results of 2 grids"),
    "nothing": ({}, "it has no results"),
    "damaged line": ({FILE: LINE + "{\n"}, ":2 is damaged"),
    "no newline": ({FILE: LINE.strip()}, "is damaged"),
    "empty file": ({FILE: ""}, "is damaged"),
    "request": ({FILE: LINE, f"{GRID}/executions/now.json": "{"}, "is not JSON"),
}


@pytest.mark.parametrize(("files", "message"), REFUSED.values(), ids=REFUSED)
def test_archives_with_anything_else_are_refused(tmp_path, files, message):
    zipped(tmp_path / "x.zip", files)
    with pytest.raises(UsageError, match=message):
        import_archive(tmp_path / "x.zip", tmp_path / "results")
    assert not (tmp_path / "results").exists() and len(list(tmp_path.iterdir())) == 1


def test_links_pipes_and_bombs_are_refused(tmp_path):
    link = zipfile.ZipInfo(FILE)
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    os.mkfifo(tmp_path / "pipe.zip")
    zipped(tmp_path / "large.zip", {FILE: b" " * (20 * 2**20)})
    zipped(tmp_path / "bomb.zip", {FILE.replace("r0", f"r{repeat}"): b" " * (10 * 2**20) for repeat in (0, 1)})
    refused = {
        "link": "not a regular file",
        "pipe": "not a file",
        "large": f"{RUN}.jsonl has 20 MiB; a result has at most 16",
        "bomb": "its files would take 20 MiB",
    }
    for name, message in refused.items():
        with pytest.raises(UsageError, match=message):
            import_archive(tmp_path / f"{name}.zip", tmp_path / "results")
    data = bytearray(zipped(tmp_path / "x.zip", {FILE: LINE * 100}).read_bytes())
    size = len(LINE * 100).to_bytes(4, "little")
    place = data.rindex(size)
    data[place : place + 4] = (10).to_bytes(4, "little")  # it declares ten bytes
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(UsageError):
        import_archive(tmp_path / "x.zip", tmp_path / "results")


def test_damaged_zip_files_are_one_message(machines):
    data = (machines / "b.zip").read_bytes()
    for cut in (0, 10, len(data) // 2, len(data) - 5):
        (machines / "cut.zip").write_bytes(data[:cut])
        with pytest.raises(UsageError, match=r"cut\.zip: "):
            import_archive(machines / "cut.zip", machines / "c")
    middle = len(data) // 3
    (machines / "cut.zip").write_bytes(data[:middle] + bytes(50) + data[middle + 50 :])
    with pytest.raises(UsageError):
        import_archive(machines / "cut.zip", machines / "c")
    assert not (machines / "c").exists()

"""Bundles: what is written is read again, and what is wrong is refused without a trace."""

import json
import zipfile

import pytest
from support.machines import GRID, TRIALS, every_file, journal_of, results_of

from raybench.errors import ResultsLockedError, UsageError
from raybench.results import bundle as b
from raybench.results.history import GridHistory
from raybench.results.lock import locked


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    results = results_of(folder / "b", "vm-b")
    attempt = results / GRID / "trials" / "a16b927f18eb-r0" / "attempt-1"
    attempt.mkdir(parents=True)
    (attempt / "output.log").write_bytes(b"\xff first\n" + b"x" * b.LONGEST + b" last line\n")
    (attempt / "checkpoint.pt").write_bytes(bytes(100))
    found, unfinished = b.bundle_of(results / GRID)
    assert unfinished == 0
    b.write_bundle(found, folder / "b.zip")
    return folder / "b.zip"


def rewritten(source, target, change, resign=True):
    """A copy of a bundle with changed files, with valid checksums."""
    with zipfile.ZipFile(source) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files = {name: data if isinstance(data, bytes) else data.encode() for name, data in change(files).items()}
    if resign and b.MANIFEST in files:
        manifest = json.loads(files[b.MANIFEST])
        manifest["files"] = {
            name: {"bytes": len(data), "sha256": b._sha256(data)} for name, data in files.items() if name != b.MANIFEST
        }
        files[b.MANIFEST] = json.dumps(manifest).encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target


def test_a_bundle_is_small_and_has_no_checkpoint(exported):
    with zipfile.ZipFile(exported) as archive:
        names = archive.namelist()
    assert [name.rpartition("/")[2] for name in names] == [
        "manifest.json",
        "journal.jsonl",
        "grid.yaml",
        "grid.json",
        "plan.json",
        "output.log",
    ]
    assert exported.stat().st_size < 30_000


def test_the_same_results_make_the_same_bundle(exported, tmp_path):
    b.write_bundle(b.read_bundle(exported), tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == exported.read_bytes()


def test_an_import_adds_what_is_missing_and_nothing_twice(exported, tmp_path):
    results = results_of(tmp_path / "a")
    before = every_file(results)
    done = b.import_bundle(b.read_bundle(exported), results)
    assert (done.grid, done.attempts, done.known, done.hosts) == (GRID, TRIALS, 0, ("vm-b",))
    after = every_file(results)
    journal = journal_of(results).relative_to(results)
    assert {path: data for path, data in after.items() if path in before and path != journal} == {
        path: data for path, data in before.items() if path != journal
    }
    assert after[journal].startswith(before[journal])
    history = GridHistory.read(journal_of(results))
    runs = {attempt.host["name"]: attempt for attempt in history.attempts.values()}
    assert len(history.attempts) == 2 * TRIALS and set(runs) == {"vm-a", "vm-b"}
    assert runs["vm-b"].attempt == 2 and runs["vm-b"].status == "completed"
    record = results / GRID / "trials" / "a16b927f18eb-r0" / "attempt-2"
    assert (record / "output.log").read_text().endswith("x last line\n")
    assert {json.loads(line)["attempt"] for line in (record / "events.jsonl").read_text().splitlines()} == {2}
    again = b.import_bundle(b.read_bundle(exported), results)
    assert (again.attempts, again.known) == (0, TRIALS)
    assert every_file(results) == after


def test_an_import_into_nothing_gives_the_same_events(exported, tmp_path):
    b.import_bundle(b.read_bundle(exported), tmp_path / "new")
    found, _ = b.bundle_of(tmp_path / "new" / GRID)
    without = [{name: value for name, value in event.items() if name != "origin"} for event in found.events.events]
    assert without == b.read_bundle(exported).events.events


def test_an_interrupted_import_is_completed(exported, tmp_path, monkeypatch):
    results = results_of(tmp_path / "a")
    with monkeypatch.context() as patch:
        appended = []

        def fail(self, event):
            if len(appended) > 30:
                raise KeyboardInterrupt
            appended.append(event)
            return self_append(self, event)

        self_append = b.Journal.append
        patch.setattr(b.Journal, "append", fail)
        with pytest.raises(KeyboardInterrupt):
            b.import_bundle(b.read_bundle(exported), results)
    b.import_bundle(b.read_bundle(exported), results)
    history = GridHistory.recover(journal_of(results))
    assert len(history.attempts) == 2 * TRIALS
    assert {attempt.status for attempt in history.attempts.values()} == {"completed"}
    assert len(history.of_kind("grid_ended")) == 2


def test_unfinished_trials_are_left_out(tmp_path):
    journal = journal_of(results_of(tmp_path / "a"))
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[: [line for line, text in enumerate(lines) if '"trial_ended"' in text][-1]]))
    found, unfinished = b.bundle_of(journal.parent)
    assert (found.attempts, unfinished) == (TRIALS - 1, 1)
    journal.write_text(lines[3])
    with pytest.raises(UsageError, match="no trial of it has ended"):
        b.bundle_of(journal.parent)


def test_a_changed_run_is_refused(exported, tmp_path):
    results = tmp_path / "a"
    b.import_bundle(b.read_bundle(exported), results)
    before = every_file(results)
    path = rewritten(
        exported,
        tmp_path / "c.zip",
        lambda files: {**files, "journal.jsonl": files["journal.jsonl"].replace(b'"steps":44', b'"steps":45')},
    )
    with pytest.raises(UsageError, match=r"differs between .*a/quickstart and .*c\.zip"):
        b.import_bundle(b.read_bundle(path), results)
    assert every_file(results) == before


def test_another_driver_has_the_folder(exported, tmp_path):
    with locked(tmp_path, "the grid quickstart"), pytest.raises(ResultsLockedError, match="the grid quickstart"):
        b.import_bundle(b.read_bundle(exported), tmp_path)


WRONG = {
    "a file that belongs elsewhere": ({"../../evil": b"x"}, "which is not in a bundle"),
    "an absolute path": ({"/tmp/evil": b"x"}, "which is not in a bundle"),
    "a path out of the folder": ({"trials/../../x/attempt-1/output.log": b"x"}, "which is not in a bundle"),
    "a folder with two dots": ({"executions/../grid.yaml": b"x"}, "which is not in a bundle"),
    "code": ({"executions/x/run.py": b"x"}, "which is not in a bundle"),
    "an execution that the journal lacks": ({"executions/x/grid.yaml": b"x"}, "no execution x"),
    "an attempt that the journal lacks": ({"trials/a-r0/attempt-1/error.txt": b"x"}, "no attempt 1 at trial a-r0"),
    "a journal of something else": ({"journal.jsonl": b"[]\n"}, "line 1 of journal.jsonl is not a JSON object"),
    "a line without the name of an event": (
        {"journal.jsonl": b'{"event":["a"]}\n'},
        "line 1 of journal.jsonl is no event",
    ),
    "numbers that are not finite": ({"journal.jsonl": b'{"event":"trial_ended","a":NaN}\n'}, "is damaged"),
    "a journal without trials": ({"journal.jsonl": b'{"event":"grid_ended"}\n'}, "no trial that has ended"),
    "text that is not UTF-8": ({"journal.jsonl": b"\xff\xfe\n"}, "is damaged"),
    "a bomb": ({"journal.jsonl": bytes(2**25)}, "would take 32 MiB"),
    "no manifest": ({"manifest.json": None}, "has no manifest.json"),
    "no journal": ({"journal.jsonl": None}, "has no journal.jsonl"),
    "the name of a folder above": (
        {"manifest.json": b'{"format":"raybench bundle","version":1,"grid":"..","files":{}}'},
        "no valid name",
    ),
    "a newer version": (
        {"manifest.json": b'{"format":"raybench bundle","version":2,"grid":"a","files":{}}'},
        "version 1",
    ),
}


@pytest.mark.parametrize("change, message", WRONG.values(), ids=WRONG)
def test_a_wrong_bundle_is_refused(exported, tmp_path, change, message):
    path = rewritten(
        exported,
        tmp_path / "wrong.zip",
        lambda files: {name: data for name, data in (files | change).items() if data is not None},
    )
    with pytest.raises(UsageError, match=message):
        b.read_bundle(path)


def test_a_file_that_does_not_match_its_checksum_is_refused(exported, tmp_path):
    def change(files):
        return {**files, "journal.jsonl": files["journal.jsonl"].replace(b'"steps":44', b'"steps":45')}

    with pytest.raises(UsageError, match=r"journal\.jsonl is damaged: its SHA-256"):
        b.read_bundle(rewritten(exported, tmp_path / "wrong.zip", change, resign=False))


def test_a_symbolic_link_is_refused(exported, tmp_path):
    with zipfile.ZipFile(exported) as archive, zipfile.ZipFile(tmp_path / "link.zip", "w") as changed:
        for entry in archive.infolist():
            if entry.filename == "journal.jsonl":
                entry.external_attr = 0o120777 << 16
            changed.writestr(entry, archive.read(entry.filename))
    with pytest.raises(UsageError, match=r"journal\.jsonl is not a regular file"):
        b.read_bundle(tmp_path / "link.zip")


def test_a_size_that_is_too_small_does_not_hide_a_bomb(exported, tmp_path):
    data = bytearray(exported.read_bytes())
    with zipfile.ZipFile(exported) as archive:
        size = archive.getinfo("journal.jsonl").file_size
    changed = bytes(data).replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    (tmp_path / "small.zip").write_bytes(changed)
    with pytest.raises(UsageError, match="another size"):
        b.read_bundle(tmp_path / "small.zip")


def test_a_file_that_is_decompressed_at_once_is_refused(exported, tmp_path):
    with zipfile.ZipFile(exported) as archive, zipfile.ZipFile(tmp_path / "lzma.zip", "w") as changed:
        for entry in archive.infolist():
            changed.writestr(entry.filename, archive.read(entry), zipfile.ZIP_LZMA)
    with pytest.raises(UsageError, match="compressed in a way that a bundle is not"):
        b.read_bundle(tmp_path / "lzma.zip")


@pytest.mark.parametrize("place", [GRID, f"{GRID}/executions", f"{GRID}/trials"])
def test_nothing_is_written_through_a_link(exported, tmp_path, place):
    outside, link = tmp_path / "outside", tmp_path / "results" / place
    outside.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(UsageError, match="symbolic link"):
        b.import_bundle(b.read_bundle(exported), tmp_path / "results")
    assert not list(outside.iterdir())


@pytest.mark.parametrize("limits", [{"MOST_BYTES": 20_000}, {"BOMB_BYTES": 1000, "BOMB_RATIO": 2}])
def test_a_bundle_that_an_import_would_refuse_is_not_written(exported, tmp_path, monkeypatch, limits):
    content = b.read_bundle(exported)
    for name, value in limits.items():
        monkeypatch.setattr(b, name, value)
    with pytest.raises(
        UsageError, match=r"was not written, as `raybench import` would refuse it: its files would take"
    ):
        b.write_bundle(content, tmp_path / "large.zip")
    assert not list(tmp_path.iterdir())

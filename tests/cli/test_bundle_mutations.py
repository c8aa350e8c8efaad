"""Whatever is done to a bundle: one message or a complete import, nothing lost, and nothing written elsewhere."""

from __future__ import annotations

import io
import json
import shutil
import zipfile

import pytest
from hypothesis import given
from support.machines import GRID, every_file, journal_of, results_of
from support.mutations import Tally, cases, changed_bytes, changed_lines, changed_value, json_lines, one_of

from raybench.results import bundle as b
from raybench.results.history import GridHistory
from raybench.results.lock import LOCK

NAMES = (
    "../../evil.txt",
    "/tmp/raybench-evil.txt",
    "..\\evil.txt",
    "executions/../../evil.txt",
    "executions/then/grid.yaml",
    "trials/../attempt-1/output.log",
    "trials/a-r0/attempt-1/output.log",
    "trials/a-r0/attempt-0/output.log",
    "journal.jsonl/x",
    "manifest.json ",
    "",
    ".",
    "C:\\evil.txt",
    "é\x1b[2J.json",
)


def signed(files):
    """A bundle with these files and valid checksums."""
    files = {name: data for name, data in files.items() if name != b.MANIFEST}
    sums = {name: {"bytes": len(data), "sha256": b._sha256(data)} for name, data in files.items()}
    manifest = {"format": b.FORMAT, "version": b.VERSION, "grid": GRID, "anonymous": False, "files": sums}
    return packed({b.MANIFEST: json.dumps(manifest).encode(), **files})


def packed(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            # An archive's names are UTF-8, which has no half of a surrogate pair.
            archive.writestr(zipfile.ZipInfo(name.encode("utf-8", "replace").decode()), data)
    return made.getvalue()


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """A results folder, and the files of a bundle from another machine with one run in common."""
    folder = tmp_path_factory.mktemp("machines")
    results_of(folder / "a", "vm-a")
    results_of(folder / "b", "vm-b")
    record = folder / "b" / GRID / "trials" / "a16b927f18eb-r0" / "attempt-1"
    record.mkdir(parents=True)
    (record / "output.log").write_text("output\n")
    own = journal_of(folder / "a").read_bytes().splitlines(keepends=True)
    common = [line for line in own if b'"a16b927f18eb-r1"' in line]
    with journal_of(folder / "b").open("ab") as journal:
        journal.writelines(line.replace(b'"attempt":1', b'"attempt":2') for line in common)
    b.write_bundle(b.bundle_of(folder / "b" / GRID)[0], folder / "b.zip")
    with zipfile.ZipFile(folder / "b.zip") as archive:
        return folder / "a", {name: archive.read(name) for name in archive.namelist()}


def mutations(kind, files):
    journal = files["journal.jsonl"]
    events = [json.loads(line) for line in journal.splitlines()]
    plan = next(name for name in files if name.endswith("plan.json"))
    manifest = json.loads(files[b.MANIFEST])
    match kind:
        case "bytes":
            return changed_bytes(packed(files))
        case "lines":
            return changed_lines(journal).map(lambda changed: signed(files | {"journal.jsonl": changed}))
        case "values":
            return changed_value(events).map(
                lambda made: signed(files | {"journal.jsonl": json_lines(made if isinstance(made, list) else [made])})
            )
        case "plans":
            return changed_value(json.loads(files[plan])).map(
                lambda made: signed(files | {plan: json.dumps(made).encode()})
            )
        case "manifests":
            return changed_value(manifest).map(lambda made: packed(files | {b.MANIFEST: json.dumps(made).encode()}))
        case _:
            return changed_value(list(files)).map(
                lambda made: signed(
                    {
                        one_of((name, *NAMES), repr(made).encode()) if isinstance(name, str) else str(name): data
                        for name, data in zip(made if isinstance(made, list) else [], files.values(), strict=False)
                    }
                )
            )


@pytest.mark.parametrize("number", [3, pytest.param(84, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", ["bytes", "lines", "values", "plans", "manifests", "names"])
def test_only_ever_an_import_or_a_message(machines, tmp_path, monkeypatch, kind, number):
    own_results, files = machines
    tally = Tally()
    own = GridHistory.read(journal_of(own_results)).attempts

    @cases(number)
    @given(mutations(kind, files))
    def check(content):
        place = tmp_path / "place"
        shutil.rmtree(place, ignore_errors=True)
        results = place / "results"
        shutil.copytree(own_results, results)
        (place / "b.zip").write_bytes(content)
        monkeypatch.chdir(place)
        before = every_file(place)
        said = tally.run("import", "b.zip", "--results", "results")
        after = every_file(place)
        journal = journal_of(results).relative_to(place)
        assert after[journal].startswith(before[journal])
        assert {path: after[path] for path in before if path != journal} == {
            path: before[path] for path in before if path != journal
        }
        assert all(path.parts[0] == "results" for path in after.keys() - before.keys())
        if "new attempt" not in said:
            assert {path.name for path in after.keys() - before.keys()} <= {LOCK}
            assert after[journal] == before[journal]
            return
        kept = GridHistory.read(journal_of(results)).attempts
        assert {key: kept[key] for key in own} == own
        tally.run("import", "b.zip", "--results", "results")
        assert every_file(place) == after
        tally.run("report", GRID, "--results", "results")

    check()
    assert not (tmp_path / "evil.txt").exists()

"""`raybench export` and `raybench import`: results that go from one machine to another."""

import json
import zipfile

import pytest
from click.testing import CliRunner
from support import ROOT
from support.machines import GRID, TRIALS, every_file, journal_of, results_of

import raybench
from raybench.cli import group
from raybench.results.bundle import bundle_of, read_bundle, write_bundle
from raybench.results.pseudonyms import with_pseudonyms

FILE = str(ROOT / "grids" / "quickstart.yaml")


def run(*arguments):
    done = CliRunner().invoke(group, list(map(str, arguments)))
    return done.exit_code, done.output if done.exception is None or isinstance(done.exception, SystemExit) else str(
        done.exception
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the results of two machines, and a configuration of its own."""
    results_of(tmp_path / "b", "vm-b")
    results_of(tmp_path / "c", "notebook", "Intel Xeon")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_results_go_to_another_machine(here):
    status, output = run("export", FILE, "--results", "b")
    assert status == 0 and f"written: quickstart.zip ({TRIALS} attempts at trials, " in output
    run("export", GRID, "--results", "c", "-o", "c.zip")
    status, output = run("import", "quickstart.zip", "c.zip", "--results", "all")
    assert status == 0, output
    assert "quickstart.zip: quickstart: 12 new attempts at trials from vm-b" in output
    assert "c.zip: quickstart: 12 new attempts at trials from notebook" in output
    before = every_file(here / "all")
    status, output = run("import", "c.zip", "--results", "all")
    assert "0 new attempts at trials, 12 known already" in output and every_file(here / "all") == before
    status, output = run("report", GRID, "--results", "all")
    assert status == 0 and "cpu (Intel Xeon)" in output and "cpu (AMD EPYC)" in output
    status, united = run("report", "b", "c.zip")
    assert united == output.replace("all/", "b/")


def test_nothing_to_export_or_import(here):
    assert "did you mean quickstart" in run("export", "quickstar", "--results", "b")[1]
    (here / "text.zip").write_text("not a zip")
    assert "text.zip: is not a bundle" in run("import", "text.zip")[1]
    assert "none.zip: cannot be read: No such file" in run("import", "none.zip")[1]
    assert not (here / "raybench-results").exists()


def test_python_exports_the_same_bundle(here):
    run("export", GRID, "--results", "b", "-o", "by_command.zip")
    for source in (FILE, GRID, "b/quickstart"):
        path = raybench.export(source, results="b")
        assert str(path) == "quickstart.zip" and path.read_bytes() == (here / "by_command.zip").read_bytes()
    assert "vm-b" not in str(read_bundle(raybench.export(GRID, "d.zip", results="b", anonymous=True)).events)


def private_results(here):
    """Results with a host's and a user's name wherever they occur."""
    results = results_of(here / "d", "alices-laptop.corp.example", machine_id="77b0c0ffee77")
    journal = journal_of(results)
    path = "/home/alice.smith/train.py"
    error = {"type": "ValueError", "message": f"{path} on alices-laptop", "traceback": f'File "{path}", line 1'}
    journal.write_text(journal.read_text().replace('"error":null', f'"error":{json.dumps(error)}'))
    (execution,) = (results / GRID / "executions").iterdir()
    (execution / "grid.yaml").write_text(f"name: quickstart\nworkload: {path}:net\n# alice.smith@alices-laptop\n")
    (execution / "grid.json").write_text(json.dumps({"workload": r"C:\Users\alice.smith\train.py:net"}))
    attempt = results / GRID / "trials" / "a16b927f18eb-r0" / "attempt-1"
    attempt.mkdir(parents=True)
    (attempt / "output.log").write_text(f"alices-laptop: {path}\nALICES-LAPTOP /tmp/alice.smith/x\n")
    return results


def test_an_anonymous_bundle_has_no_names(here):
    private_results(here)
    status, output = run("export", GRID, "--results", "d", "-o", "d.zip", "--anonymous")
    assert status == 0, output
    with zipfile.ZipFile("d.zip") as archive:
        text = "\n".join([*archive.namelist(), *(archive.read(name).decode() for name in archive.namelist())])
    assert "alice" not in text.lower() and "corp.example" not in text and "boot of" not in text
    assert "77b0c0ffee77" not in text and "machine-" in text
    assert "/home/user-" in text and "host-" in text
    run("export", GRID, "--results", "d", "-o", "again.zip", "--anonymous")
    assert (here / "again.zip").read_bytes() == (here / "d.zip").read_bytes()
    assert (here / "config" / "raybench" / "pseudonyms.key").stat().st_mode & 0o777 == 0o600


def test_pseudonyms_change_no_result(here):
    named, _ = bundle_of(private_results(here) / GRID)
    write_bundle(with_pseudonyms(named), here / "d.zip")
    write_bundle(named, here / "named.zip")
    reports = [run("report", path)[1] for path in ("named.zip", "d.zip")]
    assert reports[0].splitlines()[:8] == reports[1].splitlines()[:8]
    trials = [
        [event.get("trial") for event in read_bundle(here / path).events.events] for path in ("named.zip", "d.zip")
    ]
    assert trials[0] == trials[1]


def test_another_user_has_other_pseudonyms(here, monkeypatch):
    named, _ = bundle_of(private_results(here) / GRID)
    first = with_pseudonyms(named)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "other"))
    hosts = {
        event["host"]["name"]
        for found in (first, with_pseudonyms(named))
        for event in found.events.events
        if event["event"] == "trial_started"
    }
    assert len(hosts) == 2
    (here / "other" / "raybench" / "pseudonyms.key").write_bytes(b"short")
    with pytest.raises(Exception, match="is not a key of pseudonyms"):
        with_pseudonyms(named)


def test_a_host_named_like_a_device_changes_no_cell(here):
    named, _ = bundle_of(results_of(here / "e", "cpu") / GRID)
    hidden = with_pseudonyms(named)
    for before, after in zip(named.events.events, hidden.events.events, strict=True):
        for name in ("event", "trial", "cell", "profile", "label", "grid", "status", "metrics", "ledger"):
            assert before.get(name) == after.get(name)
    started = next(event for event in hidden.events.events if event["event"] == "trial_started")
    assert started["host"]["name"].startswith("host-")

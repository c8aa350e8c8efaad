"""`devices`, `data`, `plan --schema`, shipped grids and `sync`."""

import hashlib
import json
import shutil
import sqlite3
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import pytest
import yaml

from raybench import datasets
from raybench.config import load_grid
from raybench.config.load import shipped_grids
from raybench.datasets import DataFile, DataSet, Source
from raybench.environments import RECIPES

GRIDS = sorted(path.name for path in shipped_grids().glob("*.yaml"))


def test_devices_are_this_machines_and_the_environments_that_are_ready(raybench, tmp_path):
    from raybench.planning.node import probe_node

    said = raybench("devices")
    assert (said.status, said.err) == (0, "")
    cpu = next(line for line in said.lines if line.startswith("cpu "))
    (entry,) = probe_node().find("cpu")
    assert entry.model in cpu
    assert f" {entry.count} " in cpu
    assert any(line.startswith("frameworks: torch 2.") for line in said.lines)
    (row,) = [line for line in said.lines if line.startswith("xla_cpu")]
    assert row.split()[:6] == ["xla_cpu", "XLA", "CPU", "device", "torch_xla", "yes"]
    built = {"recipe": RECIPES["tensorflow"].digest, "python": said.lines[0].split()[-1], "packages": {}, "size": 1}
    (tmp_path / "environments" / "tensorflow" / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "environments" / "tensorflow" / "venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "environments" / "tensorflow" / "built.json").write_text(json.dumps(built))
    assert any(line.startswith("environment tensorflow: ") for line in raybench("devices").lines)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A data set that raybench knows, and the server that it is fetched from."""
    content = bytes(range(256)) * 8
    served = {"/mirror/small/a.bin": content}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(served[self.path])))
            self.end_headers()
            self.wfile.write(served[self.path])

        def log_message(self, *_):
            pass

    sha256 = "sha256:" + hashlib.sha256(content).hexdigest()
    source = Source("http://example.invalid/a.bin", len(content), sha256, ("small/a.bin",))
    files = (DataFile("small/a.bin", len(content), sha256),)
    known = DataSet("small", "one small file", files, {"train": 1, "val": 1}, lambda _: pytest.fail("read"), (source,))
    monkeypatch.setitem(datasets._KNOWN, "small", known)
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "data"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        monkeypatch.setenv("RAYBENCH_DATA_MIRROR", f"http://127.0.0.1:{http.server_port}/mirror")
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield known
        http.shutdown()
        thread.join()


def states(raybench):
    said = raybench("data")
    assert (said.status, said.err) == (0, "")
    return {line.split()[0]: line.split()[1:4] for line in said.lines[2:]}


def test_data_are_listed_and_fetched(raybench, small, tmp_path):
    before = states(raybench)
    real, generated = ["digits", "mnist", "imdb", "cifar10"], ["mnist", "imdb", "cifar10", "scenes"]
    assert list(before) == [*real, *(f"{name}-synthetic" for name in generated), "small"]
    assert before["small"] == ["missing", "–", "–"]
    assert before["digits"][0] == "ready", "it comes with scikit-learn"
    assert not (tmp_path / "data").exists(), "looking makes nothing"
    fetched = raybench("data", "fetch", "small")
    assert fetched.status == 0
    assert fetched.out == f"small: ready in {tmp_path / 'data'}\n"
    assert fetched.err == f"Downloading small to {tmp_path / 'data'} …\n"
    assert (tmp_path / "data" / "small" / "a.bin").read_bytes() == bytes(range(256)) * 8
    assert states(raybench)["small"] == ["ready", small.official_digest, "yes"]
    assert raybench("data", "fetch", "small", "digits").status == 0, "what is there is left as it is"


def test_nothing_is_fetched_where_one_name_is_wrong(raybench, small, tmp_path):
    said = raybench("data", "fetch", "small", "smal")
    assert (said.status, said.lines) == (2, ["unknown data set 'smal'; did you mean small?"])
    assert not (tmp_path / "data").exists()


def test_the_schema_is_one_and_takes_the_shipped_grids(raybench):
    said = raybench("plan", "--schema")
    assert (said.status, said.err) == (0, "")
    schema = json.loads(said.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name in GRIDS:
        text = (shipped_grids() / name).read_text()
        # PyYAML reads 5.0e-4 as text; an editor does not.
        for decay in ("1.25e-4", "2.5e-4", "5.0e-4"):
            text = text.replace(decay, f"{float(decay):f}")
        validator.validate(yaml.safe_load(text))
    assert not validator.is_valid({"name": "x", "workload": "digits_cnn", "epoch": 3})


def test_shipped_grids_plan_by_name(raybench):
    for name in GRIDS:
        said = raybench("plan", name.removesuffix(".yaml"))
        assert (said.status, said.err) == (0, ""), name
    spec = load_grid(Path("quickstart"))
    plan = raybench("plan", "quickstart", "--set", "axes.device=[cpu]")
    assert f": {len(spec.axes['batch_size']) * 2 * spec.repeats} trials, " in plan.lines[0]


@pytest.mark.slow
@pytest.mark.mlflow
def test_sync_brings_each_grid_once(raybench, grid, digits, tmp_path, migrated_database):
    one = digits.read_text()
    for name in ("first", "second"):
        digits.write_text(one.replace("name: digits", f"name: {name}").replace("[32, 64]", "[32]"))
        assert grid(digits).status == 0
    assert not (tmp_path / "raybench-results" / "mlflow.db").exists()
    shutil.copy(migrated_database, tmp_path / "raybench-results" / "mlflow.db")
    created = "1 run created, 0 updated, 0 unchanged; journal updated"
    assert raybench("sync", "second").lines == [f"second: {created}"]
    assert raybench("sync").lines == [
        f"first: {created}",
        "second: 0 runs created, 0 updated, 1 unchanged",
    ]
    with closing(sqlite3.connect("raybench-results/mlflow.db")) as store:
        runs = store.execute("select e.name, r.status from runs r join experiments e using (experiment_id)").fetchall()
    assert sorted(runs) == [("first", "FINISHED")] * 2 + [("second", "FINISHED")] * 2, "a trial and the grid itself"
    before = (tmp_path / "raybench-results" / "mlflow.db").read_bytes()
    assert raybench("sync").lines[0] == "first: 0 runs created, 0 updated, 1 unchanged"
    assert (tmp_path / "raybench-results" / "mlflow.db").read_bytes() == before
    wrong = raybench("sync", "frist")
    assert (wrong.status, wrong.lines) == (2, ["no journal of frist in raybench-results; did you mean first?"])
    wrong = raybench("sync", "zzz")
    assert wrong.lines == ["no journal of zzz in raybench-results; use one of first, second"]


def test_sync_with_a_dead_server_is_one_line_without_secrets(raybench, grid, digits):
    grid(digits, "--where", "batch_size=32")
    said = raybench("sync", "--tracking-uri", "http://me:s3cret-w0rd@127.0.0.1:9")
    assert (said.status, len(said.lines)) == (1, 1)
    assert said.lines[0].startswith("MLflow store http://***@127.0.0.1:9: ")
    assert "s3cret-w0rd" not in said.err

"""`devices`, `data`, `plan --schema` and shipped grids."""

import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import pytest
import yaml

from raybench import datasets
from raybench.config import load_grid
from raybench.config.load import shipped_grids
from raybench.datasets.dataset import DataFile, DataSet, Source
from raybench.environments import RECIPES

GRIDS = sorted(path.name for path in shipped_grids().glob("*.yaml"))


def test_devices_and_ready_environments(raybench, tmp_path):
    from raybench.planning.node import probe_node

    said = raybench("devices")
    assert (said.status, said.err) == (0, "")
    cpu = next(line for line in said.lines if line.startswith("cpu "))
    (entry,) = probe_node().find("cpu")
    assert entry.model in cpu
    assert f" {entry.count} " in cpu
    assert any(line.startswith("frameworks: torch 2.") for line in said.lines)
    (tmp_path / "environments" / "tensorflow" / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "environments" / "tensorflow" / "venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "environments" / "tensorflow" / "built.json").write_text(RECIPES["tensorflow"].stamp)
    assert any(line.startswith("environment tensorflow: ") for line in raybench("devices").lines)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A data set that raybench knows, and the server that it is fetched from."""
    content = bytes(range(256)) * 8
    served = {"/a.bin": content}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(served[self.path])))
            self.end_headers()
            self.wfile.write(served[self.path])

        def log_message(self, *_):
            pass

    sha256 = "sha256:" + hashlib.sha256(content).hexdigest()
    files = (DataFile("small/a.bin", len(content), sha256),)
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "data"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        source = Source(f"http://127.0.0.1:{http.server_port}/a.bin", len(content), sha256, ("small/a.bin",))
        examples = {"train": 1, "val": 1}
        known = DataSet("small", "one small file", files, examples, lambda _: pytest.fail("read"), (source,))
        monkeypatch.setitem(datasets._KNOWN, "small", known)
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield known
        http.shutdown()
        thread.join()


def states(raybench):
    said = raybench("data")
    assert (said.status, said.err) == (0, "")
    return {line.split()[0]: line.split()[1:4] for line in said.lines[3:]}


def test_data_are_listed_and_fetched(raybench, small, tmp_path):
    before = states(raybench)
    real = ["digits", "python-code", "mnist", "imdb", "cifar10"]
    generated = ["mnist", "imdb", "cifar10", "scenes", "imagenet"]
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


def test_schema_accepts_the_shipped_grids(raybench):
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
    spec = load_grid(Path("quickstart"))
    plan = raybench("plan", "quickstart", "--set", "axes.device=[cpu]")
    assert f": {len(spec.axes['batch_size']) * 2 * spec.repeats} trials, " in plan.lines[0]

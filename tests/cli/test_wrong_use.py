"""What a person may get wrong: exit status 2, one message that says what and where, and nothing started."""

import os
import subprocess
import sys

import pytest

GOOD = """name: wrong
workload: digits_cnn
axes:
  device: [cpu, tpu]
  batch_size: [32, 64]
"""
FILES = {
    "an unknown key": (GOOD + "batchsize: 3\n", "g.yaml:6:1: batchsize: unknown setting; did you mean batch_size?"),
    "an unknown workload": (GOOD.replace("digits_cnn", "digits_cn"), "did you mean digits_cnn?"),
    "nothing": ("", "g.yaml: the file is empty"),
    "more examples than there are": (GOOD + "examples: {train: 99999}\n", "examples.train: 99999 is not allowed"),
    "a store that is none": (
        GOOD + "tracking_uri: ./mlruns\n",
        "the grid file's tracking_uri: ./mlruns is not an MLflow",
    ),
}
"""One of each kind; what is wrong with a grid file in itself has tests of its own (`spec/test_grid_problems.py`)."""


@pytest.mark.parametrize(("text", "says"), FILES.values(), ids=FILES.keys())
def test_a_wrong_file(raybench, tmp_path, text, says):
    (tmp_path / "g.yaml").write_text(text)
    said = raybench("grid", "g.yaml", "--inline")
    assert (said.status, said.out) == (2, "")
    assert len(said.lines) == 1, said.err
    assert says in said.lines[0]
    assert not (tmp_path / "raybench-results").exists()


def test_all_problems_are_reported_at_once(raybench, tmp_path):
    (tmp_path / "g.yaml").write_text(GOOD.replace("[32, 64]", "[32, 0]") + "epoch: 3\nrepeats: 0\n")
    said = raybench("plan", "g.yaml")
    assert said.status == 2
    assert [line.split(": ")[0] for line in said.lines] == ["g.yaml:5:20", "g.yaml:6:1", "g.yaml:7:10"]


ARGUMENTS = {
    "a missing file": (["grid", "h.yaml"], "h.yaml: no such file; did you mean g.yaml?"),
    "a folder": (["plan", "."], ".: is a folder; name a grid file"),
    "no file": (["grid"], "Error: Missing argument 'FILE'."),
    "an unknown verb": (["gird", "g.yaml"], "Error: No such command 'gird'; did you mean grid?"),
    "an unknown option": (["plan", "g.yaml", "--repeat", "3"], "--repeat"),
    "--set without a value": (["grid", "g.yaml", "--set", "epochs"], "--set epochs: use name=value"),
    "--set of a wrong type": (["grid", "g.yaml", "--set", "axes.batch_size=[a]"], "--set axes.batch_size=…: "),
    "--where without a value": (["grid", "g.yaml", "--where", "device"], "--where device: use AXIS=VALUE"),
    "--where of an unknown axis": (
        ["grid", "g.yaml", "--where", "devices=cpu"],
        "--where devices=cpu: wrong has no axis devices; did you mean device?",
    ),
    "--until with a budget": (["plan", "g.yaml", "--set", "budget.time=5s", "--until", "5%"], "--until: `until` is"),
    "--retry of no status": (["grid", "g.yaml", "--retry", "fail"], "Error: Invalid value for '--retry': 'fail'"),
    "--repeats 0": (["grid", "g.yaml", "--repeats", "0"], "Error: Invalid value for '--repeats': 0"),
    "results in a file": (["grid", "g.yaml", "--results", "g.yaml"], "Error: Invalid value for '--results'"),
    "no store": (
        ["grid", "g.yaml", "--inline", "--tracking", "./mlruns"],
        "--tracking: ./mlruns is not an MLflow",
    ),
    "an unknown data set": (["data", "fetch", "cifar"], "unknown data set 'cifar'; did you mean cifar10?"),
    "an unknown verb of data": (["data", "fetsch"], "Error: No such command 'fetsch'."),
    "nothing to see": (["ui"], "no runs in "),
    "a port that is none": (["ui", "--port", "70000"], "Error: Invalid value for '--port'"),
}


@pytest.mark.parametrize(("arguments", "says"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_a_wrong_command_line(raybench, tmp_path, arguments, says):
    (tmp_path / "g.yaml").write_text(GOOD)
    said = raybench(*arguments)
    assert (said.status, said.out) == (2, "")
    message = [line for line in said.lines if line and not line.startswith(("Usage: ", "Try "))]
    assert len(message) == 1, said.err
    assert says in message[0]
    assert [path.name for path in tmp_path.iterdir()] == ["g.yaml"], "nothing was begun"


def test_data_that_is_missing_and_cannot_be_had(raybench, tmp_path, monkeypatch):
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    (tmp_path / "g.yaml").write_text(GOOD.replace("digits_cnn", "mnist_cnn"))
    said = raybench("grid", "g.yaml", "--inline")
    assert said.status == 2
    fetching, message = said.lines
    assert fetching == f"Downloading mnist to {tmp_path / 'data'} …"
    assert message.startswith(
        "mnist: cannot be fetched from https://ossci-datasets.s3.amazonaws.com/mnist/train-images"
    )
    assert "train-images-idx3-ubyte.gz: no connection" in message
    assert "set RAYBENCH_DATA to a different folder" in message
    assert not (tmp_path / "raybench-results").exists()


SECRET = "s3cret-w0rd"
WRONG_STORES = [f"htp://me:{SECRET}@db/runs", f"file://me:{SECRET}@host/runs"]


@pytest.mark.parametrize("uri", WRONG_STORES)
def test_a_wrong_store_is_refused_without_its_password(raybench, tmp_path, monkeypatch, uri):
    (tmp_path / "g.yaml").write_text(GOOD)
    told = [raybench("grid", "g.yaml", "--inline", "--tracking", uri), raybench("ui", "--tracking", uri)]
    told.append(raybench("grid", "g.yaml", "--inline", "--set", f"tracking_uri={uri}"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    told.append(raybench("ui"))
    (tmp_path / "g.yaml").write_text(GOOD + f"tracking_uri: [{uri!r}]\n")
    told.append(raybench("plan", "g.yaml"))
    assert [said.status for said in told] == [2] * 5
    assert SECRET not in " ".join(said.out + said.err for said in told)


def test_unexpected_error_is_one_message():
    """The traceback is shown on request."""
    fault = "from raybench import cli; cli.group.main = lambda **_: 1 / 0; cli.main()"

    def ended(**environment):
        return subprocess.run(
            [sys.executable, "-c", fault], capture_output=True, text=True, env=os.environ | environment
        )

    brief, full = ended(), ended(RAYBENCH_DEBUG="1")
    assert (brief.returncode, brief.stdout, len(brief.stderr.splitlines())) == (1, "", 1)
    assert brief.stderr.startswith("ZeroDivisionError: division by zero. Finished trials are kept.")
    assert full.returncode == 1 and "Traceback" in full.stderr

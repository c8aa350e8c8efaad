"""Users, passwords and queries of URIs are in no stored text."""

import pytest
from support.project import run_trials

from raybench.core.secret_masking import mask, masked

GRID = """name: g  # see https://me:hunter1@example.org/
description: see https://me:hunter2@example.org/
workload: script.py:train
params: {hf_token: hunter5hunter}
axes: {params.api_key: [hunter6hunter, hunter7hunter]}
epochs: 1
tracking_uri: "postgresql://me:hunter3@db/runs?sslkey=hunter4"
"""


SCRIPT = """
def train(trial, *, hf_token, api_key):
    assert hf_token.startswith("h" + "unter5") and api_key.endswith("h" + "unter")
    for epoch in trial.epochs():
        trial.log({"train/loss": 1.0})
"""


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("see https://me:hunter1@example.org/ or x@y", "see https://***@example.org/ or x@y"),
        ('uri: "postgresql://me:pa\'s/s@db/runs?sslkey=hunter4"', 'uri: "postgresql://***@db/runs?sslkey=***"'),
        ("{uri: http://h:5000, user: 'a@b'}", "{uri: http://h:5000, user: 'a@b'}"),
        ("[http://me:pw@h/a?b=c], d", "[http://***@h/a?b=***], d"),
    ],
)
def test_only_secrets_are_masked(text, hidden):
    assert mask(text) == hidden


@pytest.mark.parametrize(
    ("name", "value", "is_masked"),
    [
        *(("note", "hf_abcdefghijklmnopqrst", True), ("args", ["-k", "sk-proj-0123456789abcdef"], True)),
        *(("api_key", "0123abcd", True), ("db", {"password": "hunter22x"}, True), ("HF_TOKEN", "a1b2c3d4e5", True)),
        *(("pad_token", "<|endoftext|>", False), ("tokenizer", "gpt2-medium", False), ("max_tokens", 100_000, False)),
        *(("key", "attention", False), ("monkey", "abcdefg1", False)),
    ],
)
def test_credentials_are_masked_by_value_and_name(name, value, is_masked):
    assert (masked({name: value}) != {name: value}) is is_masked
    assert masked(masked({name: value})) == masked({name: value}), "also if a stored request is compared with a new one"


def test_command_line_with_a_credential():
    assert "a1b2c3d4" not in mask("train --hf-token a1b2c3d4 --api-key=a1b2c3d4e5 --lr 0.1")
    assert mask("train --tokens 100000 --key-dim 64") == "train --tokens 100000 --key-dim 64"


@pytest.mark.slow
@pytest.mark.mlflow
def test_no_results_file_has_a_secret(tmp_path, mlflow_results):
    (tmp_path / "script.py").write_text(SCRIPT)
    store = f"sqlite:///{mlflow_results}/mlflow.db"
    outcome = run_trials(tmp_path, GRID, results=mlflow_results, tracking=store, report=True)
    assert {run.status for run in outcome.latest.values()} == {"completed"}
    files = [path for path in mlflow_results.rglob("*") if path.is_file()]
    assert [path for path in files if b"hunter" in path.read_bytes()] == []
    assert {"report.html", "mlflow.db"} <= {path.name for path in files}

"""Nothing secret of a grid file is kept beside its results."""

import pytest
import yaml

from raybench.config import load_grid
from raybench.core.secret_masking import mask, mask_words, mask_yaml
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid

GRID = """\
name: masked
workload: digits_cnn
epochs: 1
steps_per_epoch: 2
description: &alias sixteen-tons
examples: {train: 64, val: 32}
threads: 1
axes: {device: [cpu]}
devices:
  gpu:
    kind: cuda
    environment:
      pip: ["private @ https://me:hunter2@pypi.example/simple?token=grapes", torch]  # https://me:hunter3@pypi.example/
      env_vars:
        HF_TOKEN: hf_cabbages
        LEVEL: "1"
        OTHER: *alias
        "SPLIT": 'tom
          atoes'
        BLOCK: |
          a key
          radishes

repeats: 1
"""
SECRETS = ("hunter2", "hunter3", "hunter4", "grapes", "cabbages", "sixteen", "atoes", "radishes")


def test_a_text_keeps_all_but_its_secrets():
    shown = mask_yaml(GRID)
    assert not any(secret in shown for secret in SECRETS)
    data, masked = yaml.safe_load(GRID), yaml.safe_load(shown)
    assert masked["devices"]["gpu"]["environment"] == {
        "pip": ["private @ https://***@pypi.example/simple?token=***", "torch"],
        "env_vars": dict.fromkeys(["HF_TOKEN", "LEVEL", "OTHER", "SPLIT", "BLOCK"], "***"),
    }
    assert {**masked, "devices": 0, "description": 0} == {**data, "devices": 0, "description": 0}
    assert mask_yaml("a: 1 # b\n") == "a: 1 # b\n"


def test_data_keep_all_but_their_secrets():
    data = yaml.safe_load(GRID)
    masked = mask(data)
    assert masked["devices"]["gpu"]["environment"]["env_vars"]["HF_TOKEN"] == "***"
    assert masked["devices"]["gpu"]["environment"]["pip"][0].count("***") == 2
    assert masked["axes"] == data["axes"]


def test_a_message_about_an_environment():
    environment = {"env_vars": {"A": "hunter2", "B": "1"}}
    text = "pip failed: https://me:pw@pypi.example/x: hunter2, 1 of 12"
    assert mask_words(text, environment) == "pip failed: https://***@pypi.example/x: ***, *** of 12"


@pytest.mark.slow
@pytest.mark.mlflow
def test_no_file_of_a_results_folder_holds_a_secret_and_what_was_run_is_known(tmp_path, mlflow_results):
    """The MLflow store is in it, with the journal and all other artifacts."""
    (tmp_path / "grid.yaml").write_text(GRID)
    options = Options(mlflow_results, checks=False)
    spec = load_grid(tmp_path / "grid.yaml", ["description=see https://me:hunter4@pypi.example/"])
    first = run_grid(spec, InlineExecutor(), options=options)
    files = [path for path in mlflow_results.rglob("*") if path.is_file()]
    assert {"report.html", "report.json", "grid.json", "grid.yaml", "mlflow.db"} <= {path.name for path in files}
    assert any(path.match("mlartifacts/*/*/artifacts/journal/*.jsonl") for path in files)
    kept = [(path.name, secret) for path in files for secret in SECRETS if secret.encode() in path.read_bytes()]
    assert [found for found in kept if found[1] != "sixteen"] == []
    again = run_grid(spec, InlineExecutor(), options=options)
    assert (first.ran, again.ran) == (1, 0)

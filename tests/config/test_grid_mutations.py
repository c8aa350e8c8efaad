"""Whatever is done to a grid file, `raybench plan` shows a plan or one message, and soon."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.mutations import Tally, cases, changed_bytes, changed_lines, changed_value, one_of

GOOD = """\
name: everything
workload: davidnet
seed: 7
epochs: 24
timeout: 1h30m
schedule: {name: piecewise_linear, points: [[0, 0], [5, 1], [24, 0]], stretch: true}
augmentation: [crop, flip, {cutout: 8}]
target: {metric: val/accuracy, at_least: 0.94}
stop_at_target: true
axes:
  device: [gpu, cpu]
  batch_size: [64, 128, 512]
  weight_decay: [1.25e-4, 2.5e-4]
  betas: [[0.9, 0.99]]
include: [{batch_size: 1024, threads: 2}]
exclude:
  - {device: gpu, batch_size: [64, 128]}
overrides:
  - when: {device: gpu, batch_size: [64, 128]}
    set: {precision: bf16}
devices:
  gpu: {kind: cuda, price_per_hour: 0.35, environment: xla}
  other: {kind: cpu, environment: xla, memory_limit: 2GiB}
baseline: {device: gpu}
"""
OWN = """\
name: own
workload: mine.py:workload
inputs: [notes.txt, a.npy]
epochs: 2
repeats: 3
axes:
  device: [cpu]
  batch_size: [16, 32]
devices: {cpu: {kind: cpu, environment: ./venv, resources: {big: 1}}}
tracking_uri: http://localhost:5000
"""
WORKLOAD = """\
from raybench import Workload
workload = Workload(model=print, data=print, metric_names=["mae"])
"""

OPTIONS = ((), ("--smoke",))


@pytest.fixture
def tally(tmp_path, monkeypatch):
    """Runs commands in a folder that has what the grids name, and counts what came of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path))
    # As many trials as are allowed take minutes to plan.
    monkeypatch.setattr("raybench.config.consistency.MAX_TRIALS", 2_000)
    (tmp_path / "mine.py").write_text(WORKLOAD)
    for name in ("notes.txt", "a.npy"):
        (tmp_path / name).write_text("x")
    return Tally()


def as_yaml(tree: object) -> bytes:
    """A tree as YAML: JSON is YAML, but for three numbers."""
    text = json.dumps(tree)
    for written, number in (("-Infinity", "-.inf"), ("Infinity", ".inf"), ("NaN", ".nan")):
        text = text.replace(written, number)
    return text.encode()


MUTATIONS = {
    "bytes": st.one_of(*(changed_bytes(text.encode()) for text in (GOOD, OWN))),
    "lines": st.one_of(*(changed_lines(text.encode()) for text in (GOOD, OWN))),
    "values": st.one_of(*(changed_value(yaml.safe_load(text)) for text in (GOOD, OWN))).map(as_yaml),
}


@pytest.mark.parametrize("number", [10, pytest.param(334, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", MUTATIONS)
def test_only_ever_a_plan_or_a_message(tally, kind, number):
    @cases(number)
    @given(MUTATIONS[kind])
    def check(content):
        with open("x.yaml", "wb") as file:  # noqa: PTH123
            file.write(content)
        tally.run("plan", "x.yaml", "--inline", *one_of(OPTIONS, content))

    check()
    assert tally.statuses[2], "some mutations are found"


def test_the_files_they_begin_with_are_right(tally, tmp_path):
    for text in (GOOD, OWN):
        (tmp_path / "x.yaml").write_text(text)
        assert "trials" in tally.run("plan", "x.yaml", "--inline")
    assert tally.statuses == {0: 2}

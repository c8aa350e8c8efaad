"""Whatever is done to a file, it is a grid or it is refused with a message, quickly."""

from __future__ import annotations

import random
import time

import pytest
import yaml

from raybench.devices.node import probe_node
from raybench.errors import GridFileError, UsageError
from raybench.plan import make_plan
from raybench.spec import GridSpec, load_grid

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
  batch_size: &sizes [64, 128, 512]
  weight_decay: [1.25e-4, 2.5e-4]
  betas: [[0.9, 0.99]]
include: [{batch_size: 1024, threads: 2}]
exclude:
  - {device: gpu, batch_size: [64, 128]}
overrides:
  - when: {device: gpu, batch_size: *sizes}
    set: {precision: bf16}
devices:
  gpu: {kind: cuda, price_per_hour: 0.35, environment: xla}
  other: {kind: cpu, environment: {pip: [a, b], env_vars: {A: b}}}
baseline: {device: gpu}
"""
BYTES = b"\t \n:-[]{}&*!|>'\"%@`#,?~<=0123456789eE.+_ax\x00\x1b\xff\xc3\xa9"
VALUES = [
    None,
    True,
    0,
    -1,
    1,
    10**400,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "cpu",
    "é\x1b",
    [],
    {},
    [[]],
    [None],
    {"device": "cpu"},
]


def mutated_bytes(chance: random.Random) -> bytes:
    content = bytearray(GOOD.encode())
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(content))
        match chance.randrange(4):
            case 0:
                content[at] = chance.choice(BYTES)
            case 1:
                content.insert(at, chance.choice(BYTES))
            case 2:
                del content[at : at + chance.randint(1, 12)]
            case _:
                content[at:at] = content[chance.randrange(len(content)) :][: chance.randint(1, 60)]
    return bytes(content)


def mutated_structure(chance: random.Random) -> bytes:
    data = yaml.safe_load(GOOD)
    for _ in range(chance.randint(1, 3)):
        node = data
        while True:
            if not node:
                break
            step = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
            if isinstance(node[step], (dict, list)) and chance.random() < 0.7:
                node = node[step]
                continue
            match chance.randrange(3):
                case 0:
                    del node[step]
                case 1:
                    node[step] = chance.choice(VALUES)
                case _ if isinstance(node, dict):
                    node[f"{step}x"] = node.pop(step)
                case _:
                    node.append(node[step])
            break
    return yaml.safe_dump(data, allow_unicode=True).encode()


@pytest.mark.parametrize("mutate", [mutated_bytes, mutated_structure])
def test_only_ever_a_plan_or_a_message(tmp_path, mutate):
    path, nodes = tmp_path / "x.yaml", [probe_node()]
    outcomes = {"plan": 0, "no plan": 0, "refused": 0}
    began = time.process_time()
    for seed in range(500):
        path.write_bytes(mutate(random.Random(seed)))
        try:
            spec = load_grid(path)
            assert isinstance(spec, GridSpec)
            try:
                assert make_plan(spec, nodes, tmp_path).cells
                outcomes["plan"] += 1
            except UsageError as error:
                outcomes["no plan"] += 1
                assert 0 < len(str(error)) < 10_000 and "\x1b" not in str(error), seed
        except GridFileError as error:
            outcomes["refused"] += 1
            assert error.problems, seed
            assert len(str(error)) < 10_000, seed
            assert all(line.startswith(f"{path}:") for line in str(error).splitlines()), f"{seed}: {error}"
            assert "\x1b" not in str(error), seed
    assert outcomes["plan"] and outcomes["refused"], outcomes
    assert time.process_time() - began < 60

"""A smoke run is a small grid, whose results are kept apart."""

from dataclasses import replace

import pytest

from raybench.core.options import PlanOptions
from raybench.devices import Hardware
from raybench.errors import UsageError
from raybench.planning.grid_options import requested_grid
from raybench.planning.node import Node
from raybench.planning.plan import make_plan

CPU = Hardware("cpu", "AMD EPYC", 2, 2**34, ids=("0", "1"))
LAPTOP = Node("laptop", (CPU,), {"torch": "2.13.0", "tensorflow": "2.21.0"}, "3.11.7")

GRID = """
name: g
workload: davidnet
epochs: 24
axes:
  device: [gpu, gpu2, tpu]
  batch_size: [64, 128, 256, 512, 1024]
  precision: [fp32, fp16]
  weight_decay: [1.25e-4, 5.0e-4]
repeats: 3
exclude:
  - {device: tpu, precision: fp16}
include:
  - {device: gpu, batch_size: 4096, precision: fp32, weight_decay: 1.25e-4, optimizer: adam}
overrides:
  - {when: {device: gpu2, batch_size: 512}, set: {learning_rate: 0.1}}
devices:
  gpu: {kind: cuda, accelerator_type: A100, count: 1, cpus: 32}
  gpu2: {kind: cuda, count: 2, replicas: 2}
  tpu: {kind: tpu, environment: tpu, count: 4, replicas: 8}
baseline: {device: gpu, batch_size: 256}
"""


@pytest.fixture
def plan_of(tmp_path):
    def make(text, where=(), nodes=(LAPTOP,)):
        (tmp_path / "grid.yaml").write_text(text)
        spec = requested_grid(tmp_path / "grid.yaml", PlanOptions(smoke=True, where=where))
        return make_plan(spec, nodes, tmp_path)

    return make


def test_each_value_once_on_the_cpu(plan_of):
    plan = plan_of(GRID)
    assert plan.spec.name == "g~smoke" and len(plan.trials) == len(plan.cells) < 13
    assert not any(cell.skip for cell in plan.cells)
    assert {cell.axes["precision"] for cell in plan.cells} == {"fp32", "bf16"}, "what a CPU has"
    assert [*{cell.axes["batch_size"]: 0 for cell in plan.cells}] == [10, 6, 8, 12, 14, 18]
    for cell in plan.cells:
        content = cell.content
        assert (content.device.kind, content.settings.epochs, content.warmup_epochs) == ("cpu", 2, 1)
        assert content.settings.batch_size < content.data.examples.train == 40
        assert content.device.replicas <= 2


def test_only_the_chosen_cells(plan_of):
    plan = plan_of(GRID, where=["device=tpu", "batch_size=64"])
    assert {cell.profile for cell in plan.cells} == {"tpu"}
    assert {cell.content.device.replicas for cell in plan.cells} == {2}


def test_a_missing_framework_is_said(plan_of):
    text = "name: g\nworkload: davidnet\naxes: {framework: [torch, tensorflow]}\n"
    plan = plan_of(text, nodes=[replace(LAPTOP, packages={"torch": "2.13.0"})])
    assert [cell.skip is None for cell in plan.cells] == [True, False]


def test_a_command_says_what_makes_it_short(plan_of, tmp_path):
    grid = 'name: g\nworkload: {command: [echo, "{args}"]MORE}\nparams: {n: 9}\naxes: {params.n: [1, 2, 3]}\n'.replace(
        "params: {n: 9}\n", ""
    )
    with pytest.raises(UsageError, match="--smoke needs arguments that make the command short"):
        plan_of(grid.replace("MORE", ""))
    plan = plan_of(grid.replace("MORE", ", smoke: [--limit=1]"))
    assert plan.workload.command.arguments == ("echo", "{args}", "--limit=1")
    assert [cell.axes["params.n"] for cell in plan.cells] == [1, 2, 3]

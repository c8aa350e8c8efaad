"""Bounds on what the host dispatches in a training step: a guard for GPUs, which wait if the host is slow.

`benchmarks/dispatch_counts.py` prints the counts. Raise a bound only if the step needs the additional operations.
"""

import runpy

import pytest
import torch
from support import ROOT
from support.dispatches import KINDS, counting, of_engine, of_function

from raybench import workloads

AIRBENCH = runpy.run_path(str(ROOT / "examples/airbench94/train.py"))["train"]
AIRBENCH_SIZES = {"batch_size": 2, "train_examples": 14, "val_examples": 14}


@pytest.fixture(autouse=True)
def single_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("work", "operations", "waits", "copies"),
    [
        (lambda values: values + 1, 1, 0, 0),
        (lambda values: values.view(2, 2).t(), 0, 0, 0),
        (lambda values: values.sum().item(), 2, 1, 0),
        (lambda values: values.tolist(), 1, 1, 1),
        (lambda values: values.cpu(), 1, 1, 1),
        (lambda values: torch.ones(4).to(values.device), 2, 1, 1),
        (lambda values: torch.ones(4).to(values.device, non_blocking=True), 2, 0, 1),
        (lambda values: values.copy_(torch.ones(4)), 2, 1, 1),
        (lambda values: values.copy_(torch.ones(4), non_blocking=True), 2, 0, 1),
        (lambda values: values[torch.zeros(4, dtype=torch.bool, device=values.device)], 2, 1, 0),
        (lambda values: torch.ones(1).item(), 2, 0, 0),
    ],
)
@pytest.mark.parametrize("gradients", [True, False])
def test_the_counter_knows_what_waits_and_what_is_copied(work, operations, waits, copies, gradients):
    values = torch.zeros(4, device="meta")
    with counting("meta") as (_, counter), torch.inference_mode(not gradients):
        work(values)
    counts = counter.now()
    assert (counts.operations, counts.waits, counts.copies) == (operations, waits, copies), counter.by_name


def test_a_step_of_airbench94_stays_short():
    counts = of_function(AIRBENCH, "meta", steps=5, first=1, **AIRBENCH_SIZES)
    assert counts.operations <= 112
    assert counts.views <= 44
    assert (counts.waits, counts.copies, counts.marks) == (0, 0, 1)


@pytest.mark.slow
def test_a_step_of_airbench94_stays_short_on_a_cpu():
    counts = of_function(AIRBENCH, "cpu", steps=5, first=1, **AIRBENCH_SIZES)
    assert counts.operations <= 172
    assert (counts.waits, counts.marks) == (0, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_a_user_s_own_loop_stays_short(kind):
    train = runpy.run_path(str(ROOT / "examples/pytorch_loop/train.py"))["train"]
    sizes = {"batch_size": 2, "train_examples": 8, "val_examples": 2, "epochs": 1, "workers": 1}
    counts = of_function(train, kind, steps=2, first=1, **sizes)
    assert counts.operations <= {"cpu": 162, "meta": 74}[kind]
    assert counts.views <= 50
    assert (counts.waits, counts.copies, counts.marks) == (0, 0 if kind == "cpu" else 2, 2)


def test_a_step_of_davidnet_stays_short():
    counts = of_engine(workloads.get("davidnet"), "meta")
    assert counts.step.operations <= 110
    assert counts.step.views <= 60
    assert (counts.step.waits, counts.step.copies, counts.step.marks) == (0, 0, 1)
    assert counts.evaluation_batch.operations <= 54
    assert (counts.evaluation_batch.waits, counts.evaluation_batch.copies) == (0, 0)
    assert counts.evaluation_batch.marks == 1
    assert (counts.epoch.waits, counts.epoch.copies) == (3, 2)
    assert (counts.evaluation.waits, counts.evaluation.copies) == (3, 1)


def test_batches_from_the_host_are_copied_without_a_wait():
    counts = of_engine(workloads.get("davidnet"), "meta", input="host")
    assert counts.step.operations <= 111
    assert (counts.step.waits, counts.step.copies, counts.step.marks) == (0, 2, 2)


def test_grouped_batch_statistics_wait_for_nothing():
    counts = of_engine(workloads.get("davidnet"), "meta", batch=16, replicas=8, replication="grouped")
    assert (counts.step.waits, counts.step.copies) == (0, 0)


@pytest.mark.slow
def test_a_step_of_davidnet_stays_short_on_a_cpu():
    counts = of_engine(workloads.get("davidnet"), "cpu")
    assert counts.step.operations <= 206
    assert counts.evaluation_batch.operations <= 54
    assert (counts.step.waits, counts.step.marks) == (0, 1)


@pytest.mark.slow
def test_a_step_of_resnet63_stays_short():
    counts = of_engine(workloads.get("resnet63"), "meta")
    assert counts.step.operations <= 1104
    assert (counts.step.waits, counts.step.copies) == (0, 0)
    assert counts.evaluation_batch.operations <= 300
    assert (counts.epoch.waits, counts.epoch.copies) == (3, 2)


@pytest.mark.slow
def test_a_step_of_resnet63_stays_short_on_a_cpu():
    """Adam has no fused form by default on a CPU, and reads its counter of steps for each of 254 tensors."""
    counts = of_engine(workloads.get("resnet63"), "cpu")
    assert counts.step.operations <= 2880
    assert (counts.step.waits, counts.step.marks) == (254, 1)
    assert counts.evaluation_batch.operations <= 300

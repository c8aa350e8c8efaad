"""Several ranks of the torch engine, in one process: what each has, and what they have together."""

import numpy as np
import pytest
import torch
from support.torch_training import training
from torch import distributed

from raybench.core.rank import Rank
from raybench.engines.batch_order import Augmentation, BatchSampler
from raybench.engines.torch import engine
from raybench.engines.torch.distributed import ProcessGroup
from raybench.workloads.base import Workload

WORKLOAD = Workload(model=lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2)), dataset="digits")


class Together(ProcessGroup):
    """Adds up what ranks contribute that run one after another: the last has the sum of all."""

    def __init__(self, sums):
        self._count, self._sums = 1, sums

    def add_up(self, values):
        self._sums.append(values)
        return sum(self._sums)


def rank_of(number, count):
    return training(WORKLOAD, rank=Rank(number, count), devices=count, replicas=count)


@pytest.mark.parametrize("count", [2, 3])
def test_ranks_evaluate_every_example_once(monkeypatch, count):
    alone = rank_of(0, 1)
    expected, sums = {}, []
    for _ in alone.trial.epochs(1):
        expected = dict(alone.evaluate())
        break
    monkeypatch.setattr(engine, "ProcessGroup", lambda *_: Together(sums))
    for number in range(count):
        one = rank_of(number, count)
        for _ in one.trial.epochs(1):
            found = dict(one.evaluate())
            break
    assert found == pytest.approx(expected)


def test_ranks_share_each_batch_and_draw_other_numbers(monkeypatch):
    monkeypatch.setattr(engine, "ProcessGroup", lambda *_: Together([]))
    epoch = BatchSampler(100, 24, None, (8, 8), Augmentation(crop=2), 0).epoch()
    parts = [epoch.part(Rank(number, 3)) for number in range(3)]
    for name in ("index", "top"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts], axis=1), getattr(epoch, name))
    seeds = []
    for number in range(2):
        weights = [parameter.clone() for parameter in rank_of(number, 2).model.parameters()]
        seeds.append((torch.initial_seed(), weights))
    assert seeds[0][0] != seeds[1][0], "dropout differs"
    assert all(map(torch.equal, seeds[0][1], seeds[1][1])), "the initial weights do not"


def test_statistics_of_equal_ranks_are_those_of_each(monkeypatch):
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "all_reduce", lambda values: values.mul_(2))
    model = torch.nn.BatchNorm1d(3)
    model.running_mean.fill_(1.5)
    ProcessGroup(Rank(0, 2), "gloo").average_buffers(model)
    assert model.running_mean.tolist() == [1.5] * 3 and model.running_var.tolist() == [1.0] * 3

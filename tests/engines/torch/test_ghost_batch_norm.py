"""Batch statistics in groups equal those of separate replicas."""

import copy

import pytest
import torch
from torch import nn

from raybench.engines.torch.ghost_batch_norm import GhostBatchNorm, use_ghost_batch_norm

GROUPS, FEATURES = 4, 5
KINDS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
SHAPES = [(24, FEATURES), (24, FEATURES, 9), (24, FEATURES, 6, 7), (24, FEATURES, 3, 4, 5)]


def batch_norm(dimensions, dtype, **settings):
    torch.manual_seed(0)
    norm = KINDS[dimensions](FEATURES, **settings).to(dtype)
    for parameter in norm.parameters():
        nn.init.uniform_(parameter, 0.5, 2.0)
    return norm


def numbers(shape, dtype, seed):
    random = torch.Generator().manual_seed(seed)
    channels = torch.arange(1, FEATURES + 1).view(FEATURES, *[1] * (len(shape) - 2))
    return (channels * (1 + torch.randn(shape, generator=random))).to(dtype)


def error(value, expected):
    """The largest difference, relative to the largest number."""
    return ((value.double() - expected.double()).abs().max() / expected.double().abs().max().clamp(min=1e-9)).item()


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "settings", [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": None}], ids=str
)
def test_groups_equal_separate_replicas(settings, shape, dtype, within):
    """Outputs, gradients and running statistics; under 16 bits the batch norm stays in float32."""
    plain = batch_norm(len(shape), torch.float32 if dtype == torch.bfloat16 else dtype, **settings)
    grouped = use_ghost_batch_norm(copy.deepcopy(plain), GROUPS)
    replicas = [copy.deepcopy(plain) for _ in range(GROUPS)]
    assert isinstance(grouped, GhostBatchNorm)
    for seed in (1, 2):
        ours, theirs = (numbers(shape, dtype, seed).requires_grad_() for _ in range(2))
        gradient = numbers(shape, dtype, seed + 10)
        outputs = grouped(ours)
        expected = torch.cat([replica(part) for replica, part in zip(replicas, theirs.chunk(GROUPS), strict=True)])
        outputs.backward(gradient)
        expected.backward(gradient)
        assert outputs.dtype == dtype
        assert error(outputs, expected) < within
        assert error(ours.grad, theirs.grad) < within
    for name, parameter in grouped.named_parameters():
        assert error(parameter.grad, sum(replica.get_parameter(name).grad for replica in replicas)) < within
    for name, buffer in grouped.named_buffers():
        assert error(buffer, sum(replica.get_buffer(name).double() for replica in replicas) / GROUPS) < within


def test_evaluation_is_plain_batch_norm():
    plain = batch_norm(4, torch.float32)
    grouped = use_ghost_batch_norm(copy.deepcopy(plain), GROUPS)
    grouped(numbers((8, FEATURES, 2, 2), torch.float32, 1))
    plain.load_state_dict(grouped.state_dict())
    inputs = numbers((7, FEATURES, 2, 2), torch.float32, 2)
    assert torch.equal(grouped.eval()(inputs), plain.eval()(inputs))


def test_parameters_and_names_stay():
    shared = nn.BatchNorm2d(3)
    model = nn.Sequential(nn.Conv2d(3, 3, 1), shared, nn.Sequential(nn.BatchNorm2d(3, affine=False).eval()), shared)
    before = dict(model.state_dict(keep_vars=True))
    assert use_ghost_batch_norm(model, GROUPS) is model
    assert [isinstance(module, GhostBatchNorm) for module in model] == [False, True, False, True]
    assert model[1] is model[3] and not model[2][0].training
    after = model.state_dict(keep_vars=True)
    assert after.keys() == before.keys() and all(after[name] is tensor for name, tensor in before.items())
    assert type(use_ghost_batch_norm(nn.BatchNorm1d(2), 1)) is nn.BatchNorm1d


class Own(nn.BatchNorm2d):
    def forward(self, inputs):
        return super().forward(inputs) + 1


def test_impossible_groups_are_refused():
    grouped = use_ghost_batch_norm(nn.Sequential(nn.BatchNorm2d(FEATURES)), GROUPS)
    with pytest.raises(ValueError, match="a batch of 30 does not divide into 4 replicas"):
        grouped(torch.randn(30, FEATURES, 2, 2))
    with pytest.raises(ValueError, match="more than one value per channel in each of 4 replicas"):
        grouped(torch.randn(4, FEATURES, 1, 1))
    with pytest.raises(ValueError, match="expected 4D input"):
        grouped(torch.randn(8, FEATURES))
    with pytest.raises(TypeError, match="Own has a forward of its own"):
        use_ghost_batch_norm(nn.Sequential(Own(3)), GROUPS)
    assert grouped.eval()(torch.randn(30, FEATURES, 2, 2)).shape == (30, FEATURES, 2, 2)

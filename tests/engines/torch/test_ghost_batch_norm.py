"""Batch statistics in groups are what separate replicas would compute, at once."""

import copy

import numpy as np
import pytest
import torch
from support.small_training import RECIPE
from torch import nn

from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment, open_device
from raybench.engines import EngineParts, open_engine
from raybench.engines.torch import engine
from raybench.engines.torch.ghost_batch_norm import GhostBatchNorm, use_ghost_batch_norm
from raybench.workloads.base import Workload

GROUPS, FEATURES = 4, 5


@pytest.fixture(params=["eager", "batched", "traced"])
def form(request, monkeypatch):
    """Each form in which groups are normalised."""
    monkeypatch.setattr(engine, "form_on", lambda device: request.param)
    return request.param


KINDS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
SHAPES = [(24, FEATURES), (24, FEATURES, 9), (24, FEATURES, 6, 7), (24, FEATURES, 3, 4, 5)]
LAYOUTS = {4: [torch.contiguous_format, torch.channels_last], 5: [torch.contiguous_format, torch.channels_last_3d]}
CASES = [(shape, layout) for shape in SHAPES for layout in LAYOUTS.get(len(shape), [torch.contiguous_format])]


def batch_norm(dimensions, dtype, **settings):
    torch.manual_seed(0)
    made = KINDS[dimensions](FEATURES, **settings).to(dtype)
    for parameter in made.parameters():
        nn.init.uniform_(parameter, 0.5, 2.0)
    return made


def numbers(shape, layout, dtype, seed):
    random = torch.Generator().manual_seed(seed)
    channels = torch.arange(1, FEATURES + 1).view(FEATURES, *[1] * (len(shape) - 2))
    return (channels * (1 + torch.randn(shape, generator=random))).to(dtype).contiguous(memory_format=layout)


def error(found, wanted):
    """The largest difference, as a share of the largest number."""
    return ((found.double() - wanted.double()).abs().max() / wanted.double().abs().max().clamp(min=1e-9)).item()


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(
    "settings", [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": None}], ids=str
)
def test_groups_are_separate_forward_passes(settings, dtype, within, form):
    for shape, layout in CASES:
        compare_with_separate_passes(shape, layout, dtype, within, settings, form)


def compare_with_separate_passes(shape, layout, dtype, within, settings, form):
    plain = batch_norm(len(shape), dtype, **settings)
    grouped = use_ghost_batch_norm(copy.deepcopy(plain), GROUPS, form)
    replicas = [copy.deepcopy(plain) for _ in range(GROUPS)]
    assert isinstance(grouped, GhostBatchNorm)
    for seed in (1, 2):
        ours, theirs = (numbers(shape, layout, dtype, seed).requires_grad_() for _ in range(2))
        gradient = numbers(shape, layout, dtype, seed + 10)
        found = grouped(ours)
        wanted = torch.cat([replica(part) for replica, part in zip(replicas, theirs.chunk(GROUPS), strict=True)])
        found.backward(gradient)
        wanted.backward(gradient)
        assert found.is_contiguous(memory_format=layout)
        assert error(found, wanted) < within
        assert error(ours.grad, theirs.grad) < within
    for name, parameter in grouped.named_parameters():
        assert error(parameter.grad, sum(replica.get_parameter(name).grad for replica in replicas)) < within
    for name, buffer in grouped.named_buffers():
        assert error(buffer, sum(replica.get_buffer(name).double() for replica in replicas) / GROUPS) < within


@pytest.mark.parametrize("layout", LAYOUTS[4])
def test_sixteen_bits_are_as_near_as_torchs_own(layout, form):
    """To what double precision makes of the same 16-bit numbers; torch's own is measured on each part."""
    shape = (64, FEATURES, 8, 8)
    plain = batch_norm(4, torch.float32)
    exact = copy.deepcopy(plain).double()
    grouped = use_ghost_batch_norm(copy.deepcopy(plain), GROUPS, form)
    results = []
    for apply, dtype in (
        (lambda x: torch.cat([exact(part) for part in x.chunk(GROUPS)]), torch.float64),
        (lambda x: torch.cat([plain(part) for part in x.chunk(GROUPS)]), torch.bfloat16),
        (grouped, torch.bfloat16),
    ):
        inputs = numbers(shape, layout, torch.bfloat16, 1).to(dtype).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            outputs = apply(inputs)
        assert outputs.dtype == dtype
        outputs.backward(numbers(shape, layout, torch.bfloat16, 2).to(dtype))
        results.append((outputs, inputs.grad))
    for number, name in enumerate(("outputs", "gradient")):
        torchs, ours = (error(result[number], results[0][number]) for result in results[1:])
        assert ours < 3 * torchs, name
    for name in ("weight", "bias"):
        assert error(grouped.get_parameter(name).grad, exact.get_parameter(name).grad) < 3e-2
    assert grouped.weight.grad.dtype == grouped.running_mean.dtype == torch.float32


def test_a_mean_far_from_zero_costs_no_precision(form):
    plain = batch_norm(4, torch.float64)
    grouped = use_ghost_batch_norm(copy.deepcopy(plain).float(), GROUPS, form)
    inputs = 1000 + numbers((32, FEATURES, 6, 6), torch.channels_last, torch.float32, 1)
    wanted = torch.cat([plain(part) for part in inputs.double().chunk(GROUPS)])
    assert error(grouped(inputs), wanted) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_compiled_and_eager_agree(training):
    # Sizes that differ from those another test compiled count as dynamic, and PyTorch 2.13 fails to compile these.
    torch._dynamo.reset()
    network = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten())
    eager = use_ghost_batch_norm(network, GROUPS).train(training)
    compiled = torch.compile(copy.deepcopy(eager), fullgraph=True)
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(16, 3, 6, 6, generator=random)
    for model in (eager, compiled):
        model(inputs).square().sum().backward()
    assert error(compiled(inputs), eager(inputs)) < 1e-5
    for (name, found), wanted in zip(compiled.named_parameters(), eager.parameters(), strict=True):
        assert error(found.grad, wanted.grad) < 1e-4, name
    for found, wanted in zip(compiled.buffers(), eager.buffers(), strict=True):
        assert error(found, wanted) < 1e-5


def test_evaluation_is_the_plain_one(form):
    plain = batch_norm(4, torch.float32)
    grouped = use_ghost_batch_norm(copy.deepcopy(plain), GROUPS, form)
    grouped(numbers((8, FEATURES, 2, 2), torch.contiguous_format, torch.float32, 1))
    plain.load_state_dict(grouped.state_dict())
    inputs = numbers((7, FEATURES, 2, 2), torch.contiguous_format, torch.float32, 2)
    assert torch.equal(grouped.eval()(inputs), plain.eval()(inputs))


def test_the_model_stays_the_same_but_for_its_batch_norms():
    shared = nn.BatchNorm2d(3)
    model = nn.Sequential(nn.Conv2d(3, 3, 1), shared, nn.Sequential(nn.BatchNorm2d(3, affine=False)), shared, nn.ReLU())
    model[2][0].eval()
    model[1].weight.requires_grad_(False)
    before = dict(model.state_dict(keep_vars=True))
    made = use_ghost_batch_norm(model, GROUPS)
    assert made is model
    assert [type(module) for module in model] == [nn.Conv2d, GhostBatchNorm, nn.Sequential, GhostBatchNorm, nn.ReLU]
    assert model[1] is model[3]
    assert not model[2][0].training
    after = model.state_dict(keep_vars=True)
    assert all(after[name] is tensor for name, tensor in before.items())
    assert after.keys() == before.keys()
    assert use_ghost_batch_norm(nn.BatchNorm1d(2), 1).__class__ is nn.BatchNorm1d


def test_a_frozen_scale_and_an_input_without_a_gradient(form):
    plain = batch_norm(2, torch.float64)
    plain.weight.requires_grad_(False)
    grouped = use_ghost_batch_norm(copy.deepcopy(plain), GROUPS, form)
    inputs = numbers((24, FEATURES), torch.contiguous_format, torch.float64, 1)
    for _ in range(2):
        grouped(inputs).sum().backward()
    assert grouped.weight.grad is None
    assert torch.allclose(grouped.bias.grad, torch.full((FEATURES,), 48.0, dtype=torch.float64))


class Own(nn.BatchNorm2d):
    def forward(self, inputs):
        return super().forward(inputs) + 1


def test_what_cannot_be_grouped_says_so(form):
    grouped = use_ghost_batch_norm(nn.Sequential(nn.BatchNorm2d(FEATURES)), GROUPS, form)
    with pytest.raises(ValueError, match="a batch of 30 does not divide into 4 replicas"):
        grouped(torch.randn(30, FEATURES, 2, 2))
    with pytest.raises(ValueError, match="more than one value per channel in each of 4 replicas"):
        grouped(torch.randn(4, FEATURES, 1, 1))
    with pytest.raises(ValueError, match="expected 4D input"):
        grouped(torch.randn(8, FEATURES))
    with pytest.raises(TypeError, match="Own has a forward of its own"):
        use_ghost_batch_norm(nn.Sequential(Own(3)), GROUPS)
    assert grouped.eval()(torch.randn(30, FEATURES, 2, 2)).shape == (30, FEATURES, 2, 2)


def pictures(seed, examples=256):
    random = np.random.default_rng(seed)
    inputs = random.integers(0, 256, (examples, 8, 8, 3), dtype=np.uint8)
    return Split(inputs, (inputs[..., 0].mean((1, 2)) > 127).astype(np.int64))


def trained(network, **changes):
    """The weights after two epochs of the engine, and the metrics of the last."""
    recipe = RECIPE | {"batch_size": 128, "augmentation": ("flip", {"crop": 2})}
    workload = Workload(model=network, dataset="digits", mean=(120.0,) * 3, std=(60.0,) * 3, name="test")
    device = open_device("cpu", "torch", Assignment([], [], torch.get_num_threads()))
    engine = open_engine("torch", EngineParts(Recipe(**(recipe | changes)), workload, device, Ledger(), seed=3))
    engine.load(Data(pictures(0), pictures(1)))
    engine.build()
    metrics = [engine.train_epoch(epoch).metrics for epoch in (1, 2)]
    return dict(engine.model.named_parameters()), metrics[-1] | engine.evaluate()[0]


def with_batch_norm():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))


def without_batch_norm():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))


def test_without_batch_norm_eight_replicas_of_16_are_one_of_128():
    one, eight = trained(without_batch_norm), trained(without_batch_norm, replicas=8, replication="grouped")
    assert all(torch.equal(one[0][name], eight[0][name]) for name in one[0])
    assert one[1] == eight[1]


def test_with_batch_norm_they_are_not(form):
    one, eight = trained(with_batch_norm), trained(with_batch_norm, replicas=8, replication="grouped")
    assert error(eight[0]["0.weight"], one[0]["0.weight"]) > 1e-4


def test_a_decay_summed_over_replicas_is_that_many_times_the_decay():
    replicas = {"replicas": 8, "replication": "grouped"}
    summed = trained(with_batch_norm, decay_rule="sum_over_replicas", **replicas)
    eightfold = trained(with_batch_norm, weight_decay=8e-3, **replicas)
    plain = trained(with_batch_norm, decay_rule="mean", **replicas)
    alone = trained(with_batch_norm, decay_rule="sum_over_replicas")
    assert all(torch.equal(summed[0][name], eightfold[0][name]) for name in summed[0])
    assert error(summed[0]["4.weight"], plain[0]["4.weight"]) > 1e-4
    assert all(torch.equal(alone[0][name], weight) for name, weight in trained(with_batch_norm)[0].items())


def test_a_batch_that_does_not_divide_is_told_before_training():
    with pytest.raises(ValueError, match="batch_size 100 does not divide into 8 replicas"):
        trained(with_batch_norm, batch_size=100, replicas=8, replication="grouped")

"""The torch engine does what a plain loop does, and the account of its time is right."""

import time
from functools import partial

import numpy as np
import pytest
import torch
from support.declared import part
from support.small_training import pictures, torch_network
from support.torch_training import WORKLOAD, training

from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment, open_device
from raybench.devices.cpu import TorchDevice
from raybench.engines.batch_order import Augmentation, BatchSampler
from raybench.engines.images import reflect
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, steps_of
from raybench.workloads.base import Workload

HERE = torch.device("cpu")


def metrics(**settings):
    return [epoch["metrics"] for epoch in training(**settings).epochs()]


def normalized(inputs):
    mean, std = torch.tensor(WORKLOAD.mean), torch.tensor(WORKLOAD.std)
    return ((torch.from_numpy(inputs).float() - mean) / std).permute(0, 3, 1, 2)


def test_epoch_equals_a_plain_loop():
    train, val = pictures(), pictures(70, seed=1)
    torch.manual_seed(3)
    model = torch_network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)
    order = BatchSampler(len(train), 32, None, (8, 8), Augmentation(), seed=3)
    found = training().epochs()
    for epoch in found:
        losses, right = [], 0
        model.train()
        for index in order.epoch().index:
            outputs, targets = model(normalized(train.inputs[index])), torch.from_numpy(train.targets[index])
            loss = torch.nn.functional.cross_entropy(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            right += (outputs.argmax(1) == targets).sum().item()
        assert epoch["metrics"]["train/loss"] == pytest.approx(np.mean(losses), rel=1e-4)
        assert epoch["metrics"]["train/accuracy"] == pytest.approx(right / 192)
        assert (epoch["steps"], epoch["examples"]) == (6, 192)
    model.eval()
    outputs, targets = model(normalized(val.inputs)), torch.from_numpy(val.targets)
    wanted = (
        torch.nn.functional.cross_entropy(outputs, targets).item(),
        (outputs.argmax(1) == targets).float().mean().item(),
    )
    assert tuple(part(found[-1]["metrics"], "val").values()) == pytest.approx(wanted, rel=1e-4)


def test_evaluation_counts_every_example_once():
    whole, *padded = (metrics(evaluation_batch_size=batch)[-1] for batch in (70, 1, 7, 64, 1000))
    assert padded == [pytest.approx(whole, rel=1e-5)] * 4


@pytest.mark.parametrize("augmentation", [(), ("flip", {"crop": 2}, {"cutout": 3})])
def test_host_and_device_input_train_alike(augmentation):
    how = {"augmentation": augmentation, "channels_last": True}
    assert metrics(input="device", **how) == metrics(input="host", **how)


def test_error_in_the_input_thread(monkeypatch):
    made = training(input="host")

    def broken(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(made.engine._input, "_gather", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        made.epochs()


@pytest.mark.parametrize("augmentation", [Augmentation(2, True, 3), Augmentation(2), Augmentation(flip=True)], ids=str)
def test_augmentation_by_hand(augmentation):
    split, border = pictures(20), augmentation.crop
    order = BatchSampler(20, 20, None, (8, 8), augmentation, seed=0).epoch()
    made = ImageAugmenter(WORKLOAD.mean, WORKLOAD.std, (8, 8), augmentation, HERE, channels_last=True)
    drawn = next(steps_of(AugmentationDraws.on(order, open_device("cpu", "torch", Assignment([], [], 1)))))
    source = torch.from_numpy(reflect(split.inputs, border))
    batch = made.finish(made.gather(source, drawn.indices, drawn), drawn)
    for place, example in enumerate(order.index[0]):
        top, left = (order.top[0, place], order.left[0, place]) if border else (0, 0)
        bordered = np.pad(split.inputs[example], ((border, border), (border, border), (0, 0)), mode="reflect")
        window = bordered[top : top + 8, left : left + 8]
        if augmentation.flip and order.flip[0, place]:
            window = window[:, ::-1]
        expected = normalized(window[None].copy())[0]
        if augmentation.cutout:
            row, column = order.cut_top[0, place], order.cut_left[0, place]
            expected[:, row : row + 3, column : column + 3] = 0.0
        assert torch.allclose(batch[place], expected, atol=1e-6)
    assert batch.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("precision", ["fp32", "bf16", pytest.param("fp16", marks=pytest.mark.slow)])
def test_every_precision_learns(precision):
    losses = training(epochs=5, precision=precision, data=Data(pictures(320), pictures(64, seed=1))).losses()
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("where", ["device", "host"])
def test_first_evaluation_is_compilation(where):
    class Slow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.first = torch_network(), True

        def forward(self, inputs):
            if self.first and not self.training:
                time.sleep(0.4)
                self.first = False
            return self.inner(inputs)

    first, second = training(Workload(model=Slow, dataset="digits", name="slow"), input=where).epochs()
    assert first["ledger"]["compile_evaluate"] > 0.4
    assert first["ledger"]["evaluate"] < first["ledger"]["compile_evaluate"]
    assert "compile_evaluate" not in second["ledger"]
    assert second["ledger"]["compile"] == 0.0


@pytest.mark.slow
def test_capture_of_cuda_graphs_is_compilation(monkeypatch):
    """The mode's own compiler needs a GPU: here torch's plain one stands for it."""
    marks = []
    monkeypatch.setattr(torch, "compile", lambda call, mode, original=torch.compile: original(call, backend="eager"))
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: marks.append(1))
    monkeypatch.setattr(TorchDevice, "replays_graphs", True)
    (plain,), unmarked = (
        training(epochs=1, batch_size=16, compile="default", evaluation_batch_size=100).epochs(),
        len(marks),
    )
    torch.compiler.reset()  # the same network would not be compiled again
    (found,) = training(epochs=1, batch_size=16, compile="reduce-overhead", evaluation_batch_size=100).epochs()
    assert (unmarked, len(marks)) == (0, found["steps"] + 4), "a batch is evaluated three times as compilation"
    assert found["metrics"] == plain["metrics"]
    assert len(found["step_s"]) == found["steps"] - 3 == len(plain["step_s"]) - 2
    assert found["ledger"]["compile_evaluate"] > 0


@pytest.mark.parametrize("where", ["device", "host"])
def test_slow_loader_is_input_wait(monkeypatch, where):
    """The sleep is real: in the thread that gathers batches, of which there are six."""
    made = training(input=where, epochs=1)
    if where == "host":
        gather = made.engine._input._gather

        def slow(*how):
            time.sleep(0.1)
            return gather(*how)

        monkeypatch.setattr(made.engine._input, "_gather", slow)
    begun = time.perf_counter()
    (epoch,) = made.epochs(evaluates=False)
    wall, spent = time.perf_counter() - begun, epoch["ledger"]
    if where == "host":
        assert spent["input_wait"] > 0.05, "the first batch is waited for, whatever steps take"
        assert spent["train"] + spent["compile"] < wall - 0.05
    assert spent["input_wait"] + spent["train"] + spent["compile"] <= wall


def test_inputs_that_are_not_images():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(100, 4))
    data = Data(Split(inputs, (inputs[:, 0] > 0).astype(int)), Split(inputs, (inputs[:, 0] > 0).astype(int)))
    workload = Workload(model=lambda: torch.nn.Linear(4, 2), data=lambda root: data, name="line")
    assert metrics(workload=workload, data=data, epochs=20)[-1]["val/accuracy"] > 0.9
    with pytest.raises(ValueError, match="augmentation is for images"):
        training(workload, data, augmentation=("flip",))


def test_own_loss_and_metrics():
    def loss(outputs, targets):
        return (outputs[:, 0] - targets) ** 2

    def distance(outputs, targets):
        return {"distance": (outputs[:, 0] - targets).abs()}

    inputs = np.linspace(-1, 1, 128)[:, None]
    data = Data(Split(inputs, 3 * inputs[:, 0]), Split(inputs, 3 * inputs[:, 0]))
    line = partial(torch.nn.Linear, 1, 1)
    workload = Workload(model=line, data=lambda _: data, loss=loss, metrics=distance, name="fit")
    judged = part(metrics(workload=workload, data=data, weight_decay=0.0, epochs=40)[-1], "val")
    assert judged.keys() == {"loss", "distance"}
    assert judged["distance"] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    ["default", *(pytest.param(mode, marks=pytest.mark.exhaustive) for mode in ("reduce-overhead", "max-autotune"))],
)
def test_compiled_and_eager_agree(mode):
    """Also batch statistics in groups, which are part of the one graph for training."""
    torch.compiler.reset()  # sizes that differ from an earlier test's would count as dynamic
    found, plain = training(compile=mode, replicas=4).epochs(), metrics(replicas=4)
    assert [epoch["metrics"] for epoch in found] == [pytest.approx(each, rel=1e-3) for each in plain]
    assert [epoch["recompiles"] for epoch in found] == [2, 0]


def test_the_model_starts_from_the_seed():
    one, two = (training().model.state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("name", ["loss", "metrics"])
def test_loss_of_the_whole_batch_is_refused(name):
    wrong = {
        "loss": lambda outputs, targets: outputs.mean(),
        "metrics": lambda outputs, targets: {"metrics": outputs.mean()},
    }
    workload = Workload(model=torch_network, dataset="digits", name="whole", **{name: wrong[name]})
    with pytest.raises(ValueError, match=rf"{name} has the shape \[\]: return one number an example, \[32\]"):
        training(workload).epochs()

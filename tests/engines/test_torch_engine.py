import copy
import time
from functools import partial

import numpy as np
import pytest
import torch
from support.small_training import RECIPE, pictures

from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment, open_device
from raybench.devices.cpu import Cpu, TorchHost
from raybench.devices.cuda import Cuda
from raybench.engines import EngineParts, open_engine
from raybench.engines.batch_order import Augmentation, BatchSampler
from raybench.engines.images import reflect
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, steps_of
from raybench.workloads.base import Workload

HERE = torch.device("cpu")


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 64, 2),
    )


WORKLOAD = Workload(model=network, dataset="digits", mean=(120.0, 125.0, 130.0), std=(60.0, 61.0, 62.0), name="test")


def make_engine(workload=WORKLOAD, data=None, device=None, **changes):
    recipe = Recipe(**(RECIPE | changes))
    device = device or open_device("cpu", "torch", Assignment([], [], torch.get_num_threads()))
    ledger = Ledger()
    engine = open_engine("torch", EngineParts(recipe, workload, device, ledger, seed=3))
    engine.load(data or Data(pictures(), pictures(70, seed=1)))
    engine.build()
    return engine, ledger


def normalised(inputs):
    mean, std = torch.tensor(WORKLOAD.mean), torch.tensor(WORKLOAD.std)
    return ((torch.from_numpy(inputs).float() - mean) / std).permute(0, 3, 1, 2)


def test_epoch_equals_a_plain_loop():
    engine, _ = make_engine()
    train, val = pictures(), pictures(70, seed=1)
    torch.manual_seed(3)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)
    order = BatchSampler(len(train), 32, None, (8, 8), Augmentation(), seed=3)
    for epoch in (1, 2):
        trained = engine.train_epoch(epoch)
        losses, right = [], 0
        model.train()
        for index in order.epoch().index:
            outputs, targets = model(normalised(train.inputs[index])), torch.from_numpy(train.targets[index])
            loss = torch.nn.functional.cross_entropy(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            right += (outputs.argmax(1) == targets).sum().item()
        assert trained.metrics["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
        assert trained.metrics["accuracy"] == pytest.approx(right / 192)
        assert (trained.steps, trained.examples) == (6, 192)
    metrics, _ = engine.evaluate()
    model.eval()
    outputs, targets = model(normalised(val.inputs)), torch.from_numpy(val.targets)
    assert metrics["loss"] == pytest.approx(torch.nn.functional.cross_entropy(outputs, targets).item(), rel=1e-4)
    assert metrics["accuracy"] == pytest.approx((outputs.argmax(1) == targets).float().mean().item())


def test_evaluation_counts_every_example_once():
    whole, *padded = (make_engine(evaluation_batch_size=batch)[0].evaluate()[0] for batch in (70, 1, 7, 64, 1000))
    assert padded == [pytest.approx(whole, rel=1e-5)] * 4


@pytest.mark.parametrize("augmentation", [(), ("flip", {"crop": 2}, {"cutout": 3})])
def test_host_and_device_input_train_alike(augmentation):
    results = []
    for where in ("device", "host"):
        engine, ledger = make_engine(input=where, augmentation=augmentation, channels_last=True)
        results.append([engine.train_epoch(epoch).metrics for epoch in (1, 2)] + [engine.evaluate()[0]])
        assert (ledger.close()[0]["input_wait"] > 0) == (where == "host")
    assert results[0] == results[1]


def test_error_in_the_input_thread(monkeypatch):
    engine, _ = make_engine(input="host")

    def broken(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr(engine._input, "_take", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        engine.train_epoch(1)


@pytest.mark.parametrize("augmentation", [Augmentation(2, True, 3), Augmentation(2), Augmentation(flip=True)], ids=str)
def test_augmentation_by_hand(augmentation):
    split, border = pictures(20), augmentation.crop
    order = BatchSampler(20, 20, None, (8, 8), augmentation, seed=0).epoch()
    made = ImageAugmenter(WORKLOAD.mean, WORKLOAD.std, (8, 8), augmentation, HERE, channels_last=True)
    drawn = next(steps_of(AugmentationDraws.on(order, open_device("cpu", "torch", Assignment([], [], 1)))))
    source = torch.from_numpy(reflect(split.inputs, border))
    batch = made.finish(made.gather(source, drawn.index, drawn), drawn)
    for place, example in enumerate(order.index[0]):
        top, left = (order.top[0, place], order.left[0, place]) if border else (0, 0)
        bordered = np.pad(split.inputs[example], ((border, border), (border, border), (0, 0)), mode="reflect")
        window = bordered[top : top + 8, left : left + 8]
        if augmentation.flip and order.flip[0, place]:
            window = window[:, ::-1]
        expected = normalised(window[None].copy())[0]
        if augmentation.cutout:
            row, column = order.cut_top[0, place], order.cut_left[0, place]
            expected[:, row : row + 3, column : column + 3] = 0.0
        assert torch.allclose(batch[place], expected, atol=1e-6)
    assert batch.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("precision", ["fp32", "bf16", pytest.param("fp16", marks=pytest.mark.slow)])
def test_every_precision_learns(precision):
    engine, _ = make_engine(precision=precision, data=Data(pictures(320), pictures(64, seed=1)))
    first = engine.train_epoch(1).metrics["loss"]
    for epoch in range(2, 6):
        last = engine.train_epoch(epoch).metrics["loss"]
    assert last < 0.7 * first


def test_only_the_first_epoch_compiles():
    engine, ledger = make_engine()
    counts = []
    for epoch in (1, 2):
        ledger.begin_epoch()
        counts.append(engine.train_epoch(epoch).new_shapes + engine.evaluate()[1])
        spent = ledger.epoch()
    assert counts == [2, 0]
    assert spent["compile"] == 0.0


@pytest.mark.parametrize("where", ["device", "host"])
def test_first_evaluation_of_one_batch_is_compilation(where):
    class Slow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.first = network(), True

        def forward(self, inputs):
            if self.first and not self.training:
                time.sleep(0.4)
                self.first = False
            return self.inner(inputs)

    engine, ledger = make_engine(workload=Workload(model=Slow, dataset="digits", name="slow"), input=where)
    engine.train_epoch(1)
    spent, means = [], []
    for _ in range(2):
        ledger.begin_epoch()
        means.append(engine.evaluate())
        spent.append(ledger.epoch())
    assert spent[0]["compile_evaluate"] > 0.4
    assert spent[0]["evaluate"] < spent[0]["compile_evaluate"]
    assert "compile_evaluate" not in spent[1]
    assert means[0][0] == means[1][0]
    assert [shapes for _, shapes in means] == [1, 0]


@pytest.mark.parametrize(
    ("steps", "epochs", "batches", "peak"),
    [(6, 2, 3, 300), (6, 1, 1, 300), (1, 2, 1, 300), (1, 2, 3, 300), (1, 1, 3, 1000)],
)
def test_peak_memory_excludes_the_search_for_algorithms(monkeypatch, steps, epochs, batches, peak):
    class Searching(Cpu):
        _peak, _used = 0, (0,)
        peak_memory, begin_search, end_search = Cuda.peak_memory, Cuda.begin_search, Cuda.end_search

    class Allocating(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.known = network(), set()

        def forward(self, inputs):
            needed = (300 if self.training else 200) if self.training in self.known else 1000
            self.known.add(self.training)
            memory["peak"] = max(memory["peak"], needed)
            return self.inner(inputs)

    memory = {"peak": 0}
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda number: memory["peak"])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda number: memory.update(peak=100))
    workload, device = Workload(model=Allocating, dataset="digits", name="allocating"), Searching(Assignment([], [], 1))
    engine, _ = make_engine(workload=workload, device=device, steps_per_epoch=steps, epochs=epochs)
    engine.evaluation_batch = -(-70 // batches)
    known = []
    for epoch in range(1, epochs + 1):
        known.append(engine.train_epoch(epoch).peak_known)
        engine.evaluate()
    assert device.peak_memory() == peak
    assert known == [steps > 1 or epochs == 1, True][:epochs], "the only step of an epoch searched"


def test_later_compilations_are_counted(monkeypatch):
    """The shape stays, and a value of the model's own changes in the second epoch: both graphs are made again."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))  # the graphs, and no C++ compiler

    class Changing(torch.nn.Linear):
        kind = "plain"

        def forward(self, inputs):
            return super().forward(inputs) * (1.0 if self.kind == "plain" else 2.0)

    inputs = np.linspace(-1, 1, 96, dtype=np.float32)[:, None]
    data = Data(Split(inputs, (inputs[:, 0] > 0).astype(int)), Split(inputs, (inputs[:, 0] > 0).astype(int)))
    workload = Workload(model=lambda: Changing(1, 2), data=lambda _: data, name="changing")
    engine, ledger = make_engine(workload=workload, data=data, compile="default")
    counts = []
    for epoch in (1, 2, 3):
        ledger.begin_epoch()
        if epoch == 2:
            engine.model.kind = "doubled"
        trained = engine.train_epoch(epoch)
        spent = ledger.epoch()["compile"]
        counts.append((trained.new_shapes, spent > 0, len(trained.step_s), engine.evaluate()[1]))
    assert counts == [(1, True, 2, 1), (1, True, 2, 1), (0, False, 3, 0)]


def test_capture_of_cuda_graphs_is_compilation(monkeypatch):
    """The mode's own compiler needs a GPU: here torch's plain one stands for it."""
    marks = []
    monkeypatch.setattr(torch, "compile", lambda call, mode, original=torch.compile: original(call, backend="eager"))
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: marks.append(1))
    monkeypatch.setattr(TorchHost, "replays_graphs", True)
    plain, _ = make_engine(batch_size=16, compile="default")
    (expected, judged), unmarked = (plain.train_epoch(1), plain.evaluate()), len(marks)
    torch.compiler.reset()  # the same network would not be compiled again
    engine, ledger = make_engine(batch_size=16, compile="reduce-overhead")
    ledger.begin_epoch()
    trained = engine.train_epoch(1)
    assert (unmarked, len(marks)) == (0, trained.steps)
    assert trained.metrics == expected.metrics
    assert len(trained.step_s) == trained.steps - 3 == len(expected.step_s) - 2
    marks.clear()
    assert engine.evaluate()[0] == judged[0]
    assert len(marks) == 4, "the only batch is evaluated three times as compilation, and once more"
    assert ledger.epoch()["compile_evaluate"] > 0


@pytest.mark.parametrize("where", ["device", "host"])
def test_slow_loader_is_input_wait(monkeypatch, where):
    """The sleep is real: in the thread that gathers batches, of which there are six."""
    engine, ledger = make_engine(input=where)
    if where == "host":
        take = engine._input._take

        def slow(*how):
            time.sleep(0.1)
            return take(*how)

        monkeypatch.setattr(engine._input, "_take", slow)
    ledger.begin_epoch()
    begun = time.perf_counter()
    engine.train_epoch(1)
    wall, spent = time.perf_counter() - begun, ledger.epoch()
    if where == "host":
        assert spent["input_wait"] > 0.05, "the first batch is waited for, whatever steps take"
        assert spent["input_wait"] + spent["train"] + spent["compile"] <= wall
        assert spent["train"] + spent["compile"] < wall - 0.05
    else:
        assert spent["input_wait"] == 0.0


def test_inputs_that_are_not_images():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(100, 4))
    data = Data(Split(inputs, (inputs[:, 0] > 0).astype(int)), Split(inputs, (inputs[:, 0] > 0).astype(int)))
    workload = Workload(model=lambda: torch.nn.Linear(4, 2), data=lambda root: data, name="line")
    engine, _ = make_engine(workload=workload, data=data)
    for epoch in range(1, 20):
        engine.train_epoch(epoch)
    assert engine.evaluate()[0]["accuracy"] > 0.9
    with pytest.raises(ValueError, match="augmentation is for images"):
        make_engine(workload=workload, data=data, augmentation=("flip",))


def test_own_loss_and_metrics():
    def loss(outputs, targets):
        return (outputs[:, 0] - targets) ** 2

    def metrics(outputs, targets):
        return {"distance": (outputs[:, 0] - targets).abs()}

    inputs = np.linspace(-1, 1, 128)[:, None]
    data = Data(Split(inputs, 3 * inputs[:, 0]), Split(inputs, 3 * inputs[:, 0]))
    workload = Workload(
        model=lambda: torch.nn.Linear(1, 1), data=lambda _: data, loss=loss, metrics=metrics, name="fit"
    )
    engine, _ = make_engine(workload=workload, data=data, weight_decay=0.0)
    for epoch in range(1, 40):
        engine.train_epoch(epoch)
    judged, _ = engine.evaluate()
    assert judged.keys() == {"loss", "distance"}
    assert judged["distance"] < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_compiled_and_eager_agree(mode):
    plain, _ = make_engine()
    compiled, _ = make_engine(compile=mode)
    for epoch in (1, 2):
        expected = plain.train_epoch(epoch).metrics["loss"]
        assert compiled.train_epoch(epoch).metrics["loss"] == pytest.approx(expected, rel=1e-3)
    assert compiled.evaluate()[0]["loss"] == pytest.approx(plain.evaluate()[0]["loss"], rel=1e-3)


def test_the_model_starts_from_the_seed():
    one, _ = make_engine()
    two, _ = make_engine()
    states = [copy.deepcopy(engine._model.state_dict()) for engine in (one, two)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("name", ["loss", "metrics"])
def test_loss_of_the_whole_batch_is_refused(name):
    wrong = {
        "loss": lambda outputs, targets: outputs.mean(),
        "metrics": lambda outputs, targets: {"metrics": outputs.mean()},
    }
    engine, _ = make_engine(workload=Workload(model=network, dataset="digits", **{name: wrong[name]}))
    with pytest.raises(ValueError, match=rf"{name} has the shape \[\]: return one number an example, \[32\]"):
        engine.train_epoch(1)


def test_metrics_are_a_function():
    with pytest.raises(TypeError, match="metrics must be a function, not a dict"):
        Workload(model=network, dataset="digits", metrics={"mae": None})

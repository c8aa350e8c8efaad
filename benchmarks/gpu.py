"""Is raybench as fast on a GPU as the programs whose jobs it trains? airbench94 and DavidNet beside the originals.

    python benchmarks/gpu.py --originals DIR [--data DIR] [--parts airbench94 davidnet kernels compiled] [--rounds 8]

DIR has the published programs, unmodified; raybench does not ship them. Those that are missing are left out, and only
raybench's own times are printed:

    DIR/airbench94.py, DIR/airbench94_compiled.py   github.com/KellerJordan/cifar10-airbench, folder legacy
    DIR/fast/core.py, torch_backend.py, dawn_utils.py   github.com/davidcpage/cifar10-fast

They run in this process. What is replaced in them, in memory, is the loading of data, torchvision's normalisation and
calls that PyTorch and NumPy no longer have; on a CPU also CUDA and fp16. Their loops, optimizers, augmentation and
evaluation are their own. Without CIFAR-10 (`--data` or RAYBENCH_DATA) the images are synthetic: times are the same, and
accuracies mean nothing. No Ray, MLflow or pydantic is needed.

    airbench94   whole trainings of the published program and of the example, in turn, as each times itself
    davidnet     epochs of the original loop, with its batches from the GPU, and of the engine at several precisions
    kernels      kernels, kernel time and operations per step of each (torch.profiler); a CPU has no kernels. Those of
                 airbench94 are of a whole training with its evaluations, and in raybench also with the loading of the
                 images and the rehearsal (3 steps, 2 evaluations), which the original does in advance or not at all
    compiled     as airbench94, compiled with max-autotune; minutes of compilation, and not on a CPU

A ratio is the geometric mean over pairs in turn, the order reversed every round, with the 95 % interval of a paired t
on logarithms. `--short` takes a few tiny steps: whether the benchmark works.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import runpy
import statistics
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import stdtrit

from raybench import datasets, workloads
from raybench.core.job import GROUPED, Recipe
from raybench.core.ledger import Ledger
from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment, open_device
from raybench.engines import EngineParts, open_engine
from raybench.training.local import Printer, open_clock
from raybench.training.trial import Trial, TrialOptions

ROOT = Path(__file__).parent.parent
train = runpy.run_path(str(ROOT / "examples/airbench94/train.py"))["train"]

PARTS = ("airbench94", "davidnet", "kernels", "compiled")
AIRBENCH_BATCH, DAVIDNET_BATCH = 1024, 512
SHORT = {"train": 16, "val": 8}
SHORT_BATCH, SHORT_EPOCHS = 8, 2
Epoch = Callable[[], object]


class Bench:
    """What all parts share: the device, the data and the sizes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device, self.short, self.rounds = options.device, options.short, options.rounds
        self.originals: Path | None = options.originals
        self.on_gpu = self.device == "cuda"
        self.examples = SHORT if self.short else {}
        named = options.data or os.environ.get("RAYBENCH_DATA")
        self.real = bool(named) and (Path(named) / "cifar-10-batches-bin").is_dir()
        self.root = Path(named) if self.real else Path(tempfile.gettempdir()) / "raybench-benchmark-data"
        self.dataset = "cifar10" if self.real else datasets.synthetic_name("cifar10")
        whole = datasets.get(self.dataset).load(self.root)
        counts = {"train": len(whole.train), "val": len(whole.val)} | self.examples
        self.data = Data(whole.train.first(counts["train"]), whole.val.first(counts["val"]))

    def batch(self, usual: int) -> int:
        """Examples in a step."""
        return SHORT_BATCH if self.short else usual

    def file(self, *names: str) -> Path | None:
        """A file of the originals; None without their folder, or if the file is missing, which is printed."""
        path = self.originals.joinpath(*names) if self.originals else None
        if path and not path.is_file():
            print(f"  without the original: {path} is missing")
            return None
        return path

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def seconds(self, work: Epoch) -> float:
        """Time a call, with the device idle before and after."""
        self.synchronize()
        start_s = time.perf_counter()
        work()
        self.synchronize()
        return time.perf_counter() - start_s


# The originals --------------------------------------------------------------------------------------------------------


class HostEvent:
    """A CUDA event of a machine without CUDA: the host's clock."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._at_s = 0.0

    def record(self) -> None:
        """Read the clock."""
        self._at_s = time.perf_counter()

    def elapsed_time(self, other: HostEvent) -> float:
        """Milliseconds until another event."""
        return (other._at_s - self._at_s) * 1e3


def replaced(path: Path, replacements: Mapping[str, str]) -> str:
    """The text of a program with replacements, each of which must apply."""
    text = path.read_text(encoding="utf-8")
    for old, new in replacements.items():
        if old not in text:
            raise SystemExit(f"{path} has no {old!r}: it is another version of the program")
        text = text.replace(old, new)
    return text


def normalisation(mean: Sequence[float], std: Sequence[float]) -> Callable[[torch.Tensor], torch.Tensor]:
    """As `torchvision.transforms.Normalize`, for tensors."""

    def normalise(images: torch.Tensor) -> torch.Tensor:
        shift, scale = (torch.as_tensor(values).to(images).view(-1, 1, 1) for values in (mean, std))
        return (images - shift).div_(scale)

    return normalise


def on_device(split: Split, device: str) -> dict[str, Any]:
    """Images and classes as tensors on the device."""
    images, classes = np.ascontiguousarray(split.inputs), split.targets.astype(np.int64)
    return {"images": torch.from_numpy(images).to(device), "labels": torch.from_numpy(classes).to(device)}


def airbench_program(bench: Bench, name: str) -> dict[str, Any] | None:
    """The names that the published program defines; None if it is missing."""
    path = bench.file(name)
    if path is None:
        return None
    replacements = {
        "import torchvision\n": "",
        "import torchvision.transforms as T\n": "",
        "if not os.path.exists(data_path):": "if False:",
        "torch.load(data_path, map_location=torch.device(gpu))": "DATA[train]",
    }
    if not bench.on_gpu:
        replacements |= {
            "self.images.half()": "self.images.float()",
            ".half().cuda()": ".float()",
            "torch.cuda.Event": "HostEvent",
            "torch.cuda.synchronize()": "None",
        }
    sides = {True: bench.data.train, False: bench.data.val}
    program: dict[str, Any] = {
        "__name__": "airbench94",
        "T": types.SimpleNamespace(Normalize=normalisation),
        "DATA": {train: {**on_device(split, bench.device), "classes": None} for train, split in sides.items()},
        "HostEvent": HostEvent,
    }
    exec(compile(replaced(path, replacements), str(path), "exec"), program)
    if bench.short:
        program["hyp"]["opt"] |= {"batch_size": SHORT_BATCH, "train_epochs": SHORT_EPOCHS}
    return program


def run_program(program: dict[str, Any], run: object, *networks: Any) -> dict[str, float]:
    """One training by the published program: the time that it reports, in seconds, and its accuracy."""
    results: dict[str, float] = {}

    def keep(variables: Mapping[str, Any], is_final_entry: bool) -> None:
        total_s = variables["total_time_seconds"]
        results["total_s" if is_final_entry else "train_s"] = total_s
        if is_final_entry:
            results["accuracy"] = variables["tta_val_acc"]

    program["print_training_details"] = keep
    with contextlib.redirect_stdout(io.StringIO()):
        program["main"](run, *networks)
    return results


def fast_program(bench: Bench) -> dict[str, Any] | None:
    """The names that the modules of cifar10-fast define, in one namespace; None if one is missing."""
    paths = [bench.file("fast", name) for name in ("core.py", "torch_backend.py", "dawn_utils.py")]
    if None in paths:
        return None
    core, backend, utils = (path for path in paths if path)
    for_backend = {
        "from core import *\n": "",
        ".astype(np.float)": ".astype(np.float64)",
        "dw.add_(weight_decay, w)": "dw.add_(w, alpha=weight_decay)",
        "dw.add_(momentum, v)": "dw.add_(v, alpha=momentum)",
        'torch.device("cuda:0" if torch.cuda.is_available() else "cpu")': "DEVICE",
    }
    if not bench.on_gpu:
        for_backend |= {"node.half()": "node.float()", "pin_memory=True": "pin_memory=False"}
    program: dict[str, Any] = {"__name__": "fast", "DEVICE": torch.device(bench.device)}
    replacements = {
        core: {"(float, np.float)": "(float, np.float64)", "is 1:": "== 1:"},
        backend: for_backend,
        utils: {"from torch_backend import *\n": ""},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, pairs in replacements.items():
            exec(compile(replaced(path, pairs), str(path), "exec"), program)
    return program


def fast_epoch(bench: Bench) -> Epoch | None:
    """An epoch of DavidNet by the original: its network, loss, optimizer, schedule and batches; None if it is missing.

    The batches are those of its notebook, made on the GPU; dawn.py makes them on the host.
    """
    program = fast_program(bench)
    if program is None:
        return None
    dtype = torch.float16 if bench.on_gpu else torch.float32
    batch, epochs = bench.batch(DAVIDNET_BATCH), 24
    mean, std = (
        torch.tensor(program[name], dtype=dtype, device=bench.device) for name in ("cifar10_mean", "cifar10_std")
    )
    tensors = on_device(bench.data.train, bench.device)
    prepared = program["preprocess"](
        {"data": tensors["images"], "targets": tensors["labels"]},
        [
            program["to"](dtype=dtype),
            partial(program["normalise"], mean=mean, std=std),
            partial(program["transpose"], source="NHWC", target="NCHW"),
            partial(program["pad"], border=4),
        ],
    )
    batches = program["GPUBatches"](
        batch_size=batch,
        transforms=[program["Crop"](32, 32), program["FlipLR"](), program["Cutout"](8, 8)],
        dataset=prepared,
        shuffle=True,
        drop_last=True,
        max_options=200,
    )
    network = program["Network"](program["net"]()).to(bench.device).half()
    rate = program["PiecewiseLinear"]([0, 5, epochs], [0, 0.4, 0])
    settings = {
        "lr": lambda step: rate(step / len(batches)) / batch,
        "weight_decay": program["Const"](5e-4 * batch),
        "momentum": program["Const"](0.9),
    }
    optimizer = program["SGD"](program["trainable_params"](network).values(), settings)
    state = {
        program["MODEL"]: network,
        program["LOSS"]: program["x_ent_loss"],
        program["OPTS"]: [optimizer],
    }

    def epoch() -> None:
        program["epoch_stats"](program["reduce"](batches, state, program["default_train_steps"]))

    return epoch


# raybench -------------------------------------------------------------------------------------------------------------


class Recorder(Printer):
    """Keeps the epochs of a trial."""

    def __init__(self) -> None:
        super().__init__(silent=True)
        self.epochs: list[dict[str, Any]] = []

    def epoch_ended(self, fields: dict[str, Any], more: bool) -> None:
        """Keep an epoch."""
        self.epochs.append(fields)


def run_function(bench: Bench, seed: int, compiled: bool = False) -> dict[str, float]:
    """One training by the example, as a trial reports it: what the published program also times."""
    recorder = Recorder()
    epochs = SHORT_EPOCHS if bench.short else 9.9
    options = TrialOptions(epochs, bench.root, bench.root, replaces_count=True, seed=seed)
    trial = Trial(options, recorder, lambda: open_clock("torch"))
    sizes = {f"{split}_examples": count for split, count in bench.examples.items()}
    train(trial, batch_size=bench.batch(AIRBENCH_BATCH), epochs=epochs, compile=compiled, **sizes)
    trial.finish()
    train_s = sum(epoch["ledger"]["train"] + epoch["ledger"]["input_wait"] for epoch in recorder.epochs)
    last = recorder.epochs[-1]
    total_s = train_s + last["ledger"]["evaluate"]
    return {"train_s": train_s, "total_s": total_s, "accuracy": last["metrics"]["val/accuracy"]}


def engine_epoch(bench: Bench, replicas: int = 1, **changes: Any) -> Epoch:
    """An epoch of DavidNet by raybench's engine, as a trial uses it."""
    workload = workloads.get("davidnet")
    recipe = Recipe.of({**workload.defaults, "batch_size": bench.batch(DAVIDNET_BATCH), **changes})
    recipe = replace(recipe, replicas=replicas, replication=GROUPED)
    device = open_device(bench.device, "torch", Assignment([], [], torch.get_num_threads()))
    device.open(recipe.precision)
    engine = open_engine("torch", EngineParts(recipe, workload, device, Ledger(), 0))
    engine.load(bench.data)
    engine.build()

    def epoch() -> None:
        device.open(recipe.precision)  # TF32 is a setting of the whole process
        engine.train_epoch(1)

    return epoch


# Parts ----------------------------------------------------------------------------------------------------------------


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Geometric mean of the ratios of pairs, with its 95 % interval if there are several."""
    logs = [math.log(own / other) for own, other in zip(ours, theirs, strict=True)]
    middle = statistics.fmean(logs)
    summary: dict[str, Any] = {"ratio": math.exp(middle), "pairs": len(logs)}
    if len(logs) > 1:
        half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
        summary |= {"low": math.exp(middle - half), "high": math.exp(middle + half)}
    return summary


def show_ratio(what: str, summary: Mapping[str, Any]) -> None:
    interval = f" (95 %: {summary['low']:.3f} to {summary['high']:.3f})" if "low" in summary else ""
    print(f"  {what}, raybench / original: {summary['ratio']:.3f}{interval}, {summary['pairs']} pairs", flush=True)


def trainings(bench: Bench, original: Callable[[int], dict[str, float]] | None, compiled: bool) -> dict[str, Any]:
    """Whole trainings of both in turn; the first pair is a warm-up."""
    sides: dict[str, Callable[[int], dict[str, float]]] = {"raybench": partial(run_function, bench, compiled=compiled)}
    if original:
        sides["original"] = original
    results: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for number in range(bench.rounds + 1):
        for name in sorted(sides, reverse=bool(number % 2)):
            result = sides[name](number)
            if number:
                results[name].append(result)
    for name, rows in results.items():
        total_s, accuracy = (statistics.median(row[key] for row in rows) for key in ("total_s", "accuracy"))
        print(f"  {name:<9} {total_s:.3f} s, accuracy {100 * accuracy:.2f} % (medians of {len(rows)} trainings)")
    summary: dict[str, Any] = {"trainings": results}
    if original:
        for key, what in (("train_s", "training"), ("total_s", "training and last evaluation")):
            summary[key] = ratio(*([row[key] for row in results[name]] for name in ("raybench", "original")))
            show_ratio(what, summary[key])
    return summary


def part_airbench94(bench: Bench) -> dict[str, Any]:
    program = airbench_program(bench, "airbench94.py")
    return trainings(bench, partial(run_program, program) if program else None, compiled=False)


def part_compiled(bench: Bench) -> dict[str, Any]:
    if not bench.on_gpu:
        print("  left out: max-autotune with CUDA graphs needs a GPU")
        return {}
    for name in ("recompile_limit", "accumulated_recompile_limit"):  # a trial has two networks, this process many
        setattr(torch._dynamo.config, name, 4096)
    program = airbench_program(bench, "airbench94_compiled.py")
    original = None
    if program:
        networks = [program["make_net"]() for _ in range(2)]
        networks[1][0].bias.requires_grad = False
        modules = [torch.compile(network, mode="max-autotune") for network in networks]
        run_program(program, "warmup", *modules)

        def original(number: int) -> dict[str, float]:
            return run_program(program, number, *modules)

    return trainings(bench, original, compiled=True)


def davidnet_variants(bench: Bench) -> dict[str, dict[str, Any]]:
    """The settings of the engine; the first are those of the original."""
    if not bench.on_gpu:
        return {"fp32": {"precision": "fp32"}}
    return {
        "fp16 weights": {"precision": "fp16", "master_weights": False},
        "fp16": {"precision": "fp16"},
        "bf16": {"precision": "bf16"},
        "tf32": {"precision": "tf32"},
        "fp32": {"precision": "fp32"},
        "8 replicas": {"precision": "fp16", "master_weights": False, "replicas": 8},
        "batches from the host": {"precision": "fp16", "master_weights": False, "input": "host"},
    }


def part_davidnet(bench: Bench) -> dict[str, Any]:
    original = fast_epoch(bench)
    sides = {name: engine_epoch(bench, **changes) for name, changes in davidnet_variants(bench).items()}
    if original:
        sides["original"] = original
    for epoch in sides.values():
        for _ in range(2):  # the first one finds the fastest algorithms
            epoch()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(bench.rounds):
        for name in list(sides) if number % 2 else reversed(sides):
            seconds[name].append(bench.seconds(sides[name]))
    steps = len(bench.data.train) // bench.batch(DAVIDNET_BATCH)
    summary: dict[str, Any] = {"steps": steps, "seconds": seconds, "ratios": {}}
    for name, values in seconds.items():
        middle_s = statistics.median(values)
        print(f"  {name:<22} {middle_s:.4f} s an epoch, {1e3 * middle_s / steps:.3f} ms a step")
    for name in sides if original else ():
        if name != "original":
            summary["ratios"][name] = ratio(seconds[name], seconds["original"])
            show_ratio(f"epoch, {name}", summary["ratios"][name])
    return summary


def part_kernels(bench: Bench) -> dict[str, Any]:
    first = next(iter(davidnet_variants(bench).values()))
    program = airbench_program(bench, "airbench94.py")
    steps = len(bench.data.train) // bench.batch(DAVIDNET_BATCH)
    epochs = SHORT_EPOCHS if bench.short else 9.9
    trained = math.ceil(epochs * (len(bench.data.train) // bench.batch(AIRBENCH_BATCH)))
    jobs: dict[str, tuple[int, Epoch | None]] = {
        "davidnet, raybench": (steps, engine_epoch(bench, **first)),
        "davidnet, original": (steps, fast_epoch(bench)),
        "airbench94, raybench": (trained, lambda: run_function(bench, 0)),
        "airbench94, original": (trained, (lambda: run_program(program, 0)) if program else None),
    }
    summary = {}
    for name, (count, work) in jobs.items():
        if work:
            work()
            summary[name] = counted(bench, count, work)
            values = ", ".join(f"{value:.1f} {unit}" for unit, value in summary[name].items())
            print(f"  {name:<22} per step: {values}", flush=True)
    if not bench.on_gpu:
        print("  a CPU has no kernels: only operations are counted")
    print(
        "  (airbench94: of a whole training with its evaluations; raybench's also of loading the images, and on a GPU"
    )
    print("  of a rehearsal of 3 steps and 2 evaluations, which the original has not)")
    return summary


def counted(bench: Bench, steps: int, work: Epoch) -> dict[str, float]:
    """Operations, kernels and kernel time of a call, per step."""
    activity = torch.profiler.ProfilerActivity
    activities = [activity.CPU, *([activity.CUDA] if bench.on_gpu else [])]
    with torch.profiler.profile(activities=activities) as profiler:
        work()
        bench.synchronize()
    on_gpu = torch.autograd.DeviceType.CUDA
    events = profiler.profiler.kineto_results.events()
    operations = sum(event.name().startswith("aten::") for event in events if event.device_type() != on_gpu)
    counts = {"operations": operations / steps}
    if bench.on_gpu:
        ranges = ("ProfilerStep", "gpu_user", "Optimizer.", "Context")  # which enclose kernels
        kernels = [e for e in events if e.device_type() == on_gpu and not e.name().startswith(ranges)]
        counts["kernels"] = len(kernels) / steps
        counts["µs of kernels"] = sum(kernel.duration_ns() for kernel in kernels) / steps / 1e3
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--originals", type=Path, help="the folder with the published programs")
    parser.add_argument("--data", help="a folder with cifar-10-batches-bin")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["airbench94", "davidnet", "kernels"])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--short", action="store_true", help="a few tiny steps")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(f"torch {torch.__version__} sees no CUDA device")
    if options.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        torch.set_num_threads(1)
        if not options.short:
            raise SystemExit("on a CPU only with --short: a whole training takes hours")
    bench = Bench(options)
    name = torch.cuda.get_device_name() if bench.on_gpu else "CPU"
    version = ".".join(torch.__version__.split(".")[:2])
    print(f"{name}, torch {version}, {'real' if bench.real else 'synthetic'} images")
    if not options.originals:
        print("no --originals: raybench alone")
    numbers = {}
    for part in options.parts:
        print(f"{part}:", flush=True)
        numbers[part] = globals()[f"part_{part}"](bench)
        if options.json:
            options.json.write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()

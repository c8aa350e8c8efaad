"""What raybench will meet on this machine, one line each; with a results folder also the MLflow runs in it."""

import importlib.metadata
import os
import subprocess
import sys
import time
from pathlib import Path


def check(what):
    """Call a function and print what it returns or raises."""

    def run(function):
        start = time.perf_counter()
        try:
            value = function()
        except Exception as error:
            value = f"FAILED {type(error).__name__}: {str(error)[:300]}"
        print(f"{what}: {value}   [{time.perf_counter() - start:.2f} s]", flush=True)

    return run


@check("packages")
def _():
    names = "torch triton numpy ray mlflow-skinny pydantic nvidia-ml-py transformers jax pandas scipy pyarrow pytest"
    installed = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
    return sys.version, sys.executable, {name: installed.get(name) for name in names.split()}


@check("Ray Tune and MLflow")
def _():
    from ray import tune

    import raybench.tracking.mlflow

    return tune.__file__, raybench.tracking.mlflow.__file__


@check("CUDA, and a product of matrices")
def _():
    import torch

    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    of = torch.cuda.get_device_properties(0)
    return (
        torch.__version__,
        torch.version.cuda,
        torch.backends.cudnn.version(),
        float((a @ a).float().abs().mean()),
        of,
    )


@check("NVML, and its energy counter over 2 s of work: joules")
def _():
    import pynvml as nvml
    import torch

    nvml.nvmlInit()
    card = nvml.nvmlDeviceGetHandleByIndex(0)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    before, start = nvml.nvmlDeviceGetTotalEnergyConsumption(card), time.perf_counter()
    while time.perf_counter() - start < 2:
        a @ a
        torch.cuda.synchronize()
    joules = (nvml.nvmlDeviceGetTotalEnergyConsumption(card) - before) / 1000
    driver, reasons = nvml.nvmlSystemGetDriverVersion(), nvml.nvmlDeviceGetCurrentClocksEventReasons(card)
    return nvml.nvmlDeviceGetName(card), driver, nvml.nvmlDeviceGetMemoryInfo(card).total, f"reasons {reasons}", joules


@check("a fork after torch's import uses CUDA")
def _():
    code = (
        "import os, torch\n"
        "if os.fork() == 0: print(torch.ones(2, device='cuda').sum().item(), flush=True); os._exit(0)\n"
        "print(os.wait())"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@check("torch.compile, default and reduce-overhead: seconds")
def _():
    import torch

    seconds = {}
    for mode in ("default", "reduce-overhead"):
        start = time.perf_counter()
        compiled = torch.compile(lambda x: (x @ x).relu().sum(), mode=mode)
        for _ in range(4):
            compiled(torch.ones(256, 256, device="cuda"))
        torch.cuda.synchronize()
        seconds[mode] = round(time.perf_counter() - start, 2)
    return seconds


@check("shared memory, bytes")
def _():
    disk = os.statvfs("/dev/shm")
    return disk.f_bavail * disk.f_frsize


store = Path(sys.argv[1], "mlflow.db") if sys.argv[1:] else None
if store and store.is_file():
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{store}")
    for experiment in client.search_experiments():
        runs = client.search_runs([experiment.experiment_id], max_results=1000)
        print(f"{experiment.name}: {len(runs)} runs")
        for run in runs[:3]:
            print(" ", run.info.status, run.info.run_name, dict(list(run.data.metrics.items())[:4]))

"""How long does the quick start take, beside a plain script of Ray Tune and MLflow that trains the same twelve runs?

    python benchmarks/quickstart.py [--rounds 5]

The plain script has the same network, data, optimizer, batch sizes, weight decays and epochs, at a constant rate. It
runs one trial at a time on all cores, with MLflow's callback and a new sqlite store, and has no checks, intervals or
report; once as Tune does by default, and once with `reuse_actors=True`, as an expert would write it. All take turns in
empty folders; the times are those of whole commands.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent

PLAIN = """
import logging, os, sys
os.environ.update(RAY_USAGE_STATS_ENABLED="0", MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
import ray
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback

def train(config):
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    def conv(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

    torch.manual_seed(config["seed"])
    torch.set_num_threads(os.cpu_count())
    digits = load_digits()
    images = (torch.tensor(digits.images).float()[:, None] - 4.88) / 6.02
    targets = torch.tensor(digits.target)
    model = nn.Sequential(
        conv(1, 32), conv(32, 32), conv(32, 32), nn.MaxPool2d(2), conv(32, 64), conv(64, 64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.25), nn.Linear(64, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, nesterov=True, weight_decay=config["weight_decay"])
    for epoch in range(3):
        model.train()
        for batch in torch.randperm(1437).split(config["batch_size"]):
            loss = nn.functional.cross_entropy(model(images[batch]), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            accuracy = (model(images[1437:]).argmax(1) == targets[1437:]).float().mean().item()
        tune.report({"loss": loss.item(), "accuracy": accuracy})

folder = os.getcwd()
cores = os.cpu_count()
ray.init("local", num_cpus=cores, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
tuner = tune.Tuner(
    tune.with_resources(train, {"cpu": cores}),
    param_space={
        "batch_size": tune.grid_search([32, 128]),
        "weight_decay": tune.grid_search([0.0, 5e-4]),
        "seed": tune.grid_search([0, 1, 2]),
    },
    tune_config=tune.TuneConfig(reuse_actors=sys.argv[1] == "reuse"),
    run_config=tune.RunConfig(storage_path=folder, verbose=0, callbacks=[
        MLflowLoggerCallback(tracking_uri=f"sqlite:///{folder}/mlflow.db", experiment_name="quickstart")]),
)
results = tuner.fit()
assert len(results) == 12 and not results.errors
print(results.get_dataframe().groupby(["config/batch_size", "config/weight_decay"])["accuracy"].mean())
"""

COMMANDS = {
    "raybench grid": ["-m", "raybench", "grid", str(ROOT / "grids" / "quickstart.yaml")],
    "plain Ray Tune and MLflow": ["-c", PLAIN, "default"],
    "the same, reuse_actors=True": ["-c", PLAIN, "reuse"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(options.rounds):
        for name in list(COMMANDS)[:: -1 if number % 2 else 1]:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                begun = time.perf_counter()
                command = [sys.executable, *COMMANDS[name]]
                done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
                seconds[name].append(time.perf_counter() - begun)
                assert done.returncode == 0, done.stdout + done.stderr
            print(f"{name:<27} {seconds[name][-1]:6.1f} s", flush=True)
    for name, times in seconds.items():
        print(f"{name:<27} median {statistics.median(times):6.1f} s, min {min(times):.1f}, max {max(times):.1f}")


if __name__ == "__main__":
    main()

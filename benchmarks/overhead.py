"""What does a further trial cost beyond its own work? raybench beside bare Ray Tune with its MLflow callback.

    python benchmarks/overhead.py [--trials 32] [--rounds 2]

Both run the same grid of one-step trials (digits_cnn, batch 64, one step) on this machine's CPU, one trial at a time,
with an empty sqlite store each: raybench as `raybench grid` does it, and Tune with a function trainable and
`MLflowLoggerCallback`. The two take turns. A further trial's cost is the difference between the long grid and one with
a single trial, divided by the number of further trials, so that starting Ray and loading the framework do not count.
With `--trials 1` there is the single trial alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = """
import logging, os, sys
os.environ.update(RAY_USAGE_STATS_ENABLED="0", MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
import ray
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback

def trial(config):
    import torch
    from raybench import datasets, workloads
    data = datasets.get("digits").load(datasets.data_root())
    torch.manual_seed(0)
    torch.set_num_threads(os.cpu_count())
    model = workloads.get("digits_cnn").build_model("torch")
    optimizer = torch.optim.SGD(model.parameters(), lr=config["rate"])
    inputs = torch.from_numpy(data.train.inputs[:64]).permute(0, 3, 1, 2).float() / 16
    loss = torch.nn.functional.cross_entropy(model(inputs), torch.from_numpy(data.train.targets[:64]))
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.inference_mode():
        seen = model(torch.from_numpy(data.val.inputs).permute(0, 3, 1, 2).float() / 16).argmax(1)
    right = (seen == torch.from_numpy(data.val.targets)).float().mean().item()
    tune.report({"loss": loss.item(), "accuracy": right})

folder, trials, temporary = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ray.init("local", num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False,
         logging_level=logging.ERROR, _temp_dir=temporary)
tuner = tune.Tuner(
    tune.with_resources(trial, {"cpu": os.cpu_count()}),
    param_space={"rate": tune.grid_search([0.01 + 0.001 * n for n in range(trials)])},
    run_config=tune.RunConfig(storage_path=folder, verbose=0, callbacks=[
        MLflowLoggerCallback(tracking_uri=f"sqlite:///{folder}/mlflow.db", experiment_name="bare")]),
)
results = tuner.fit()
assert len(results) == trials and not results.errors
ray.shutdown()
"""

GRID = """
name: overhead
workload: digits_cnn
epochs: 1
steps_per_epoch: 1
batch_size: 64
axes:
  device: [cpu]
  learning_rate: [{rates}]
"""


def run_raybench(folder: Path, trials: int) -> None:
    grid = folder / "overhead.yaml"
    grid.write_text(GRID.format(rates=", ".join(str(round(0.01 + 0.001 * n, 6)) for n in range(trials))))
    subprocess.run(
        [sys.executable, "-m", "raybench", "grid", str(grid), "--results", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def run_bare(folder: Path, trials: int) -> None:
    (folder / "bare.py").write_text(BARE)
    with tempfile.TemporaryDirectory(prefix="rb-", ignore_cleanup_errors=True) as temporary:
        command = [sys.executable, str(folder / "bare.py"), str(folder), str(trials), temporary]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    ways = {"raybench": run_raybench, "bare Tune + MLflowLoggerCallback": run_bare}
    lengths = sorted({1, options.trials})
    seconds: dict[str, dict[int, list[float]]] = {name: {trials: [] for trials in lengths} for name in ways}
    for number in range(options.rounds):
        for name in sorted(ways, reverse=bool(number % 2)):
            for trials in lengths:
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    begun = time.perf_counter()
                    ways[name](Path(folder), trials)
                    seconds[name][trials].append(time.perf_counter() - begun)
    for name, times in seconds.items():
        found = f"{name:<34} 1 trial {statistics.median(times[1]):6.1f} s"
        if options.trials > 1:
            each = [(b - a) / (options.trials - 1) for a, b in zip(times[1], times[options.trials], strict=True)]
            found += (
                f", {options.trials} trials {statistics.median(times[options.trials]):6.1f} s: "
                f"{statistics.median(each):.3f} s for each further trial ({min(each):.3f} to {max(each):.3f})"
            )
        print(found)
    if options.json:
        options.json.write_text(json.dumps({"trials": options.trials, "seconds": seconds}, indent=1))


if __name__ == "__main__":
    main()

"""The record of an NVIDIA H200, from its trials.

    python benchmarks/gpu_h200.py > benchmarks/results/gpu_h200.txt

`gpu_h200_trials.csv` has a row for each trial, and no epochs. Each row becomes epochs with the first time, the median
and the sum that it has, which `raybench.load` reads. Prices are left out, because no row has one of an H200.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pandas as pd

import raybench

TRIALS = Path(__file__).parent / "results" / "gpu_h200_trials.csv"
WIDTH = 120
HEAD = """\
One NVIDIA H200 (140 GiB, limit 700 W), driver 580.159.04, CUDA 13.0, in a virtual machine with 16 cores of an Intel
Xeon; Python 3.12.3, PyTorch 2.11.0+cu130, Ray 2.60.0, MLflow 3.17.2 (skinny); 26 November 2026, by benchmarks/gpu_kit,
about 26 minutes of three machines. All {trials} trials of gpu_h200_trials.csv, as benchmarks/gpu_h200.py prints them.
There are no prices: what the trials have is not the price of an H200."""
COMMANDS = {
    "quickstart": "raybench grid grids/quickstart.yaml",
    "until": (
        "raybench grid grids/quickstart.yaml --set name=until --set 'axes.weight_decay=[0.0]' --set 'axes.count=[1]'"
        " --until 5% --repeats 10"
    ),
    "gpt_which_gpu": (
        "raybench grid grids/gpt_which_gpu.yaml --set 'devices={gpu: {kind: cuda, price_per_hour: 3}}'"
        " --set 'axes.device=[gpu]' --set budget.time=10s --repeats 2"
    ),
    "cifar_tpu_vs_gpu": (
        "raybench grid grids/cifar_tpu_vs_gpu.yaml --where device=gpu --where batch_size=512 --where weight_decay=5e-4"
    ),
    "cifar_tpu_vs_gpu compiled": "the same with --set 'axes.compile=[default]'",
    "airbench94": "raybench grid examples/airbench94/grid.yaml --set 'axes.compile=[false]', in two sessions",
    "published": "raybench run --device cuda -- python published.py airbench94.py",
    "published compiled": "raybench run --device cuda -- python published.py airbench94_compiled.py",
}
"""The command of each grid."""
SETTINGS = (
    *("trial", "grid", "status", "host", "device", "device_kind", "device_model", "workload", "framework", "precision"),
    *("batch_size", "weight_decay", "compile", "epochs", "budget_s", "warmup_epochs"),
    *("target_metric", "target_at_least"),
)
FOOT = """\
Not in these trials: pytest -m gpu tests/devices/test_on_hardware.py under PyTorch, 23 passed in 158 and 38 s.
benchmarks/gpu_kit/grids/oom.yaml: batch 2048 asked for 196.5 GiB and ended as out of memory, the smaller one completed.
The first compilation of examples/airbench94 did not end in 230 s, after which its grid was stopped. A grid in JAX.
Never run: TensorFlow, several GPUs."""


def epochs_of(trial: pd.Series) -> pd.DataFrame:
    """The epochs of a trial: the first, others of its median time, and the rest of its sum in the last one."""
    full, is_partial = int(trial["epochs_done"]), pd.notna(trial["budget_s"])
    seconds = [trial["first_s"], *[trial["steady_s"]] * (full - 1)]
    rest_s = trial["epochs_s"] - sum(seconds)
    if is_partial:  # the epoch that its budget ended
        seconds.append(rest_s)
    elif full > 2:
        seconds[-1] += rest_s
    rows = pd.DataFrame({"epoch": range(1, len(seconds) + 1), "train_s": seconds})
    rows["partial"] = [False] * full + [True] * is_partial
    rows.loc[0, ["train_s", "compile_s"]] = trial["first_s"] - trial["compile_s"], trial["compile_s"]
    if is_partial:  # its budget is of training without compilation
        rows = rows.drop(columns="compile_s")
    counted_s = pd.Series([trial["steady_s"]] * full + [rest_s] * is_partial)
    for count, rate in (("examples", "examples_per_s"), ("units/tokens", "tokens_per_s")):
        rows[count] = (trial[rate] * counted_s).round()
    for part in ("accuracy", "loss"):
        rows.loc[rows.index[-1], f"val/{part}"] = trial[f"last_val_{part}"]
    return rows.assign(**trial[list(SETTINGS)])


def use_of_device(trials: pd.DataFrame) -> str:
    """A table of memory, energy and use of the device: means of the runs of each configuration."""
    columns = {
        "memory, GB": trials["peak_memory_bytes"] / 1e9,
        "kJ per run": trials["energy_j"] / 1e3,
        "MFU, %": 100 * trials["mfu"],
        "MFU of the data sheet, %": 100 * trials["datasheet_mfu"],
        "measured peak, TFLOP/s": trials["flop_rate"] / trials["mfu"] / 1e12,
    }
    names = [name for name in ("device", "batch_size", "weight_decay", "compile") if trials[name].nunique() > 1]
    means = trials.assign(**columns).groupby(names or "device")[[*columns]].mean().dropna(axis=1, how="all")
    return means.map(lambda value: "-" if pd.isna(value) else f"{value:.3g}").reset_index().to_string(index=False)


def main() -> None:
    """Print the record."""
    os.environ["COLUMNS"] = str(WIDTH)
    trials = pd.read_csv(TRIALS)
    trials["trial"] = [f"{name} {row}" for row, name in enumerate(trials["trial"])]  # repeats of two sessions
    print(HEAD.format(trials=len(trials)))
    for grid, command in COMMANDS.items():
        rows = trials[trials["grid"] == grid]
        print(f"\n$ {command}\n{len(rows)} {'trials' if len(rows) > 1 else 'trial'}\n")
        if grid.startswith("published"):  # trainings in one process, which the program times itself
            for row in rows.itertuples():
                print(f"its own time {row.last_train_seconds:.3f} s, accuracy {row.last_val_accuracy:.2%}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "epochs.csv"
            epochs = pd.concat([epochs_of(row) for _, row in rows.iterrows()])
            epochs.dropna(axis=1, how="all").to_csv(path, index=False)
            print(raybench.load(path))
        print(f"\n{use_of_device(rows)}")
    print(f"\n{FOOT}")


if __name__ == "__main__":
    main()

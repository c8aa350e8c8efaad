"""How many operations does the host dispatch in a training step, and for how many does it wait?

    python benchmarks/dispatch_counts.py [--kinds cpu meta] [--only davidnet resnet63 …]

Counts do not depend on the machine: they need no GPU, and random pictures. On `meta`, a device without memory,
torch dispatches nearly what it does on a GPU. `tests/test_dispatch_counts.py` has bounds for these counts, and
`tests/support/dispatches.py` says what is counted. For a declared workload the rows below a step are an epoch without
its steps, a batch of an evaluation, and an evaluation without its batches.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import runpy
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support.dispatches import COLUMNS, KINDS, Counts, of_engine, of_function  # noqa: E402

from raybench import workloads  # noqa: E402

ENGINE = {
    "davidnet": {"workload": "davidnet"},
    "davidnet, input: host": {"workload": "davidnet", "input": "host"},
    "davidnet, replicas: 8": {"workload": "davidnet", "batch": 16, "replicas": 8, "replication": "grouped"},
    "resnet63": {"workload": "resnet63"},
}
FUNCTIONS = {
    "airbench94": {"steps": 5, "first": 1, "batch_size": 2, "train_examples": 14, "val_examples": 14},
    "pytorch_loop": {
        "steps": 2, "first": 1, "batch_size": 2, "train_examples": 8, "val_examples": 2, "epochs": 1, "workers": 1,
    },
}  # fmt: skip


def count(name: str, kind: str) -> Mapping[str, Counts]:
    """The counts of one training, by what they are counts of."""
    if name in ENGINE:
        options = dict(ENGINE[name])
        counts = of_engine(workloads.get(str(options.pop("workload"))), kind, **options)  # type: ignore[arg-type]
        return {key: value for key, value in vars(counts).items() if isinstance(value, Counts)}
    train = runpy.run_path(str(ROOT / f"examples/{name}/train.py"))["train"]
    with contextlib.redirect_stdout(io.StringIO()):
        return {"step": partial(of_function, train, kind)(**FUNCTIONS[name])}  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["meta"])
    parser.add_argument("--only", nargs="+", choices=[*ENGINE, *FUNCTIONS], default=[*ENGINE, *FUNCTIONS])
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    numbers = {}
    print(f"{'':<28} {'':<5} {'per':<17}" + "".join(f"{name:>11}" for name in COLUMNS))
    for name in options.only:
        for kind in options.kinds:
            for unit, counts in count(name, kind).items():
                numbers[f"{name}, {kind}, {unit}"] = asdict(counts)
                values = "".join(f"{getattr(counts, column):11,.1f}" for column in COLUMNS)
                print(f"{name:<28} {kind:<5} {unit:<17}{values}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()

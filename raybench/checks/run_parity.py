"""The parity check of a workload's frameworks (`raybench parity`).

Each framework computes in its own process (`raybench.checks.parity`), all from the same weights and the same
batches; here their arrays are compared with those of the first framework, the reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raybench import datasets, errors
from raybench.checks.parity import RESULT, START, read_arrays
from raybench.checks.parity_comparison import PARITY_TOLERANCE, ParityRow, SideMeasurement, compare
from raybench.config import load_grid
from raybench.core.job import Job
from raybench.devices import KINDS, frameworks, hosted
from raybench.engines import ENGINES, FRAMEWORKS
from raybench.errors import ExecutionError, UsageError, nearest
from raybench.execution.process import ForkServer
from raybench.planning.node import probe_node
from raybench.planning.plan import Plan, make_plan
from raybench.planning.resolve import ResolvedCell, data_of
from raybench.workloads import WorkloadInfo, read_workload

STEPS = 10
"""Number of compared steps."""

RATE = 0.01
"""Factor on the workload's learning rate.

Training amplifies rounding. At DavidNet's own rate the tenth loss differs by 6 % and the running means by a half
between two memory layouts of one framework, and a tolerance that allows that would allow anything; at a hundredth of
the rate the differences are 3e-5 and 1e-3."""

BATCH_SIZE = 128

Tell = Callable[[str], object]
"""Callback that receives the description of the current computation."""


@dataclass(frozen=True)
class ParityPair:
    """A framework compared with the reference."""

    framework: str
    lines: tuple[ParityRow, ...]

    @property
    def same(self) -> bool:
        """Return whether every row is within its tolerance."""
        return all(line.same for line in self.lines)


@dataclass(frozen=True)
class Parity:
    """The result of a parity check.

    Attributes:
        reference: the framework with which the others are compared.
        missing: frameworks that were not requested by name and cannot run here, with the reasons.
    """

    workload: str
    batch_size: int
    reference: str
    pairs: tuple[ParityPair, ...]
    missing: Mapping[str, str]

    @property
    def same(self) -> bool:
        """Return whether all frameworks are the same training job."""
        return all(pair.same for pair in self.pairs)


def run_parity(
    workload: str,
    requested: Sequence[str] = (),
    batch_size: int = BATCH_SIZE,
    tell: Tell = lambda text: None,
) -> Parity:
    """Compare a workload's frameworks, each on the CPU, in this interpreter or else in raybench's own environment.

    Args:
        requested: frameworks, the reference first; if empty, all that run here and for which the workload has a model.

    Raises:
        UsageError: the workload, its data, a framework cannot be used; the message names the remedy.
        ExecutionError: a framework's process failed.
    """
    info = read_workload(workload, Path())
    if info.is_function:
        raise UsageError(f"parity compares the models of a declared workload, and {info.name} is a training function")
    for name in info.parity_tolerance:
        if name not in PARITY_TOLERANCE:
            raise UsageError(f"{info.name}: parity_tolerance has no key {name!r}; {nearest(name, PARITY_TOLERANCE)}")
    selection = _chosen(info, requested)
    root = datasets.data_root()
    plan = _plan(info, workload, selection, batch_size, root)
    cells = {cell.content.framework: cell for cell in plan.cells}
    missing = {name: cells[name].skip or "" for name in selection if cells[name].skip}
    ready = [name for name in selection if name not in missing]
    if missing and (requested or len(ready) < 2):
        raise UsageError("\n".join(f"{name}: {reason}" for name, reason in missing.items()))
    with tempfile.TemporaryDirectory(prefix="raybench-parity-") as folder:
        measured = _measure_all(plan, {name: cells[name] for name in ready}, root, Path(folder), tell)
        reference = next(measured)
        tolerance = {**PARITY_TOLERANCE, **info.parity_tolerance}
        pairs = tuple(ParityPair(other.framework, tuple(compare(reference, other, tolerance))) for other in measured)
    return Parity(info.name, batch_size, reference.framework, pairs, missing)


def _chosen(info: WorkloadInfo, requested: Sequence[str]) -> list[str]:
    """Select the frameworks to compare.

    Raises:
        UsageError: one is unknown or has no model, or there are fewer than two.
    """
    on_cpu = {name for kind in KINDS if hosted(kind) for name in frameworks(kind)}
    supported = [name for name in ENGINES if FRAMEWORKS[name].models in info.frameworks and name in on_cpu]
    for name in requested:
        if name not in ENGINES:
            raise UsageError(f"unknown framework {name!r}; {nearest(name, ENGINES)}")
        if name not in on_cpu:
            raise UsageError(f"parity runs on the CPU, and {name} does not; use {', '.join(supported)}")
        if name not in supported:
            raise UsageError(f"{info.name} has no {FRAMEWORKS[name].models} model; use {', '.join(info.frameworks)}")
    selection = list(dict.fromkeys(requested or supported))
    if len(selection) < 2:
        raise UsageError(
            f"parity needs at least two frameworks, not only {', '.join(selection) or 'none'}; see `raybench env`"
        )
    return selection


def _plan(
    info: WorkloadInfo,
    workload: str,
    selection: Sequence[str],
    batch_size: int,
    root: Path,
) -> Plan:
    """Plan a grid of one cell per framework: ten epochs of one step."""
    devices: dict[str, Any] = {}
    for name in selection:
        kind = next(kind for kind in KINDS if hosted(kind) and name in frameworks(kind))
        devices[name] = {"kind": kind, "framework": name}
    spec = load_grid(
        {
            "name": "parity",
            "workload": workload,
            "axes": {"device": selection},
            "devices": devices,
            "epochs": STEPS,
            "steps_per_epoch": 1,
            "batch_size": batch_size,
            "precision": "fp32",
            "compile": False,
            "replicas": 1,
            **_examples(info, batch_size, root),
        }
    )
    return make_plan(spec, [probe_node(environments=spec.environments)], root)


def _examples(info: WorkloadInfo, batch_size: int, root: Path) -> dict[str, Any]:
    """The `examples` setting: as many as the steps need; all if there are fewer, or if the data are the user's own."""
    _, available = data_of(info, root)
    if not available:
        return {"examples": dict(info.examples)} if info.examples else {}
    held_out = info.held_out
    limits = {"train": available["train"] - held_out, "val": held_out or available["val"]} | dict(info.examples)
    return {"examples": {"train": min(STEPS * batch_size, limits["train"]), "val": min(batch_size, limits["val"])}}


def _measure_all(
    plan: Plan, cells: Mapping[str, ResolvedCell], root: Path, folder: Path, tell: Tell
) -> Iterator[SideMeasurement]:
    """Measure the frameworks one after another, as parallel processes would compete for cores."""
    start: Path | None = None
    for number, (name, cell) in enumerate(cells.items(), 1):
        tell(f"{plan.workload.name}: {name} ({number} of {len(cells)})")
        subfolder = folder / name
        subfolder.mkdir()
        if start is not None:
            (subfolder / START).symlink_to(start)
        result = _measure(_job(plan, cell, root, subfolder), name)
        start = start or subfolder / START
        mismatch = result["mismatch"]
        yield SideMeasurement(name, result["parameters"], mismatch, {} if mismatch else read_arrays(subfolder / RESULT))
        (subfolder / RESULT).unlink(missing_ok=True)


def _job(plan: Plan, cell: ResolvedCell, root: Path, folder: Path) -> Job:
    assert cell.fit
    settings = replace(cell.content.settings, learning_rate=RATE * cell.content.settings.learning_rate)
    return Job(
        trial=f"parity-{cell.cell_id}",
        attempt=1,
        repeat=0,
        seed=0,
        cell=replace(cell.content, settings=settings),
        workload=plan.workload.to_json(),
        data_root=str(root.absolute()),
        folder=str(folder),
        python=plan.nodes[0].interpreter(cell.fit.environment).python,
        check="parity",
    )


def _measure(job: Job, framework: str) -> dict[str, Any]:
    """Run a job and return the event of its result.

    Raises:
        UsageError: the workload or its data cannot be used.
        ExecutionError: any other error.
    """
    with closing(ForkServer(framework, job.python)) as template:
        *_, end_event = template.run(job)
    error = end_event["error"]
    if not error:
        return end_event
    kind = getattr(errors, error["type"], None)
    if isinstance(kind, type) and issubclass(kind, UsageError):
        raise kind(error["message"])
    location = f" ({error['where']})" if error.get("where") else ""
    lines = [f"{framework}: {error['type']}: {error['message']}{location}", *error.get("output", "").splitlines()]
    raise ExecutionError("\n".join(lines))

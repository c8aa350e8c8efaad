"""Whether a workload is the same training job in several frameworks: what `raybench parity` does.

Each framework computes in a process of its own (`raybench.checks.parity.measure`), all from the same weights and the
same batches; here their arrays are compared with those of the first framework, the reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from raybench import datasets, errors
from raybench.checks.parity.judge import ParityRow, SideMeasurement, compare
from raybench.checks.parity.measure import RESULT, START, read_arrays
from raybench.config import GridSpec
from raybench.core.job import Job
from raybench.devices import KINDS, frameworks, hosted
from raybench.engines import FRAMEWORKS, MODELS
from raybench.errors import ExecutionError, UsageError, nearest
from raybench.execution.jobs import code_of
from raybench.execution.process import ForkServer
from raybench.planning.node import probe_node
from raybench.planning.plan import Plan, make_plan
from raybench.planning.resolve import ResolvedCell, data_of
from raybench.workloads import WorkloadInfo, read_reference
from raybench.workloads.base import PARITY_TOLERANCE

STEPS = 10
"""How many steps are compared."""

RATE = 0.01
"""The steps go at this part of the workload's learning rate.

Training amplifies rounding. At DavidNet's own rate the tenth loss differs by 6 % and the running means by a half
between two memory layouts of one framework, and a tolerance that bears that would bear anything; at a hundredth of the
rate it is 3e-5 and 1e-3.
"""

BATCH_SIZE = 128

Tell = Callable[[str], object]
"""Hears what is being computed now."""


@dataclass(frozen=True)
class ParityPair:
    """A framework beside the reference, line by line."""

    framework: str
    lines: tuple[ParityRow, ...]

    @property
    def same(self) -> bool:
        """Whether every line says so."""
        return all(line.same for line in self.lines)


@dataclass(frozen=True)
class Parity:
    """What came of a comparison.

    Attributes:
        reference: the framework that the others are compared with.
        missing: of the frameworks nobody asked for by name, those that cannot run here, and why.
        environments: of the frameworks that are not installed beside raybench, the environment that was taken.
    """

    workload: str
    batch_size: int
    reference: str
    pairs: tuple[ParityPair, ...]
    missing: Mapping[str, str]
    environments: Mapping[str, str] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether all frameworks are the same training job."""
        return all(pair.same for pair in self.pairs)


def run_parity(
    workload: str,
    requested: Sequence[str] = (),
    environments: Mapping[str, str] | None = None,
    batch_size: int = BATCH_SIZE,
    tell: Tell = lambda text: None,
    model: Mapping[str, Any] | None = None,
) -> Parity:
    """Compare a workload's frameworks, each on the CPU.

    Args:
        workload: a shipped one's name, or a person's own as `file.py:name`.
        requested: frameworks, the reference first; all that the workload has a model for and that run here where empty.
        environments: for a framework, the environment it computes in, as a device's profile names it; else this
            interpreter where it has the framework, or raybench's own recipe.
        batch_size: examples in one step.
        model: what is chosen of the workload's model, as a grid's `model:` does.

    Raises:
        UsageError: the workload, its data, a framework or an environment cannot be used; the message says what helps.
        ExecutionError: a framework's process failed.
    """
    info = read_reference(workload, Path())
    selection = _chosen(info, requested)
    root = datasets.data_root()
    plan = _plan(info, workload, selection, environments or {}, batch_size, root, model or {})
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
    own_fits = {name: cells[name].fit for name in ready if name not in (environments or {})}
    recipe_environments = {name: fit.environment for name, fit in own_fits.items() if fit and fit.environment}
    return Parity(info.name, batch_size, reference.framework, pairs, missing, recipe_environments)


def _chosen(info: WorkloadInfo, requested: Sequence[str]) -> list[str]:
    """The frameworks to compare.

    Raises:
        UsageError: one is unknown or has no model, or there are fewer than two.
    """
    supported = [name for name in FRAMEWORKS if MODELS[name] in info.frameworks]
    for name in requested:
        if name not in FRAMEWORKS:
            raise UsageError(f"unknown framework {name!r}; {nearest(name, FRAMEWORKS)}")
        if name not in supported:
            raise UsageError(f"{info.name} has no {MODELS[name]} model; it has {', '.join(info.frameworks)}")
    selection = list(dict.fromkeys(requested or supported))
    if len(selection) < 2:
        raise UsageError(f"parity compares two frameworks or more, and this is only {', '.join(selection) or 'none'}")
    return selection


def _plan(
    info: WorkloadInfo,
    workload: str,
    selection: Sequence[str],
    environments: Mapping[str, str],
    batch_size: int,
    root: Path,
    model: Mapping[str, Any],
) -> Plan:
    """A grid of one cell a framework: ten epochs of one step."""
    unknown = next((name for name in environments if name not in selection), None)
    if unknown:
        raise UsageError(f"--environment {unknown}=…: {unknown} is not compared; {', '.join(selection)} are")
    devices: dict[str, Any] = {}
    for name in selection:
        kind = next(kind for kind in KINDS if hosted(kind) and name in frameworks(kind))
        environment = environments.get(name)
        devices[name] = {"kind": kind, "framework": name} | ({"environment": environment} if environment else {})
    spec = GridSpec.model_validate(
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
            "model": dict(model),
            **_examples(info, batch_size, root),
        }
    )
    return make_plan(spec, [probe_node(environments=spec.environments)], root)


def _examples(info: WorkloadInfo, batch_size: int, root: Path) -> dict[str, Any]:
    """The setting: what the steps need, or all where there is less or a person's own data are as many as they are."""
    _, available = data_of(info, root)
    if not available:
        return {"examples": dict(info.examples)} if info.examples else {}
    held_out = info.held_out
    limits = {"train": available["train"] - held_out, "val": held_out or available["val"]} | dict(info.examples)
    return {"examples": {"train": min(STEPS * batch_size, limits["train"]), "val": min(batch_size, limits["val"])}}


def _measure_all(
    plan: Plan, cells: Mapping[str, ResolvedCell], root: Path, folder: Path, tell: Tell
) -> Iterator[SideMeasurement]:
    """What each framework makes of it, one after another: side by side they would only take each other's cores."""
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
        code=code_of(plan.workload, folder.parent),
        check="parity",
    )


def _measure(job: Job, framework: str) -> dict[str, Any]:
    """The event that tells what came of a job.

    Raises:
        UsageError: the workload or its data cannot be used.
        ExecutionError: anything else went wrong.
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

"""Jobs as a driver makes them, for tests of what runs them, also in a framework's own process."""

from dataclasses import replace

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.job import Job
from raybench.core.settings import DEFAULTS, Settings
from raybench.devices.host import model_name, usable_cores
from raybench.workloads import read_workload
from support import WORKLOADS

KINDS = {"torch": "cpu", "tensorflow": "cpu", "torch_xla": "xla_cpu"}


def job_of(info, folder, /, framework="torch", device=None, threads=None, params=None, **more):
    """The job of one attempt at a workload, by default on all cores of this machine.

    Args:
        device: further fields of the cell's device.
        threads: None for one on each core.
        more: fields of the job, and settings that are not their default.
    """
    cores = usable_cores()
    fields = {name: more.pop(name) for name in [*more] if name in Job.__dataclass_fields__}
    settings = {**DEFAULTS, "framework": framework, "epochs": 2, "batch_size": 16, **more}
    hardware = {"kind": KINDS.get(framework), "model": model_name(), "count": len(cores), "replicas": 1}
    tree = {
        "data": {"name": info.dataset or info.name, "digest": None, "examples": {"train": None, "val": None}},
        "device": hardware | {"threads": threads or len(cores)} | (device or {}),
        "engine": {"name": framework, "version": 1, "framework_version": "1.0"},
        "framework": framework,
        "warmup_epochs": settings["warmup_epochs"],
        "params": params or {},
    }
    cell = replace(Cell.from_json(tree), workload=info.identity(), settings=Settings.of(settings))
    place = {"data_root": str(folder), "folder": f"{folder}/attempt", "cores": cores}
    first = {"trial": "t-r0", "attempt": 1, "repeat": 0, "seed": 0, "cell": cell, "workload": info.to_json()}
    return Job(**first | place | fields)


def make_job(folder, attribute, /, file="troubles.py", device=None, root=WORKLOADS, **more):
    """The job of an attempt at a workload of a file, by default one of `support/workloads`."""
    return job_of(read_workload(f"{file}:{attribute}", root), folder, device=device, **more)


def resolved_cell(name, content=UNKNOWN_CELL, fit=None):
    """A planned cell with this id, as the executors take it."""
    from raybench.planning.resolve import ResolvedCell  # needs pydantic, which frameworks' own environments lack

    cell = ResolvedCell(content, {}, "x", None, fit)
    cell.__dict__["cell_id"] = name
    return cell

"""Jobs as a driver makes them, for tests of what runs them."""

from importlib import metadata

from raybench.core.job import Job
from raybench.core.settings import DEFAULTS
from raybench.devices.host import model_name, usable_cores
from raybench.workloads import read_workload
from support import WORKLOADS
from support.cells import make_cell


def make_job(folder, attribute, timeout=0.0, file="troubles.py", threads=0, **settings):
    """The job of one attempt at a workload of `support/workloads`, on all cores of this machine.

    Args:
        threads: 0 for one on each core.
    """
    info = read_workload(f"{file}:{attribute}", WORKLOADS)
    cores = usable_cores()
    device = {"kind": "cpu", "model": model_name(), "count": len(cores), "replicas": 1}
    cell = make_cell(
        workload=info.identity(),
        data={"name": info.name, "digest": None, "examples": {"train": None, "val": None}},
        device=device | {"threads": threads or len(cores)},
        engine={"name": "torch", "version": 1, "framework_version": metadata.version("torch")[:4]},
        resolved={**DEFAULTS, "framework": "torch", "epochs": 2, "batch_size": 16, **settings},
    )
    return Job("t-r0", 1, 0, 0, cell, info.to_json(), str(folder), str(folder / "attempt"), cores, timeout=timeout)

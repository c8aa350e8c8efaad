"""What does a fresh process cost each trial, once the template of its framework is up?

    python benchmarks/fresh_process.py [--rounds 10] [--device cpu] [--framework tensorflow] [--environment xla]

The same small trial (digits_cnn, two epochs of five steps) again and again, each in a process forked from one template.
The cost is the time from handing the job over to its last event, as the supervisor's clock has it, less what the
trial's ledger says was work: data, build, compile, train, input_wait, evaluate. So it holds the fork, opening the
device, everything a first call imports outside those sections, and the end of the process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from raybench import datasets
from raybench.config import load_grid
from raybench.core.job import Job
from raybench.execution.host_resources import HostResources
from raybench.execution.jobs import make_job
from raybench.execution.process import ForkServer
from raybench.execution.ray_executor import RayExecutor
from raybench.execution.schedule import Schedule
from raybench.planning.plan import WorkItem, make_plan

WORK = ("data", "build", "compile", "train", "input_wait", "evaluate")


def small_job(folder: Path, options: argparse.Namespace) -> Job:
    """The job of the one trial of a small grid, as a grid would make it."""
    environment = f", environment: {options.environment}" if options.environment else ""
    file = folder / "grid.yaml"
    file.write_text(
        "name: fresh\nworkload: digits_cnn\nepochs: 2\nsteps_per_epoch: 5\naxes: {device: [one]}\n"
        f"devices: {{one: {{kind: {options.device}, framework: {options.framework}{environment}}}}}\n"
    )
    spec = load_grid(file)
    plan = make_plan(spec, RayExecutor().nodes(spec.environments), datasets.data_root())
    if plan.cells[0].skip:
        raise SystemExit(plan.cells[0].skip)
    assignment = Schedule([WorkItem(plan.trials[0])], plan.nodes).next()
    assert assignment is not None
    return HostResources(assignment.nodes[0]).take(make_job(plan, assignment, folder, datasets.data_root()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--framework", default="torch")
    parser.add_argument("--environment", default="")
    options = parser.parse_args()
    costs, walls = [], []
    with tempfile.TemporaryDirectory() as folder:
        job = small_job(Path(folder), options)
        template = ForkServer(options.framework, job.python)
        for number in range(options.rounds + 1):
            begun = time.perf_counter()
            *_, last = template.run(replace(job, folder=str(Path(folder) / str(number))))
            walls.append(time.perf_counter() - begun)
            assert last["status"] == "completed", last
            costs.append(walls[-1] - sum(last["ledger"].get(section, 0.0) for section in WORK))
        template.close()
    del costs[0], walls[0]  # the first fork finds cold pages
    print(f"{options.framework} on {options.device}: template loaded in {template.import_seconds:.1f} s, once")
    print(f"a whole trial: {statistics.median(walls):.2f} s (median of {len(walls)})")
    print(f"of it not work: {statistics.median(costs):.3f} s ({min(costs):.3f} to {max(costs):.3f})")


if __name__ == "__main__":
    main()

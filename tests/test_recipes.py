"""The recipes in examples/ for schedulers and clouds, with stand-ins for the programs that need one."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml
from support import ROOT

from raybench.cli import group

EXAMPLES = ROOT / "examples"
STAND_IN = """#!/bin/bash
echo "${0##*/} ${*@Q}" >> "$CALLS"
case "${0##*/} $1" in
"scontrol show") printf 'node-a\\nnode-b\\n' ;;
"raybench grid") exit "${GRID_STATUS:-0}" ;;
"sky launch") exit "${SKY_STATUS:-0}" ;;
scp*) [ "$1" != "${MISSING:-}:results.zip" ] && cp "$ZIP" "$2" ;;
srun*)
  while [[ $1 == --* ]]; do shift; done
  exec "$@" ;;
"ray symmetric-run")
  echo "token $RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> "$CALLS"
  while [ "$1" != -- ]; do shift; done
  exec "${@:2}" ;;
esac
"""


class Machine:
    """A folder in which recipes run, and the calls of programs."""

    def __init__(self, folder):
        self.folder, self.programs, self.log = folder, folder / "bin", folder / "calls"
        self.programs.mkdir()
        for name in ("srun", "scontrol", "ray", "sky", "scp", "raybench"):
            self.stand_in(self.programs / name)

    def stand_in(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STAND_IN)
        path.chmod(0o755)

    def run(self, *command, **variables):
        self.log.write_text("")
        environ = os.environ | {"PATH": f"{self.programs}:{os.environ['PATH']}", "CALLS": str(self.log)} | variables
        self.done = subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=300)
        return self.done.returncode

    @property
    def calls(self):
        lines = [shlex.split(line) for line in self.log.read_text().splitlines()]
        for name, verb, *options in (line for line in lines if line[0] == "raybench"):
            group.get_command(None, verb).make_context(name, options, resilient_parsing=False)  # or it is a usage error
        return [" ".join(line) for line in lines]


@pytest.fixture
def machine(tmp_path):
    shutil.copy(ROOT / "grids" / "machines.yaml", tmp_path / "grid.yaml")
    return Machine(tmp_path)


def test_slurm_array(machine):
    script = str(EXAMPLES / "slurm" / "array.sh")
    status = machine.run("bash", script, "grid.yaml", "--repeats", "2", SLURMD_NODENAME="node-7", GRID_STATUS="3")
    assert status == 3, "that of the grid, whose results are exported all the same"
    assert machine.calls == [
        "raybench grid grid.yaml --results raybench-results/node-7 --tracking none --repeats 2",
        "raybench export grid.yaml --results raybench-results/node-7 -o raybench-results/node-7.zip",
    ]


def test_slurm_cluster(machine):
    slurm = {"SLURM_JOB_NODELIST": "node-[a-b]", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "16"}
    assert machine.run("bash", str(EXAMPLES / "slurm" / "cluster.sh"), "grid.yaml", "--repeats", "2", **slurm) == 0
    grid = "raybench grid grid.yaml --address node-a:6379 --tracking none --repeats 2"
    ray = f"ray symmetric-run --address node-a:6379 --min-nodes 2 -- {grid}"
    scontrol, srun, *calls = machine.calls
    assert scontrol == "scontrol show hostnames node-[a-b]"
    assert srun == f"srun --cpus-per-task=16 {ray}"
    assert calls[0] == ray and calls[2] == grid
    assert re.fullmatch("token token [0-9a-f]{64}", calls[1])


@pytest.mark.parametrize(
    ("failure", "machines"), [({}, 6), ({"SKY_STATUS": "1", "MISSING": "raybench-h100-worker2"}, 5)]
)
def test_skypilot(machine, failure, machines):
    (machine.programs / "raybench").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m raybench "$@"\n')
    script = str(EXAMPLES / "skypilot" / "compare.sh")
    status = machine.run("bash", script, "A100", "H100", ZIP=str(ROOT / "docs" / "colab.zip"), **failure)
    assert status == 0, machine.done.stderr
    launched = [call for call in machine.calls if call.startswith("sky launch")]
    options = "--down --idle-minutes-to-autostop 15 task.yaml"
    assert sorted(launched) == [
        f"sky launch --yes --cluster raybench-{gpu.lower()} --gpus {gpu}:1 {options}" for gpu in ("A100", "H100")
    ]
    assert machine.calls[-2:] == ["sky down --yes raybench-a100", "sky down --yes raybench-h100"]
    assert len([*machine.folder.glob("raybench-*.zip")]) == machines
    assert "6 new runs" in machine.done.stdout and "batch 128" in machine.done.stdout
    assert ("raybench-h100-worker2 has no results" in machine.done.stderr) == bool(failure)


def test_commands_of_a_skypilot_task(machine):
    task = yaml.safe_load((EXAMPLES / "skypilot" / "task.yaml").read_text())
    assert task["num_nodes"] == 3, "as compare.sh copies results from three"
    machine.stand_in(machine.folder / "raybench" / "bin" / "raybench")
    assert machine.run("bash", "-c", task["run"], HOME=str(machine.folder), GRID_STATUS="3") == 3
    home = str(machine.folder)
    assert machine.calls == [
        f"raybench grid grid.yaml --results {home}/results --tracking none",
        f"raybench export grid.yaml --results {home}/results -o {home}/results.zip",
    ]


def pods(node):
    """Every pod in a Kubernetes object."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pods(value)
    for value in node if isinstance(node, list) else ():
        yield from pods(value)


@pytest.mark.parametrize("name", ["job", "rayjob"])
def test_kubernetes_pods(name):
    described = yaml.safe_load((EXAMPLES / "kubernetes" / f"{name}.yaml").read_text())
    for pod in pods(described):
        for container in pod["containers"]:
            assert container["resources"]["limits"].keys() >= {"cpu", "memory"}
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert {"grids", "results"} <= mounted == {volume["name"] for volume in pod["volumes"]}


def test_commands_on_kubernetes(machine):
    (container,) = yaml.safe_load((EXAMPLES / "kubernetes" / "job.yaml").read_text())["spec"]["template"]["spec"][
        "containers"
    ]
    variables = {each["name"]: each["value"] for each in container["env"]} | {"JOB_COMPLETION_INDEX": "2"}
    assert machine.run(*container["command"], *container["args"], **variables, GRID_STATUS="3") == 3
    results = "/results/raybench-a100-2"
    assert machine.calls == [
        f"raybench grid /grids/grid.yaml --results {results} --tracking none",
        f"raybench export /grids/grid.yaml --results {results} -o {results}.zip",
    ]
    ray_job = yaml.safe_load((EXAMPLES / "kubernetes" / "rayjob.yaml").read_text())["spec"]
    assert machine.run("sh", "-c", ray_job["entrypoint"]) == 0
    assert machine.calls == ["raybench grid /grids/grid.yaml --address auto --results /results --tracking none"]


def test_ray_job(machine):
    submit = str(EXAMPLES / "ray_job" / "submit.sh")
    assert machine.run("bash", submit, "http://head:8265", "a/grid.yaml", "/shared", "--repeats", "2") == 0
    assert machine.calls == [
        "ray job submit --address http://head:8265 --working-dir a -- "
        "raybench grid grid.yaml --results /shared --tracking none --repeats 2"
    ]

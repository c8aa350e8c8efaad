"""The plan of a grid that runs two versions of another one."""

from dataclasses import replace

import pytest

from raybench.config import load_grid
from raybench.core.cell import BASE, NEW
from raybench.core.options import PlanOptions
from raybench.devices import Hardware
from raybench.environments import Interpreter
from raybench.errors import UsageError
from raybench.planning.grid_options import requested_grid
from raybench.planning.node import Node
from raybench.planning.plan import make_plan, plan_warnings
from raybench.planning.versions import compared

CPU = Hardware("cpu", "AMD EPYC", 2, 2**34, ids=("0", "1"))
NODE = Node("here", (CPU,), {"torch": "2.13.0", "numpy": "2.4.0"}, "3.11.7")

GRID = """
name: mine
workload: train.py:train
epochs: 2
repeats: 4
axes:
  device: [cpu]
  batch_size: [8, 16, 32]
"""
TRAIN = """
import helper

def train(trial, *, batch_size: int, hidden: int = 4):
    for epoch in trial.epochs():
        for step in trial.steps(range(batch_size)):
            helper.work(hidden)
"""
HELPER = "def work(hidden):\n    return 1\n"


class Versions:
    def __init__(self, folder):
        self.folder = folder
        for version in (BASE, NEW):
            (folder / version).mkdir()
            self.write(version)

    def write(self, version, grid=GRID, train=TRAIN, helper=HELPER):
        for name, text in {"grid.yaml": grid, "train.py": train, "helper.py": helper}.items():
            (self.folder / version / name).write_text(text)

    def plan(self, where=(), nodes=(NODE,)):
        options = PlanOptions(where=where)
        specs = [requested_grid(self.folder / version / "grid.yaml", options) for version in (BASE, NEW)]
        return make_plan(compared(specs), nodes, self.folder)


@pytest.fixture
def versions(tmp_path):
    return Versions(tmp_path)


def test_each_cell_twice_under_identities_of_their_own(versions):
    plan = versions.plan()
    assert plan.spec.name == "mine~compare"
    assert [tuple(cell.axes.values()) for cell in plan.cells] == [
        ("cpu", batch, version) for batch in (8, 16, 32) for version in (BASE, NEW)
    ]
    assert len({cell.cell_id for cell in plan.cells}) == len({cell.request_id for cell in plan.cells}) == 6
    assert len({plan.label(trial) for trial in plan.trials}) == 24
    first = plan.trials[0]
    assert plan.label(first) == f"batch {first.cell.axes['batch_size']}, {first.cell.axes['version']}, repeat 1"


def test_versions_of_a_cell_are_neighbors(versions):
    trials = versions.plan().trials
    assert [trial.repeat for trial in trials] == [repeat for repeat in range(4) for _ in range(6)]
    orders = set()
    for repeat in range(4):
        own = [trial for trial in trials if trial.repeat == repeat]
        for first, second in zip(own[::2], own[1::2], strict=True):
            assert first.cell.axes["batch_size"] == second.cell.axes["batch_size"]
            assert {first.cell.axes["version"], second.cell.axes["version"]} == {BASE, NEW}
            assert first.seed == second.seed == repeat
        orders.add(tuple(trial.cell.axes["batch_size"] for trial in own[::2]))
    assert len(orders) > 1, "repeats are shuffled"
    assert {trial.cell.axes["version"] for trial in trials[::2]} == {BASE, NEW}, "each is sometimes the first"


def test_files_that_both_versions_share_are_named(versions):
    shared = versions.folder / "shared.txt"
    shared.write_text("")
    assert list(plan_warnings(versions.plan())) == []
    for version in (BASE, NEW):
        versions.write(version, GRID + "inputs: [../shared.txt]\n")
    assert list(plan_warnings(versions.plan())) == [
        f"both versions use the same {shared}; to compare versions of it, give each its own"
    ]


def test_a_change_of_one_version_runs_both_again(versions):
    before = {cell.cell_id for cell in versions.plan().cells}
    assert {cell.cell_id for cell in versions.plan().cells} == before
    versions.write(NEW, helper=HELPER + "# changed\n", train=TRAIN.replace("hidden: int = 4", "hidden: int = 8"))
    cells = versions.plan().cells
    assert len(cells) == 6 and before.isdisjoint(cell.cell_id for cell in cells)
    base, new = ({cell.axes["version"]: cell for cell in cells}[version] for version in (BASE, NEW))
    assert base.workload.files["helper.py"] != new.workload.files["helper.py"]
    assert (base.workload.folder, new.workload.folder) == tuple(str(versions.folder / each) for each in (BASE, NEW))
    assert (base.content.params, new.content.params) == ({"hidden": 4}, {"hidden": 8})


def test_versions_may_have_different_environments(versions):
    before = {cell.cell_id for cell in versions.plan().cells}
    versions.write(NEW, GRID + "devices: {cpu: {kind: cpu, environment: /other}}\n")
    other = Interpreter(python="/other/bin/python", version="3.11.7", packages=NODE.packages)
    after = versions.plan(nodes=[replace(NODE, environments={"/other": other})])
    assert {cell.axes["version"]: cell.fit.environment for cell in after.cells} == {BASE: "", NEW: "/other"}
    assert before.isdisjoint({cell.cell_id for cell in after.cells})
    plan = versions.plan(nodes=[replace(NODE, environments={"/other": Interpreter(problem="/other: no such file")})])
    assert {cell.skip for cell in plan.cells} == {"new version: /other: no such file"}, "neither runs alone"
    assert not any(cell.fit for cell in plan.cells)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (GRID.replace("epochs: 2", "epochs: 3"), "epochs is 2 in {base} and 3 in {new}; to compare them"),
        (GRID.replace("repeats: 4", "repeats: 3"), "repeats is 4 in {base} and 3 in {new}; to compare them"),
        (GRID + "params: {hidden: 9}\n", "params is {{}} in {base} and {{hidden:9}} in {new}"),
        (GRID.replace("[8, 16, 32]", "[8, 16]"), "axes is {{device:[cpu],batch_size:[8,16,32]}} in {base} and "),
    ],
)
def test_a_difference_between_the_grids_is_refused(versions, grid, message):
    versions.write(NEW, grid)
    with pytest.raises(UsageError) as caught:
        versions.plan()
    files = {version: versions.folder / version / "grid.yaml" for version in (BASE, NEW)}
    assert str(caught.value).startswith(message.format(**files))


def test_only_the_devices_at_hand(versions):
    for version in (BASE, NEW):
        versions.write(version, GRID.replace("[cpu]", "[cpu, cuda]"))
    assert len(versions.plan().cells) == 12
    plan = versions.plan(where=["device=available"])
    assert {cell.axes["device"] for cell in plan.cells} == {"cpu"}
    assert (len(plan.cells), plan.left_out) == (6, 6)
    assert len(versions.plan(where=["device=cpu", "batch_size=8"]).cells) == 2


COMMAND = """name: mine
workload:
  command: python train.py
  metrics: {val/accuracy: 'acc=([0-9.]+)', train/s: 'took ([0-9.]+)', train/n: '(1)'}
  time: train/s
axes: {device: [cpu]}
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("acc=([0-9.]+)", "epoch ([0-9]+)", "4:3: metrics"),
        ("  time: train/s\n", "  time: train/n\n", "5:3: time"),
        ("  time: train/s\n", "  time: train/s\n  begin: ^start\n", "6:3: begin"),
    ],
)
def test_output_is_read_by_the_same_patterns(versions, old, new, line):
    """A version that is read otherwise shows other numbers, however it trains."""
    versions.write(BASE, grid=COMMAND)
    versions.write(NEW, grid=COMMAND.replace(old, new))
    specs = [load_grid(versions.folder / version / "grid.yaml") for version in (BASE, NEW)]
    with pytest.raises(UsageError, match=f"new/grid.yaml:{line}: not the same as in .*--metrics-of-base"):
        compared(specs, has_metrics_of_first=False)
    workloads = [each.workload for each in compared(specs, has_metrics_of_first=True).versions.values()]
    assert workloads[0] == workloads[1]

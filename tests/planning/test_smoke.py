"""A grid cut to see that it runs: what is kept of it, what is said of it, and that it mixes with nothing."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

import raybench
from raybench.analysis.smoke import Cut, smoke_cuts
from raybench.config import DeviceProfile, load_grid
from raybench.core.cell import Cell
from raybench.devices import Hardware
from raybench.environments import Interpreter
from raybench.errors import UsageError
from raybench.execution.inline import InlineExecutor
from raybench.planning import smoke
from raybench.planning.expand import matches, minimal_cover
from raybench.planning.node import Node
from raybench.planning.plan import make_plan
from raybench.reporting import build
from raybench.reporting.sentences import plain
from raybench.run import Options, run_grid

GIB = 1024**3
CPU = Hardware("cpu", "AMD EPYC", 2, 16 * GIB, ids=("0", "1"))
LAPTOP = Node("laptop", (CPU,), {"torch": "2.13.0", "tensorflow": "2.21.0"}, "3.11.7")
ONLY_TORCH = replace(LAPTOP, packages={"torch": "2.13.0"})

GRID = """
name: g
workload: davidnet
epochs: 24
axes:
  device: [gpu, gpu2, tpu]
  batch_size: [64, 128, 256, 512, 1024]
  precision: [fp32, fp16]
  weight_decay: [1.25e-4, 5.0e-4]
repeats: 3
exclude:
  - {device: tpu, precision: fp16}
include:
  - {device: gpu, batch_size: 4096, precision: fp32, weight_decay: 1.25e-4, optimizer: adam}
overrides:
  - {when: {device: gpu2, batch_size: 512}, set: {learning_rate: 0.1}}
devices:
  gpu: {kind: cuda, accelerator_type: A100, count: 1, cpus: 32, memory_gb: 512}
  gpu2: {kind: cuda, count: 2, replicas: 2}
  tpu: {kind: tpu, environment: tpu, count: 4, replicas: 8}
baseline: {device: gpu, batch_size: 256}
"""


@pytest.fixture
def plan_of(tmp_path):
    def make(text, nodes=(LAPTOP,), where=(), full=False):
        (tmp_path / "grid.yaml").write_text(text)
        spec = load_grid(tmp_path / "grid.yaml")
        return make_plan(spec if full else spec.as_smoke(), nodes, tmp_path, where)

    return make


def settings(cell):
    return cell.content.settings


def test_every_value_is_met_and_most_cells_differ_from_the_baseline_in_one(plan_of):
    plan = plan_of(GRID)
    met = {axis: {cell.axes[axis] for cell in plan.cells} for axis in ("device", "precision", "weight_decay")}
    assert met == {
        "device": {"gpu", "gpu2", "tpu"},
        "precision": {"fp32", "fp16"},
        "weight_decay": {1.25e-4, 5e-4},
    }
    batches = {cell.axes["batch_size"] for cell in plan.cells}
    assert batches == {256, 64, 512, 4096}, "the baseline's, the smallest, an override's and an include's"
    assert any(matches(cell.axes, {"device": "gpu2", "batch_size": 512}) for cell in plan.cells)
    assert [cell.axes.get("optimizer") for cell in plan.cells].count("adam") == 1
    assert len(plan.cells) == 8 and len(plan.trials) == 8, "each once"
    base = plan.cells[1].axes
    assert (base["device"], base["batch_size"], base["weight_decay"]) == ("gpu", 256, 1.25e-4)
    apart = [sum(cell.axes[axis] != base[axis] for axis in base) for cell in plan.cells if "optimizer" not in cell.axes]
    assert sorted(apart) == [0, 1, 1, 1, 1, 1, 2]


def test_what_is_not_a_number_is_met_in_full_and_excluded_points_stay_out():
    points = [{"a": a, "b": b} for a in "xyzuvw" for b in (True, False) if (a, b) != ("w", True)]
    chosen = minimal_cover(points, {"a": "y"}, [])
    assert {point["a"] for point in chosen} == set("xyzuvw") and {"a": "w", "b": False} in chosen
    assert minimal_cover([], {}, []) == []


def test_each_cell_is_cut_runs_on_the_cpu_and_stays_another_than_the_rest(plan_of):
    plan = plan_of(GRID)
    assert [cell.skip for cell in plan.cells] == [None] * 8
    assert len({cell.cell_id for cell in plan.cells}) == 8
    for cell in plan.cells:
        made, device = settings(cell), cell.content.device
        assert (device.kind, cell.content.framework, device.count) == ("cpu", "torch", 2)
        assert made.epochs == 2 and cell.content.warmup_epochs == 1
        assert made.precision in ("fp32", "bf16")
        assert made.batch_size <= 24 and made.batch_size % device.replicas == 0
        assert vars(cell.content.data.examples) == dict.fromkeys(("train", "val"), made.batch_size + 1)
        assert cell.content.role.smoke["device"] == cell.profile
    by_device = {cell.profile: cell.content.device.replicas for cell in plan.cells}
    assert by_device == {"gpu": 1, "gpu2": 2, "tpu": 2}
    batches = {cell.axes["batch_size"]: settings(cell).batch_size for cell in plan.cells}
    assert len(set(batches.values())) == len(batches), "batches that differ still do"


def test_two_devices_of_which_nothing_is_left_but_the_name_are_two_cells(plan_of):
    text = (
        "name: g\nworkload: digits_cnn\naxes: {device: [one, two]}\ndevices: {one: {kind: cuda}, two: {kind: cuda}}\n"
    )
    assert len({cell.cell_id for cell in plan_of(text).cells}) == 2


def test_no_cell_of_it_is_one_of_the_grid(plan_of):
    tiny = "name: g\nworkload: digits_cnn\nepochs: 2\nbatch_size: 2\nsteps_per_epoch: 1\nexamples: {train: 3, val: 3}\n"
    cut, full = plan_of(tiny), plan_of(tiny, full=True)
    assert settings(cut.cells[0]) == settings(full.cells[0]), "there was nothing to cut"
    assert cut.cells[0].cell_id != full.cells[0].cell_id
    assert cut.spec.name == "g~smoke" and full.spec.name == "g"


def test_what_was_cut_is_said(plan_of):
    words = plain(smoke_cuts(cell.content for cell in plan_of(GRID).cells))
    assert "device gpu → cpu, gpu2 → cpu, tpu → cpu, " in words
    for told in (
        "epochs 24 → 2",
        "64 → 6",
        "precision fp16 → bf16",
        "replicas 8 → 2",
        "torch_xla → torch",
        "batch size",
        "threads all cores → 1",
    ):
        assert told in words
    assert smoke_cuts(cell.content for cell in plan_of(GRID, full=True).cells) is None


def test_a_framework_that_is_not_here_is_another_and_one_that_is_stays(plan_of):
    text = "name: g\nworkload: digits_cnn\naxes: {device: [gpu]}\ndevices: {gpu: {kind: cuda, framework: tensorflow}}\n"
    assert [cell.content.framework for cell in plan_of(text).cells] == ["tensorflow"]
    (other,) = plan_of(text, (ONLY_TORCH,)).cells
    assert (other.content.framework, other.content.role.smoke["framework"]) == ("torch", "tensorflow")


@pytest.mark.parametrize("there", [True, False])
def test_xla_on_the_host_stays_where_it_can_be_had(plan_of, there):
    text = "name: g\nworkload: digits_cnn\naxes: {device: [x]}\ndevices: {x: {kind: xla_cpu, environment: xla}}\n"
    found = {"torch_xla": "2.9.0", "torch": "2.9.1", "numpy": "2.3"}
    xla = Interpreter(version="3.11.7", packages=found) if there else Interpreter(problem="not built")
    (cell,) = plan_of(text, (replace(LAPTOP, environments={"xla": xla}),)).cells
    wanted = ("xla_cpu", "torch_xla") if there else ("cpu", "torch")
    assert (cell.content.device.kind, cell.content.framework, cell.skip) == (*wanted, None)


def test_where_takes_the_grids_own_values(plan_of):
    (cell,) = plan_of(GRID, where=[("batch_size", "1024"), ("device", "tpu"), ("weight_decay", "5e-4")]).cells
    assert (cell.axes["batch_size"], settings(cell).batch_size) == (1024, 16)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("devices: {gpu: {kind: tpu, framework: torch}}", "torch does not run on tpu"),
        ("precision: fp16\ndevices: {gpu: {kind: tpu}}", "torch_xla has no precision fp16"),
    ],
)
def test_a_cell_that_can_run_nowhere_is_told_as_ever(plan_of, line, reason):
    (cell,) = plan_of(f"name: g\nworkload: digits_cnn\naxes: {{device: [gpu]}}\n{line}\n").cells
    assert reason in cell.skip


def test_a_cell_that_can_never_be_trained_is_told_as_ever(plan_of):
    with pytest.raises(UsageError, match="batch_size: 100000 is larger than the training set of 1437 examples"):
        plan_of("name: g\nworkload: digits_cnn\nbatch_size: 100000\n")


def test_single_steps_stay_single_and_what_ends_within_an_epoch_still_does():
    assert [smoke.batch_size(size) for size in (1, 3, 16, 32, 64, 1024)] == [1, 2, 2, 4, 6, 14]
    assert [smoke.batch_size(size, 2) for size in (2, 3, 5, 512)] == [2, 2, 4, 14]
    base = {"replicas": 1, "batch_size": 64, "precision": "fp32", "framework": "torch", "compile": True}
    some = DeviceProfile(kind="cuda")

    def cut(**more):
        given = base | {"epochs": 24, "warmup_epochs": 1, "steps_per_epoch": None} | more
        return next(iter(smoke.scaled_down(some, given, {"train": None, "val": 5}, ["torch"], 2)))[1]

    single = cut(epochs=4, warmup_epochs=2, steps_per_epoch=1)
    assert (single["epochs"], single["warmup_epochs"], single["steps_per_epoch"]) == (2, 1, 1)
    assert cut(epochs=9.9)["epochs"] == 1.9 and cut(epochs=0.5)["epochs"] == 0.5
    assert cut()["examples"] == {"train": 7, "val": 5} and cut()["compile"] is False
    on_cpu = DeviceProfile(kind="cpu")
    modes = smoke.scaled_down(
        on_cpu,
        base | {"epochs": 1, "warmup_epochs": 0, "steps_per_epoch": None, "compile": "reduce-overhead"},
        {"train": None, "val": 5},
        ["torch"],
        2,
    )
    assert next(modes)[1]["compile"] == "reduce-overhead"
    assert [cut()["threads"], cut(threads=None)["threads"], cut(threads=16)["threads"]] == [1, 1, 1]
    assert (cut(cpus=64)["cpus"], cut(steps_per_execution=50)["steps_per_execution"]) == (2, 1)


def test_the_absence_of_a_limit_is_said():
    smoke = {"device": "cpu", "steps_per_epoch": None}
    content = {"smoke": smoke, "settings": {"steps_per_epoch": 4}, "device": {"kind": "cpu"}}
    assert "steps per epoch all → 4." in plain(smoke_cuts([Cell.from_json(content)]))


def test_one_thread_stands_for_all_cores_in_words():
    content = {"smoke": {"device": "cpu", "threads": None}, "device": {"kind": "cpu", "threads": 1}}
    assert smoke_cuts([Cell.from_json(content)]).settings["threads"] == (Cut("all cores", ("1",)),)


OWN = """
import numpy as np
from torch import nn

from raybench import Data, Split, Workload


def data(folder):
    draw = np.random.default_rng(0)

    def split(count):
        return Split(draw.normal(size=(count, 8)).astype(np.float32), draw.integers(0, 2, count))

    return Data(train=split(40), val=split(6))


mine = Workload(model=lambda: nn.Linear(8, 2), data=data, defaults={"epochs": 3, "batch_size": 32})
"""


def test_a_workload_of_ones_own_whose_data_nobody_has_counted(tmp_path):
    (tmp_path / "lab.py").write_text(OWN)
    (tmp_path / "grid.yaml").write_text("name: own\nworkload: lab.py:mine\naxes: {batch_size: [16, 32]}\n")
    spec = load_grid(tmp_path / "grid.yaml").as_smoke()
    options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
    outcome = run_grid(spec, InlineExecutor(), options=options)
    assert outcome.exit_status == 0
    runs = sorted(outcome.latest.values(), key=lambda run: run.cell.settings.batch_size)
    assert [(run.status, run.epochs[-1].examples) for run in runs] == [("completed", 2), ("completed", 4)]


@pytest.fixture(scope="module")
def ran(tmp_path_factory, migrated_database):
    """A grid, first its smoke run and then the grid itself, in one results folder."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "grid.yaml").write_text(
        "name: g\nworkload: digits_cnn\nepochs: 2\nexamples: {train: 256, val: 64}\nrepeats: 2\n"
        "target: {metric: val/accuracy, at_least: 0.05}\naxes: {device: [cpu, cuda], batch_size: [32, 64]}\n"
        "devices: {cpu: {kind: cpu, price_per_hour: 1}, cuda: {kind: cuda, price_per_hour: 2}}\n"
    )
    spec, options = load_grid(folder / "grid.yaml"), Options(folder / "results")
    options.results.mkdir()
    shutil.copy(migrated_database, options.results / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        cut = run_grid(spec.as_smoke(), InlineExecutor(), options=options)
        full = run_grid(spec, InlineExecutor(), options=replace(options, checks=False, report=False))
    return folder, cut, full


@pytest.mark.slow
@pytest.mark.mlflow
def test_a_full_run_after_it_runs_everything(ran):
    _, cut, full = ran
    assert (cut.ran, cut.exit_status) == (3, 0)
    assert (full.ran, full.exit_status) == (4, 0), "both batches, twice; cuda is not there"
    assert cut.folder != full.folder and not cut.latest.keys() & full.latest.keys()


@pytest.mark.slow
@pytest.mark.mlflow
def test_reports_keep_them_apart_and_one_says_what_it_is(ran):
    folder, cut, _ = ran
    results = folder / "results"
    of_grid = build.from_source(str(folder / "grid.yaml"), results)
    assert not of_grid.results.smoke and len(of_grid.results.cells) == 4
    of_smoke = build.from_source(str(folder / "grid.yaml"), results, smoke=True)
    assert of_smoke.results.name == build.from_source("g~smoke", results).results.name == "g~smoke"
    said = " ".join(map(plain, of_smoke.verdict[0]))
    assert said.startswith("Smoke run: 3 of 3 cells ran to the end.") and len(of_smoke.verdict) == 2
    assert of_smoke.comparisons == of_smoke.sections == of_smoke.deciding == []
    assert {row.speedup for row in cut.rows} == {None} and {row.speedup for row in of_smoke.results.rows} == {None}
    assert of_smoke.remarks[0].kind == "smoke" and not any(
        "one completed run" in remark.says for remark in of_smoke.remarks
    )
    page = (cut.folder / build.HTML).read_text()
    assert "Smoke run: " in page and "as fast as" not in page, "in no sentence and in no figure's title"
    assert not list(cut.folder.glob("figure_*")) and "<svg" not in page


@pytest.mark.slow
@pytest.mark.mlflow
def test_mlflow_has_an_experiment_of_its_own_and_every_run_is_marked(ran):
    folder, cut, _ = ran
    with closing(sqlite3.connect(folder / "results" / "mlflow.db")) as store:
        found = store.execute(
            "select e.name, count(*), count(t.value) from runs r join experiments e using (experiment_id)"
            " left join tags t on t.run_uuid = r.run_uuid and t.key = 'raybench.smoke' and t.value = 'true'"
            " group by e.name order by e.name"
        ).fetchall()
        names = {name for (name,) in store.execute("select name from runs where name like '%smoke%'")}
    assert found == [("g", 5, 0), ("g~smoke", 4, 4)]
    assert "grid g~smoke" in names and "cuda b4 r0 digits_cnn torch wd0.005 smoke" in names
    journal = [json.loads(line) for line in cut.journal.read_text().splitlines()]
    checks = {event["check"] for event in journal if event["event"] == "check_ended"}
    assert checks == {"weight_decay", "roofline"}, "every part that a full run has"


@pytest.mark.slow
@pytest.mark.mlflow
def test_tables_mark_them(ran):
    folder, _, _ = ran
    trials = raybench.load(folder / "results").trials
    assert trials.groupby("grid")["smoke"].agg(["all", "any"]).to_dict("index") == {
        "g": {"all": False, "any": False},
        "g~smoke": {"all": True, "any": True},
    }
    stored = raybench.load(folder / "results" / "mlflow.db").trials
    assert stored[stored["smoke"]]["grid"].unique().tolist() == ["g~smoke"]
    assert set(stored[stored["smoke"]]["smoke.device"]) == {"cpu", "cuda"}

"""Cells of a large grid are resolved together, and each is as if it were resolved alone."""

import time
import tracemalloc
from collections import Counter
from dataclasses import fields

import pytest

from raybench.cli.cell_table import cell_table, headline, price_line, states, statuses
from raybench.config import load_grid
from raybench.core import identity
from raybench.devices import Hardware
from raybench.planning import resolve
from raybench.planning.estimate import Estimator
from raybench.planning.node import Node
from raybench.planning.plan import make_plan, notes, plan_warnings
from raybench.planning.resolve import INDEPENDENT, CellGroup, Resolver
from raybench.planning.resume import missing_work

GIB = 1024**3
EPYC = Hardware("cpu", "AMD EPYC", 4, 16 * GIB, ids=("0", "1", "2", "3"))
NODE = Node(
    "server",
    (EPYC, Hardware("cuda", "Tesla T4", 2, 15 * GIB, "550", ("0", "1"))),
    {"torch": "2.13.0", "tensorflow": "2.21.0"},
    "3.11.7",
)

ENGINE = {"name": "g", "workload": "digits_cnn"}
FUNCTION = """
import torch
def train(trial, *, weight_decay: float, momentum=0.9, label_smoothing: float = 0, hidden=3, rate: float = 1, name=""):
    for epoch in trial.epochs(2):
        trial.log({"val/accuracy": weight_decay * momentum * label_smoothing * hidden * rate * len(name)})
"""
OF_FUNCTION = {"name": "g", "workload": "train.py:train"}
COMMAND = {"name": "g", "workload": {"command": "python main.py {args}"}}
SCHEDULES = ["constant", {"name": "exponential", "decay_steps": 5}, {"name": "exponential", "decay_steps": 5.5}]

GRIDS = {
    "every independent setting": ENGINE
    | {
        "axes": {
            "optimizer": ["sgd", "adam"],
            "betas": [[0.9, 0.999], [0, 0.5]],
            "eps": [1e-8, 1],
            "epochs": [1, 2.5],
            "evaluation_batch_size": [10, 20],
            "label_smoothing": [0, 0.1, 0.2],
            "learning_rate": [1, 0.1],
            "momentum": [0, 0.5, 0.9],
            "schedule": SCHEDULES,
            "steps_per_epoch": [None, 3],
            "weight_decay": [0, 5e-4],
        }
    },
    "devices": ENGINE
    | {
        "repeats": 2,
        "devices": {"gpu": {"kind": "cuda", "repeats": 1, "price_per_hour": 1}, "few": {"kind": "cpu", "threads": 1}},
        "axes": {
            "device": ["cpu", "few", "gpu", "tpu"],
            "weight_decay": [0, 1],
            "framework": ["torch", "tensorflow"],
            "batch_size": [8, 16],
        },
    },
    "rules": ENGINE
    | {
        "axes": {"weight_decay": [0.0, 0.1, 0.2], "learning_rate": [0.1, 0.2], "momentum": [0.5, 0.9]},
        "exclude": [{"weight_decay": 0.1, "momentum": 0.9}],
        "include": [{"weight_decay": 0.4, "eps": 0.1}, {"weight_decay": 0.5, "eps": 0.1}, {"epochs": 3}],
        "overrides": [{"when": {"weight_decay": 0.2}, "set": {"learning_rate": 0.7, "epochs": 2}}],
        "audit": {"aa_test": True},
    },
    "stop at the target": ENGINE
    | {
        "axes": {"weight_decay": [0, 1]},
        "target": {"metric": "val/accuracy", "at_least": 0.5},
        "stop_at_target": True,
        "seed": 7,
    },
    "a training function": OF_FUNCTION
    | {
        "axes": {
            "weight_decay": [0, 1],
            "momentum": [0, 0.9, 0.5],
            "label_smoothing": [0, 0.5, 0.1],
            "params.hidden": [1, 2],
            "params.rate": [1, 1.5],
            "params.name": ["x", "ü"],
        }
    },
    "a command": COMMAND
    | {"axes": {"params.hidden": [1, 1.0, True], "params.name": ["a", "b"], "momentum": [0, 0.5], "eps": [1, 2]}},
}


def plan_of(grid, changes=()):
    return make_plan(load_grid(grid, changes), [NODE], "data")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(FUNCTION)
    (tmp_path / "main.py").write_text("")


def everything(plan):
    """Cells, trials and text of a plan."""
    of_group = [field.name for field in fields(CellGroup) if field.name not in ("content", "own")]
    cells = [
        [cell.cell_id, cell.request_id, list(cell.axes.items()), repr(cell.content)]
        + [getattr(cell.group, name) for name in of_group]
        for cell in plan.cells
    ]
    trials = [(trial.trial_id, trial.seed, plan.label(trial)) for trial in plan.trials]
    return cells, trials, [*notes(plan), *plan_warnings(plan)]


@pytest.mark.parametrize("grid", GRIDS)
def test_cells_are_the_same_as_those_resolved_one_by_one(grid, monkeypatch):
    plan = plan_of(GRIDS[grid])
    assert len(plan.groups) < len(plan.cells)
    assert sum(plan.groups.values()) == len(plan.cells)
    assert all(cell.cell_id == identity.cell_id(cell.content.to_json()) for cell in plan.cells)
    assert all(cell.cell_id == cell.content.cell_id for cell in plan.cells)
    monkeypatch.setattr(Resolver, "_conversion", lambda self, name: None)
    alone = plan_of(GRIDS[grid])
    assert len(alone.groups) == len(alone.cells)
    assert everything(plan) == everything(alone)


def test_every_independent_setting_is_tested():
    assert GRIDS["every independent setting"]["axes"].keys() == INDEPENDENT.keys() | {"optimizer"}


def test_cells_of_a_variant_agree_in_the_given_settings():
    plan = plan_of(ENGINE | {"axes": {"weight_decay": [0, 1], "momentum": [0.5, 0.9], "batch_size": [8, 16]}})
    assert len({cell.variant(()) for cell in plan.cells}) == len(plan.groups) == 2, "by batch size"
    variants = {}
    for cell in plan.cells:
        variants.setdefault(cell.variant(("momentum", "batch_size")), set()).add(cell.content.settings.momentum)
    assert sorted(map(list, variants.values())) == [[0.5], [0.5], [0.9], [0.9]]


def large(cells, repeats=1, **further):
    """A grid of cells that differ in the weight decay and the batch size."""
    decays = [number * 1e-6 for number in range(cells // 4)]
    axes = {"batch_size": [8, 16, 32, 64], "weight_decay": decays}
    return ENGINE | {"repeats": repeats, "axes": axes} | further


def of_function(cells, repeats=1):
    """A grid of cells that differ in a text and a number."""
    axes = {"params.name": [f"name {number}" for number in range(cells // 4)], "params.hidden": [1, 2, 3, 4]}
    return OF_FUNCTION | {"repeats": repeats, "weight_decay": 0, "axes": axes}


@pytest.mark.parametrize("made", [large, of_function])
def test_nothing_but_values_is_resolved_or_encoded_for_each_cell(made, monkeypatch):
    calls = Counter()

    def count(owner, name):
        function = getattr(owner, name)

        def counted(*arguments):
            calls[name] += 1
            return function(*arguments)

        monkeypatch.setattr(owner, name, counted)

    for name in ("_template", "_need", "_fit"):
        count(Resolver, name)
    for module in (identity, resolve):
        count(module, "canonical")
    of_number = {}
    for cells in (40, 160):
        calls.clear()
        assert len(plan_of(made(cells)).cells) == cells
        of_number[cells] = Counter(calls)
    values = {cells: of_number[cells].pop("canonical") for cells in of_number}
    assert of_number[40] == of_number[160]
    assert values[160] - values[40] == (160 - 40) // 4, "one for each further value of an axis"


def shown(plan, width=80):
    """The work of `raybench plan` for a plan, as far as it is not printing."""
    todo, estimator = missing_work(plan, ()), Estimator()
    counts = statuses(plan, (), todo)
    texts = [headline(plan, counts, todo, estimator), *price_line(todo, estimator), *notes(plan), *plan_warnings(plan)]
    cells = plan.cells[:40]
    return texts, cell_table(plan, cells, states(cells, counts), estimator, width)


@pytest.mark.exhaustive
@pytest.mark.parametrize("made", [large, of_function])
@pytest.mark.parametrize("smoke", [False, True], ids=["full", "smoke"])
def test_a_plan_of_four_times_the_cells_takes_about_four_times_as_long(made, smoke):
    few, many = (load_grid(made(cells, repeats=3)) for cells in (2000, 8000))
    if smoke:
        few, many = few.as_smoke(), many.as_smoke()
    seconds = {id(few): [], id(many): []}
    for _ in range(5):
        for spec in (few, many):
            began = time.process_time()
            shown(make_plan(spec, [NODE], "data"))
            seconds[id(spec)].append(time.process_time() - began)
    assert min(seconds[id(many)]) < 7 * min(seconds[id(few)])


@pytest.mark.exhaustive
def test_a_trial_takes_little_memory():
    plan_of(large(40))
    tracemalloc.start()
    plan = plan_of(large(8000, repeats=10))
    held, _ = tracemalloc.get_traced_memory()
    todo = missing_work(plan, ())
    with_work, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(todo) == 80_000
    assert held / len(plan.trials) < 200, "bytes; of a cell with everything it has in common with others, 4,000"
    assert (with_work - held) / len(todo) < 150

"""The proof of weight decay on the real engines, and on engines that are wrong on purpose."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from support.frameworks import call
from support.sides import decay_side

from raybench.checks.pretrial import check_key
from raybench.checks.weight_decay import NAME, closed_form, judge
from raybench.core.cell import Cell, CellDevice, CellEngine
from raybench.core.settings import Settings
from raybench.engines.torch import engine

KINDS = {"torch": "cpu", "tensorflow": "cpu", "torch_xla": "xla_cpu"}
OPTIMIZERS = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "nesterov": False},
    {"optimizer": "sgd", "momentum": 0.0},
    {"optimizer": "adam"},
    {"optimizer": "adamw"},
]
GROUPED = {"replicas": 8}
TRAP = GROUPED | {"decay_rule": "sum_over_replicas"}


MARKS = {"tensorflow": [pytest.mark.slow, pytest.mark.tensorflow], "torch_xla": [pytest.mark.slow, pytest.mark.xla]}


def on_each_framework(every, few, without=""):
    """Every case on PyTorch, in this process; on the others a few, and every case in the exhaustive layer."""
    yield pytest.param("torch", every, id="torch")
    for framework in [name for name in MARKS if name != without]:
        marks = MARKS[framework]
        yield pytest.param(framework, few, marks=marks, id=framework)
        yield pytest.param(framework, every, marks=[*marks, pytest.mark.exhaustive], id=f"{framework}-every")


def prove_all(framework, cases, wrong=None):
    """Each case with its verdict: by the real engine, or by one that is wrong in some way."""
    name, how = "prove_wrong" if wrong else "prove_all", {"on": framework, "cases": cases, "kind": KINDS[framework]}
    how |= {"wrong": wrong} if wrong else {}
    here = framework == "torch"
    found = getattr(decay_side, name)(**how) if here else call(framework, f"decay_side:{name}", **how)
    return zip(cases, found, strict=True)


@pytest.fixture(autouse=True)
def keep_the_engine(monkeypatch):
    """A proof sets how many threads PyTorch uses, and a wrong engine is put in the place of the real one."""
    threads = torch.get_num_threads()
    monkeypatch.setattr(engine, "build_optimizer", engine.build_optimizer)
    yield
    torch.set_num_threads(threads)


EVERY_RULE = [
    {**optimizer, **replicas, "decay": decay}
    for optimizer, replicas, decay in product(OPTIMIZERS, [{}, GROUPED], ["coupled", "decoupled"])
]
EVERY_RULE += [rule | {"gradient_clipping": 1e-9} for rule in EVERY_RULE[:1]]
FEW_RULES = [{"optimizer": "sgd", "decay": "coupled"}, {"optimizer": "adamw", "decay": "decoupled"}]


@pytest.mark.parametrize(("framework", "cases"), on_each_framework(EVERY_RULE, FEW_RULES))
def test_every_rule_of_every_optimizer_acts_as_declared(framework, cases):
    for case, found in prove_all(framework, cases):
        assert (found["passed"], found["says"]) == (True, "passed"), (case, found)
        assert found["factor"] == pytest.approx(1.0, abs=1e-3)


EVERY_TRAP = [{**optimizer, **TRAP, "decay": rule} for optimizer, rule in product(OPTIMIZERS, ["coupled", "decoupled"])]


@pytest.mark.parametrize(("framework", "cases"), on_each_framework(EVERY_TRAP, EVERY_TRAP[:1], without="tensorflow"))
def test_the_published_trap_declared_acts_eightfold_and_passes(framework, cases):
    for case, found in prove_all(framework, cases):
        assert (found["passed"], found["says"]) == (True, "passed: acts as 8 × λ, as declared"), (case, found)
        assert found["factor"] == pytest.approx(8.0, rel=1e-3)


REAL = [
    {"optimizer": optimizer, "replicas": 8, "devices": 8, "decay_rule": decay_rule}
    for optimizer, decay_rule in product(["sgd", "adamw"], ["mean", "sum_over_replicas"])
]


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(REAL[1:2], marks=MARKS["torch_xla"]),
        pytest.param(REAL, marks=[*MARKS["torch_xla"], pytest.mark.exhaustive]),
    ],
)
def test_replicas_on_devices_of_their_own(cases):
    """Each in a process of its own: how many devices a process has cannot be changed."""
    for case in cases:
        ((_, found),) = prove_all("torch_xla", [case])
        assert found["passed"], (case, found)
        expected = 8.0 if case.get("decay_rule", "mean") != "mean" else 1.0
        assert found["factor"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.exhaustive
def test_replicas_in_processes_of_their_own(tmp_path, fork_server):
    """Two of them are in tests/trial/test_launch_ranks.py."""
    for case in REAL:
        job = decay_side.job("torch", folder=str(tmp_path), **case)
        (found,) = fork_server().run(job)
        assert (found["error"], found["passed"]) == (None, True), (case, found)


WRONG = {
    "on each replica": [{"optimizer": name, **GROUPED} for name in ("sgd", "adam", "adamw")],
    "decoupled": [{"optimizer": name, "decay": "coupled"} for name in ("sgd", "adam", "adamw")],
    "none": [{"optimizer": "sgd"}, {"optimizer": "adamw"}],
    "kernels only": [{"optimizer": "sgd"}, {"optimizer": "adam"}],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_engines_fail(wrong):
    for case, found in prove_all("torch", WRONG[wrong], wrong):
        assert not found["passed"], case
        assert re.fullmatch(r"failed: acts as .* × λ on a weight, declared 1 × λ, (de)?coupled", found["says"])
        if wrong == "on each replica" and case["optimizer"] != "adam":  # whose step hardly depends on the decay's size
            assert found["factor"] == pytest.approx(8.0, rel=1e-3)
        if wrong in ("none", "kernels only"):
            assert found["factor"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("framework", [pytest.param(name, marks=marks) for name, marks in MARKS.items()])
def test_wrong_engines_of_other_frameworks_fail(framework):
    ((_, found),) = prove_all(framework, WRONG["decoupled"][1:2], "decoupled")
    assert not found["passed"]


SGD = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "nesterov": True}
ADAM = {"name": "adam", "learning_rate": 0.05, "betas": [0.9, 0.999], "eps": 1e-8}
START = np.array([1.0, -1.5, 5e-7, -1.5e-6])


@pytest.mark.parametrize("optimizer", [SGD, SGD | {"nesterov": False}, ADAM, ADAM | {"eps": 1e-3, "betas": [0.8, 0.9]}])
@pytest.mark.parametrize("rule", ["coupled", "decoupled"])
def test_closed_form_is_what_torch_does(optimizer, rule):
    found = closed_form(rule, optimizer, START, 0.16, 10)
    if rule == "decoupled":
        expected = START * (1 - 0.05 * 0.16) ** np.arange(1, 11)[:, None]
    else:
        weight = torch.nn.Parameter(torch.from_numpy(START.copy()))
        kind = torch.optim.SGD if optimizer["name"] == "sgd" else torch.optim.Adam
        own = {name: value for name, value in optimizer.items() if name not in ("name", "learning_rate")}
        steps, expected = kind([weight], lr=0.05, weight_decay=0.16, **own), []
        for _ in range(10):
            weight.grad = torch.zeros_like(weight)
            steps.step()
            expected.append(weight.detach().numpy().copy())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-18)


def test_ten_steps_reveal_a_wrong_rule():
    like_one_step = np.concatenate([START[None], closed_form("decoupled", SGD, START, 1.9 * 0.02, 10)])
    assert judge(like_one_step[:2], "coupled", SGD, 0.02, 1.0)["passed"]
    assert not judge(like_one_step, "coupled", SGD, 0.02, 1.0)["passed"]


CELL = Cell(
    framework="torch",
    engine=CellEngine("torch", "2.13"),
    device=CellDevice("cpu", "EPYC", 2, replicas=1, threads=2),
    settings=Settings(),
)
AMOUNTS = {
    "settings": {"weight_decay": 0.1, "learning_rate": 0.4, "batch_size": 512, "gradient_clipping": 0.5},
    "device": {"threads": 1, "model": "XEON"},
}
DECISIVE = {
    "settings": {"momentum": 0.8, "nesterov": False, "decay": "decoupled", "decay_rule": "x", "precision": "fp16"},
    "device": {"kind": "cuda", "replicas": 8, "devices": 8},
    "engine": {"framework_version": "2.14"},
}


@pytest.mark.parametrize(("changes", "are_shared"), [(AMOUNTS, True), (DECISIVE, False)])
def test_amounts_share_a_check(changes, are_shared):
    for part, values in changes.items():
        for name, value in values.items():
            cell = replace(CELL, **{part: replace(getattr(CELL, part), **{name: value})})
            assert (check_key(NAME, cell) == check_key(NAME, CELL)) is are_shared, name
    assert check_key(NAME, replace(CELL, framework="tensorflow")) != check_key(NAME, CELL)

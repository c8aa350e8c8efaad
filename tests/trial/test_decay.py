"""The proof of weight decay on the real engines, and on engines that are wrong on purpose."""

from contextlib import closing
from itertools import product

import decay_side
import pytest
from frameworks import call

from raybench import workloads
from raybench.execution.process import TemplateProcess
from raybench.trial.decay import key, subject
from raybench.trial.job import Job

KINDS = {"torch": "cpu", "tensorflow": "cpu", "torch_xla": "xla_cpu"}
OPTIMIZERS = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "nesterov": False},
    {"optimizer": "sgd", "momentum": 0.0},
    {"optimizer": "adam"},
    {"optimizer": "adamw"},
]
GROUPED = {"replicas": 8, "replication": "grouped"}
TRAP = GROUPED | {"decay_rule": "sum_over_replicas"}


def prove_all(framework, cases, wrong=None):
    """Each case with its verdict: by the real engine, or by one that is wrong in some way."""
    how = {"on": framework, "cases": cases, "kind": KINDS[framework]}
    if wrong:
        return zip(cases, call(framework, "decay_side:prove_wrong", wrong=wrong, **how), strict=True)
    return zip(cases, call(framework, "decay_side:prove_all", **how), strict=True)


def prove_each(framework, cases):
    """The same, each in a process of its own: how many devices a process has cannot be changed."""
    return [pair for case in cases for pair in prove_all(framework, [case])]


@pytest.mark.parametrize("framework", KINDS)
def test_every_rule_of_every_optimizer_acts_as_declared(framework):
    cases = [
        {**optimizer, **replicas, "decay": decay}
        for optimizer, replicas, decay in product(OPTIMIZERS, [{}, GROUPED], ["coupled", "decoupled"])
    ]
    for case, found in prove_all(framework, cases):
        assert found["passed"], (case, found)
        assert found["factor"] == pytest.approx(1.0, abs=1e-3)
        assert found["expected"] == 1.0


@pytest.mark.parametrize("framework", KINDS)
def test_the_published_trap_declared_acts_eightfold_and_passes(framework):
    cases = [{**optimizer, **TRAP, "decay": rule} for optimizer, rule in product(OPTIMIZERS, ["coupled", "decoupled"])]
    for case, found in prove_all(framework, cases):
        assert found["passed"], (case, found)
        assert found["factor"] == pytest.approx(8.0, rel=1e-3)
        assert found["expected"] == 8.0


REAL = [
    {"optimizer": optimizer, "replicas": 8, "devices": 8, "decay_rule": decay_rule}
    for optimizer, decay_rule in product(["sgd", "adamw"], ["mean", "sum_over_replicas"])
]


@pytest.mark.parametrize(("framework", "replication"), [("tensorflow", "devices"), ("torch_xla", "spmd")])
def test_replicas_on_devices_of_their_own(framework, replication):
    for case, found in prove_each(framework, [{**case, "replication": replication} for case in REAL]):
        assert found["passed"], (case, found)
        assert found["factor"] == pytest.approx(found["expected"], rel=1e-3)


def test_replicas_in_processes_of_their_own(tmp_path):
    with closing(TemplateProcess("torch")) as template:
        for case in REAL:
            job = decay_side.job("torch", folder=str(tmp_path), replication="devices", **case)
            (found,) = template.run(job)
            assert found["error"] is None
            assert found["passed"], (case, found)
            assert found["factor"] == pytest.approx(found["expected"], rel=1e-3)


@pytest.mark.parametrize("framework", KINDS)
def test_the_trap_undeclared_fails_with_factor_eight(framework):
    rules = {"sgd": "coupled", "adam": "coupled", "adamw": "decoupled"}
    for case, found in prove_all(framework, [{"optimizer": name, **GROUPED} for name in rules], "on each replica"):
        assert not found["passed"], case
        assert found["factor"] == pytest.approx(8.0, rel=1e-3)
        assert found["follows"] == rules[case["optimizer"]]


@pytest.mark.parametrize("framework", KINDS)
def test_decoupled_declared_as_coupled_fails_and_is_named(framework):
    cases = [{"optimizer": name, "decay": "coupled"} for name in ("sgd", "adam", "adamw")]
    for case, found in prove_all(framework, cases, "decoupled"):
        assert (found["passed"], found["follows"]) == (False, "decoupled"), case
        assert found["factor"] == pytest.approx(1.0, abs=1e-3)


def test_decay_that_is_forgotten_fails():
    for _, found in prove_all("torch", [{"optimizer": "sgd"}, {"optimizer": "adamw"}], "none"):
        assert not found["passed"]
        assert found["factor"] == pytest.approx(0.0, abs=1e-6)


def test_decay_that_spares_the_biases_fails():
    for _, found in prove_all("torch", [{"optimizer": "sgd"}, {"optimizer": "adam"}], "kernels only"):
        assert (found["passed"], found["follows"]) == (False, None)


FACTORS = [
    {"match": "*.norm.bias", "rate_factor": 64.0, "decay_factor": 0.015625},
    {"match": "first.*", "rate_factor": 1.0, "decay_factor": 2.0, "epochs": 3},
]


@pytest.mark.parametrize("decay", ["coupled", "decoupled"])
def test_parameter_groups_act_with_their_factors_and_stop_in_time(decay):
    for case, found in prove_all("torch", [{"optimizer": name, "decay": decay} for name in ("sgd", "adam")]):
        assert found["passed"], case
    cases = [{"optimizer": name, "decay": decay, "parameter_groups": FACTORS} for name in ("sgd", "adam")]
    for case, found in prove_all("torch", cases):
        assert found["passed"], (case, found)
        assert found["factor"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("wrong", ["without factors", "never over"])
def test_a_group_that_has_no_factors_or_does_not_stop_fails(wrong):
    for _, found in prove_all("torch", [{"optimizer": "sgd", "parameter_groups": FACTORS}], wrong):
        assert (found["passed"], found["follows"]) == (False, None)


def test_a_summed_loss_decays_as_its_mean():
    cases = [{"optimizer": "sgd", "precision": low, "master_weights": False} for low in ("bf16", "fp16")]
    for case, found in prove_all("torch", cases):
        assert found["passed"], (case, found)


def test_the_recipe_of_airbench94_is_proven():
    recipe = dict(workloads.get("airbench94").defaults)
    for case, found in prove_all("torch", [recipe, recipe | {"precision": "fp16", "master_weights": False}]):
        assert found["passed"], (case, found)
        assert (found["follows"], found["expected"]) == ("coupled", 1.0)


CELL = {
    "framework": "torch",
    "engine": {"name": "torch", "version": 1, "framework_version": "2.13"},
    "device": {"kind": "cpu", "model": "EPYC", "count": 2, "replicas": 1, "threads": 2},
    "settings": {
        "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "nesterov": True},
        "batch_size": 64,
        "weight_decay": 5e-4,
        "decay": "coupled",
        "precision": "fp32",
        "schedule": "constant",
    },
}


def changed(path, value):
    cell = {**CELL, "device": dict(CELL["device"]), "settings": {**CELL["settings"]}}
    cell["settings"]["optimizer"] = dict(CELL["settings"]["optimizer"])
    at = cell
    *parents, last = path.split(".")
    for name in parents:
        at = at[name]
    at[last] = value
    return cell


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("settings.weight_decay", 0.0),
        ("settings.optimizer.learning_rate", 0.4),
        ("settings.batch_size", 512),
        ("settings.schedule", {"name": "exponential"}),
        ("device.threads", 1),
    ],
)
def test_amounts_share_a_proof(path, value):
    assert key(changed(path, value)) == key(CELL)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("framework", "tensorflow"),
        ("engine", {"name": "torch", "version": 2, "framework_version": "2.13"}),
        ("device.kind", "cuda"),
        ("device.replicas", 8),
        ("device.replication", "grouped"),
        ("settings.optimizer.momentum", 0.8),
        ("settings.optimizer.nesterov", False),
        ("settings.decay", "decoupled"),
        ("settings.decay_rule", "sum_over_replicas"),
        ("settings.precision", "fp16"),
        ("settings.master_weights", False),
        ("settings.parameter_groups", [{"match": "*.bias", "rate_factor": 2.0, "decay_factor": 1.0}]),
    ],
)
def test_what_decides_how_decay_acts_needs_a_proof_of_its_own(path, value):
    assert key(changed(path, value)) != key(CELL)
    assert subject(changed(path, value)) != subject(CELL)


def test_a_check_crosses_into_its_process_whole():
    job = Job("decay-1", 1, 0, 0, CELL, {}, "/data", "/folder", check="decay", warnings=["one"])
    assert Job.from_json(job.to_json()) == job

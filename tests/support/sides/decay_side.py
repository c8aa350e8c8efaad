"""Proofs of weight decay in a process of a framework's own: by its real engine, or by one that is wrong on purpose."""

from functools import partial
from importlib import import_module
from types import SimpleNamespace

from support.jobs import job_of

from raybench.checks.weight_decay import measure
from raybench.core.cell import CellWorkload
from raybench.devices import open_device
from raybench.devices.base import Assignment

ANY = SimpleNamespace(name="any", dataset=None, identity=lambda: CellWorkload("any", 1), to_json=lambda: {"file": None})


def job(framework, kind="cpu", replicas=1, devices=1, folder="", **more):
    """The job of a proof."""
    model = open_device(kind, framework, Assignment([], [], 1)).describe().model
    device = {"kind": kind, "model": model, "count": 1, "replicas": replicas}
    if devices > 1:
        device["devices"] = devices
    return job_of(ANY, folder, framework, device, threads=1, cores=[], folder=folder, check="weight_decay", **more)


def prove_all(on, cases, kind="cpu"):
    """What the real engine comes to in each case."""
    return [measure(job(on, kind, **case)) for case in cases]


def prove_wrong(on, wrong, cases, kind="cpu"):
    """What an engine comes to in each case whose optimizer is not the one its cell declares."""
    engine = import_module(f"raybench.engines.{on}.engine")
    build, found = engine.build_optimizer, []
    for case in cases:
        engine.build_optimizer = partial(_WRONG[wrong], build, case.get("replicas", 1))
        found.append(measure(job(on, kind, **case)))
    return found


def _on_each_replica(build, replicas, weights, settings, amount, rule, *more):
    return build(weights, settings, amount * replicas, rule, *more)


def _decoupled(build, replicas, weights, settings, amount, rule, *more):
    return build(weights, settings, amount, "decoupled", *more)


def _none(build, replicas, weights, settings, amount, rule, *more):
    return build(weights, settings, 0.0, rule, *more)


def _kernels_only(build, replicas, weights, settings, amount, rule, *more):
    """In torch: matrices decay, and vectors, such as biases, do not."""
    weights = list(weights)
    made = build([weight for weight in weights if weight.ndim > 1], settings, amount, rule, *more)
    made.add_param_group({"params": [weight for weight in weights if weight.ndim == 1], "weight_decay": 0.0})
    return made


_WRONG = {
    "on each replica": _on_each_replica,
    "decoupled": _decoupled,
    "none": _none,
    "kernels only": _kernels_only,
}

"""Cells and their trials as the checks before trials see them."""

from raybench.core.cell import Cell
from raybench.planning.plan import PlannedTrial, WorkItem
from support.jobs import resolved_cell


def cell(framework="torch", replicas=1, **settings):
    """The content of a cell."""
    chosen = {"batch_size": 64, "optimizer": {"name": "sgd", "learning_rate": 0.1}, "weight_decay": 0.0}
    tree = {
        "framework": framework,
        "engine": {"name": framework, "version": 1, "framework_version": "2.13"},
        "device": {"kind": "cpu", "model": "EPYC", "count": 2, "replicas": replicas, "threads": 2},
        "settings": {**chosen, "decay": "coupled", "precision": "fp32", **settings},
        "workload": {"name": "digits_cnn", "version": 1},
        "data": {"name": "digits", "digest": "d"},
    }
    return Cell.from_json(tree)


def work(name, content, repeat=0):
    """A trial of a cell."""
    return WorkItem(PlannedTrial(resolved_cell(name, content), repeat, 0))

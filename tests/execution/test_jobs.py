"""Checks before trials: of which cells they are."""

from raybench.config import load_grid
from raybench.execution.jobs import CheckKeys, with_checks_first
from raybench.planning.node import probe_node
from raybench.planning.plan import make_plan
from raybench.planning.resume import missing_work

AXES = {"momentum": [0.5, 0.9], "weight_decay": [number / 100 for number in range(30)], "batch_size": [8, 16]}


def test_a_key_is_computed_once_for_the_cells_that_share_it(tmp_path):
    grid = {"name": "g", "workload": "digits_cnn", "repeats": 3, "axes": AXES}
    plan = make_plan(load_grid(grid), [probe_node()], tmp_path)
    keys = CheckKeys(lambda cell: f"key {cell.settings.momentum}")
    works = with_checks_first(missing_work(plan, ()), "check", keys, ["key 0.5"])
    (check,) = [work for work in works if work.check]
    assert (check.key, check.trial.cell.axes["momentum"]) == ("key 0.9", 0.9)
    trials = [work for work in works if not work.check]
    assert [work.trial for work in trials] == list(plan.trials)
    assert all(work.needs == {f"key {work.trial.cell.axes['momentum']}"} for work in trials)

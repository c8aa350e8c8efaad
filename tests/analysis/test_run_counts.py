import pytest
from support.made_up_grids import cell_of, told

from raybench.analysis.run_counts import Ending, RunCounts, count_runs
from raybench.core import events
from raybench.results.attempt import attempts, latest


def runs(*statuses, **errors):
    """Runs of one cell, by repeat, that ended so; None for one that goes on."""
    made = []
    for repeat, status in enumerate(statuses):
        trial = told(cell_of(), repeat, [1.0], [0.5], status or "completed", errors.get(status))
        made += trial if status else trial[:-1]
    return list(latest(attempts(made).values()).values())


def test_completed_runs_have_no_ending():
    assert count_runs(2, runs("completed", "completed")) == RunCounts(2, 2)


def test_missing_and_unfinished_runs_are_counted():
    counts = count_runs(4, runs("completed", None, "failed"))
    assert counts.endings == (Ending("failed", 1), Ending("not run", 1), Ending("unfinished", 1))
    assert counts.by_status == {"failed": 1, "not run": 1, "unfinished": 1}
    assert (counts.completed, counts.planned, counts.skipped) == (1, 4, 0)


def test_memory_that_ran_out_has_its_phase_and_size():
    error = {"type": "OOM", "message": "out", "phase": "train", "asked_bytes": 2**31}
    counts = count_runs(2, runs("oom", "oom", oom=error))
    assert counts.endings == (Ending("oom", 2, "train", 2**31),)
    assert counts.by_status == {"oom": 2}


@pytest.mark.parametrize("odd", [{"phase": ["train"], "asked_bytes": "many"}, {"phase": None, "asked_bytes": None}])
def test_a_damaged_error_is_an_ending_all_the_same(odd):
    assert count_runs(1, runs("oom", oom=odd)).by_status == {"oom": 1}


def test_a_cell_that_cannot_run_here_keeps_what_ran_before():
    counts = count_runs(3, runs("completed", "lost"), "no TPU")
    assert counts == RunCounts(3, 1, "no TPU", (Ending("lost", 1),))
    assert (counts.skipped, counts.none_ran) == (1, False)
    assert count_runs(3, [], "no TPU").none_ran


def test_a_cell_whose_runs_were_all_skipped_has_their_reason():
    skipped = [events.trial_skipped(f"{'a' * 12}-r{repeat}", "a" * 12, "no TPU on any node") for repeat in range(2)]
    counts = count_runs(3, list(latest(attempts(skipped).values()).values()))
    assert counts == RunCounts(3, skip="no TPU on any node") and counts.none_ran

"""Two results of one grid, before and after a change."""

import math
import random

import pytest
from support.made_up_grids import cell_of, told

from raybench.analysis.before_after import ChangedValue, ChangeVerdict, Reason, Session, before_after
from raybench.analysis.grid_results import of_journal
from raybench.core.cell import Cell
from raybench.results.attempt import attempts, latest

BATCHES = (64, 256)


def session(factor=1.0, canary_factor=1.0, noise=0.01, repeats=4, seed=1, canaries=4, batches=BATCHES, **changes):
    draw = random.Random(seed)
    events, cells = [], [cell_of(batch_size=batch, epochs=3) for batch in batches]
    for cell in cells:
        for repeat in range(repeats):
            seconds = 4.0 * factor * math.exp(draw.gauss(0, noise))
            events += told(cell, repeat, [seconds] * 3, [0.5] * 3)
    for event in events:
        if event["event"] == "trial_started":
            event["versions"] = {**event["versions"], **changes}
    device = Cell.from_json(cells[0]).to_json()["device"]
    subject = {"framework": "torch", "device": device}
    made = [{"subject": subject, "call_s": 0.01 * canary_factor, "noise": 0.0, "calls": 30} for _ in range(canaries)]
    return Session("here", of_journal("made_up", latest(attempts(events).values())), made)


def verdicts(base, new, limit=0.05):
    cells = before_after(base, new, limit).cells
    return {(cell.verdict, cell.reason) for cell in cells}


def test_a_slow_down_above_the_limit_is_found():
    compared = before_after(session(), session(1.1, seed=2), 0.05)
    assert [cell.verdict for cell in compared.slower] == [ChangeVerdict.SLOWER] * 2
    assert all(cell.ratio.ratio == pytest.approx(1.1, rel=0.02) for cell in compared.cells)
    assert all(cell.new_s == pytest.approx(1.1 * cell.base_s, rel=0.02) for cell in compared.cells)


def test_equal_times_are_within_the_limit():
    assert verdicts(session(), session(seed=2)) == {(ChangeVerdict.WITHIN, None)}


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ({"factor": 1.1, "canary_factor": 1.1}, Reason.MACHINE),
        ({"factor": 1.1, "canaries": 0}, Reason.NO_CANARY),
        ({"factor": 1.1, "noise": 0.2}, Reason.WIDE),
        ({"factor": 1.1, "repeats": 1}, Reason.ONE_RUN),
    ],
)
def test_what_makes_a_slow_down_inconclusive(new, reason):
    assert verdicts(session(), session(seed=2, **new)) == {(ChangeVerdict.INCONCLUSIVE, reason)}


def test_a_faster_machine_does_not_hide_a_slow_down_of_the_limit():
    """The change of the canaries counts in both directions, since it is not known whether it affected the trials."""
    assert verdicts(session(), session(1.1, canary_factor=0.9, seed=2)) == {
        (ChangeVerdict.INCONCLUSIVE, Reason.MACHINE)
    }


def test_unchanged_grids_rarely_alarm():
    alarms = sum(bool(before_after(session(seed=n), session(seed=1000 + n), 0.05).slower) for n in range(100))
    assert alarms == 0


def test_what_changed_is_listed():
    compared = before_after(session(), session(seed=2, torch="2.14.0"), 0.05)
    assert list(compared.differences) == [ChangedValue("torch", ("2.13.0",), ("2.14.0",))]


def test_cells_of_one_side_are_named():
    compared = before_after(session(batches=(64, 256)), session(batches=(256, 512)), 0.05)
    assert len(compared.cells) == 1
    assert (compared.only_in_base, compared.only_in_new) == (["b64"], ["b512"])

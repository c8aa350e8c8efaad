"""Two results of one grid, before and after a change."""

import math
import random

import pytest
from support.made_up_grids import cell_of, told

from raybench.analysis.before_after import ChangedValue, ChangeVerdict, Reason, Session, before_after, interleaved
from raybench.analysis.grid_results import of_journal
from raybench.results.attempt import attempts, latest

BATCHES = (64, 256)


def session(
    factor=1.0,
    noise=0.01,
    repeats=4,
    seed=1,
    batches=BATCHES,
    hosts=("vm",),
    host_factor=1.0,
    **changes,
):
    """Results of some cells, on one host after the other."""
    draw = random.Random(seed)
    events = []
    cells = [cell_of(batch_size=batch, epochs=3) for batch in batches]
    for repeat in range(repeats * len(hosts)):
        number = repeat // repeats
        host, speed = {"name": hosts[number], "boot": "b"}, host_factor**number
        for cell in cells:
            seconds = 4.0 * factor * speed * math.exp(draw.gauss(0, noise))
            for event in told(cell, repeat, [seconds] * 3, [0.5] * 3):
                begins = event["event"] == "trial_started"
                if begins:
                    event = {**event, "host": host, "versions": {**event["versions"], **changes}}
                events.append({**event, "t": f"2026-11-23T{repeat:02}:{10 if begins else 20}"})
    return Session("here", of_journal("made_up", latest(attempts(events).values())))


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
        ({"factor": 1.1, "noise": 0.2}, Reason.WIDE),
        ({"factor": 1.1, "repeats": 1}, Reason.ONE_RUN),
    ],
)
def test_what_makes_a_slow_down_inconclusive(new, reason):
    assert verdicts(session(), session(seed=2, **new)) == {(ChangeVerdict.INCONCLUSIVE, reason)}


def test_unchanged_grids_are_mostly_within_the_limit():
    cells = [cell for n in range(50) for cell in before_after(session(seed=n), session(seed=1000 + n), 0.05).cells]
    assert sum(cell.verdict is ChangeVerdict.WITHIN for cell in cells) > 0.8 * len(cells)


def test_only_runs_on_the_hosts_of_both_sessions_are_compared():
    alone, both = session(1.1, seed=2), session(hosts=("vm", "colab"), host_factor=3.0)
    for compared, ratio in ((before_after(both, alone, 0.05), 1.1), (before_after(alone, both, 0.05), 1 / 1.1)):
        assert all(cell.ratio.ratio == pytest.approx(ratio, rel=0.02) for cell in compared.cells)
        assert not compared.differences
    elsewhere = before_after(both, session(hosts=("other",)), 0.05)
    assert [each.name for each in elsewhere.differences] == ["host.name"], "without a common host all are compared"


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


def both(factor=1.0, drift=0.0, noise=0.01, repeats=4, seed=1, lost=(), batches=BATCHES):
    """One grid with both versions, on a machine whose speed drifts from repeat to repeat."""
    draw = random.Random(seed)
    events = []
    for repeat in range(repeats):
        machine = math.exp(draw.gauss(0, drift))
        for batch in batches:
            for version, slower in (("base", 1.0), ("new", factor)):
                cell = {**cell_of(batch_size=batch, epochs=3), "compared": {"version": version, "pair": "p"}}
                seconds = 4.0 * slower * machine * math.exp(draw.gauss(0, noise))
                if (batch, version, repeat) not in lost:
                    events += told(cell, repeat, [seconds] * 3, [0.5] * 3)
    return of_journal("made_up~compare", latest(attempts(events).values()))


def judged(results):
    return {(cell.verdict, cell.reason) for cell in interleaved(results, 0.05).cells}


def test_versions_of_one_grid_are_compared():
    compared = interleaved(both(1.1), 0.05)
    assert [cell.label for cell in compared.slower] == ["b64", "b256"]
    assert all(cell.ratio.paired for cell in compared.cells)
    assert all(cell.new_s == pytest.approx(1.1 * cell.base_s, rel=0.02) for cell in compared.cells)
    assert (compared.interleaved, compared.only_in_base, compared.only_in_new) == (True, [], [])
    assert list(compared.differences) == [], "the name of the version is no difference"
    assert judged(both()) == {(ChangeVerdict.WITHIN, None)}
    assert len(interleaved(both(batches=[64]), 0.05).cells[0].label) > 0


def test_a_drift_of_the_machine_cancels():
    assert judged(both(1.1, drift=0.2)) == {(ChangeVerdict.SLOWER, None)}
    assert judged(both(1.0, drift=0.2)) == {(ChangeVerdict.WITHIN, None)}


def test_repeats_that_one_version_lacks_are_left_out():
    (cell,) = interleaved(both(1.1, lost=[(64, "new", 1)], batches=[64]), 0.05).cells
    assert cell.ratio.df == 2
    (cell,) = interleaved(both(1.1, repeats=2, lost=[(64, "new", 1)], batches=[64]), 0.05).cells
    assert (cell.verdict, cell.reason) == (ChangeVerdict.INCONCLUSIVE, Reason.ONE_RUN)
    (cell,) = interleaved(both(repeats=2, lost=[(64, "new", 1), (64, "base", 0)], batches=[64]), 0.05).cells
    assert (cell.verdict, cell.reason) == (ChangeVerdict.INCONCLUSIVE, Reason.NO_TIMES)


def test_unchanged_versions_rarely_alarm():
    alarms = sum(bool(interleaved(both(seed=n, drift=0.1, noise=0.03, repeats=3), 0.05).slower) for n in range(100))
    assert alarms <= 1, "0.07% of pairs of two cells"


def test_files_that_changed_are_listed_by_name():
    files = ({"a.py": "1", "b.py": "2", "c.py": "3"}, {"a.py": "1", "b.py": "4", "d.py": "5"})
    assert interleaved(both(), 0.05, files).differences == [
        ChangedValue("b.py", ("2",), ("4",)),
        ChangedValue("c.py", ("3",), ()),
        ChangedValue("d.py", (), ("5",)),
    ]

"""Two results of one grid, before and after a change."""

import math
import random
from dataclasses import replace

import pytest
from support.made_up_grids import cell_of, told

from raybench.analysis.before_after import ChangedValue, ChangeVerdict, Reason, Session, before_after, interleaved
from raybench.analysis.grid_results import of_journal
from raybench.core.cell import Cell
from raybench.results.attempt import attempts, latest

BATCHES = (64, 256)


def session(
    factor=1.0,
    canary_factor=1.0,
    noise=0.01,
    repeats=4,
    seed=1,
    canaries=True,
    batches=BATCHES,
    hosts=("vm",),
    host_factor=1.0,
    canary_noise=0.0,
    framework="torch",
    **changes,
):
    """Results in which each repeat of the cells runs between two canaries, on one host after the other."""
    draw = random.Random(seed)
    events, made = [], []
    cells = [{**cell_of(batch_size=batch, epochs=3), "framework": framework} for batch in batches]
    subject = {"framework": framework, "device": Cell.from_json(cells[0]).to_json()["device"]}
    for repeat in range(repeats * len(hosts)):
        number = repeat // repeats
        host, speed = {"name": hosts[number], "boot": "b"}, host_factor**number
        canaries_s = [0.01 * canary_factor * speed * math.exp(draw.gauss(0, canary_noise)) for _ in range(2)]
        made.append(canary(subject, host["name"], canaries_s[0], f"2026-11-23T{repeat:02}:00"))
        for cell in cells:
            seconds = 4.0 * factor * speed * math.exp(draw.gauss(0, noise))
            for event in told(cell, repeat, [seconds] * 3, [0.5] * 3):
                begins = event["event"] == "trial_started"
                if begins:
                    event = {**event, "host": host, "versions": {**event["versions"], **changes}}
                events.append({**event, "t": f"2026-11-23T{repeat:02}:{10 if begins else 20}"})
        made.append(canary(subject, host["name"], canaries_s[1], f"2026-11-23T{repeat:02}:30"))
    return Session("here", of_journal("made_up", latest(attempts(events).values())), made if canaries else [])


def canary(subject, host, seconds, at):
    return {"t": at, "subject": subject, "host": host, "call_s": seconds, "noise": 0.0, "calls": 30}


def with_slow_canaries(base, **changes):
    """The session with canaries that are twice as slow and differ from its own in other things, too."""
    return replace(base, canaries=[*base.canaries, *({**each, "call_s": 0.02, **changes} for each in base.canaries)])


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
        ({"factor": 1.1, "canaries": False}, Reason.NO_CANARY),
        ({"factor": 1.0, "canaries": False}, Reason.NO_CANARY),
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


@pytest.mark.parametrize("slowdown", [1.0, 1.1, 1.2])
def test_a_faster_machine_gives_no_all_clear(slowdown):
    """Its epochs take as long as before or less, and the code may be slower all the same."""
    base, new = session(1.2, 1.2), session(slowdown, 1.0, seed=2)
    result = before_after(base, new, 0.05)
    within = slowdown == 1.0
    expected = (ChangeVerdict.WITHIN, None) if within else (ChangeVerdict.INCONCLUSIVE, Reason.FASTER_MACHINE)
    assert {(cell.verdict, cell.reason) for cell in result.cells} == {expected}
    assert all(cell.machine_change == pytest.approx(1 / 1.2) for cell in result.cells)


def test_canaries_of_another_version_do_not_show_a_change_of_the_machine():
    """A slower product of the new version makes the canaries slower, too."""
    base, new = session(), session(1.1, canary_factor=1.1, seed=2, torch="2.14.0")
    for sides in ((base, new), (new, base)):
        compared = before_after(*sides, 0.05)
        assert {cell.canary_software for cell in compared.cells} == {("torch",)}
    assert verdicts(base, new) == {(ChangeVerdict.INCONCLUSIVE, Reason.OTHER_CANARY)}
    faster = session(1.0, canary_factor=0.9, seed=2, torch="2.14.0")
    assert verdicts(base, faster) == {(ChangeVerdict.INCONCLUSIVE, Reason.OTHER_CANARY)}
    assert verdicts(base, session(1.1, seed=2, torch="2.14.0")) == {(ChangeVerdict.SLOWER, None)}
    assert verdicts(base, session(1.1, canary_factor=1.1, seed=2, ray="3")) == {
        (ChangeVerdict.INCONCLUSIVE, Reason.MACHINE)
    }, "canaries do not use Ray"


def test_a_framework_without_canaries():
    assert verdicts(*(session(seed=seed, framework="jax", canaries=False) for seed in (1, 2))) == {
        (ChangeVerdict.INCONCLUSIVE, Reason.UNPROBED)
    }


def test_a_slower_machine_hides_no_slow_down():
    assert verdicts(session(), session(1.0, canary_factor=1.2, seed=2)) == {(ChangeVerdict.WITHIN, None)}


def test_unchanged_grids_are_mostly_within_the_limit():
    """Also with canaries as noisy as on a busy machine, which show a faster machine by chance."""
    cells = [
        cell
        for n in range(50)
        for cell in before_after(
            session(seed=n, canary_noise=0.03), session(seed=1000 + n, canary_noise=0.03), 0.05
        ).cells
    ]
    assert sum(cell.verdict is ChangeVerdict.WITHIN for cell in cells) > 0.8 * len(cells)


def test_only_runs_on_the_hosts_of_both_sessions_are_compared():
    alone, both = session(1.1, seed=2), session(hosts=("vm", "colab"), host_factor=3.0)
    for compared, ratio in ((before_after(both, alone, 0.05), 1.1), (before_after(alone, both, 0.05), 1 / 1.1)):
        assert all(cell.ratio.ratio == pytest.approx(ratio, rel=0.02) for cell in compared.cells)
        assert all(cell.machine_ratio < 1.05 for cell in compared.cells), (
            "the other host's canaries are three times slower"
        )
        assert not compared.differences
    elsewhere = before_after(both, session(hosts=("other",)), 0.05)
    assert [each.name for each in elsewhere.differences] == ["host.name"], "without a common host all are compared"


@pytest.mark.parametrize("changes", [{"host": "colab"}, {"subject": {"framework": "jax"}}, {"t": "2026-10-01T00:00"}])
def test_only_canaries_next_to_the_runs_count(changes):
    base, new = session(), session(1.1, seed=2)
    assert before_after(with_slow_canaries(base, **changes), new, 0.05) == before_after(base, new, 0.05)


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


def test_versions_of_one_grid_are_compared_without_canaries():
    compared = interleaved(both(1.1), 0.05)
    assert [cell.label for cell in compared.slower] == ["b64", "b256"]
    assert all(cell.ratio.paired and cell.machine_ratio == 1 for cell in compared.cells)
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

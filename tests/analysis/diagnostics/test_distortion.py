"""Findings get a letter only if what they may have cost could lead to another verdict."""

import pytest

from raybench.analysis.diagnostics.distortion import could_reverse
from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.statistics.speedup import UNCLEAR, speedup

NONE, TWICE, LITTLE = (
    ([4.0, 4.02, 3.98], [4.01, 4.0, 3.97]),
    ([4.0, 4.02, 3.98], [2.0, 2.01, 1.99]),
    (
        [4.0, 4.02, 3.98],
        [3.8, 3.82, 3.78],
    ),
)


def finding(code, too_long=None, too_short=None):
    return Finding(code, "it was seen", "mend it", {"share": 0.5}, too_long, too_short)


def turning(times, baseline=(), other=()):
    """Codes that could turn the verdict, of findings in all three runs of a side."""
    return could_reverse(speedup(*times), [list(baseline)] * 3, [list(other)] * 3)


def test_a_small_distortion_turns_no_large_ratio():
    drift = finding("throttled", 0.06)
    assert turning(TWICE, [drift], [drift]) == (set(), set())
    assert turning(LITTLE, [drift]) == ({"throttled"}, set())


def test_a_slowed_winner_would_only_win_by_more():
    busy = finding("busy_host", 3.0)
    assert turning(TWICE, other=[busy]) == (set(), set())
    assert turning(TWICE, [busy]) == ({"busy_host"}, set()), "the baseline may not be slower at all"


def test_a_time_that_is_too_short_turns_the_other_way():
    early = finding("unsynchronised_clock", too_short=1.5)
    assert turning(TWICE, other=[early]) == (set(), {"unsynchronised_clock"})
    assert turning(TWICE, [early]) == (set(), set())


def test_alike_may_turn_either_way():
    throttled = finding("throttled", 0.3)
    assert turning(NONE, [throttled]) == ({"throttled"}, set())
    assert turning(NONE, other=[throttled]) == (set(), {"throttled"})


def test_what_touches_one_run_of_three_counts_a_third():
    some = finding("steal", 0.15)
    assert could_reverse(speedup(*LITTLE), [[some], [], []], [[], [], []]) == ({"steal"}, set())
    less = finding("steal", 0.05)
    assert could_reverse(speedup(*LITTLE), [[less], [], []], [[], [], []]) == (set(), set())


def test_findings_that_only_together_turn_it_are_all_named():
    some = [finding("steal", 0.03), finding("throttled", 0.03)]
    assert turning(LITTLE, some[:1]) == (set(), set())
    assert turning(LITTLE, some) == ({"steal", "throttled"}, set())


def test_a_finding_of_unknown_size_turns_nothing():
    assert turning(LITTLE, [finding("different_session")], [finding("niceness")]) == (set(), set())


def test_one_run_each_is_judged_by_its_ratio():
    found = speedup([4.0], [3.8])
    assert could_reverse(found, [[finding("steal", 0.1)]], [[]]) == ({"steal"}, set())
    assert could_reverse(found, [[finding("steal", 0.01)]], [[]]) == (set(), set())


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_wide_intervals_stay_unclear(factor):
    found = speedup([4.0, 6.0, 3.0], [4.1, 2.9, 6.2])
    assert found.verdict(factor) == UNCLEAR
    assert could_reverse(found, [[finding("steal", 0.05)]] * 3, [[]] * 3) == (set(), set())

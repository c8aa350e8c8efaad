"""Two versions of one grid, and whether the new one passes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtrit
from support.made_up_runs import LEARNING, MadeUpGrid, change_epochs

from raybench.analysis.analyze import Grid
from raybench.analysis.compare import as_versions, compare
from raybench.analysis.until import look_level
from raybench.analysis.versions import Decision, Limits, Verdict
from raybench.core.job import Target
from raybench.core.repeats import FEW_REPEATS, LOOKS, RepeatRule
from raybench.errors import UsageError

CLEAR = (0.08, 0.12, 0.09, 0.11, 0.10)
WIDE = (0.02, 0.20, 0.05, 0.15, 0.04)


def interleaved(changes, losses=None, **further):
    """The comparison of a grid whose new runs are slower by these logs, with these losses of accuracy."""
    grid = MadeUpGrid({"version": "base"})
    grid.add({"version": "base"}, [1.0 + 1e-6] * len(changes))
    accuracies = [(*LEARNING[:-1], LEARNING[-1] - loss) for loss in losses or [0.0] * len(changes)]
    grid.add({"version": "new"}, [math.exp(each) for each in changes], accuracies=accuracies, **further)
    return grid.attempts, grid.request()


@pytest.mark.parametrize(
    ("changes", "strict", "verdict"),
    [
        (CLEAR, False, Verdict.SLOWER),
        (CLEAR, True, Verdict.SLOWER),
        (WIDE, False, Verdict.SLOWER),
        (WIDE, True, Verdict.UNDECIDED),
        ([0.01, 0.0, -0.01, 0.005, 0.0], False, Verdict.WITHIN),
        ([-0.3, 0.3, -0.2, 0.25, 0.0], False, Verdict.UNDECIDED),
        ([0.03, 0.031, 0.029, 0.03, 0.03], False, Verdict.WITHIN),
        ([0.5], False, Verdict.UNDECIDED),
    ],
)
def test_verdicts_on_interleaved_runs(changes, strict, verdict):
    comparison = compare(Grid(*interleaved(changes)), Limits(strict=strict))
    (change,) = comparison.changes
    assert change.verdict is verdict
    decisions = {Verdict.SLOWER: Decision.DISCARD, Verdict.WITHIN: Decision.KEEP}
    assert comparison.decision is decisions.get(verdict, Decision.UNDECIDED)
    if len(changes) > 1:
        assert change.speed.paired
        assert change.speed.value == pytest.approx(math.exp(-sum(changes) / len(changes)), rel=1e-4)


@pytest.mark.parametrize(("base_load_s", "verdict"), [(0.0, Verdict.UNDECIDED), (7.5, Verdict.SLOWER)])
def test_uneven_load_leaves_a_change_undecided(base_load_s, verdict):
    grid = MadeUpGrid({"version": "base"})
    for version, changes, load_s in (("base", [1e-6] * len(CLEAR), base_load_s), ("new", CLEAR, 8.0)):
        load = {"seconds": 10.0, "host": {"cores": 2, "other_cpu_s": load_s}}
        grid.add({"version": version}, [math.exp(each) for each in changes], audit=load)
    (change,) = compare(Grid(grid.attempts, grid.request())).changes
    assert change.verdict is verdict
    assert ("other programs" in change.reason) is (verdict is Verdict.UNDECIDED)


def test_wide_change_says_how_many_repeats_decide():
    (change,) = compare(Grid(*interleaved([-0.1, 0.1, -0.05, 0.06, 0.01]))).changes
    assert 1 < change.more_repeats < 60
    assert change.more_s == pytest.approx(change.more_repeats * 40)


NAMED = {"quality": {"val/accuracy": None}}
SMALL, CLOSE, NOISY = [0.0] * 5, [0.03, 0.031, 0.029, 0.03, 0.03], [0.03, -0.03, 0.02, -0.01, 0.0]


@pytest.mark.parametrize(
    ("losses", "limits", "decision", "kept"),
    [
        (SMALL, {}, Decision.KEEP, True),
        (CLOSE, {}, Decision.DISCARD, False),
        (NOISY, {}, Decision.KEEP, False),
        (SMALL, NAMED, Decision.KEEP, True),
        (CLOSE, NAMED, Decision.DISCARD, False),
        (NOISY, NAMED, Decision.UNDECIDED, False),
        (CLOSE, {"quality_loss": 0.05}, Decision.KEEP, True),
    ],
)
def test_faster_version_is_kept_only_with_its_quality(losses, limits, decision, kept):
    comparison = compare(Grid(*interleaved([-0.5, -0.51, -0.49, -0.5, -0.5], losses)), Limits(**limits))
    (change,) = comparison.changes
    assert (comparison.decision, change.quality_kept["val/accuracy"]) == (decision, kept)
    assert bool(comparison.more_repeats) == (decision is Decision.UNDECIDED)


@pytest.mark.parametrize(("count", "verdict"), [(1, Verdict.WORSE), (10, Verdict.UNDECIDED)])
def test_one_of_many_further_metrics_may_be_worse_by_chance(count, verdict):
    attempts, request = interleaved(SMALL)
    for run in attempts:
        metrics = {f"val/part{number}/accuracy": 0.9 + run.repeat / 1000 for number in range(count)}
        lost = (0.0, 0.03, 0.06, 0.02, 0.04)[run.repeat] if run.cell_id == "cell1" else 0.0
        change_epochs(run, metrics={"val/accuracy": 0.95, **metrics, "val/part0/accuracy": 0.9 - lost})
    (change,) = compare(Grid(attempts, request)).changes
    assert change.verdict is verdict


def test_metric_that_no_run_logged_is_refused():
    with pytest.raises(UsageError, match="val/acuracy: no run has logged it; did you mean val/accuracy"):
        compare(Grid(*interleaved(CLEAR)), Limits(quality={"val/acuracy": None}))


def test_failed_version_does_not_pass():
    error = {"type": "ImportError", "message": "no module"}
    (change,) = compare(Grid(*interleaved(CLEAR, status="failed", error=error))).changes
    assert change.verdict is Verdict.MISSING and "no module" in change.reason


def test_version_that_has_not_run_yet_is_undecided():
    attempts, request = interleaved(CLEAR, status="killed")
    assert compare(Grid(attempts, request), Limits(**NAMED)).decision is Decision.UNDECIDED


def session(factor, batches=(32, 64), run="", **further):
    grid = MadeUpGrid()
    for batch in batches:
        seconds = [factor * batch * (1 + 0.002 * repeat) for repeat in range(3)]
        grid.add({"batch_size": batch}, seconds, run=f"{run}{batch}", **further)
    return grid.attempts, grid.request()


EQUAL = [0.001, 0.0, -0.001, 0.0005, 0.0]
SHORT = {"form": "command", "clock": "output"}


def test_named_metric_that_only_base_has_logged():
    attempts, request = interleaved(EQUAL)
    for run in attempts[-len(EQUAL) :]:
        change_epochs(run, metrics={})
    comparison = compare(Grid(attempts, request), Limits(**NAMED))
    assert comparison.decision is Decision.DISCARD
    assert comparison.changes[0].reason.startswith("no run of new has logged val/accuracy")


FASTER = [math.log(each) for each in (0.8, 0.801, 0.799, 0.8, 0.8)]
LATE = (0.5, 0.8, 0.9, 0.91, 0.92, 0.95)


@pytest.mark.parametrize(
    ("changes", "curves", "verdict", "reason"),
    [
        (EQUAL, [LEARNING] * 4 + [LATE[:4]], Verdict.UNDECIDED, "1 of 5 runs of new did not reach the target"),
        (FASTER, [LATE[:4]] * 5, Verdict.MISSING, "none of 5 runs of new reached the target"),
        (FASTER, [LATE] * 5, Verdict.SLOWER, "it takes 20% more time, at least 20%"),
        (CLEAR, [LEARNING[1:]] * 5, Verdict.WITHIN, ""),
    ],
)
def test_times_to_a_target_are_compared(changes, curves, verdict, reason):
    grid = MadeUpGrid({"version": "base"}, target=Target("val/accuracy", 0.94))
    grid.add({"version": "base"}, [1.00001] * 5)  # with digits, so that it is not rounded to seconds
    grid.add({"version": "new"}, [math.exp(each) for each in changes], accuracies=curves)
    (change,) = compare(Grid(grid.attempts, grid.request())).changes
    assert (change.verdict, change.reason) == (verdict, reason)


def test_faster_version_with_too_short_epochs_is_not_missing():
    grid = MadeUpGrid({"version": "base"})
    grid.add({"version": "base"}, [0.06] * 3, **SHORT).add({"version": "new"}, [0.03] * 3, **SHORT)
    (change,) = compare(Grid(grid.attempts, grid.request())).changes
    assert change.verdict is Verdict.UNDECIDED and "too short" in change.reason


def test_what_neither_version_can_run_decides_nothing():
    attempts, request = interleaved(EQUAL)
    skipped = [
        replace(each, cell_id=f"gpu {each.cell_id}", axes={**each.axes, "device": "gpu"}, skip="no GPU")
        for each in request.cells
    ]
    cells = [replace(each, axes={**each.axes, "device": "cpu"}) for each in request.cells]
    comparison = compare(Grid(attempts, replace(request, cells=[*cells, *skipped])))
    assert comparison.decision is Decision.KEEP and len(comparison.changes) == 1


def test_missing_configuration_does_not_pass():
    comparison = compare(Grid(*as_versions(session(1.0), session(1.0, batches=(64, 128)))))
    assert comparison.fails and comparison.changes[0].verdict is Verdict.MISSING
    assert comparison.decision is Decision.DISCARD, "although the others are the same runs"
    assert comparison.only_in_new == ("batch 128",)


def test_nothing_in_common_does_not_pass():
    attempts, request = session(1.0)
    assert compare(Grid(*as_versions((attempts, replace(request, cells=[])), (attempts, request)))).fails


def decided(logs, limit):
    """The shares of draws that are kept and called slower, with looks as in a comparison; rows of logs of new/base."""
    most = np.where(logs[:, :4].std(axis=1, ddof=1) > math.sqrt(2) * 0.6 * limit, LOOKS[-1], FEW_REPEATS)
    verdicts = np.zeros(len(logs))
    for largest in (FEW_REPEATS, LOOKS[-1]):
        rule, repeats = RepeatRule(4, largest), 4
        while repeats <= largest:
            open_ = (verdicts == 0) & (most == largest)
            seen = logs[open_, :repeats]
            middle, error = seen.mean(axis=1), seen.std(axis=1, ddof=1) / math.sqrt(repeats)
            margin = stdtrit(repeats - 1, 1 - look_level(repeats, largest)) * error
            slower = (middle > limit) & (middle > margin)
            verdicts[open_] = np.where(slower, -1, np.where(middle + margin <= limit, 1, 0))
            repeats = rule.look_after(repeats)
    return (verdicts == 1).mean(), (verdicts == -1).mean()


@pytest.mark.parametrize("family", ["normal", "heavy tails"])
@pytest.mark.parametrize(("cv", "kept_if_equal"), [(0.01, 0.99), (0.03, 0.95), (0.05, 0.8), (0.08, 0.48)])
def test_looks_hold_their_level(family, cv, kept_if_equal):
    """20,000 draws: a slow-down of exactly the limit is kept in about 5%, an equal version is hardly called slower."""
    random, limit = np.random.default_rng(0), math.log1p(0.05)
    shape = 20_000, LOOKS[-1], 2
    noise = random.normal(size=shape) if family == "normal" else random.standard_t(3, shape) / math.sqrt(3)
    logs = cv * (noise[..., 1] - noise[..., 0])
    assert decided(logs + limit, limit)[0] < 0.056
    kept, slower = decided(logs, limit)
    assert kept > kept_if_equal and slower < 0.05


def test_levels_of_looks():
    levels = [round(look_level(*each), 4) for each in ((4, 10), (10, 10), (4, 20), (20, 20))]
    assert levels == [0.0017, 0.0322, 0.0, 0.0322]


def test_a_run_that_kills_itself_is_no_lost_one():
    """A version that ends its bad runs by SIGKILL is tried again, until one is good."""
    attempts, request = interleaved(EQUAL * 2)
    assert compare(Grid(attempts, request)).decision is Decision.KEEP
    bad = [run for run in attempts if run.cell_id == "cell1"][:2]
    lost = [replace(run, status="lost", error={"type": "Killed", "message": "SIGKILL"}, attempt=0) for run in bad]
    comparison = compare(Grid([*lost, *attempts], request))
    assert comparison.decision is Decision.UNDECIDED and "did not complete (lost: " in comparison.changes[0].reason
    gone = [replace(run, error={"type": "NodeGone", "message": "node"}) for run in lost]
    assert compare(Grid([*gone, *attempts], request)).decision is Decision.KEEP, "the node, not the version"


def test_a_clock_that_was_slowed_down_is_seen():
    """By the dates of the run's start and end: code in the trial's process can change its clock."""
    attempts, request = interleaved(EQUAL)
    dated = [replace(run, started="2026-11-29T05:00:00Z", ended="2026-11-29T05:00:20Z", wall=20.0) for run in attempts]
    assert compare(Grid(dated, request)).decision is Decision.KEEP
    cut = [replace(run, wall=10.0) if run.cell_id == "cell1" else run for run in dated]
    comparison = compare(Grid(cut, request))
    assert comparison.decision is Decision.UNDECIDED and "own clock" in comparison.changes[0].reason

"""What to doubt of an attempt: findings, each a warning with its evidence and its remedy.

They are read off what an attempt's events tell: its ledgers, the conditions it ran under, what was seen around it, and
the cross-checks of its clock. A trial that ran in quiet has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from statistics import median

from raybench.analysis import conditions, rules
from raybench.analysis.canary import Drift
from raybench.analysis.conditions import Finding
from raybench.analysis.neighbours import Beside, beside_of
from raybench.analysis.results import Attempt, Epoch, Key
from raybench.analysis.roofline import ENOUGH, input_share
from raybench.analysis.warmup import BATCHES, slow_start

__all__ = ["DOUBTS_RATIO", "NOTES", "Finding", "by_code", "codes", "findings", "survey"]

SHORT_WARMUP, INPUT_BOUND, UNSYNCHRONISED = "short_warmup", "input_bound", "unsynchronised_clock"
MACHINE_DRIFT, MADE_APART = "machine_drift", "made_apart"

NOTES = frozenset({conditions.LIMITED_CLOCKS, conditions.NICENESS, conditions.NO_AUDIT, conditions.RESUMED})
"""Codes of what a reader should know and what changes no verdict."""

DOUBTS_RATIO = frozenset(
    {
        conditions.THROTTLED,
        conditions.BUSY_HOST,
        conditions.CORES_SHARED,
        conditions.FEW_THREADS,
        conditions.CLOCK_DRIFT,
        conditions.STEAL,
        SHORT_WARMUP,
        INPUT_BOUND,
        UNSYNCHRONISED,
        MACHINE_DRIFT,
        MADE_APART,
    }
)
"""Codes of what makes a ratio with such a run doubtful: its time is not, or not only, what its hardware takes.

That overhead and not the device takes the time is no finding but a result (`raybench.analysis.roofline`): it holds for
the job on any machine, and the table's column `bound by` says it.
"""

SETTLED = 0.02
"""The part of a section that fetching its last value may take after the section is closed. An honest clock leaves
nothing to wait for, and a fetch takes microseconds."""

SETTLE_LEAST_S = 0.01
"""A fetch that takes no longer is an honest one, however short the section: on cores that others use, TensorFlow and
torch_xla took up to 4 ms for one with nothing left to wait for."""

BEYOND = 0.01
"""The part by which the device's own clock may say more than the ledger: as much as a ledger's sum may be off."""

BEYOND_LEAST_S = 0.001
"""Two clocks are read some microseconds apart, and events are resolved to half of one."""

_WARM = ("train", "input_wait")


def findings(attempt: Attempt, beside: Beside | None = None, drifts: Iterable[Drift] = ()) -> tuple[Finding, ...]:
    """Everything there is to doubt of one attempt, what makes ratios doubtful first.

    Args:
        attempt: running or ended; one without epochs has only findings about its conditions.
        beside: what else is known of its machine (`survey` finds it out); None where nothing is, and then what only
            shows beside others is left out.
        drifts: devices that were not the same all the time (`raybench.analysis.canary`).
    """
    if not attempt.attempt:
        return ()
    found = chain(
        *(look(attempt) for look in _LOOKS),
        conditions.throttled(attempt, beside),
        conditions.cores_shared(attempt, beside),
        _machine_drift(attempt, drifts),
    )
    return tuple(sorted(found, key=lambda finding: finding.code in NOTES))


def codes(attempt: Attempt) -> str | None:
    """What there is to doubt of an attempt that has ended, as far as it tells itself: codes with commas between."""
    ended = attempt.status is not None
    return ",".join(finding.code for finding in findings(attempt)) or None if ended else None


def survey(attempts: Iterable[Attempt], drifts: Sequence[Drift] = ()) -> dict[Key, tuple[Finding, ...]]:
    """The findings of every attempt, each seen beside all the others."""
    known = list(attempts)
    beside = beside_of(known)
    return {attempt.key: findings(attempt, beside[attempt.key], drifts) for attempt in known}


def _short_warmup(attempt: Attempt) -> Iterator[Finding]:
    """By single steps where they were timed, else by epochs."""
    epochs = attempt.steady
    timed = [epoch.step_s for epoch in epochs]
    by_steps = slow_start(list(chain(*timed))) if all(timed) else None
    found = by_steps or slow_start(list(map(rules.steady_seconds, epochs)))
    if found is None:
        return
    what = "steps" if by_steps else "epochs"
    # To the end of the epoch in which it changed; where that is, is known to a batch.
    until = attempt.warmup_epochs + max(1, math.ceil((found.part - 1 / BATCHES) * len(epochs)))
    last = epochs[-1].epoch
    more = f" and `epochs` above {last}" if until >= last else ""
    yield Finding(
        SHORT_WARMUP,
        f"after the warm-up its {what} still took {found.slower:.2f} × as long as later, until epoch {until} of {last}",
        f"set `warmup_epochs: {until}`{more}",
        {"excess": found.excess, "slower": found.slower, "part": found.part, "p": found.p},
    )


def _input_bound(attempt: Attempt) -> Iterator[Finding]:
    share = input_share(attempt)
    if share is not None and share >= ENOUGH:
        yield Finding(
            INPUT_BOUND,
            f"it waited for its input during {share:.0%} of the steady epochs",
            "set `input: device` where the data fit there, or make the loading cheaper",
            {"share": share},
        )


def _unsynchronised(attempt: Attempt) -> Iterator[Finding]:
    """Over the epochs after the first, in which a fetch may have to be compiled; the middle one, for a host may be busy
    now and then, and a clock that does not wait never does."""
    epochs = attempt.epochs[1:] or attempt.epochs
    for section, told in (("train", _WARM), ("evaluate", ("evaluate",))):
        counted = [epoch for epoch in epochs if section in epoch.settle_s]
        waited = _middle(epoch.settle_s[section] for epoch in counted)
        took = _middle(_seconds(epoch, told) for epoch in counted)
        if waited > max(SETTLE_LEAST_S, SETTLED * took):
            yield Finding(
                UNSYNCHRONISED,
                f"when the clock of `{section}` had stopped ({took:.3g} s an epoch), the device worked on for "
                f"{waited:.3g} s",
                "do not trust its times: the device's `synchronize` has to wait for all work",
                {"share": waited / took if took else float(len(counted)), "settle_s": waited, "section_s": took},
            )
            return
        counted = [epoch for epoch in epochs if section in epoch.device_s]
        device = _middle(epoch.device_s[section] for epoch in counted)
        took = _middle(_seconds(epoch, ("compile", *told)) for epoch in counted)
        if device > took * (1 + BEYOND) + BEYOND_LEAST_S:
            yield Finding(
                UNSYNCHRONISED,
                f"`{section}` took {took:.3g} s an epoch by the host's clock and {device:.3g} s by the device's own",
                "do not trust its times: the device's `synchronize` has to wait for all work",
                {"share": device / took - 1 if took else float(len(counted)), "device_s": device, "section_s": took},
            )
            return


def _middle(values: Iterable[float]) -> float:
    found = list(values)
    return median(found) if found else 0.0


def _seconds(epoch: Epoch, sections: Iterable[str]) -> float:
    return sum(epoch.ledger.get(name, 0.0) for name in sections)


def _machine_drift(attempt: Attempt, drifts: Iterable[Drift]) -> Iterator[Finding]:
    touching = [drift for drift in drifts if attempt.key in drift.keys]
    if touching:
        worst = max(touching, key=lambda drift: drift.slower)
        yield Finding(
            MACHINE_DRIFT,
            f"a job that is always the same took up to {worst.slower:.2f} × as long beside it (noise: "
            f"{1 + worst.noise:.2f} ×)",
            "run it again with `--fresh` when the machine is quiet and cool, with more `repeats`",
            {"slower": worst.slower, "noise": worst.noise},
        )


_LOOKS: tuple[Callable[[Attempt], Iterable[Finding]], ...] = (
    conditions.few_threads,
    conditions.busy_host,
    conditions.steal,
    _input_bound,
    _short_warmup,
    _unsynchronised,
    conditions.clock_drift,
    conditions.limited_clocks,
    conditions.niceness,
    conditions.no_audit,
    conditions.resumed,
)


def by_code(found: Iterable[Finding]) -> dict[str, list[Finding]]:
    """The findings of several attempts by their codes, the worst of each first; what makes ratios doubtful first."""
    groups: dict[str, list[Finding]] = {}
    for finding in sorted(found, key=lambda finding: finding.code in NOTES):
        groups.setdefault(finding.code, []).append(finding)
    return {code: sorted(group, key=lambda finding: -finding.degree) for code, group in groups.items()}

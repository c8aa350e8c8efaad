"""Diagnosis of an attempt: findings with evidence, magnitude and remedy.

They are derived from the events of the attempt: its ledgers, runtime conditions and audit, and the cross-checks of its
clock. A trial on a quiet machine has none. That a run is bound by overhead rather than the device is a result
(`raybench.checks.roofline.judge`) and not a finding, because it holds for the job on any machine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median

from raybench.analysis.diagnostics.concurrent_runs import concurrent_runs_of
from raybench.analysis.diagnostics.effects import compare_effects
from raybench.analysis.diagnostics.finding import Context, Finding, Observation, detects, kinds, only_a_note
from raybench.analysis.statistics.change_point import BATCHES, SlowStart, slow_starts
from raybench.checks.roofline.judge import ENOUGH, input_share
from raybench.core.status import TrialStatus
from raybench.results import timing
from raybench.results.attempt import Attempt, Key, latest
from raybench.results.epoch import Epoch

__all__ = ["Finding", "by_code", "diagnose_all", "finding_codes", "findings"]

SETTLED = 0.02
"""Largest fraction of a section's time for fetching its last value afterwards.

With a clock that waits for the device nothing is left to wait for, and a fetch takes microseconds.
"""

SETTLE_LEAST_S = 0.01
"""A fetch up to this duration is accepted, however short the section.

On cores that others used, TensorFlow and torch_xla took up to 4 ms for a fetch with nothing left to wait for.
"""

BEYOND = 0.01
"""Largest fraction by which the device's clock may exceed the ledger.

It covers rounding of a ledger's sum.
"""

BEYOND_LEAST_S = 0.001
"""Absolute tolerance between the device's clock and the ledger, in seconds.

Two clocks are read some microseconds apart, and events have a resolution of 0.5 µs.
"""

MOST_WAITED = 0.99
"""Largest waiting fraction used when estimating its cost."""

_WARM = ("train", "input_wait")


def findings(attempt: Attempt, context: Context | None = None) -> tuple[Finding, ...]:
    """Return all findings of one attempt, possible cautions first.

    Args:
        attempt: running or ended; one without epochs only has findings about its conditions.
        context: information from outside the attempt (`diagnose_all`).
    """
    if not attempt.attempt:
        return ()
    context = context or Context()
    all_findings = [
        kind.finding(observation) for kind in kinds().values() for observation in kind.detector(attempt, context)
    ]
    return tuple(sorted(all_findings, key=lambda finding: only_a_note(finding.code)))


def finding_codes(attempt: Attempt) -> str | None:
    """Return the comma-separated finding codes of an ended attempt.

    Only its own events are used.
    """
    has_ended = attempt.status is not None
    return ",".join(finding.code for finding in findings(attempt)) or None if has_ended else None


def diagnose_all(
    attempts: Iterable[Attempt],
    apart: Mapping[Key, Observation] | None = None,
    axes: Iterable[str] = (),
    machines: Mapping[Key, Mapping[str, Observation]] | None = None,
) -> dict[Key, tuple[Finding, ...]]:
    """Return the findings of every attempt, in the context of all others.

    Args:
        attempts: of one grid.
        axes: see `Context`.
        apart: `Context.other_sessions`.
        machines: `Context.other_machines`.
    """
    all_attempts = list(attempts)
    neighbours = concurrent_runs_of(all_attempts)
    axes = list(axes)
    varied_axes = frozenset(axes)
    effects = compare_effects(latest(all_attempts).values(), axes)
    findings_by_key = {
        attempt.key: findings(
            attempt, Context(neighbours[attempt.key], apart or {}, machines or {}, varied_axes, effects)
        )
        for attempt in all_attempts
    }
    completed = [attempt for attempt in all_attempts if attempt.status == TrialStatus.COMPLETED]
    repeats = Counter(attempt.cell_id for attempt in completed)
    code_counts = Counter(
        (attempt.cell_id, code)
        for attempt in completed
        for code in {finding.code for finding in findings_by_key[attempt.key]}
    )
    recurring = [code for code, kind in kinds().items() if kind.recurs]
    for attempt in all_attempts:
        runs = repeats[attempt.cell_id]
        rare = {code for code in recurring if runs > 1 and code_counts[attempt.cell_id, code] <= runs / 2}
        findings_by_key[attempt.key] = tuple(
            finding for finding in findings_by_key[attempt.key] if finding.code not in rare
        )
    return findings_by_key


@detects(
    "short_warmup",
    condition="steps after the warm-up (epochs, if steps are not timed) began slow: a change point that chance "
    "makes in one run of 1000 and that lengthens the run by 2%, in most repeats of the cell",
    bias="how much that lengthens the run",
    did="was still getting faster after the warm-up",
    measures="a part of its warm-up, not its steady pace",
    remedy="set more `warmup_epochs`",
    recurs=True,
)
def short_warmup(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect a slow start.

    Uses the times of steps if they were recorded, else those of epochs.
    """
    found = _slow_starts([attempt])[0]
    if found is None:
        return
    (unit, start), epochs = found, attempt.steady
    # Up to the end of the epoch of the change, whose position is known to within a batch.
    until = attempt.warmup_epochs + max(1, math.ceil((start.part - 1 / BATCHES) * len(epochs)))
    last_epoch = epochs[-1].epoch
    epochs_hint = f" and `epochs` above {last_epoch}" if until >= last_epoch else ""
    yield Observation(
        f"after the warm-up, its {unit} took {start.slower:.2f}x as long as later, until epoch {until} of {last_epoch}",
        {"excess": start.excess, "slower": start.slower, "part": start.part, "p": start.p},
        too_long=start.excess,
        remedy=f"set `warmup_epochs: {until}`{epochs_hint}",
    )


def _slow_starts(attempts: Sequence[Attempt]) -> list[tuple[str, SlowStart] | None]:
    """Return the slow start of each attempt, with "steps" or "epochs" as the unit of its times."""
    series: dict[str, list[Sequence[float]]] = {"steps": [], "epochs": []}
    for attempt in attempts:
        step_times = [epoch.step_s for epoch in attempt.steady]
        series["steps"].append(list(chain(*step_times)) if all(step_times) else ())
        series["epochs"].append(timing.steady_seconds(attempt) if attempt.steady else ())
    found = {unit: slow_starts(times) for unit, times in series.items()}
    return [
        ("steps", by_steps) if by_steps else ("epochs", by_epochs) if by_epochs else None
        for by_steps, by_epochs in zip(found["steps"], found["epochs"], strict=True)
    ]


@detects(
    "input_bound",
    condition=f"the run waited for input during {ENOUGH:.0%} of the steady epochs",
    bias="that waiting",
    did="waited for input",
    measures="the host that feeds it, not the device",
    remedy="set `input: device` if the data fit on the device; load faster in your own training loop, for example with "
    "more workers of a `DataLoader`",
)
def input_bound(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect waiting for the next batch during the steady epochs."""
    share = input_share(attempt)
    if share is not None and share >= ENOUGH:
        says = f"it waited for input during {share:.0%} of the steady epochs"
        yield Observation(
            says,
            {"share": share},
            too_long=share / (1 - min(share, MOST_WAITED)),
            remedy="load faster, for example with more workers of a `DataLoader`" if attempt.cell.has_own_loop else "",
        )


@detects(
    "unsynchronised_clock",
    condition="the device worked on after the clock had stopped, or its own clock says more than the host's",
    bias="none: it may be too short, by what the clock did not wait for",
    did="had a clock that did not wait for the device",
    measures="how fast work is submitted, not how fast it is done",
    remedy="do not trust its times: the device's `synchronize` has to wait for all work",
)
def unsynchronised(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect a clock that does not wait for the device.

    The first epoch is left out, because a fetch may have to be compiled there. The median over epochs is used: a host
    may be busy now and then, while a clock that does not wait never does.
    """
    epochs = attempt.epochs[1:] or attempt.epochs
    for section, ledger_names in (("train", _WARM), ("evaluate", ("evaluate",))):
        waited_s, took_s, count = _medians(epochs, "settle_s", section, ledger_names)
        if waited_s > max(SETTLE_LEAST_S, SETTLED * took_s):
            share = waited_s / took_s if took_s else float(count)
            yield Observation(
                f"when the clock of `{section}` had stopped ({took_s:.3g} s per epoch), the device worked on for "
                f"{waited_s:.3g} s",
                {"share": share, "settle_s": waited_s, "section_s": took_s},
                too_short=share,
            )
            return
        device, took_s, count = _medians(epochs, "device_s", section, ("compile", *ledger_names))
        if device > took_s * (1 + BEYOND) + BEYOND_LEAST_S:
            share = device / took_s - 1 if took_s else float(count)
            yield Observation(
                f"`{section}` took {took_s:.3g} s per epoch by the host's clock and {device:.3g} s by the device's own",
                {"share": share, "device_s": device, "section_s": took_s},
                too_short=share,
            )
            return


def _medians(epochs: Sequence[Epoch], clock: str, section: str, sections: Iterable[str]) -> tuple[float, float, int]:
    """Return the median seconds by another clock, those in the ledger, and the number of epochs with that clock."""
    known = [
        (seconds, sum(epoch.ledger.get(name, 0.0) for name in sections))
        for epoch in epochs
        if (seconds := getattr(epoch, clock).get(section)) is not None
    ]
    if not known:
        return 0.0, 0.0, 0
    return median(seconds for seconds, _ in known), median(seconds for _, seconds in known), len(known)


@detects(
    "different_session",
    condition="the run it is compared with (of the same repeat, on the same machine) had a different boot, kernel, "
    "driver or patch version of the framework, or the machine ran no trial for more than an hour in between",
    remedy="run both again in one session, with `--rerun`",
)
def different_session(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect a different session or software version than the baseline run's."""
    if observation := context.other_sessions.get(attempt.key):
        yield observation


def by_code(all_findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Group findings by code, possible cautions first, worst first within each code."""
    groups: dict[str, list[Finding]] = {}
    for finding in sorted(all_findings, key=lambda finding: only_a_note(finding.code)):
        groups.setdefault(finding.code, []).append(finding)
    return {code: sorted(group, key=lambda finding: -finding.degree) for code, group in groups.items()}

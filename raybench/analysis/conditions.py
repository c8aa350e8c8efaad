"""What an attempt's surroundings did to it: findings from its audit, its fairness record and its neighbours in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from raybench.analysis.audited import audited, gpu_shares, number, share
from raybench.analysis.neighbours import AT_WORK, Beside
from raybench.analysis.results import Attempt
from raybench.devices import hosted

THROTTLED, LIMITED_CLOCKS, BUSY_HOST, CORES_SHARED = "throttled", "limited_clocks", "busy_host", "cores_shared"
FEW_THREADS, CLOCK_DRIFT, STEAL, NICENESS, NO_AUDIT = "few_threads", "clock_drift", "steal", "niceness", "no_audit"
RESUMED = "resumed"

SLOWED = frozenset({"thermal", "hardware_thermal", "hardware_slowdown", "power_brake"})
"""Reasons for which a GPU slows down because it is too hot or short of power (`raybench.audit.nvidia.REASONS`)."""

LIMITED = frozenset({"power_cap", "applications_clocks", "display_clocks", "sync_boost"})
"""Reasons that are limits which somebody, or the maker, has set: a card at its power limit is as it is sold."""

THROTTLED_TIME = 0.05
"""The part of the epochs' time in which a GPU may be throttled: one sample in twenty."""

SLOWER_CLOCK = 0.85
"""Of the frequency that cores had at first, or that the same job's cores have elsewhere: below it they are throttled.
Frequencies under the same load differ by some percent from time to time; heat and power limits take more."""

BUSY = 0.1
"""The part of a trial's cores that others may take: the system, Ray and the sampler take a few percent of two."""

BUSY_CORES = 0.5
"""The same in cores, for many of them: work that is divided evenly waits for the one core that somebody else keeps
half busy."""

STOLEN = 0.02
"""The part of a trial's cores that a hypervisor may give to others."""

WALL_DRIFT = 1e-3
"""The part by which the wall clock may go faster or slower than the monotonic one: time servers correct a clock by half
of this at most, unless they set it."""

WALL_DRIFT_LEAST_S = 0.02
"""What two readings of two clocks may be apart for nothing where a process is interrupted between them."""

OVERLAP = 0.01
"""The part of an attempt's time that others may run beside it: what one takes to end while the next begins."""


@dataclass(frozen=True)
class Finding:
    """Something about an attempt that its numbers have to be read with.

    Attributes:
        code: what it is, in a word for machines (`raybench.analysis.findings.DOUBTS_RATIO`, `NOTES`).
        says: what was seen, about one run ("it …", or without a subject).
        remedy: what to do about it.
        evidence: the numbers behind it; the first is the one that was judged, and the larger it is the worse.
    """

    code: str
    says: str
    remedy: str
    evidence: Mapping[str, float]

    @property
    def degree(self) -> float:
        """How bad it is, among findings of the same code."""
        return next(iter(self.evidence.values()), 0.0)

    @property
    def name(self) -> str:
        """The code as words."""
        return self.code.replace("_", " ")


def throttled(attempt: Attempt, beside: Beside | None = None) -> Iterator[Finding]:
    """GPUs that were slowed down, or cores whose frequency fell."""
    shares = gpu_shares(attempt, SLOWED)
    worst = max(shares, key=lambda reason: shares[reason], default="")
    if worst and shares[worst] >= THROTTLED_TIME:
        yield Finding(
            THROTTLED,
            f"its GPU was slowed down ({worst.replace('_', ' ')}) during {shares[worst]:.0%} of the epochs",
            "cool it, or give it the power it is made for, and run again",
            {"share": shares[worst]},
        )
        return
    first, last = audited(attempt, "host", "mhz", "first"), audited(attempt, "host", "mhz", "last")
    usual = max(filter(None, [first, beside.mhz if beside else None]), default=None)
    if last and usual and last < SLOWER_CLOCK * usual and share(attempt, "own_cpu_s") >= AT_WORK:
        where = "at first" if usual == first else "in another run"
        yield Finding(
            THROTTLED,
            f"its cores ended at {last:.0f} MHz, after {usual:.0f} {where}",
            "cool the machine and look at its power settings, and run again",
            {"slower": usual / last, "mhz": last, "usual_mhz": usual},
        )


def limited_clocks(attempt: Attempt) -> Iterator[Finding]:
    """GPUs that ran at a limit that was set for them."""
    shares = gpu_shares(attempt, LIMITED)
    worst = max(shares, key=lambda reason: shares[reason], default="")
    if worst and shares[worst] >= THROTTLED_TIME:
        yield Finding(
            LIMITED_CLOCKS,
            f"its GPU ran at a limit that is set for it ({worst.replace('_', ' ')}) during {shares[worst]:.0%} of the "
            "epochs",
            "see whether `nvidia-smi -q -d POWER,CLOCK` shows the maker's limits",
            {"share": shares[worst]},
        )


def busy_host(attempt: Attempt) -> Iterator[Finding]:
    """Other processes on the trial's cores, while its epochs ran."""
    part, cores = share(attempt, "other_cpu_s"), audited(attempt, "host", "cores") or 0.0
    if part >= BUSY or part * cores >= BUSY_CORES:
        yield Finding(
            BUSY_HOST,
            f"other processes kept {part * cores:.2g} of its {cores:.0f} core{'s' if cores > 1 else ''} busy during "
            "the epochs",
            "stop what else runs on the machine, and run again with `--fresh`",
            {"share": part, "cores": part * cores},
        )


def steal(attempt: Attempt) -> Iterator[Finding]:
    """Time that a hypervisor took from the trial's cores."""
    part = share(attempt, "steal_s")
    if part >= STOLEN:
        yield Finding(
            STEAL,
            f"the hypervisor gave {part:.0%} of its cores' time to other machines",
            "use a machine with cores of its own, or more `repeats` at other times",
            {"share": part},
        )


def cores_shared(attempt: Attempt, beside: Beside | None = None) -> Iterator[Finding]:
    """Other trials at the same time on the same host.

    Where the others are not known, that the trial had only a part of the machine, and others might run.
    """
    remedy = "leave `cpus` out, so that each trial has the machine to itself"
    if beside is None:
        if attempt.fairness.get("exclusive") is False:
            says = "it had a part of its machine, and other trials may have run beside it"
            yield Finding(CORES_SHARED, says, remedy, {"overlap": 1.0})
    elif beside.overlap > OVERLAP:
        which = "its cores" if beside.same_cores else "its machine"
        times = f"{beside.others} other run{'s' if beside.others > 1 else ''}"
        yield Finding(
            CORES_SHARED,
            f"it shared {which} with {times} during {beside.overlap:.0%} of its time",
            remedy,
            {"overlap": beside.overlap, "others": float(beside.others), "same_cores": float(beside.same_cores)},
        )


def few_threads(attempt: Attempt) -> Iterator[Finding]:
    """Fewer threads than the trial, or its machine, has cores, where the host computes."""
    device = attempt.cell.get("device", {})
    if not isinstance(device, Mapping) or not hosted(str(device.get("kind"))):
        return
    threads = number(attempt.fairness.get("threads")) or number(device.get("threads"))
    own = number(device.get("count")) or 0.0
    cores = max(own, number(attempt.machine.get("cores")) or 0.0)
    if threads and threads < cores:
        where = f"{cores:.0f} cores" if own == cores else f"{own:.0f} of its machine's {cores:.0f} cores"
        yield Finding(
            FEW_THREADS,
            f"{threads:.0f} thread{'s' if threads > 1 else ''} on {where}",
            "leave `threads` and `cpus` out, or take it for what so many cores do",
            {"cores_a_thread": cores / threads, "threads": threads, "cores": cores},
        )


def clock_drift(attempt: Attempt) -> Iterator[Finding]:
    """A wall clock that went unlike the monotonic one."""
    drift, whole = audited(attempt, "clock", "drift_s"), audited(attempt, "clock", "seconds")
    if drift is not None and whole and abs(drift) > max(WALL_DRIFT_LEAST_S, WALL_DRIFT * whole):
        yield Finding(
            CLOCK_DRIFT,
            f"in {whole:.3g} s its wall clock went {abs(drift):.2g} s {'ahead of' if drift > 0 else 'behind'} the "
            "monotonic one",
            "see what sets the machine's clock, and whether it was suspended",
            {"share": abs(drift) / whole, "drift_s": drift, "seconds": whole},
        )


def niceness(attempt: Attempt) -> Iterator[Finding]:
    """A trial that lets others go first."""
    nice = number(attempt.fairness.get("niceness"))
    if nice is not None and nice > 0:
        yield Finding(NICENESS, f"it ran with niceness {nice:.0f}", "start raybench without `nice`", {"niceness": nice})


def no_audit(attempt: Attempt) -> Iterator[Finding]:
    """Sensors that could not be read: what they would have shown is not known."""
    missing = (attempt.audit or {}).get("missing")
    if isinstance(missing, list) and missing:
        says = "not everything around it could be read: " + "; ".join(map(str, missing))
        yield Finding(NO_AUDIT, says, "mend that, if it is to be known", {"missing": float(len(missing))})


def resumed(attempt: Attempt) -> Iterator[Finding]:
    """Training that another process went on with: its times are those of several, and of several loads and builds."""
    if attempt.gaps:
        after = " and ".join(map(str, attempt.gaps))
        epochs = "epochs" if len(attempt.gaps) > 1 else "epoch"
        yield Finding(
            RESUMED,
            f"it was resumed from a checkpoint after {epochs} {after}, in another process",
            "run it with `--fresh`, if its times are to be those of one process",
            {"gaps": float(len(attempt.gaps))},
        )

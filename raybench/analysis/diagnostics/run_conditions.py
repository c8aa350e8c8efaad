"""Findings about an attempt's environment: audit, runtime conditions and concurrent runs."""

from __future__ import annotations

from collections.abc import Iterator

from raybench.analysis.diagnostics.audit_values import audited, gpu_shares, number, share, unmeasured, window
from raybench.analysis.diagnostics.concurrent_runs import AT_WORK
from raybench.analysis.diagnostics.finding import Context, Observation, detects
from raybench.devices import hosted
from raybench.monitoring.summary import LEAST_S
from raybench.results import energy
from raybench.results.attempt import Attempt

SLOWED = frozenset({"thermal", "hardware_thermal", "hardware_slowdown", "power_brake"})
"""Reasons for a GPU to slow down by heat or low power.

They are some of `raybench.monitoring.nvidia.REASONS`.
"""

LIMITED = frozenset({"power_cap", "applications_clocks", "display_clocks", "sync_boost"})
"""Reasons that are limits set by an administrator or the manufacturer.

Running at its power limit is normal for a card.
"""

THROTTLED_TIME = 0.05
"""Largest fraction of the epochs' time with a throttled GPU.

It is one sample in twenty.
"""

SLOWER_CLOCK = 0.85
"""Cores count as throttled below this fraction of their usual frequency.

The usual frequency is their first one, or that of the same job in other runs. Frequencies under the same load vary by
some percent; heat and power limits reduce them further.
"""

BUSY = 0.1
"""Largest fraction of a trial's cores that other processes may use.

The system, Ray and the sampler take a few percent of two cores.
"""

BUSY_CORES = 0.5
"""The same in cores, for trials with many of them.

Evenly divided work waits for the slowest core, even if other processes keep only that one half busy.
"""

STOLEN = 0.05
"""Largest fraction of a trial's core time that a hypervisor may take."""

WALL_DRIFT = 1e-3
"""Largest relative drift between the wall clock and the monotonic clock.

Time servers adjust a clock by at most half of this, unless they step it.
"""

WALL_DRIFT_LEAST_S = 0.02
"""Absolute tolerance in seconds.

A process may be interrupted between reading the two clocks.
"""

SHARED_ENERGY = 0.1
"""Largest fraction of the processor time on the CPU's sockets that other processes may use.

RAPL counts the energy of whole sockets. The system, Ray and the sampler take a few percent of two cores.
"""

OVERLAP = 0.01
"""Largest fraction of an attempt's time with other trials running.

The end of one trial overlaps the start of the next.
"""

MOST_TAKEN = 0.99
"""Largest fraction of shared cores used when estimating the cost."""


@detects(
    "few_threads",
    condition="the host computes, with fewer threads than its machine has cores, and the grid does not compare "
    "`threads` or `cpus`",
    bias="the ratio of cores to threads",
    did="ran with fewer threads than cores",
    measures="a part of the processor, not the whole",
    remedy="remove `threads` and `cpus` from the grid file to use all cores",
    of_hardware=True,
)
def few_threads(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect fewer threads than cores of the trial or its machine.

    Applies only if the host computes and neither `threads` nor `cpus` is an axis of the grid. The possible gain is at
    most the ratio of cores to threads.
    """
    if not _is_hosted(attempt) or context.axes & {"threads", "cpus"}:
        return
    threads = number(attempt.runtime_conditions.get("threads")) or number(attempt.cell.device.threads)
    own_cores = number(attempt.cell.device.count) or 0.0
    cores = max(own_cores, number(attempt.machine.get("cores")) or 0.0)
    if threads and 0 < threads < cores:
        where = f"{cores:.0f} cores" if own_cores == cores else f"{own_cores:.0f} of its machine's {cores:.0f} cores"
        yield Observation(
            f"{threads:.0f} thread{'s' if threads > 1 else ''} on {where}",
            {"cores_a_thread": cores / threads, "threads": threads, "cores": cores},
            too_long=cores / threads - 1,
        )


@detects(
    "busy_host",
    condition=f"other processes took {BUSY:.0%} of the trial's cores, or {BUSY_CORES} cores, during the epochs",
    bias="the CPU time that they took; twice that if training runs on the CPU",
    did="shared cores with other processes",
    measures="the remaining cores",
    remedy="run again with `--rerun` on a quiet machine; if that is not possible, set OMP_WAIT_POLICY=passive for all "
    "runs, as threads of OpenMP otherwise spin while they wait for a core",
)
def busy_host(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect other processes on the trial's cores during its epochs.

    Their cost is the time that they took and, if the host computes, as much again as they kept one core busy: evenly
    divided work waits for the slowest core.
    """
    busy_share, cores = share(attempt, "other_cpu_s"), audited(attempt, "host", "cores") or 0.0
    if busy_share < BUSY and busy_share * cores < BUSY_CORES:
        return
    says = (
        f"other programs used {busy_share * cores:.2g} of {cores:.0f} core{'s' if cores > 1 else ''} during "
        f"{window(attempt)}"
    )
    waiting = min(busy_share * cores, 1.0) if _is_hosted(attempt) else busy_share
    yield Observation(says, {"share": busy_share, "cores": busy_share * cores}, too_long=_lost(busy_share, waiting))


@detects(
    "steal",
    condition=f"a hypervisor gave {STOLEN:.0%} of the cores' time to others",
    bias="that share",
    did="lost time to other virtual machines",
    measures="the remaining cores",
    remedy="use a machine with dedicated cores, or more `repeats` at other times",
)
def steal(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect time that a hypervisor took from the trial's cores."""
    stolen_share = share(attempt, "steal_s")
    if stolen_share >= STOLEN:
        says = f"the hypervisor gave {stolen_share:.0%} of its cores' time to other machines"
        yield Observation(says, {"share": stolen_share}, too_long=_lost(stolen_share, stolen_share))


@detects(
    "load_unknown",
    condition=f"the trial took less than {LEAST_S:g} s: too short to measure other programs' use of its cores",
    remedy="use more or longer `epochs` to measure the load",
)
def load_unknown(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect a trial too short to measure the load on its cores.

    The load is that of other programs.
    """
    seconds = unmeasured(attempt)
    if seconds is not None:
        says = f"whether other programs used its cores is unknown: {seconds:.2g} s are too short to measure it"
        yield Observation(says, {"seconds": seconds})


@detects(
    "cores_shared",
    condition="other trials ran on the same machine at the same time",
    bias="the share of time in which they did",
    did="shared cores with other trials",
    measures="the remaining cores",
    remedy="remove `cpus` from the grid file, so that trials run one at a time",
)
def cores_shared(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect other trials at the same time on the same host.

    Each may have cost as much time as it overlapped. If the other trials are not known, the finding is that the trial
    had only a part of the machine, so that others might have run.
    """
    neighbours = context.neighbours
    if neighbours is None:
        if attempt.runtime_conditions.get("exclusive") is False:
            says = "it used a part of its machine, and other trials may have run at the same time"
            yield Observation(says, {"overlap": 1.0})
    elif neighbours.overlap > OVERLAP:
        which = "its cores" if neighbours.same_cores else "its machine"
        other_runs = f"{neighbours.others} other run{'s' if neighbours.others > 1 else ''}"
        yield Observation(
            f"it shared {which} with {other_runs} during {neighbours.overlap:.0%} of its time",
            {
                "overlap": neighbours.overlap,
                "others": float(neighbours.others),
                "same_cores": float(neighbours.same_cores),
            },
            too_long=neighbours.overlap,
        )


@detects(
    "throttled",
    condition=f"heat or too little power slowed a GPU down during {THROTTLED_TIME:.0%} of the epochs, or busy cores "
    f"ended {1 - SLOWER_CLOCK:.0%} below the frequency that they had at first or in other runs",
    bias="the share of time, or the ratio of frequencies",
    did="ran throttled",
    measures="a device slowed down by heat or power limits",
    remedy="improve cooling or power supply, and run again",
)
def throttled(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect throttled GPUs and falling core frequencies.

    The magnitude assumes that a throttled GPU has at least half its speed.
    """
    shares = gpu_shares(attempt, SLOWED)
    worst = max(shares, key=lambda reason: shares[reason], default="")
    if worst and shares[worst] >= THROTTLED_TIME:
        yield Observation(
            f"its GPU was slowed down ({worst.replace('_', ' ')}) during {shares[worst]:.0%} of the epochs",
            {"share": shares[worst]},
            too_long=shares[worst],
        )
        return
    first_mhz, last_mhz = audited(attempt, "host", "mhz", "first"), audited(attempt, "host", "mhz", "last")
    usual_mhz = max(filter(None, [first_mhz, context.neighbours.mhz if context.neighbours else None]), default=None)
    if last_mhz and usual_mhz and last_mhz < SLOWER_CLOCK * usual_mhz and share(attempt, "own_cpu_s") >= AT_WORK:
        where = "at the start" if usual_mhz == first_mhz else "in another run"
        yield Observation(
            f"its cores ended at {last_mhz:.0f} MHz, after {usual_mhz:.0f} {where}",
            {"slower": usual_mhz / last_mhz, "mhz": last_mhz, "usual_mhz": usual_mhz},
            too_long=usual_mhz / last_mhz - 1,
            remedy="check cooling and power settings of the machine, and run again",
        )


@detects(
    "clock_drift",
    condition=f"the wall clock and the monotonic clock were {WALL_DRIFT:.1%} apart",
    bias="that share, or too short by it",
    did="had a clock that ran fast or slow",
    measures="seconds of uncertain length",
    remedy="check the clock synchronization of the machine, and whether it was suspended",
)
def clock_drift(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect drift between the wall clock and the monotonic clock."""
    drift, elapsed_s = audited(attempt, "clock", "drift_s"), audited(attempt, "clock", "seconds")
    if drift is not None and elapsed_s and abs(drift) > max(WALL_DRIFT_LEAST_S, WALL_DRIFT * elapsed_s):
        drift_share = abs(drift) / elapsed_s
        yield Observation(
            f"in {elapsed_s:.3g} s the wall clock went {abs(drift):.2g} s {'ahead of' if drift > 0 else 'behind'} the "
            "monotonic clock",
            {"share": drift_share, "drift_s": drift, "seconds": elapsed_s},
            too_long=drift_share,
            too_short=drift_share,
        )


@detects(
    "limited_clocks",
    condition="a GPU ran at a power or clock limit that is set for it",
    remedy="compare the limits in `nvidia-smi -q -d POWER,CLOCK` with the default limits",
)
def limited_clocks(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect GPUs that ran at a configured limit."""
    shares = gpu_shares(attempt, LIMITED)
    worst = max(shares, key=lambda reason: shares[reason], default="")
    if worst and shares[worst] >= THROTTLED_TIME:
        limit = worst.replace("_", " ")
        says = f"its GPU ran at a configured limit ({limit}) during {shares[worst]:.0%} of the epochs"
        yield Observation(says, {"share": shares[worst]})


@detects(
    "energy_shared",
    condition=f"other processes took {SHARED_ENERGY:.0%} of the processor time on the sockets whose energy was "
    "measured",
    remedy="run trials one at a time on a quiet machine to measure their energy alone",
)
def energy_shared(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect other processes, such as a neighbour's trial, on the sockets whose energy was measured.

    Their energy is in that of the trial. It is a note, because no time is wrong by it.
    """
    part = energy.DEVICE if _is_hosted(attempt) else energy.HOST
    others = energy.others_share(attempt)
    if others is not None and others >= SHARED_ENERGY and energy.total(attempt, part) is not None:
        whose = "its energy" if part == energy.DEVICE else "the energy of its host"
        yield Observation(
            f"{whose} includes that of other programs, which used {others:.0%} of the busy processor time on its "
            "sockets",
            {"share": others},
        )


@detects(
    "niceness",
    condition="the trial ran with a niceness above 0",
    remedy="start raybench without `nice`",
)
def niceness(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect a trial with lowered scheduling priority."""
    nice = number(attempt.runtime_conditions.get("niceness"))
    if nice is not None and nice > 0:
        yield Observation(f"it ran with niceness {nice:.0f}", {"niceness": nice})


@detects(
    "no_audit",
    condition="sensors could not be read",
    remedy="grant access to these sensors to get this data",
)
def no_audit(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect sensors that could not be read."""
    missing = (attempt.audit or {}).get("missing")
    if isinstance(missing, list) and missing:
        says = "some sensors could not be read: " + "; ".join(map(str, missing))
        yield Observation(says, {"missing": float(len(missing))})


@detects(
    "resumed",
    condition="training was resumed from a checkpoint, in a new process",
    remedy="run it again with `--rerun` to get the times of a single process",
)
def resumed(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect training that was resumed in another process.

    Its times then include several processes, each with its own loading and building.
    """
    if attempt.gaps:
        gap_epochs = " and ".join(map(str, attempt.gaps))
        epochs = "epochs" if len(attempt.gaps) > 1 else "epoch"
        says = f"it was resumed from a checkpoint after {epochs} {gap_epochs}, in another process"
        yield Observation(says, {"gaps": float(len(attempt.gaps))})


def _is_hosted(attempt: Attempt) -> bool:
    """Return whether the trial computes on the host's cores."""
    return hosted(str(attempt.cell.device.kind))


def _lost(share_taken: float, waiting: float) -> float:
    """Return the relative slowdown if others took a fraction of the cores.

    Args:
        share_taken: the fraction of the cores that others took.
        waiting: the time spent waiting for these cores, in units of the recorded time.
    """
    return waiting / (1 - min(share_taken, MOST_TAKEN))

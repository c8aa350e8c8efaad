"""Runs that are compared with those of another machine: other versions, other data, another day.

Machines that never meet have no common session, so a difference may come from anything that changed in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from raybench.analysis.diagnostics.finding import Context, Observation, detects
from raybench.analysis.diagnostics.provenance import began, compared_runs, date_of, long_time
from raybench.analysis.grid_results import GridResults
from raybench.results.attempt import Attempt, Key

DAY_S = 86400.0
"""Time between two runs after which a machine's state may have changed, in seconds."""

VERSION, DATA, DAY = "other_version", "other_data", "other_day"


def compare_machines(results: GridResults) -> dict[Key, dict[str, Observation]]:
    """Compare completed runs with those of their baseline on other machines.

    Returns:
        Observations by attempt and by the code of the finding.
    """
    observations: dict[Key, dict[str, Observation]] = {}
    for run, other in compared_runs(results):
        if run.host.get("name") != other.host.get("name") and (found := dict(_differences(run, other))):
            observations[run.key] = found
    return observations


def _differences(run: Attempt, other: Attempt) -> Iterator[tuple[str, Observation]]:
    host, other_host = run.host.get("name"), other.host.get("name")
    framework, versions = run.cell.framework, [each.cell.engine.framework_version for each in (run, other)]
    if framework and framework == other.cell.framework and all(versions) and versions[0] != versions[1]:
        says = f"it used {framework} {versions[0]} on {host}, the run it is compared with {versions[1]} on {other_host}"
        yield VERSION, Observation(says, {"versions": 2.0})
    digests = [str(each.cell.data.digest or "").removeprefix("sha256:")[:8] for each in (run, other)]
    if run.cell.data.name == other.cell.data.name and all(digests) and digests[0] != digests[1]:
        says = f"its data have the digest {digests[0]} on {host}, those of the run it is compared with {digests[1]} on "
        yield DATA, Observation(f"{says}{other_host}", {"digests": 2.0})
    seconds = began(run) - began(other)
    if abs(seconds) > DAY_S:
        when = "after" if seconds > 0 else "before"
        dates = f"{date_of(run)} and {date_of(other)} UTC"
        distance = f"{long_time(abs(seconds))} {when} the run it is compared with on {other_host}"
        yield DAY, Observation(f"it started on {host} {distance} ({dates})", {"days": abs(seconds) / DAY_S})


def _of(code: str, attempt: Attempt, context: Context) -> Iterator[Observation]:
    observations: Mapping[str, Observation] = context.other_machines.get(attempt.key, {})
    if code in observations:
        yield observations[code]


@detects(
    VERSION,
    condition="the run it is compared with, on a different machine, used a different minor version of the framework",
    remedy="install the same version on both machines",
)
def other_version(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect another version of the framework on the baseline's machine."""
    yield from _of(VERSION, attempt, context)


@detects(
    DATA,
    condition="the run it is compared with, on a different machine, used data of the same name with a different digest",
    remedy="copy the data set from one machine to the other: accuracies on different data cannot be compared",
)
def other_data(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect other data on the baseline's machine."""
    yield from _of(DATA, attempt, context)


@detects(
    DAY,
    condition="the run it is compared with was on a different machine, more than a day earlier or later",
    remedy="run the grid on both machines on one day, so that the same versions and drivers are installed",
)
def other_day(attempt: Attempt, context: Context) -> Iterator[Observation]:
    """Detect runs on two machines that are more than a day apart."""
    yield from _of(DAY, attempt, context)

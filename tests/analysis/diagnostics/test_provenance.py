"""Runs that are compared and were different session: each reason on both sides of its rule, from made-up runs."""

from datetime import UTC, datetime, timedelta

import pytest
from support.grid_files import history_of
from support.made_up_grids import contract_events

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.diagnostics.provenance import find_different_sessions
from raybench.analysis.grid_results import GridResults
from raybench.core.cell import Cell
from raybench.reporting import build
from raybench.results.attempt import Attempt

BEGIN = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
CELLS = {name: f"{name:0<12}" for name in ("base", "other")}


def clock(minutes):
    return (BEGIN + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")


def ran(of, repeat, minutes, framework="torch", version="2.13.0", kind="cpu", driver=None, status="completed", **host):
    """A run of five minutes; keywords change its host."""
    cell = {"framework": framework, "device": {"kind": kind}, "engine": {"framework_version": version[:4]}}
    return Attempt(
        f"{CELLS[of]}-r{repeat}",
        1,
        cell=Cell.from_json(cell),
        host={"name": "node", "boot": "one", "kernel": "6.1.0", **host},
        versions={"python": "3.11.7", framework: version},
        hardware={"driver": driver},
        started=clock(minutes),
        ended=clock(minutes + 5),
        status=status,
    )


def found(runs, baseline=None, before=()):
    """What is found of each run, by its cell and repeat; `before` are attempts that were made again since."""
    cells = [PlannedCell(CELLS[name], {"device": name}, 3) for name in CELLS]
    latest = {run.trial: run for run in runs}
    results = GridResults("made up", "net", cells, latest, {"device": "base"} if baseline is None else baseline)
    names = {CELLS[name]: name for name in CELLS}
    return {
        f"{names[trial.split('-r')[0]]} {trial[-1]}": finding
        for (trial, _), finding in find_different_sessions(results, [*before, *runs]).items()
    }


def grid(start=0, names=("base", "other"), repeats=3, **how):
    """Repeat after repeat, six minutes a run."""
    return [
        ran(name, repeat, start + 6 * (repeat * len(names) + place), **how)
        for repeat in range(repeats)
        for place, name in enumerate(names)
    ]


def test_an_ordinary_grid_has_none():
    assert found(grid()) == {}


def test_a_long_trial_is_no_pause():
    base, other = ran("base", 0, 0), ran("other", 0, 905)
    base.ended = clock(900)
    assert found([base, other]) == {}


@pytest.mark.parametrize(("pause", "times"), [(60, 0), (70, 3)])
def test_long_pause_between_compared_runs(pause, times):
    """A pause of an hour, from the end of one run to the beginning of the next, is nothing; a longer one is."""
    runs = [*grid(names=("base",)), *grid(17 + pause, names=("other",))]
    told = found(runs)
    assert len(told) == times
    if times:
        assert told["other 0"].says == (
            "it started 1 hour after the run it is compared with (2026-11-21 10:27 and 2026-11-21 09:00 UTC), and the "
            "machine had no trial for more than 1 hour in between"
        )
        assert told["other 0"].evidence["hours"] == pytest.approx(87 / 60)


def test_the_machine_was_at_work_in_between():
    """With what was made again since, or with a cell that is compared with nothing."""
    runs = [ran("base", 0, 0), ran("other", 0, 120)]
    assert set(found(runs)) == {"other 0"}
    assert found(runs, before=[ran("other", 1, 55, status="failed")]) == {}
    assert found(runs, baseline={}) == {}


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"boot": "two"}, "the machine was rebooted"),
        ({"boot": "two", "kernel": "6.1.2"}, "the kernel changed from 6.1.0 to 6.1.2"),
        ({"version": "2.13.1"}, "torch changed from 2.13.0 to 2.13.1"),
        (
            {"driver": "550.54", "boot": "two"},
            "the machine was rebooted and the driver changed from 535.1 to 550.54",
        ),
    ],
)
def test_another_boot_kernel_driver_or_patch_version(how, says):
    told = found([ran("base", 0, 0, driver="535.1"), ran("other", 0, 10, **{"driver": "535.1", **how})])
    assert told["other 0"].says.endswith(f", and {says}")
    assert told["other 0"].says.startswith("it started 10 min after the run it is compared with (2026-11-21 09:10 and ")


@pytest.mark.parametrize(
    "how",
    [
        {"version": "2.13.0+cu128"},
        {"framework": "tensorflow", "version": "2.21.0"},
        {"version": "2.14.0"},
        {"name": "another", "boot": "two", "kernel": "5.15.0"},
        {"boot": "", "kernel": None},
        {"kind": "cuda", "driver": "550.54"},
    ],
    ids=["another build", "another framework", "another cell's version", "another host", "not told", "another device"],
)
def test_what_is_to_differ_does(how):
    assert found([ran("base", 0, 0, driver="535.1"), ran("other", 0, 10, **{"driver": "535.1", **how})]) == {}


def test_what_changed_for_both_is_no_finding():
    """Two repeats before another start of the machine and one after it; then one run alone that was made again."""
    runs = [*grid(repeats=2), *(ran(name, 2, 30 + place, boot="two") for place, name in enumerate(CELLS))]
    assert found(runs) == {}
    again = [run for run in runs if run.trial != f"{CELLS['other']}-r0"] + [ran("other", 0, 50, boot="two")]
    assert set(found(again)) == {"other 0"}


def test_before_its_baseline():
    told = found([ran("base", 0, 2 * 24 * 60, boot="two"), ran("other", 0, 0)])
    assert told["other 0"].says.startswith(
        "it started 2 days before the run it is compared with (2026-11-21 09:00 and "
    )


def test_the_nearest_run_where_no_repeat_is_the_same():
    assert found([ran("base", 1, 0, boot="two"), ran("base", 2, 8), ran("other", 0, 14)]) == {}


def test_runs_without_a_time_or_that_did_not_complete():
    lost = ran("other", 0, 5, boot="two")
    lost.started = None
    assert found([ran("base", 0, 0), lost]) == {}
    assert found([ran("base", 0, 0), ran("other", 0, 5, boot="two", status="oom")]) == {}


def test_the_report_notes_it():
    """The contract's grid as it was made in one go, and with one device after another start of the machine."""
    made = contract_events()
    for event in made:
        if event["event"] == "trial_started":
            event["cell"]["settings"]["decay"] = "coupled"
    report = build.from_history("g", history_of(made), None)
    assert "different_session" not in {code for row in report.results.rows for code in codes(row)}
    for event in made:
        if event["event"] == "trial_started" and event["profile"] == "other":
            event["host"] = {**event["host"], "boot": "another"}
    report = build.from_history("g", history_of(made), None)
    base, other = report.results.rows
    assert codes(base) == set() and codes(other) == {"different_session"}
    assert other.cautions == (), "nobody knows how much it changes: no letter"
    (remark,) = [remark for remark in report.remarks if remark.says.startswith("different session")]
    assert (remark.kind, remark.runs) == ("note", 3)
    assert remark.says.startswith("different session in 3 runs: it started ")
    assert remark.remedy == "Run both again in one session, with `--rerun`."


def codes(row):
    return {finding.code for told in row.findings.values() for finding in told}

from dataclasses import replace

import pytest
from support.made_up_grids import cell_of, made_up, told
from support.report_grids import CPU, GPU, REPORTS, Grid, audited

from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.pairs import pairs
from raybench.analysis.remarks import (
    BaselineStandInFact,
    EnergyMissingFact,
    FurtherRepeatsFact,
    IdenticalTimesFact,
    IncompleteTrialsFact,
    OtherTrialsFact,
    PerExampleCellsFact,
    SingleRunCellsFact,
    WarmupTimesFact,
    finding_facts,
    remarks,
)
from raybench.results.attempt import attempts, latest


def of(results):
    compared = pairs(results.cells, results.latest, results.compared_with)
    return list(remarks(results, compared))


def with_findings(*found):
    """A grid of which each run of the CPU has one of these findings."""
    results = made_up()
    own = [run for run in results.latest.values() if run.profile == "cpu"]
    return replace(results, findings={run.key: (each,) for run, each in zip(own, found, strict=True)})


def test_a_quiet_grid_has_none():
    results = made_up()
    assert of(results) == [] and finding_facts(results.rows) == []


@pytest.mark.parametrize(("repeats", "expected"), [(1, [SingleRunCellsFact(2)]), (2, [])])
def test_cells_with_one_run(repeats, expected):
    assert of(made_up(repeats=repeats)) == expected
    assert of(replace(made_up(repeats=repeats), name="x~smoke")) == [], "a smoke run has no interval anyway"


def test_a_stand_in_for_the_baseline():
    lost = {("cpu", 256, 5e-4, repeat): "failed" for repeat in range(3)}
    assert of(made_up(("cpu", "gpu", "tpu"), ends=lost)) == [
        IncompleteTrialsFact(9, 6, {"failed": 3}),
        BaselineStandInFact({"device": "cpu"}, {"device": "gpu"}),
    ]


def test_trials_that_are_left_aside():
    results = made_up()
    other = latest(attempts(told(cell_of("mps"), 0, [1.0], [0.5])).values())
    fewer = [results.cells[0], replace(results.cells[1], repeats=2)]
    more = replace(results, cells=fewer, latest={**results.latest, **other})
    assert of(more) == [OtherTrialsFact(1, "made_up"), FurtherRepeatsFact(1)]


def test_epochs_of_other_sizes_rounded_times_and_warm_up_epochs():
    def tenth(event):
        if event["event"] == "epoch_ended":
            event |= {"steps": 10, "examples": 2560}

    grid = Grid().add("cpu", CPU).add("gpu", GPU, event=tenth).add("tpu", (2.0, 2.0, 2.0))
    assert of(grid.report().results) == [PerExampleCellsFact(1), IdenticalTimesFact(1)]
    assert of(made_up(epochs=1)) == [WarmupTimesFact()]


DENIED = "energy of the CPU: no permission to read energy_uj"
NO_COUNTER = "energy of the CPU: this machine has no RAPL counters"


def with_energy(devices, joules=(), **more):
    """Results of which each device has reasons in its audit, and some of them joules."""
    results = made_up(tuple(devices), epochs=3, repeats=2)
    extended = {}
    for name, run in results.latest.items():
        missing, no_counter = devices[run.profile]
        reasons = {"missing": [*missing, *no_counter], "no_counter": no_counter}
        audit = audited(run.trial, 1.0, 3, **reasons) if run.profile in joules else {"energy": reasons}
        extended[name] = replace(run, audit=audit)
    return replace(results, latest=extended, **more)


def test_energy_that_could_be_measured_has_one_note_for_each_reason():
    short = [f"energy: the epochs took {seconds} s" for seconds in ("2", "2.5")]
    results = with_energy({"cpu": ([DENIED, *short], []), "gpu": ([DENIED], [])})
    assert of(results) == [EnergyMissingFact(DENIED, 4), EnergyMissingFact(short[0], 4)]
    assert of(replace(results, name="x~smoke")) == [], "a smoke run is too short for it"
    assert of(with_energy({"cpu": ([DENIED], []), "gpu": ([], [])}, joules=["cpu", "gpu"])) == [], "nothing is missing"


def test_hardware_without_a_counter_is_a_note_beside_measured_energy_or_a_price():
    nowhere = {"cpu": ([], [NO_COUNTER]), "gpu": ([], [NO_COUNTER])}
    assert of(with_energy(nowhere)) == []
    assert of(with_energy(nowhere, joules=["gpu"])) == [EnergyMissingFact(NO_COUNTER, 2)], "those of the CPU"
    for name in ("price_per_kwh", "gco2_per_kwh"):
        assert of(with_energy(nowhere, **{name: 0.0})) == [EnergyMissingFact(NO_COUNTER, 4)]


def test_the_worst_of_a_finding_stands_for_all_and_has_a_letter_if_it_could_change_the_verdict():
    seen = [
        Finding("throttled", f"it was {size}", "cool it", {"share": size}, too_long=size) for size in (1.0, 9.0, 4.0)
    ]
    (fact,) = finding_facts(with_findings(*seen).rows)
    assert (fact.mark, fact.message, fact.varies, fact.runs, fact.too_long) == ("a", "it was 9.0", True, 3, 9.0)
    small = [replace(each, too_long=0.01) for each in seen]
    (fact,) = finding_facts(with_findings(*small).rows)
    assert (fact.mark, fact.too_long, fact.too_short) == ("", 0.01, 0.0)


def test_of_a_report_notes_change_no_verdict():
    remarks = REPORTS["stand_in_baseline"]().remarks
    assert [remark.kind for remark in remarks] == ["other", "other", "note", "note"]
    assert [bool(remark.remedy) for remark in remarks] == [False, False, True, False]

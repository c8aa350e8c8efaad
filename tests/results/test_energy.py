"""Energy of an attempt, and its place in tables and MLflow."""

from dataclasses import replace

import pytest
from support.attempts import attempts
from support.made_up_grids import cell_of, told

from raybench.core import events
from raybench.reporting.results import Results
from raybench.results.epochs import Epochs
from raybench.results.run_table import latest
from raybench.sources import GridSource
from raybench.tracking.mapping import summary_metrics


def table(run, name="trials"):
    return getattr(Results([GridSource("g", [run])]), name)


def audited(trial, joules, epochs, **energy):
    """The audit of a trial whose epochs all took the same energy, and its host a tenth of it."""

    def stretch(count):
        return {"count": count, "seconds": 10.0 * count, "device_j": joules * count, "host_j": joules * count / 10}

    parts = {"epochs": stretch(epochs), "each": {str(number + 1): stretch(1) for number in range(epochs)}}
    if epochs > 1:
        parts["steady"] = stretch(epochs - 1)
    return events.trial_audited(trial, 1, energy=parts | {"missing": []} | energy)


def trial(*audits, epochs=4):
    curve = [0.4, 0.6, 0.7, 0.8][:epochs]
    own = told(cell_of("gpu", 256, epochs=4), 0, [1.0] * epochs, curve, "completed", None, "gpu", 2.0)
    audits = [{**audit, "trial": own[0]["trial"]} for audit in audits]
    (attempt,) = latest(attempts([*own, *audits]).values()).values()
    return attempt


def test_joules_of_epochs_examples_and_the_host():
    run = trial(audited("", 120.0, 4))
    examples = run.epochs[-1].examples
    assert run.energy_j == 480 and run.host_energy_j == pytest.approx(48)
    assert run.steady_energy_j == 120 and run.example_energy_j == pytest.approx(120 / examples)
    assert run.target_energy_j is None and run.unmetered == []


def test_joules_of_an_example_are_those_of_a_full_epoch():
    run = trial(audited("", 120.0, 4))
    *full, last = run.epochs
    ended = Epochs([*full, replace(last, examples=last.examples // 2, partial=True)])
    assert run.changed(epochs=ended).example_energy_j == run.example_energy_j


def test_energy_without_steady_part_is_unknown():
    whole = {"epochs": {"count": 4, "device_j": 100.0}, "each": {}, "missing": []}
    assert trial(events.trial_audited("", 1, energy=whole)).steady_energy_j is None


@pytest.mark.parametrize("damaged", [0, -3.0, "many", None, True, [1]])
def test_damaged_joules_are_not_measured(damaged):
    whole = {"epochs": {"count": 4, "device_j": damaged}, "each": [], "steady": 7}
    run = trial(events.trial_audited("", 1, energy=whole))
    assert run.energy_j is None and run.steady_energy_j is None and table(run, "epochs")["energy_j"].isna().all()


def test_tables_and_mlflow_have_the_measured_joules():
    run = trial(audited("", 120.0, 4))
    row, epochs = table(run).iloc[0], table(run, "epochs")
    assert (row["energy_j"], row["steady_energy_j"], row["steady_host_energy_j"]) == (480, 120, 12)
    assert epochs["energy_j"].tolist() == [120] * 4 and epochs["host_energy_j"].tolist() == [12] * 4
    assert summary_metrics(run)["summary/steady_energy_j"] == 120


def test_unmeasured_energy_has_a_reason():
    run = trial(events.trial_audited("", 1, energy={"missing": ["no counters", "no permission"]}))
    row = table(run).iloc[0]
    assert row["energy_missing"] == "no counters; no permission" and row.isna()["energy_j"]
    assert "summary/steady_energy_j" not in summary_metrics(run)

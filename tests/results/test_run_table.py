"""The table of runs: what is declared once is everywhere, and a reader of logs needs nothing but columns."""

import pytest
from support.declarations import printed_with

from raybench.reporting.results import Results
from raybench.results.epochs import Epochs
from raybench.results.run_table import Run
from raybench.sources import GridSource
from raybench.sources.runs import run_of

COLUMN = """    pause_s = number("s", "longest pause", "ledger.pause", mlflow="summary/pause_s", head="pause, s")
"""
SHOWN = """
from raybench.reporting.report import as_json
from raybench.reporting.results import Results
from raybench.results.epochs import Epochs
from raybench.sources import GridSource
from raybench.sources.runs import run_of
from raybench.tracking.mapping import summary_metrics

def run(batch, repeat, pause):
    columns = {"epoch": [1, 2], "train_s": [2.0, 1.0 + batch / 10]}
    made = run_of(
        {"trial": f"b{batch}-r{repeat}", "status": "completed", "batch_size": batch}, Epochs.of_columns(columns)
    )
    made.ledger = {"pause": pause}
    return made

runs = [run(batch, repeat, pause) for batch, pauses in ((1, (2.0, 4.0, 9.0)), (2, (1.0, 1.0, 1.0)))
        for repeat, pause in enumerate(pauses)]
results = Results([GridSource("g", runs)])
print(json.dumps({
    "trials": results.trials["pause_s"].tolist(),
    "comparison": results.comparison["pause_s"].tolist(),
    "json": [each["medians"] for each in json.loads(as_json(results.report))["configurations"]],
    "text": "pause, s" in str(results),
    "html": "pause, s" in __import__("raybench.reporting.page", fromlist=["page"]).page(results.report),
    "mlflow": summary_metrics(runs[0])["summary/pause_s"],
    "described": results.columns.query("name == 'pause_s'")["meaning"].tolist(),
}))
"""


@pytest.mark.slow
def test_a_new_column_needs_no_other_edit():
    assert printed_with(COLUMN, "    other_s = number(", "raybench.results.run_table", SHOWN) == {
        "trials": [2, 4, 9, 1, 1, 1],
        "comparison": [4, 1],
        "json": [{"pause_s": 4}, {"pause_s": 1}],
        "text": True,
        "html": True,
        "mlflow": 2,
        "described": ["longest pause; median over runs", "longest pause"],
    }


def test_run_of_a_log_has_what_its_columns_say():
    values = {
        "trial": "a",
        "status": "completed",
        "framework": "torch",
        "device": "h200",
        "batch_size": 64,
        "wall_s": 9.0,
        "data_s": 0.5,
        "host": "node-1",
        "price_per_hour": 3600.0,
        "target_metric": "val/loss",
        "target_at_most": 0.5,
        "label": None,
    }
    columns = {"epoch": [1, 2, 3], "train_s": [3.0, 1.0, 2.0], "val/loss": [0.9, None, 0.4], "units/tokens": [8, 8, 8]}
    run = run_of(values, Epochs.of_columns(columns), {1: 5.0, 2: 2.0, 3: 4.0})
    row = Results([GridSource("g", [run])]).trials.iloc[0]
    assert {name: row[name] for name in values if values[name] is not None} == {n: v for n, v in values.items() if v}
    assert (run.steady_s, run.epochs_s, run.time_to_target_s, run.total_price) == (1.5, 6.0, 6.0, 9.0)
    assert (run.energy_j, run.steady_energy_j, run.target_energy_j) == (11.0, 3.0, 11.0)
    assert Run(trial="c-r0", host={"name": ""}).host_name is None, "not known"
    assert run.rates == {"tokens": pytest.approx(8 / 1.5)} and run.last_metrics == {"val/loss": 0.4}


def test_computed_columns_follow_a_changed_run():
    run = Run(trial="c-r1", wall=2.0)
    assert (run.total_s, run.repeat) == (2.0, 1)
    run.forget()
    run.wall = 3.0
    assert run.total_s == 3.0

"""What a CSV can say besides times: budget, metric and direction, axes, machines, dates, amounts, price, version."""

import json

import pytest

from raybench.core.options import ReportOptions
from raybench.errors import UsageError
from raybench.reporting import build
from raybench.reporting.page import page
from raybench.reporting.report import as_json

COLUMNS = {
    "params.kernel": ("a", "b"),
    "metric": ("val/thing", "val/thing"),
    "higher_is_better": ("val/thing", "val/thing"),
    "host": ("h1", "h1"),
    "date": ("2026-03-01T10:00:00Z", "2026-03-02"),
    "count": ("8", "16"),
    "nodes": ("1", "2"),
    "price": ("20", "40"),
    "version": ("v1", "v2"),
}


def write(path, epochs, **more):
    """Write three runs of each side, as a table of runs or of epochs."""
    columns = COLUMNS | more
    rows = [["trial", *columns, *(["epoch"] if epochs else []), "val/thing", "val/other", "train_s"]]
    for run in range(6):
        side = run % 2
        for epoch in range(1, epochs + 1) if epochs else (0,):
            own = [values[side] for values in columns.values()] + ([str(epoch)] if epoch else [])
            rows.append([f"t{run}", *own, str(0.5 + side / 10 + run / 1000), "0.9", str(100 - 10 * side + run)])
    path.write_text("\n".join(map(",".join, rows)))
    return str(path)


def report(path, **options):
    return build.from_grid(build.one_grid([path], path), ReportOptions(**options))


@pytest.mark.parametrize("epochs", [0, 2], ids=["a line per run", "a line per epoch"])
def test_columns(tmp_path, epochs):
    made = report(write(tmp_path / "x.csv", epochs))
    first, second = made.answer.configurations
    assert [(c.axes["count"], c.axes["nodes"], c.axes["version"], c.price_per_hour) for c in (first, second)] == [
        (8, 1, "v1", 20),
        (16, 2, "v2", 40),
    ]
    assert (made.answer.metric, made.dates) == ("val/thing", ["2026-03-01", "2026-03-02"])
    assert "2026-03-01 to 2026-03-02" in page(made)
    budgeted = report(write(tmp_path / "y.csv", epochs, budget_s=("100", "100"))).answer
    assert (budgeted.budget, budgeted.best[0].configuration) == ({"time": 100}, 1), "more of val/thing is better"
    said = report(write(tmp_path / "z.csv", epochs), budget="100s", lower_is_better=["val/thing"]).answer
    assert (said.budget, said.best[0].configuration) == ({"time": 100}, 0)


def test_a_page_of_a_table_without_dates_has_none(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("kernel,price,time_s\na,1,5\na,1,6\nb,1,4\nb,1,3\n")
    made = report(str(path))
    assert not made.dates and not made.machines and made.made[:10] not in page(made)
    assert json.loads(as_json(made))["made"], "when the report was made is in the data"


def test_a_budget_that_is_none(tmp_path):
    path = write(tmp_path / "x.csv", 0)
    with pytest.raises(UsageError, match="--budget 5 minutes: use seconds above 0, or a text such as 90s"):
        report(path, budget="5 minutes")
    cautions = report(path, budget="10m").answer.trust.cautions
    assert any("trained for" in each.text and "budget of 600 s" in each.text for each in cautions)

import re
from dataclasses import replace

import pytest

from raybench.analysis.comparison import MeanMinMax, Row
from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.run_counts import Ending, RunCounts
from raybench.analysis.statistics.speedup import Speedup
from raybench.reporting.comparison_table import BEST, LAST, MOST_ROWS, cell_columns, fitting, text

ROWS = [
    Row(
        "a",
        {"device": "cpu", "weight_decay": 0.0005, "epochs": 2},
        RunCounts(3, 3),
        MeanMinMax(4.05, 4.0, 4.1, 3),
        metric=MeanMinMax(0.561, 0.55, 0.57, 3),
        is_baseline=True,
        runs=3,
    ),
    Row(
        "b",
        {"device": "gpu", "weight_decay": 0.0005, "epochs": 2},
        RunCounts(3, 2, endings=(Ending("oom", 1),)),
        MeanMinMax(2.0, 1.98, 2.02, 2),
        metric=MeanMinMax(0.56, 0.55, 0.57, 2),
        speedup=Speedup(2.0249, 1.968, 2.083, 3.83),
        runs=2,
    ),
    Row("c", {"device": "tpu", "weight_decay": 0.0005, "epochs": 2}, RunCounts(3, skip="no TPU on any node")),
]


def line(table, word):
    (found,) = [row for row in table.splitlines() if row.strip().startswith(word)]
    return re.split(r"\s{2,}", found.strip())


def test_a_row_a_cell_with_units_in_the_heads():
    table = text(ROWS, "cifar_cpu, 3 repeats")
    heads = ["device", "runs", "s/epoch", "min", "max", "speed-up (95% CI)", "accuracy", "min", "max"]
    assert line(table, "device") == heads
    assert line(table, "cpu") == ["cpu", "3/3", "4.05", "4.00", "4.10", "baseline", "56.1%", "55.0%", "57.0%"]
    assert line(table, "gpu")[1:2] == ["2/3 oom"] and "2.02x (1.97–2.08)" in table
    assert "1 cell skipped: no TPU on any node\n" in table
    assert "All cells: decay 5e-4, epochs 2\ncifar_cpu, 3 repeats\n" in table, "what is the same everywhere"


def test_it_fits_eighty_columns():
    table = text(ROWS, width=80)
    assert max(map(len, table.splitlines())) <= 80
    for word in ("4.05", "2/3 oom", "56.1%", "2.02x (1.97–2.08)"):
        assert word in table
    assert "min" not in table and "4.10" not in table, "what is least important is left out"


def test_the_least_important_columns_are_left_out_first():
    columns = cell_columns(ROWS)
    heads = {width: [column.head for column in fitting(columns, width)] for width in (100, 60, 40, 20)}
    assert heads[100] == [column.head for column in columns]
    assert heads[60] == ["device", "runs", "s/epoch", "speed-up (95% CI)", "accuracy"]
    assert heads[40] == ["device", "runs", "s/epoch", "speed-up (95% CI)"] or heads[40] == heads[20]
    assert heads[20] == ["device", "s/epoch", "speed-up (95% CI)"], "the key stays"


def test_columns_in_which_nothing_would_stand_are_left_out():
    table = text(ROWS[2:])
    assert line(table, "device") == ["device", "runs"] and line(table, "tpu") == ["tpu", "skipped"]


def test_prices_and_one_run():
    row = Row(
        "a",
        {"device": "gpu"},
        RunCounts(1, 1),
        MeanMinMax(2331.4, 2331.4, 2331.4, 1),
        epoch_price=0.0002,
        total_price=1.25,
    )
    table = text([row])
    assert line(table, "device") == ["device", "runs", "s/epoch", "price/run", "price/epoch"]
    assert line(table, "gpu") == ["gpu", "1/1", "2331", "1.25", "0.000200"]


def test_a_warm_up_epoch_is_marked():
    table = text([Row("a", {}, RunCounts(1, 1), MeanMinMax(0.0178, 0.0178, 0.0178, 1), from_warmup=True)])
    assert "0.0178*" in table and "* no epoch after the warm-up" in table


def test_an_axis_that_only_some_have_is_shown():
    table = text(
        [Row("a", {"batch_size": 64}, RunCounts(1, 1)), Row("b", {"batch_size": 64, "epochs": 2}, RunCounts(1, 1))]
    )
    assert line(table, "epochs") == ["epochs", "runs"]
    assert line(table, "–") == ["–", "1/1"]


@pytest.mark.parametrize("odd", ["[red]x[/]", "[/nothing]", "a very long value " * 20])
def test_what_a_person_writes_is_no_markup(odd):
    table = text(
        [
            Row("a", {"x": odd}, RunCounts(1, endings=(Ending("failed", 1),))),
            Row("b", {"x": 1}, RunCounts(1, endings=(Ending("failed", 1),))),
        ]
    )
    assert odd.split()[0] in table


def many(count):
    return [
        Row(str(number), {"x": number}, RunCounts(1, 1), MeanMinMax(float(number), 1.0, 1.0, 1), runs=1)
        for number in range(count)
    ]


def test_of_many_cells_the_best_and_the_last_are_shown():
    rows = [*many(100), Row("skipped", {"x": 100}, RunCounts(1, skip="no TPU on any node"))]
    best_first = [*range(99, -1, -1), 100]
    shown = text(rows, best_first=best_first).splitlines()
    start = next(number for number, each in enumerate(shown) if set(each) <= {"─"}) + 1
    values = [each.split()[0] for each in shown[start : start + BEST + 1 + LAST]]
    assert values == [*map(str, range(99, 99 - BEST, -1)), "…", *map(str, range(LAST - 1, -1, -1))]
    assert len(text(rows).splitlines()) > 100, "without an order all are shown"
    few = many(MOST_ROWS)
    assert text(few, best_first=range(MOST_ROWS - 1, -1, -1)) == text(few)


def test_no_rows():
    assert text([]).strip() == ""


def test_an_interval_that_says_nothing_is_not_spelt_out():
    row = Row(
        "a", {"device": "cpu"}, RunCounts(2, 2), MeanMinMax(3.1, 0.1, 6.1, 2), speedup=Speedup(11.8, 7e-10, 2e11, 1.0)
    )
    assert "11.8x (<0.001–>9999)" in text([row])


def finding(code, says, degree=0.5):
    return Finding(code, says, "mend it", {"share": degree})


def test_a_quiet_table_shows_no_cautions():
    assert "caution" not in text(ROWS)
    noted = text([replace(ROWS[0], findings={"a-r0": [finding("niceness", "niceness 5")]}), *ROWS[1:]])
    assert line(noted, "device")[-1] == "max", "a note puts no letter into the table"

"""Whatever is done to a CSV of epochs, `raybench report` shows a report or one message, and soon."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mutations import Tally, cases, changed_bytes, changed_lines, changed_value, one_of

GOOD = """\
trial,epoch,train_s,evaluate_s,val/accuracy,device,batch_size,weight_decay,price_per_hour,target_metric,target_at_least
a,1,5.0,0.5,0.3,gpu,64,5e-4,0.35,val/accuracy,0.5
a,2,2.0,0.5,0.6,gpu,64,5e-4,0.35,val/accuracy,0.5
a,3,2.2,0.5,0.62,gpu,64,5e-4,0.35,val/accuracy,0.5
b,1,5.1,0.5,0.2,gpu,64,5e-4,0.35,val/accuracy,0.5
b,2,2.1,0.5,0.7,gpu,64,5e-4,0.35,val/accuracy,0.5
c,1,9.0,0.5,0.4,cpu,64,5e-4,0.1,val/accuracy,0.5
c,2,8.0,0.5,0.5,cpu,64,5e-4,0.1,val/accuracy,0.5
d,1,9.1,0.5,0.3,cpu,64,5e-4,0.1,val/accuracy,0.5
d,2,8.2,0.5,0.55,cpu,64,5e-4,0.1,val/accuracy,0.5
"""
KERAS = "epoch,accuracy,elapsed_s,loss,val_accuracy,val_loss\n0,0.5,1.5,2.1,0.4,2.0\n1,0.6,3.1,1.9,0.5,1.8\n"
OUTPUTS = ((), ("--full",), ("--json", "-"), ("--html", "-"))


def as_csv(rows: object) -> bytes:
    """Rows of values as a CSV, whatever they have become."""
    file = io.StringIO()
    rows = rows if isinstance(rows, list) else [rows]
    csv.writer(file).writerows(row if isinstance(row, list) else [row] for row in rows)
    return file.getvalue().encode("utf-8", errors="surrogatepass")


def rows_of(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.splitlines()]


MUTATIONS = {
    "bytes": st.one_of(*(changed_bytes(text.encode()) for text in (GOOD, KERAS))),
    "lines": st.one_of(*(changed_lines(text.encode()) for text in (GOOD, KERAS))),
    "values": changed_value(rows_of(GOOD)).map(as_csv),
}


@pytest.mark.parametrize("number", [10, pytest.param(167, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", MUTATIONS)
def test_only_ever_a_report_or_a_message(tmp_path, monkeypatch, kind, number):
    monkeypatch.chdir(tmp_path)
    tally = Tally()

    @cases(number)
    @given(MUTATIONS[kind])
    def check(content):
        (tmp_path / "x.csv").write_bytes(content)
        tally.run("report", "x.csv", *one_of(OUTPUTS, content))

    check()


def test_the_files_they_begin_with_are_right(tmp_path):
    tally = Tally()
    for text in (GOOD, KERAS):
        (tmp_path / "x.csv").write_text(text)
        tally.run("report", tmp_path / "x.csv")
    assert tally.statuses == {0: 2}

"""A real grid in which much goes wrong: one cell out of memory, one diverged, one skipped, one repeat missing."""

import json
import shutil

import pytest

from raybench.cli.report_view import show_report
from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.reporting import build
from raybench.reporting.html import page
from raybench.reporting.sentences import plain, render_phrase
from raybench.run import Options, run_grid

pytestmark = pytest.mark.slow

WORKLOAD = '''
import numpy as np
import torch
from sklearn.datasets import load_digits

from raybench import Data, Split, Workload


def data(root):
    inputs, labels = load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)
    return Data(Split(inputs[:1024], labels[:1024]), Split(inputs[1024:1536], labels[1024:1536]))


class Net(torch.nn.Sequential):
    """Learns digits; batches of 32 diverge, and batches of 64 do not fit."""

    def forward(self, inputs):
        out = super().forward(inputs)
        if torch.is_grad_enabled() and len(inputs) == 64:
            torch.empty(1 << 60)
        return out * float("nan") if torch.is_grad_enabled() and len(inputs) == 32 else out


net = Workload(model=lambda: Net(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)), data=data)
'''

GRID = """
name: odd
workload: net.py:net
epochs: 3
optimizer: sgd
learning_rate: 0.1
momentum: 0.9
target: {metric: val/accuracy, at_least: 0.5}
axes:
  device: [cpu]
  batch_size: [16, 32, 64, 128, 256]
include:
  - {device: tpu, batch_size: 16}
repeats: 2
baseline: {batch_size: 16}
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """The report of the grid, which has lost one repeat of batch 128: its events and its own folder."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "net.py").write_text(WORKLOAD)
    (folder / "odd.yaml").write_text(GRID)
    options = Options(folder / "results", tracking=None, checks=False, report=False)
    outcome = run_grid(load_grid(folder / "odd.yaml"), InlineExecutor(), options=options)
    assert outcome.exit_status == 0, "a part of it ran, and nothing failed"
    (lost,) = (cell for cell in outcome.plan.cells if cell.axes["batch_size"] == 128)
    lines = outcome.journal.read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line).get("trial") != f"{lost.cell_id}-r1"]
    assert len(kept) < len(lines)
    outcome.journal.write_text("".join(kept))
    shutil.rmtree(outcome.folder / "trials" / f"{lost.cell_id}-r1")
    return build.from_source("odd", folder / "results")


def test_what_went_wrong_is_in_the_verdict_and_has_no_ratio(odd):
    said = " ".join(remark.says for remark in odd.remarks)
    assert "5 of 10 trials did not complete: 2 diverged, 2 ran out of memory, 1 was not run." in said
    cells = {label: [plain(each) for each in sentences] for label, sentences in odd.comparisons}
    assert list(cells) == ["cpu b16", "cpu b32", "cpu b64", "cpu b128", "cpu b256", "tpu b16"]
    assert not any("faster" in each for label in ("cpu b32", "cpu b64", "tpu b16") for each in cells[label])
    assert cells["cpu b32"][0] == "batch 32: of 2 runs, 2 diverged."
    assert cells["cpu b64"][0] == "batch 64: of 2 runs, 2 ran out of memory."
    assert "batch 128: of 2 runs, 1 was not run; comparisons use the 1 that completed." in cells["cpu b128"]
    assert cells["tpu b16"] == ["batch 16 was skipped: no TPU."]


def test_every_table(odd):
    labels = {cell.cell_id: odd.results.label(cell) for cell in odd.results.cells}
    assert {labels[row.cell_id]: render_phrase("run_counts", row.counts) for row in odd.results.rows} == {
        "cpu b16": "2/2 completed",
        "cpu b32": "0/2 completed, 2 diverged",
        "cpu b64": "0/2 completed, 2 oom in train, asked 4.0 EiB",
        "cpu b128": "1/2 completed, 1 not run",
        "cpu b256": "2/2 completed",
        "tpu b16": "skipped: no TPU",
    }
    tables = {section.name: section.records for section in odd.sections}
    reached = {record["cell"]: record for record in tables["target"]}
    assert set(reached) == {"cpu b16", "cpu b32", "cpu b64", "cpu b128", "cpu b256"}, "what never ran shows nothing"
    assert (reached["cpu b16"]["of"], reached["cpu b128"]["runs"]) == ("2 of 2", 1)
    for bad in ("cpu b32", "cpu b64"):
        assert (reached[bad]["of"], reached[bad]["seconds"], reached[bad]["epochs"]) == ("0 of 2", None, None)
    assert [record["device"] for record in tables["jobs"]] == ["cpu"], "no device of which nothing is known"
    (best,) = tables["best"]
    assert best["best"] == "b16" and best["fastest"] in ("b16", "b128", "b256")
    assert [(trouble["status"], trouble["error"].split(",")[0]) for trouble in odd.troubles] == [
        *[("diverged", "Diverged: the loss is nan in epoch 1")] * 2,
        *[("oom", "in train")] * 2,
    ]


def test_the_terminal_and_the_page_say_so_too(odd, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    show_report(odd)
    printed = " ".join(capsys.readouterr().out.split())
    html = " ".join(page(odd).split())
    for words in ("0/2 diverged", "1/2 not run", "1 cell skipped: no TPU"):
        assert words in printed and words in html
    assert "of 2 runs, 2 ran out of memory." in html

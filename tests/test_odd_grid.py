"""A real grid in which much goes wrong: one cell out of memory, one diverged, one skipped, one repeat missing."""

import json
import re

import pytest

from raybench import reports
from raybench.analysis.sentences import plain
from raybench.cli.verdict import show_report
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid
from raybench.spec import load_grid

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
    """The report of the grid, whose journal has lost one repeat of batch 128."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "net.py").write_text(WORKLOAD)
    (folder / "odd.yaml").write_text(GRID)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        grid = load_grid(folder / "odd.yaml")
        outcome = run_grid(grid, InlineExecutor(), None, Options(results=folder / "results"))
    assert outcome.exit_status == 3, "something could not run here, and nothing failed"
    (lost,) = (cell for cell in outcome.plan.cells if cell.axes["batch_size"] == 128)
    lines = outcome.journal.read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line).get("trial") != f"{lost.cell_id}-r1"]
    assert len(kept) < len(lines)
    outcome.journal.write_text("".join(kept))
    return reports.of_source("odd", folder / "results")


def test_every_sentence_of_the_verdict(odd):
    verdict = [plain(each) for paragraph in odd.verdict for each in paragraph]
    assert verdict[-3:] == [
        "cpu b32 has no time: of 2 runs 2 diverged.",
        "cpu b64 has no time: of 2 runs 2 ran out of memory.",
        "tpu b16 was skipped: no TPU on any node.",
    ]
    assert re.fullmatch(
        r"batch 128 trains net \(device cpu\) [\d.]+ × as fast as batch 16, steady epochs, 1 run against 2: no "
        r"interval\.",
        verdict[0],
    )
    assert "batch 128: of 2 runs 1 completed and counts; 1 was not run." in verdict
    assert not [each for each in verdict if "batch 32 trains" in each or "batch 64 trains" in each]


def test_every_cell_in_words(odd):
    told = {label: [plain(each) for each in sentences] for label, sentences in odd.comparisons}
    assert list(told) == ["cpu b16", "cpu b32", "cpu b64", "cpu b128", "cpu b256", "tpu b16"]
    assert told["cpu b64"][:2] == [
        "batch 64 has no time: of 2 runs 2 ran out of memory.",
        "batch 64 reaches 50 % in 0 of 2 runs (95 %: 0 to 66 %).",
    ]
    assert told["cpu b32"][0] == "batch 32 has no time: of 2 runs 2 diverged."
    assert told["cpu b32"][1].startswith("batch 32 reaches 50 % in 0 of 2 runs (95 %: 0 to 66 %)")
    assert not any("×" in each for label in ("cpu b32", "cpu b64") for each in told[label])
    assert told["tpu b16"] == ["batch 16 was skipped: no TPU on any node."]


def test_every_table(odd):
    labels = {cell.cell_id: odd.standing.label(cell) for cell in odd.standing.cells}
    assert {labels[row.cell_id]: row.status for row in odd.standing.rows} == {
        "cpu b16": "2/2 completed",
        "cpu b32": "0/2 completed, 2 diverged",
        "cpu b64": "0/2 completed, 2 oom in train, asked 4.0 EiB",
        "cpu b128": "1/2 completed, 1 not run",
        "cpu b256": "2/2 completed",
        "tpu b16": "skipped: no TPU on any node",
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


def test_the_terminal_and_the_page_say_so_too(odd, capsys):
    show_report(odd)
    printed = " ".join(capsys.readouterr().out.split())
    page = " ".join(reports.files(odd)[reports.HTML].split())
    for words in ("0/2 completed, 2 diverged", "1/2 completed, 1 not run", "skipped: no TPU on any node"):
        assert words in printed and words in page
    assert "has no time: of 2 runs 2 ran out of memory." in page

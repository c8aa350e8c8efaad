"""One new file is a new kind of device: planned, run, monitored and shown."""

import subprocess
import sys
from textwrap import dedent

import pytest
from support.outcomes import run_counts

from raybench import devices, load
from raybench.config import load_grid
from raybench.devices import KINDS, Hardware, register_kinds
from raybench.errors import GridFileError
from raybench.execution.inline import InlineExecutor
from raybench.planning.node import probe_node
from raybench.planning.placement import ResourceRequest, unsupported_reason
from raybench.run import Options, run_grid

ABACUS = dedent(
    """
    from raybench.devices.base import DeviceKind, Hardware
    from raybench.devices.cpu import TorchHost

    def probe():
        return [Hardware("abacus", "Abacus Pro", 2, 1 << 30, ids=("0", "1"))]

    KIND = DeviceKind(
        name="abacus",
        label="abacus",
        adapters={"torch": f"{__name__}:Abacus"},
        precisions=("fp32",),
        status="run by one test",
        probe=probe,
        aliases=("soroban",),
    )

    class Abacus(TorchHost):
        def describe(self):
            return Hardware(self.kind, "Abacus Pro", len(self.assignment.visible), 1 << 30)
    """
)
GRID = """
name: beads
workload: digits_cnn
axes: {{device: [cpu, {device}]}}
epochs: 1
warmup_epochs: 0
steps_per_epoch: 1
"""


@pytest.fixture
def abacus(tmp_path, monkeypatch):
    """The new file, in a folder that the package is searched in too."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "abacus.py").write_text(ABACUS)
    monkeypatch.setattr(devices, "__path__", [*devices.__path__, str(tmp_path / "more")])
    monkeypatch.setenv(devices.ACCELERATORS, "abacus")
    register_kinds()
    yield KINDS["abacus"]
    monkeypatch.undo()
    sys.modules.pop("raybench.devices.abacus")
    register_kinds()


@pytest.fixture
def grid(tmp_path):
    def load_it(device="abacus", more=""):
        path = tmp_path / "grid.yaml"
        path.write_text(GRID.format(device=device) + more)
        return load_grid(path)

    return load_it


def test_no_framework_is_loaded_for_detection():
    code = "import sys; from raybench import devices; devices.probe()"
    code += "; print(*sorted({'torch', 'tensorflow', 'keras'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_grid_file_may_name_it(abacus, grid):
    assert grid().profile("abacus").kind == "abacus"
    assert grid("mine", "devices: {mine: {kind: abacus, count: 2}}").profile("mine").kind == "abacus"
    for wrong in ("abacsu", "soroban", "Abacus"):
        with pytest.raises(GridFileError, match="cpu, abacus, cuda, mps, rocm, tpu, xla_cpu; did you mean abacus\\?"):
            grid("mine", f"devices: {{mine: {{kind: {wrong}}}}}")


@pytest.mark.parametrize(
    ("framework", "precision", "reason"),
    [
        ("torch", "fp32", None),
        ("tensorflow", "fp32", "tensorflow does not run on abacus; use torch"),
        ("torch", "bf16", "precision bf16 is not available on abacus, only on cpu, cuda, mps, rocm, tpu, xla_cpu"),
    ],
)
def test_it_is_placed_by_what_it_declares(abacus, framework, precision, reason):
    assert probe_node().find("abacus") == [Hardware("abacus", "Abacus Pro", 2, 1 << 30, ids=("0", "1"))]
    assert unsupported_reason(ResourceRequest("abacus", framework, precision)) == reason


def test_it_runs_and_is_in_the_tables(abacus, grid, tmp_path):
    options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
    outcome = run_grid(grid(), InlineExecutor(), options=options)
    assert run_counts(outcome) == [(1, 1), (1, 1)]
    trials = load(tmp_path / "results").trials.set_index("device")
    row = trials.loc["abacus"]
    assert (row["device_kind"], row["device_model"], row["device_count"]) == ("abacus", "Abacus Pro", 1)
    assert row["status"] == "completed" and row["steady_s"] > 0

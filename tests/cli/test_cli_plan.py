"""`raybench plan`: what is done, what is to run, what cannot and why, how long and how much."""

import json
import os
import re
import shutil
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import pytest
from support import ROOT
from support.grid_files import events_of, write_events, write_request

from raybench.config import load_grid
from raybench.core.cell import Cell
from raybench.execution.inline import InlineExecutor
from raybench.planning.plan import make_plan

pytestmark = pytest.mark.usefixtures("in_process")

PLANNED = Path("raybench-results/planned")

GRID = """name: planned
workload: digits_cnn
epochs: 1
steps_per_epoch: 3
examples: {train: 256, val: 64}
axes:
  device: [cpu, tpu]
  batch_size: [32, 64]
repeats: 2
devices:
  cpu: {kind: cpu, price_per_hour: 3600.0}
"""


@pytest.fixture
def planned(tmp_path):
    path = tmp_path / "planned.yaml"
    path.write_text(GRID)
    return path


def rows(said):
    """The rows of the table, each as the texts of its columns."""
    rule = next(number for number, line in enumerate(said.lines) if set(line) == {"─"})
    texts = []
    for line in said.lines[rule + 1 :]:
        columns = re.split(r"  +", line.strip())
        if len(columns) < 2:
            break
        texts.append(columns)
    return texts


def journal_events():
    return events_of(PLANNED)


def test_before_anything_was_run(raybench, planned, tmp_path):
    said = raybench("plan", planned)
    assert (said.status, said.err) == (0, "")
    cores = len(os.sched_getaffinity(0))
    cpu = f"cpu ({cores} core{'s' if cores > 1 else ''})"
    assert said.lines[0] == "planned on this machine: 8 trials (4 to run, 4 skipped), time not known yet"
    assert said.lines[1].split() == ["configuration", "device", "state"]
    assert rows(said) == [
        ["batch 32", cpu, "2 to run"],
        ["batch 64", cpu, "2 to run"],
        ["batch 32", "tpu", "skipped"],
        ["batch 64", "tpu", "skipped"],
    ]
    assert said.lines[7:] == [
        "tpu: 2 configurations skipped: no TPU",
        "To run the rest, type the same command on each machine (`raybench export` and `import` join the results), "
        "or on a Ray cluster:",
        f"  raybench grid {planned} --address auto",
        "To try the whole grid in miniature on this CPU:",
        f"  raybench grid {planned} --smoke",
        "warning: 2 of 4 configurations: epochs 1 with warmup_epochs 1 leaves no epoch after the warm-up; set "
        "`epochs: 2` or more, or a lower `warmup_epochs`",
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["planned.yaml"]


def test_plan_after_a_part_was_run(raybench, grid, planned):
    grid(planned, "--where", "device=cpu", "--where", "batch_size=32")
    said = raybench("plan", planned)
    cpu32, cpu64, *_ = rows(said)
    assert (cpu32[2], cpu64[2]) == ("2 done", "2 to run")
    assert said.lines[1].endswith("per trial"), "the estimate, from a similar cell"
    assert re.fullmatch(r"[\d.]+ m?s", cpu32[3]) and re.fullmatch(r"[\d.]+ m?s", cpu64[3])
    assert re.search(r": 8 trials \(2 done, 2 to run, 4 skipped\), about [\d.]+ m?s$", said.lines[0])
    walls = sum(event["wall"] for event in journal_events() if event["event"] == "trial_ended")
    (price,) = re.findall(r"Price: about \$([\d.,]+) \(prices: the grid file\)", said.out)
    assert 0.95 * walls <= float(price.replace(",", "")) <= 2.05 * walls, (
        "one a second, for two trials of as many steps with twice the examples"
    )
    (planned.parent / "prices.csv").write_text("kind,price_per_hour,currency\ncpu,36,EUR\ncpuu,9,EUR\n")
    said = raybench("plan", planned, "--prices", "prices.csv").out
    assert "Prices of prices.csv match no device here: cpuu; did you mean cpu?" in said
    assert 0.9 * float(price) / 100 < float(re.findall(r"about ([\d.]+) EUR \(prices: prices.csv\)", said)[0])


def test_what_was_lost_is_to_run(raybench, grid, planned):
    grid(planned, "--where", "device=cpu")
    events = journal_events()
    started = next(event for event in events if event["event"] == "trial_started")
    lost = {**started, "event": "trial_ended", "attempt": 2, "status": "lost", "ledger": {}, "run": "a" * 32}
    write_events(PLANNED, [lost])
    assert "(4 done, 4 skipped)" in raybench("plan", planned).out, "a lost second try takes no result away"
    for event in events:
        if event["event"] == "trial_ended" and event["trial"] == started["trial"]:
            event["status"] = "lost"
    write_events(PLANNED, events)
    said = raybench("plan", planned)
    assert sorted(row[2] for row in rows(said)) == ["1 done, 1 to run", "2 done", "skipped", "skipped"]
    assert "(3 done, 1 to run, 4 skipped)" in said.lines[0]


def on_a_tpu(grid, planned, repeats, host="colab"):
    """Turn the results of the CPU's trials into those of the TPU's, as a different machine would have them."""
    executor = InlineExecutor()
    plan = make_plan(load_grid(planned), executor.nodes({}), Path("data"))
    cells = {cell.axes["batch_size"]: cell for cell in plan.cells if cell.profile == "tpu"}
    starts, kept, contents = {}, [], {}
    for event in events_of(grid):
        if event["event"] == "trial_started":
            starts[event["trial"]] = event
            batch = event["cell"]["settings"]["batch_size"]
            event["request_id"] = cells[batch].request_id
            event["cell"]["device"] |= {"kind": "tpu", "model": "TPU v5e"}
            event |= {"host": {"name": host}, "profile": "tpu", "run": uuid5(NAMESPACE_DNS, host + event["run"]).hex}
            contents[batch] = event["cell"]
        start = starts.get(event.get("trial"))
        if start and start["repeat"] < repeats:
            kept.append({**event, "trial": f"{Cell.from_json(start['cell']).cell_id}-r{start['repeat']}"})
    (execution,) = (grid / "executions").iterdir()
    request = json.loads(execution.read_text())
    execution.unlink()
    for cell in request["request"]["cells"]:
        content = contents[cell["axes"]["batch_size"]]
        axes = cell["axes"] | {"device": "tpu"}
        cell |= {"content": content, "cell_id": Cell.from_json(content).cell_id, "axes": axes}
    shutil.rmtree(grid / "attempts")
    write_request(grid, host, request)
    write_events(grid, kept)


def test_cells_of_another_machine_are_done_there(raybench, grid, planned):
    assert grid(planned, "--where", "device=cpu", "--results", "other").status == 0
    assert raybench("export", "planned", "--results", "other", "-o", "cpu.zip").status == 0
    on_a_tpu(Path("other/planned"), planned, repeats=1)
    assert raybench("export", "planned", "--results", "other", "-o", "tpu.zip").status == 0
    assert raybench("import", "tpu.zip").status == 0
    said = raybench("plan", planned)
    assert "8 trials (2 done on other machines, 4 to run, 2 skipped)" in said.lines[0]
    assert [row[2] for row in rows(said)] == ["2 to run", "2 to run", *["1 done on colab, 1 skipped"] * 2]
    assert "tpu: 2 configurations skipped: no TPU" in said.lines
    assert raybench("import", "cpu.zip").status == 0
    assert [row[2] for row in rows(raybench("plan", planned))][:2] == ["2 done", "2 done"]
    said = grid(planned, "--where", "device=available")
    assert said.status == 0 and "Nothing was left to run" in said.out


def test_label_has_settings_of_include_and_lists(raybench, tmp_path):
    (tmp_path / "g.yaml").write_text(
        "name: g\nworkload: digits_cnn\naxes:\n  augmentation: [[crop, flip], []]\n"
        "include:\n  - {augmentation: [crop], precision: bf16}\n"
    )
    said = raybench("plan", "g.yaml")
    lists = ["augmentation [crop,flip]", "augmentation []", "augmentation [crop], bf16"]
    assert [row[0] for row in rows(said)] == lists


@pytest.mark.parametrize("value", ["5e-4", "5.0e-4", "0.0005"])
def test_where_takes_a_number_however_it_is_written(raybench, tmp_path, value):
    (tmp_path / "g.yaml").write_text(
        "name: g\nworkload: digits_cnn\naxes:\n  batch_size: [32, 64]\n  weight_decay: [0.0, 5.0e-4]\n"
    )
    for text, label in ((value, "decay 5e-4"), ("0", "decay 0")):
        said = raybench("plan", "g.yaml", "--where", f"weight_decay={text}")
        assert [row[0].endswith(label) for row in rows(said)] == [True, True]


def big(path, batches, decays):
    numbers = ", ".join(map(str, range(1, batches + 1)))
    shares = ", ".join(f"{number / 1000:g}" for number in range(decays))
    path.write_text(
        f"name: big\nworkload: digits_cnn\nrepeats: 4\naxes:\n  batch_size: [{numbers}]\n  weight_decay: [{shares}]\n"
    )
    return path


def test_many_cells_are_all_shown(raybench, tmp_path):
    said = raybench("plan", big(tmp_path / "g.yaml", 100, 2))
    assert len(rows(said)) == 200
    assert said.lines[0] == "big on this machine: 800 trials, time not known yet"


def test_contradictory_settings_are_warnings(raybench, grid, tmp_path):
    (tmp_path / "g.yaml").write_text(
        "name: g\nworkload: digits_cnn\nepochs: 2\nsteps_per_epoch: 2\nexamples: {train: 256, val: 64}\n"
        "warmup_epochs: 5\naxes: {threads: [1, 640]}\n"
    )
    cores = len(os.sched_getaffinity(0))
    has = f"{cores} core{'s' if cores > 1 else ''}"
    warnings = [
        "warning: 2 of 2 configurations: epochs 2 with warmup_epochs 5 leaves no epoch after the warm-up; set "
        "`epochs: 6` or more, or a lower `warmup_epochs`",
        f"warning: 1 of 2 configurations: 640 threads on {has} wait for each other; set `threads: {cores}` or less",
    ]
    assert [line for line in raybench("plan", "g.yaml").lines if "warning" in line] == warnings
    part = grid("g.yaml", "--where", "threads=1").lines
    assert part[1] == warnings[0].replace("2 of 2 configurations", "1 of 1 configuration"), "before the first trial"
    assert not [line for line in raybench("plan", "g.yaml", "--smoke").lines if "warning" in line]


def test_a_program_beside_python_is_found(raybench, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "g.yaml").write_text("name: g\nworkload: {command: python -c 1}\n")
    assert "no program" not in raybench("plan", "g.yaml").out


def test_missing_data_are_announced(raybench, tmp_path, monkeypatch):
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "empty"))
    (tmp_path / "g.yaml").write_text("name: g\nworkload: mnist_cnn\n")
    said = raybench("plan", tmp_path / "g.yaml")
    assert said.status == 0
    assert said.lines[-1] == (
        f"Data set mnist is not in {tmp_path / 'empty'} yet; `raybench grid` downloads it before the first trial."
    )


def test_every_field_of_the_json_is_documented(raybench, tmp_path):
    """The table in docs/compare.md names every field, and no other."""
    text = "name: g\nworkload: digits_cnn\nrepeats: 3\naxes: {device: [cpu], batch_size: [32, 64]}\n"
    (tmp_path / "g.yaml").write_text(text)
    said = raybench("plan", "g.yaml", "--json", "-")
    assert said.status == 0, said.err
    plan = json.loads(said.out)
    assert (plan["grid"], plan["trials"], plan["to_run"], plan["seconds"]) == ("g", 6, 6, None)
    assert [each["axes"]["batch_size"] for each in plan["configurations"]] == [32, 64]
    page = (ROOT / "docs" / "compare.md").read_text()
    named = re.findall(r"`([a-z_]+)(?:\[\])?`", page[page.index("| field of a plan |") :])
    assert {*named} == {*plan, *plan["configurations"][0]}

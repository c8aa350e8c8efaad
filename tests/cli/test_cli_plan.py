"""`raybench plan`: what is done, what is to run, what cannot and why, how long and how much."""

import json
import os
import time
from pathlib import Path

import pytest

JOURNAL = Path("raybench-results/planned/journal.jsonl")

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
    """The table's rows: cell → the rest of its words."""
    found = {}
    for line in said.lines:
        head, _, rest = line.partition(" ")
        if len(head) == 12 and all(letter in "0123456789abcdef" for letter in head):
            found[head] = rest.split()
    return found


def told():
    """The journal's events."""
    return [json.loads(line) for line in JOURNAL.read_text().splitlines()]


def test_before_anything_was_run(raybench, planned, tmp_path):
    said = raybench("plan", planned)
    assert (said.status, said.err) == (0, "")
    (cpu32, cpu64, tpu32, tpu64) = rows(said).values()
    assert cpu32[:2] == ["cpu", "32"] and cpu64[:2] == ["cpu", "64"]
    assert " ".join(cpu32[-4:]) == "2 to run –"
    assert " ".join(tpu32) == "tpu 32 – skipped –"
    assert tpu64[1] == "64"
    assert said.lines[-5:] == [
        "4 trials skipped on tpu: no TPU on any node",
        "`raybench devices` shows what is here; `--address` uses the machines of a Ray cluster; "
        f"`raybench grid {planned} --smoke` tries a few cells of it on the CPU",
        "warning: 2 of 4 cells: epochs 1 with warmup_epochs 1 leaves no steady epoch; set `epochs: 2` or more, or a "
        "lower `warmup_epochs`",
        "planned: 4 cells × 2 repeats = 8 trials: 0 done, 4 to run, 4 skipped",
        "How long it will take is not known: nothing like it has been run yet.",
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["planned.yaml"]


def test_after_a_run_it_knows_what_is_done_and_how_long_the_rest_takes(raybench, grid, planned):
    grid(planned, "--where", "device=cpu", "--where", "batch_size=32")
    said = raybench("plan", planned, "--inline")
    cpu32, cpu64, *_ = rows(said).values()
    assert "2 completed" in " ".join(cpu32)
    assert "2 to run" in " ".join(cpu64)
    assert cpu32[-1] == cpu64[-1] == "s" or cpu32[-1] == "ms", "the estimate, from a like cell"
    assert "8 trials: 2 done, 2 to run, 4 skipped" in said.out
    walls = sum(event["wall"] for event in told() if event["event"] == "trial_ended")
    price = float(said.lines[-1].removeprefix("About ").split()[0])
    assert 0.95 * walls <= price <= 2.05 * walls, (
        "one a second, for two trials of as many steps with twice the examples"
    )


def test_what_was_lost_is_to_run(raybench, grid, planned):
    grid(planned, "--where", "device=cpu")
    events = told()
    started = next(event for event in events if event["event"] == "trial_started")
    with JOURNAL.open("a") as more:
        more.write(json.dumps({**started, "event": "trial_ended", "attempt": 2, "status": "lost", "ledger": {}}) + "\n")
    assert "4 done, 0 to run" in raybench("plan", planned, "--inline").out, "a lost second try takes no result away"
    for event in events:
        if event["event"] == "trial_ended" and event["trial"] == started["trial"]:
            event["status"] = "lost"
    JOURNAL.write_text("".join(json.dumps(event) + "\n" for event in events))
    said = raybench("plan", planned, "--inline")
    assert "1 completed, 1 to run" in " ".join(rows(said)[started["trial"][:12]])
    assert "3 done, 1 to run" in said.out


def test_what_was_skipped_before_and_can_run_now_is_to_run(raybench, planned):
    trial = raybench("plan", planned, "--inline", "--order").lines[0].split()[1]
    skipped = {"v": 1, "event": "trial_skipped", "t": "2026-01-01T00:00:00.000Z", "trial": trial, "reason": "no CPU"}
    JOURNAL.parent.mkdir(parents=True)
    JOURNAL.write_text(json.dumps({**skipped, "cell_id": trial[:12]}) + "\n")
    assert "2 to run" in " ".join(rows(raybench("plan", planned, "--inline"))[trial[:12]])


def test_the_order_is_the_one_that_runs(raybench, grid, planned):
    order = [line.split()[1] for line in raybench("plan", planned, "--inline", "--order").lines[:4]]
    assert [trial[-3:] for trial in order] == ["-r0", "-r0", "-r1", "-r1"], "one whole repeat after another"
    grid(planned)
    assert [event["trial"] for event in told() if event["event"] == "trial_started"] == order
    done = raybench("plan", planned, "--inline", "--order").lines
    assert done[-1] == "planned: 4 cells × 2 repeats = 8 trials: 4 done, 0 to run, 4 skipped"


def test_axes_of_include_have_a_column_and_a_list_is_shown_as_it_is(raybench, tmp_path):
    (tmp_path / "g.yaml").write_text(
        "name: g\nworkload: digits_cnn\naxes:\n  augmentation: [[crop, flip], []]\n"
        "include:\n  - {augmentation: [crop], precision: bf16}\n"
    )
    said = raybench("plan", "g.yaml")
    assert said.lines[0].split() == ["cell", "device", "augmentation", "precision", "takes", "trials", "one", "takes"]
    assert [row[1:3] for row in rows(said).values()] == [["[crop,flip]", "–"], ["[]", "–"], ["[crop]", "bf16"]]


@pytest.mark.parametrize("value", ["5e-4", "5.0e-4", "0.0005"])
def test_where_takes_a_number_however_it_is_written(raybench, tmp_path, value):
    (tmp_path / "g.yaml").write_text("name: g\nworkload: digits_cnn\naxes:\n  weight_decay: [0.0, 5.0e-4]\n")
    assert [row[1] for row in rows(raybench("plan", "g.yaml", "--where", f"weight_decay={value}")).values()] == ["5e-4"]
    assert [row[1] for row in rows(raybench("plan", "g.yaml", "--where", "weight_decay=0")).values()] == ["0"]


def test_where_of_a_device_that_available_stands_for(raybench, tmp_path):
    (tmp_path / "g.yaml").write_text("name: g\nworkload: digits_cnn\naxes:\n  device: available\n")
    assert raybench("plan", "g.yaml", "--where", "device=cpu").status == 0
    said = raybench("plan", "g.yaml", "--where", "device=mps")
    assert (said.status, said.lines) == (2, ["no cell of g is left: exclude or --where takes every one of them"])


def big(path, batches, decays):
    numbers = ", ".join(map(str, range(1, batches + 1)))
    shares = ", ".join(f"{number / 1000:g}" for number in range(decays))
    path.write_text(
        f"name: big\nworkload: digits_cnn\nrepeats: 4\naxes:\n  batch_size: [{numbers}]\n  weight_decay: [{shares}]\n"
    )
    return path


def test_of_many_cells_the_first_are_shown(raybench, tmp_path):
    path = big(tmp_path / "g.yaml", 100, 2)
    said = raybench("plan", path)
    assert len(rows(said)) == 40
    assert "… and 160 more cells: --all shows them" in said.lines
    assert "big: 200 cells × 4 repeats = 800 trials: 0 done, 800 to run, 0 skipped" in said.lines
    assert len(rows(raybench("plan", path, "--all"))) == 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "repeats: 1000000000\n",
            "g.yaml:3:10: repeats: 1,000,000,000 trials (1 cell; 1,000,000,000 repeats), and a grid has at most "
            "1,000,000; use fewer values or repeats",
        ),
        (
            f"axes:\n  batch_size: {[*range(1, 2001)]}\n  epochs: {[*range(1, 1001)]}\n"
            "include: [{device: cpu, epochs: 2000}]\n",
            "g.yaml:4:3: axes: 2,002,000 trials (2,000 batch_size × 1,000 epochs + 2,000 of include; 1 repeats), and a "
            "grid has at most 1,000,000; use fewer values or repeats",
        ),
    ],
)
def test_a_grid_that_is_too_large_is_refused_by_arithmetic(raybench, tmp_path, change, message):
    (tmp_path / "g.yaml").write_text(f"name: g\nworkload: digits_cnn\n{change}")
    for verb in ("plan", "grid"):
        refused = raybench(verb, "g.yaml")
        assert (refused.status, refused.lines) == (2, [message])


def test_settings_that_contradict_each_other_or_the_machine_are_warned_of(raybench, grid, tmp_path):
    (tmp_path / "g.yaml").write_text(
        "name: g\nworkload: digits_cnn\nepochs: 2\nsteps_per_epoch: 2\nexamples: {train: 256, val: 64}\n"
        "warmup_epochs: 5\naxes: {threads: [1, 640]}\n"
    )
    cores = len(os.sched_getaffinity(0))
    has = f"{cores} core{'s' if cores > 1 else ''}"
    warnings = [
        "warning: 2 of 2 cells: epochs 2 with warmup_epochs 5 leaves no steady epoch; set `epochs: 6` or more, or a "
        "lower `warmup_epochs`",
        f"warning: 1 of 2 cells: 640 threads on {has}, where they wait for each other; set `threads: {cores}` or less",
    ]
    assert [line for line in raybench("plan", "g.yaml", "--inline").lines if "warning" in line] == warnings
    part = grid("g.yaml", "--where", "threads=1").lines
    assert part[1] == warnings[0].replace("2 of 2 cells", "1 of 1 cell"), "before the first trial"
    assert not [line for line in raybench("plan", "g.yaml", "--smoke", "--inline").lines if "warning" in line]


@pytest.mark.exhaustive
def test_a_hundred_thousand_trials_take_seconds(raybench, tmp_path):
    began = time.process_time()
    said = raybench("plan", big(tmp_path / "g.yaml", 1000, 25))
    assert time.process_time() - began < 30, "also on a slow machine"
    assert "big: 25,000 cells × 4 repeats = 100,000 trials: 0 done, 100,000 to run, 0 skipped" in said.lines


def test_a_narrow_page_loses_no_value(raybench, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "g.yaml").write_text("name: g\nworkload: digits_cnn\naxes:\n  augmentation: [[crop, flip, cutout]]\n")
    said = raybench("plan", "g.yaml")
    assert max(map(len, said.lines[:3])) <= 60
    assert "…" not in said.out


def test_data_that_are_not_here_yet_are_said_so(raybench, tmp_path, monkeypatch):
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path / "empty"))
    (tmp_path / "g.yaml").write_text("name: g\nworkload: mnist_cnn\n")
    said = raybench("plan", tmp_path / "g.yaml")
    assert said.status == 0
    assert said.lines[-1] == f"mnist is not in {tmp_path / 'empty'} yet: the grid fetches it before anything starts."

"""`--smoke`, from the command to what a person reads."""

import pytest

pytestmark = pytest.mark.usefixtures("in_process")

CUT = "scaled down to test that the grid runs: each value of an axis is used once, each cell is run once. "


@pytest.fixture
def gpus(digits):
    digits.write_text(digits.read_text().replace("[cpu]", "[cpu, cuda]") + "baseline: {device: cpu}\n")
    return digits


def test_a_smoke_run_says_what_it_is_before_and_after_and_leaves_the_grid_to_be_run(raybench, grid, gpus, tmp_path):
    planned = raybench("plan", gpus, "--smoke")
    told = [line for line in planned.lines if line.startswith(CUT)]
    assert "device cuda → cpu" in told[0] and "batch size 32 → 4, 64 → 6" in told[0]
    assert planned.lines[0] == "digits~smoke on this machine: 3 trials, time not known yet"

    said = grid(gpus, "--smoke")
    assert (said.status, said.err) == (0, "")
    assert said.lines[0].startswith("digits~smoke  3 cells x 1 repeat = 3 trials  ·  cpu: ")
    assert told[0] in said.lines[1:3]
    assert "Smoke run: 3 of 3 cells ran to the end." in said.out
    assert said.out.count("  1/1  ") == 3 and "started    cuda, batch 32" in said.lines
    assert "x faster" not in said.out and "speed-up" not in said.out
    assert any(line.startswith("Smoke run: scaled down to test that the grid runs") for line in said.lines)
    assert "Report  raybench-results/digits~smoke/report.html" in said.lines
    assert "These numbers are not results of the grid: run the same command without --smoke." in said.lines

    again = grid(gpus, "--smoke")
    assert again.status == 0 and "Nothing was left to run" in again.out
    assert grid(gpus, "--where", "device=cpu").lines[0].startswith("digits  2 cells x 1 repeat = 2 trials  ·  cpu: ")


def test_report_shows_one_or_the_other(raybench, grid, gpus):
    nothing = raybench("report", gpus, "--smoke")
    assert (nothing.status, nothing.lines) == (
        2,
        [
            f"{gpus}: no results of the grid digits~smoke in raybench-results; "
            f"`raybench grid {gpus} --smoke` makes them",
        ],
    )
    grid(gpus, "--smoke", "--where", "device=cuda")
    assert raybench("report", gpus).status == 2, "of the grid itself there is nothing"
    for words in ([gpus, "--smoke"], ["digits", "--smoke"], ["digits~smoke"]):
        said = raybench("report", *words)
        assert said.status == 0 and "Smoke run: its numbers are not results." in said.out


def test_set_and_where_come_first(raybench, gpus):
    given = ("--set", "axes.batch_size=[128,256]", "--set", "epochs=7", "--where", "batch_size=256")
    said = raybench("plan", gpus, "--smoke", *given)
    assert "batch size 256 → 10" in said.out and "128" not in said.out and "epochs 7 → 2" in said.out
    wrong = raybench("plan", gpus, "--smoke", "--where", "batch_size=12")
    assert wrong.status == 2 and "digits~smoke has no batch_size 12; use one of 32, 64" in wrong.err


def test_a_cell_that_can_run_nowhere_is_skipped_with_its_reason(grid, gpus):
    gpus.write_text(gpus.read_text() + "precision: fp16\nframework: tensorflow\n")
    said = grid(gpus, "--smoke")
    assert said.status == 3 and "tensorflow has no precision fp16" in said.out

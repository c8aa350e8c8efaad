"""`--smoke`, from the command to what a person reads."""

import pytest

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def gpus(digits):
    digits.write_text(digits.read_text().replace("[cpu]", "[cpu, cuda]") + "baseline: {device: cpu}\n")
    return digits


def test_a_smoke_run_is_a_grid_of_its_own(raybench, grid, gpus):
    assert raybench("plan", gpus, "--smoke").lines[0].startswith("digits~smoke on this machine: 2 trials")
    said = grid(gpus, "--smoke")
    assert (said.status, said.err) == (0, "")
    assert said.lines[0].startswith("digits~smoke  2 cells x 1 repeat = 2 trials  ·  cpu: ")
    assert "Smoke run: its numbers are not results." in said.out
    assert said.lines[-1] == "These numbers are not results of the grid: run the same command without --smoke."
    assert "Nothing was left to run" in grid(gpus, "--smoke").out
    assert raybench("report", gpus).status == 2, "of the grid itself there is nothing"
    for words in ([gpus, "--smoke"], ["digits", "--smoke"], ["digits~smoke"]):
        assert "Smoke run: its numbers are not results." in raybench("report", *words).out
    assert grid(gpus, "--where", "device=cpu").lines[0].startswith("digits  2 cells x 1 repeat = 2 trials  ·  cpu: ")


def test_set_and_where_come_first(raybench, gpus):
    given = ("--set", "axes.batch_size=[128,256]", "--where", "batch_size=256")
    assert raybench("plan", gpus, "--smoke", *given).lines[0].startswith("digits~smoke on this machine: 1 trial,")
    wrong = raybench("plan", gpus, "--smoke", "--where", "batch_size=12")
    assert wrong.status == 2 and "digits~smoke has no batch_size 12; use one of 32, 64" in wrong.err

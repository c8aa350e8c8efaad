"""`--smoke`: the same grid in miniature on the CPU."""

import re

import pytest

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def gpus(digits):
    """A grid file whose axis `device` has a GPU that is not here."""
    digits.write_text(digits.read_text().replace("[cpu]", "[cpu, cuda]") + "baseline: {batch_size: 32}\n")
    return digits


def test_smoke_run_is_a_separate_grid(raybench, grid, gpus):
    plan = raybench("plan", gpus, "--smoke")
    assert plan.lines[0].startswith("digits~smoke on this machine: 2 trials")

    said = grid(gpus, "--smoke")
    assert (said.status, said.err) == (0, "")
    assert said.lines[0].startswith("digits~smoke  2 configurations x 1 repeat = 2 trials  ·  cpu: ")
    assert not {"accuracy", "MFU", "examples/s", "price"} & set(re.findall(r"[\w/]+", said.out)), "these are no results"
    assert said.out.count("completed\n") == 2
    assert "Report  raybench-results/digits~smoke/report.html" in said.lines
    again = grid(gpus, "--smoke")
    assert again.status == 0 and "Nothing was left to run" in again.out

    assert raybench("report", gpus).status == 2, "the grid itself has no results"
    report = raybench("report", "digits~smoke")
    assert report.status == 0 and report.lines[0].startswith("Smoke run: ")
    assert "No times can be compared." not in report.out
    assert ": 4 trials (2 to run, 2 skipped)" in raybench("plan", gpus).lines[0]


def test_set_and_where_apply_before_scaling(raybench, gpus):
    said = raybench("plan", gpus, "--smoke", "--set", "axes.batch_size=[32,256]", "--where", "batch_size=256")
    assert said.lines[0].startswith("digits~smoke on this machine: 1 trial")
    wrong = raybench("plan", gpus, "--smoke", "--where", "batch_size=12")
    assert wrong.status == 2 and "has no batch_size 12; use one of 32, 64" in wrong.err

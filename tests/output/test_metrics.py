"""The metrics in single lines of output."""

from pathlib import Path

import pytest

from raybench.output.metrics import slots_in, values_at

LINES = (Path(__file__).parent / "lines.txt").read_text().splitlines()


@pytest.mark.parametrize("line", LINES)
def test_metrics_of_a_line(line):
    text, _, wanted = line.partition(" ->")
    text = text.replace("\\t", "\t")
    found = values_at([*slots_in(text)], text)
    assert [f"{name} {value:g}" for name, value in found.items()] == list(filter(None, wanted.strip().split(", ")))

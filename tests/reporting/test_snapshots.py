"""Whole reports of made-up answers; `--snapshot-update` writes them anew, and the diff shows what changed."""

import json

import pytest
from support.answers import ANSWERS, devices_with_target, three_axes

from raybench.reporting.report import Report, as_json
from raybench.reporting.text import report_text

WIDTHS = (60, 80, 120)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ANSWERS)
def test_text(name, width, snapshot):
    text = report_text(ANSWERS[name](), width)
    assert max(map(len, text.splitlines())) <= width
    assert text == snapshot


def test_text_in_full(snapshot):
    assert report_text(devices_with_target(), 100, full=True) == snapshot


def test_json(snapshot):
    report = Report(three_axes(), [], "2026-01-01T00:00:00Z", "name: three\n")
    assert json.loads(as_json(report)) == snapshot

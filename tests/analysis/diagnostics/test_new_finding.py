"""One declaration is a new kind of finding: in reports, tables and the documentation."""

import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from support.grid_files import write_events
from support.made_up_grids import contract_events

from raybench import load
from raybench.analysis import diagnostics
from raybench.analysis.diagnostics import finding
from raybench.reporting import build

MOONLIGHT = dedent(
    """
    from raybench.analysis.diagnostics.finding import Observation, detects

    @detects(
        "moonlight",
        condition="the moon was full",
        bias="the moon's share",
        did="ran under a full moon",
        measures="the tide",
        remedy="wait for the new moon",
    )
    def moonlight(attempt, context):
        if attempt.profile == "other":
            yield Observation("the moon was full", {"share": 0.5}, too_short=2.0)
    """
)


@pytest.fixture
def moonlight(tmp_path, monkeypatch):
    """The new file, in a folder that the package is searched in too."""
    (tmp_path / "moonlight.py").write_text(MOONLIGHT)
    monkeypatch.setattr(diagnostics, "__path__", [*diagnostics.__path__, str(tmp_path)])
    finding._import_detectors.cache_clear()
    yield finding.kinds()["moonlight"]
    monkeypatch.undo()
    sys.modules.pop("raybench.analysis.diagnostics.moonlight")
    finding._DECLARED.pop("moonlight")


@pytest.fixture
def journal(tmp_path):
    return write_events(tmp_path / "results" / "made_up", contract_events())


def test_it_is_a_caution_of_the_report_and_of_the_ratio(moonlight, journal):
    report = build.from_sources([str(journal)], Path())
    (remark,) = report.remarks
    assert remark.kind == "finding"
    page = re.sub(r"<[^>]*>", "", build.files(report)[build.HTML])
    assert "other ran under a full moon: this measures the tide." in page
    assert "the moon was full; the true time may be up to 3.00x as long. Wait for the new moon." in page


def test_it_is_in_the_tables_and_on_the_run(moonlight, journal):
    trials = load(journal).trials
    assert trials.groupby("device")["findings"].unique().map(list).to_dict()["other"] == ["moonlight"]
    assert trials[trials["device"] == "cpu"]["findings"].isna().all()
    assert not finding.only_a_note("moonlight") and not finding.is_of_hardware("moonlight")

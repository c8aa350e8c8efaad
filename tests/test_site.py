"""The documentation's site: its generated parts, and a strict build."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from inspect import isfunction
from pathlib import Path

import pytest
from support import ROOT

from raybench.analysis.diagnostics.finding import kinds
from raybench.cli import VERBS
from raybench.core.settings import SETTINGS
from raybench.results.columns import CELLS, COMPARISON, EPOCHS, TRIALS
from raybench.training import Trial

GENERATE = runpy.run_path(str(ROOT / "docs" / "generate.py"))
EXTERNAL = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def part(name: str) -> str:
    text: str = GENERATE["TABLES"][name]()
    return text


def test_each_part_has_a_place_in_one_page() -> None:
    pages = [path.read_text() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(re.findall("<!-- table: (.*) -->", "".join(pages))) == sorted(GENERATE["TABLES"])


def test_settings_and_keys() -> None:
    assert re.findall(r"^### `(\w+)`$", part("settings"), re.MULTILINE) == list(SETTINGS)
    assert "\n- Frameworks: `torch`, `torch_tpu`\n" in part("settings")
    assert "| `baseline` |" in part("grid keys") and "| `price_per_hour` |" in part("device keys")
    assert not set(re.findall(r"^\| `(\w+)` \|", part("grid keys"), re.MULTILINE)) & set(SETTINGS)


def test_columns_have_every_column() -> None:
    tables = {"trial": TRIALS, "epoch": EPOCHS, "cell": CELLS, "comparison": COMPARISON}
    for name, columns in ((f"{kind} columns", columns) for kind, columns in tables.items()):
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", part(name), re.MULTILINE)
        assert rows == [(column.name, column.meaning, column.unit or "–") for column in columns]


def test_findings_have_every_kind_with_its_remedy() -> None:
    text = part("possible cautions") + "\n\n" + part("only notes")
    remedies = re.findall(r"^### `(\w+)`\n\n(?:- .*\n)+- Remedy: (.*)\.$", text, re.MULTILINE)
    assert dict(remedies) == {code: kind.remedy for code, kind in kinds().items()}
    assert len(re.findall("- Its time may be too long by: ", text)) == len(re.findall("###", part("possible cautions")))


def test_events_are_those_of_a_journal() -> None:
    events = re.findall(r"^### `(\w+)`$", part("journal events"), re.MULTILINE)
    assert {"trial_started", "epoch_ended", "trial_ended", "trial_skipped", "check_ended"} <= set(events)
    assert "| `settle_s` |" in part("epoch fields")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason='mkdocs is not installed: pip install -e ".[docs]"')
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.html")}
    assert not [match for text in pages.values() for match in EXTERNAL.findall(text)]
    assert "<!-- table:" not in "".join(pages.values())
    assert "price_per_hour" in pages["reference/settings.html"]
    assert all(f"raybench {verb}" in pages["reference/command_line.html"] for verb in VERBS)
    documented = set(re.findall(r'id="raybench\.([\w.]+)"', pages["reference/python.html"]))
    methods = {f"Trial.{name}" for name, value in vars(Trial).items() if name[0] != "_" and isfunction(value)}
    assert {"Trial.epochs", "Trial.steps", "Trial.evaluation", "Trial.log"} <= methods <= documented
    assert "Workload" in documented and "Attributes" in pages["reference/python.html"]
    assert not list(tmp_path.rglob("*.py"))

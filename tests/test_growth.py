"""The brake of `.ci/run`: growth is allowed if the changelog says what it replaces."""

import shutil
import subprocess
import sys

import pytest
from support import ROOT
from support.repositories import commit


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("folder", "lines", "change", "passes"),
    [
        ("raybench", 300, "", True),
        ("raybench", 301, "", False),
        ("tests", 301, "- A faster parser.", False),
        ("tests", 301, "- A parser; replaces two by hand.", True),
        ("docs", 999, "", True),
    ],
)
def test_growth_needs_a_line_in_the_changelog(tmp_path, folder, lines, change, passes):
    file = tmp_path / folder / "a.py"
    file.parent.mkdir()
    file.write_text("1\n")
    (tmp_path / "CHANGELOG.md").write_text("- It replaces nothing yet.\n")
    commit(tmp_path)
    file.write_text("1\n" * (lines + 1))
    (tmp_path / "CHANGELOG.md").write_text(f"- It replaces nothing yet.\n{change}\n")
    commit(tmp_path)
    done = subprocess.run([sys.executable, ROOT / ".ci" / "growth"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) == passes, done.stderr
    assert f"{folder} +{lines} lines" in done.stdout or folder == "docs"

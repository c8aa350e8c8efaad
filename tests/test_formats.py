"""What `docs/reference/formats.md` says is so."""

import re
from pathlib import Path

from raybench.analysis.statistics.speedup import speedup
from raybench.core.ledger import SECTIONS
from raybench.core.status import TrialStatus
from raybench.tracking.journal_parts import end_of_lines, missing_parts

PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "formats.md").read_text()


def column(heading, number):
    """The texts in backquotes of a column (from 0) of the first table below a heading."""
    table = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1:] for line in table.splitlines() if line.startswith("|")]
    return [found.group(1) for row in rows if (found := re.match(r" `(\w+)` $", row[number]))]


def test_its_sections_are_those_of_the_ledger_and_add_up():
    assert tuple(column("3 Time ledger", 0)) == SECTIONS
    seconds = [float(number) for number in re.findall(r"\| (\d\.\d{3})(?: =[^|]*)? \|$", PAGE, re.MULTILINE)]
    assert round(sum(seconds), 3) == 9.8


def test_its_statuses_are_those_of_trials():
    table = PAGE.split("\n## 2 Statuses and exit codes\n")[1].split("\n## ")[0]
    rows = {row[2].strip(" `"): row for row in (line.split("|") for line in table.splitlines() if "| `" in line)}
    assert list(rows) == list(TrialStatus)
    for status in TrialStatus:
        _, _, _, again, exit_status, mlflow, _ = map(str.strip, rows[status])
        assert again.endswith("at the next command") == status.is_rerun, status
        assert (exit_status == "1") == status.is_failure, status
        assert (again, exit_status) == ("no", "0") or not status.is_result, status
        assert mlflow == (f"`{status.mlflow_status}`" if status != TrialStatus.SKIPPED else "no run"), status


def test_its_part_of_the_journal_is_that_of_the_golden_journal():
    journal = Path(__file__).parent / "golden" / "journal.jsonl"
    ((part, _),) = missing_parts(journal, [], 0, end_of_lines(journal))
    assert f"    journal/{part.name}\n" in PAGE


def test_its_comparison_is_what_comes_out():
    found = speedup([4.0, 4.1, 4.05], [2.0, 2.02, 1.98])
    said = f"{found.ratio:.2f}x (95% CI {found.low:.2f}–{found.high:.2f})"
    assert f"**{said}**" in PAGE and f"({found.df:.2f} degrees" in " ".join(PAGE.split())

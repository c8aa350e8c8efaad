"""The script of a report's page in Chromium: sorting and searching the rows of a long table, most of which are not in
the page at first."""

import json
import re
import shutil
import subprocess

import pytest
from support.made_up_grids import made_up

from raybench.reporting import html
from raybench.reporting.report import make_report

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium"),
]

ACTIONS = """
<script>
const seen = [], box = document.querySelector(".wide:has(a.rows)");
const look = () => seen.push([
  box.querySelector(".count").textContent,
  [...box.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent)),
]);
const search = (words) => {
  box.querySelector("input").value = words;
  box.querySelector("input").dispatchEvent(new Event("input"));
  look();
};
look();
search("512 5");
search("none such");
search("");
const batch = [...box.querySelectorAll("th")].find((head) => head.textContent === "batch");
batch.click();
look();
batch.click();
look();
document.body.replaceChildren(JSON.stringify(seen));
</script>
</body>
"""


def test_a_long_table_sorts_and_searches_all_its_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(html, "ROWS", 3)
    report = make_report(made_up(("gpu",), (64, 128, 256, 512), (0.0, 5e-5, 5e-4)))
    page = html.page(report).replace("</body>", ACTIONS)
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    command = [
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        f"file://{tmp_path}/page.html",
    ]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    first, found, nothing, again, up, down = json.loads(re.search(r"<body>(.*)</body>", said, re.S)[1])
    assert first[0] == again[0] == "The first 3 of 12 rows" and first[1] == again[1] and len(first[1]) == 3
    assert found[0] == "3 rows found in 12"
    assert [row[0] for row in found[1]] == ["512"] * 3
    assert nothing == ["0 rows found in 12", []]
    assert [row[0] for row in up[1]] == ["64"] * 3 and [row[0] for row in down[1]] == ["512"] * 3
    assert up[0] == down[0] == "The first 3 of 12 rows"

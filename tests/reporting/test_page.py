"""The page of a report: its content, and its script in a browser."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from support.answers import ANSWERS, busy_host, quick_start, three_axes

from raybench.analysis.answer import Answer
from raybench.reporting.page import overview, page
from raybench.reporting.report import Report
from raybench.reporting.words.best import best_texts
from raybench.reporting.words.status import caution_text, failure_sentences, status_sentences, trust_sentence

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
EMPTY_ELEMENTS = {"meta", "input", "path", "use", "rect", "circle", "br"}


class Outline(HTMLParser):
    """Texts and headings of a page; checks that its elements are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.headings: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in EMPTY_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in EMPTY_ELEMENTS:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.texts.append(data)
            if self.open and self.open[-1] in ("h1", "h2", "h3", "summary"):
                self.headings.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def html_of(answer: Answer) -> str:
    return page(Report(answer, [], "2026-01-01T00:00:00Z", "name: a grid\n"))


@pytest.mark.parametrize("name", ANSWERS)
def test_the_page_has_every_sentence_of_the_text(name):
    answer = ANSWERS[name]()
    shown = Outline(html_of(answer))
    sentences = [*status_sentences(answer), *map(str, best_texts(answer)), trust_sentence(answer)]
    cautions = [caution_text(each).replace("`", "") for each in answer.trust.cautions]
    assert all(sentence in shown.text for sentence in [*sentences, *cautions, *failure_sentences(answer)])
    assert len(set(shown.headings)) == len(shown.headings)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_page_needs_nothing_else(name):
    html = html_of(ANSWERS[name]())
    links = re.findall(r"(?:src|href)=[\"']?([^\"'>\s]+)", html)
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"@import|url\((?!#)", html)


def test_names_from_files_are_escaped():
    bad = "<script>alert(1)</script>"
    answer = quick_start()
    configurations = tuple(replace(each, label=bad) for each in answer.configurations)
    html = html_of(replace(answer, grid=bad, description=bad, configurations=configurations))
    assert "<script>alert" not in html


def test_sections_without_content_are_left_out():
    headings = Outline(html_of(quick_start())).headings
    assert headings == ["quickstart", "Speed and quality", "2 configurations", "Method", "Grid file"]
    assert "What each setting does" in Outline(html_of(three_axes())).headings


def test_the_trust_mark_has_a_color():
    assert 'class="trust clear"' in html_of(three_axes())
    assert 'class="trust doubtful"' in html_of(busy_host())


def test_a_notebook_shows_answer_effects_and_speeds():
    shown = Outline(overview(three_axes()))
    assert str(best_texts(three_axes())[0]) in shown.text
    assert "batch 512 vs. 32" in shown.text and "relative speed" in shown.text
    assert "limited by" not in shown.text


ACTIONS = """
<script>
const seen = [], table = document.querySelector("table.configurations");
const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
const look = () => seen.push(shown().map((row) => row.cells[0].textContent));
const head = (text) => [...table.querySelectorAll("th")].find((each) => each.textContent === text);
look();
head("accuracy").click();
look();
head("#").click();
head("#").click();
look();
const input = document.querySelector("input");
input.value = "gpu 512";
input.dispatchEvent(new Event("input"));
look();
seen.push(document.querySelector(".count").textContent);
document.body.replaceChildren(JSON.stringify(seen));
</script>
</body>
"""


LAYOUT = """
<script>
const wide = document.querySelector("section > .wide"), rows = [...wide.querySelectorAll("tbody tr")];
const height = Math.max(...rows.map((row) => row.offsetHeight));
document.body.replaceChildren(JSON.stringify([height, wide.scrollWidth - wide.clientWidth]));
</script>
</body>
"""


@pytest.fixture
def in_browser(tmp_path):
    """Shows a page with a script at its end in a window of 1400 pixels; returns what the script leaves of it."""

    def show(html, script):
        (tmp_path / "page.html").write_text(html.replace("</body>", script), encoding="utf-8")
        flags = [*FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,1000", "--dump-dom"]
        command = [CHROMIUM, *flags, f"file://{tmp_path}/page.html"]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        return json.loads(re.search(r"<body>(.*)</body>", dom, re.S)[1])

    return show


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
def test_many_columns_fit_a_window_in_low_rows(in_browser):
    answer, parts = three_axes(), {"data": 4.0, "compile": 2.0, "train": 3.0, "evaluate": 1.0, "checkpoint": 1.0}
    measured = {"medians": {"memory_gib": 20.5, "memory_used": 0.4}, "run_parts_s": parts}
    measured["metrics"] = dict.fromkeys(("val/f1", "val/ap", "val/iou"), 0.5123)
    answer = replace(answer, configurations=tuple(replace(each, **measured) for each in answer.configurations))
    height, hidden = in_browser(html_of(answer), LAYOUT)
    assert height < 90 and hidden <= 0, "rows of at most three lines, and no column out of sight"


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
def test_the_table_sorts_and_filters(in_browser):
    answer = three_axes()
    more = [replace(each, index=each.index + 8, label=f"{each.label}, x", rank=None) for each in answer.configurations]
    answer = replace(answer, configurations=(*answer.configurations, more[0]))
    first, by_accuracy, down, found, count = in_browser(html_of(answer), ACTIONS)
    assert first == ["1", "2", "3", "4", "5", "6", "7", "8", "–"]
    assert sorted(by_accuracy[:4]) == ["1", "2", "5", "6"]
    assert down == ["8", "7", "6", "5", "4", "3", "2", "1", "–"]
    assert sorted(found) == ["1", "2"] and count == "2 of 9"

"""The report of a grid: its sentences, its tables, its page and its data."""

import base64
import csv
import dataclasses
import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console
from support.made_up_grids import cell_of, contract_events, made_up, odd, told
from support.report_grids import REPORTS

from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.grid_results import of_journal
from raybench.analysis.summary import BestToTargetFact
from raybench.analysis.verdict import Outcome
from raybench.cli.report_view import show_report, show_table, show_verdict
from raybench.core.job import Target
from raybench.reporting import build
from raybench.reporting import html as html_page
from raybench.reporting.comparison_table import cell_columns, ranking_columns
from raybench.reporting.html import page
from raybench.reporting.report import (
    Remark,
    ReportContext,
    as_json,
    has_finding,
    make_report,
    with_warnings,
    without_warning,
)
from raybench.reporting.sentences import markdown, plain
from raybench.results.attempt import attempts, latest

CONTRACT = [
    "*other* is **2.02x faster** than *cpu* (95% CI 1.97–2.08).",
    "Accuracy: equal within ±1 point (0 points, 95% CI −1.1 to +1.1).",
]
"""The verdict of the contract's grid, word for word."""

EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """What a browser sees: tags with their attributes, and the text of each."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self._open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if not {"style", "svg"} & set(self._open):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))


def contract():
    return make_report(of_journal("contract", latest(attempts(contract_events()).values())))


def said(report):
    return [plain(each) for paragraph in report.verdict for each in paragraph]


@pytest.fixture(scope="module")
def odd_report():
    results = dataclasses.replace(odd(), target=Target("val/accuracy", 0.78))
    return make_report(
        results, ReportContext("A grid in which much went wrong.", "name: made_up\n", ["a proof has failed"])
    )


@pytest.fixture(scope="module")
def odd_files(odd_report):
    return build.files(odd_report)


def test_the_verdict_of_the_contract_in_every_form():
    """From its events to the page and the data; the terminal has a snapshot."""
    report = contract()
    assert [markdown(fact) for paragraph in report.verdict for fact in paragraph] == CONTRACT
    html = page(report)
    for sentence in said(report):
        assert sentence in Page(html).text
    assert "<p><em>other</em> is <strong>2.02x faster</strong> than <em>cpu</em> (95% CI 1.97–2.08).</p>" in html
    data = as_json(report)
    assert data["v"] == 1 and data["verdict"] == said(report)
    ratio = data["cells"][1]["speedup"]
    assert [round(ratio[end], 2) for end in ("ratio", "low", "high")] == [2.02, 1.97, 2.08]


def test_the_page_needs_nothing_else(odd_files):
    seen = Page(odd_files[build.HTML])
    asked = [(tag, attrs) for tag, attrs in seen.tags if tag in ("script", "link", "img", "iframe", "object", "base")]
    assert asked == [("script", {})], "which sorts tables"
    for tag, attrs in seen.tags:
        for name, value in attrs.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "xlink:href", "action"):
                assert value.startswith("#"), (tag, value)
    assert not re.search(r"@import|url\((?!#)", odd_files[build.HTML])
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for tag, attrs in seen.tags if tag in ("a", "use") and "href" in attrs} <= set(ids)


def test_the_page_has_its_parts_in_order(odd_files):
    text = Page(odd_files[build.HTML]).text
    heads = ["Ranking", "Figures", "All cells", "Cautions", "Time to the target", "Machines and", "Method", "Grid file"]
    places = [text.index(head) for head in heads]
    assert places == sorted(places)
    assert text.index("x faster than cpu") < places[0], "the verdict first"
    assert "a proof has failed" in text and "name: made_up" in text and "torch 2.13.0" in text
    assert "A grid in which much went wrong." in text


def test_the_head_of_the_page_has_each_model_once(odd_report):
    machine = {"host": "a", "device": "gpu", "kind": "cuda", "model": "H100", "count": 2, "threads": 4}
    machines = [{**machine, "framework": "torch", "runs": 3}, {**machine, "host": "b", "framework": "torch", "runs": 1}]
    header = page(dataclasses.replace(odd_report, machines=machines)).partition("</header>")[0]
    assert header.count("gpu: H100 (× 2)") == 1
    assert "more" not in header


def test_a_long_table_has_its_first_rows_and_all_of_them_as_csv(odd_report, odd_files, monkeypatch):
    whole = odd_files[build.HTML]
    assert not any("download" in attrs for _, attrs in Page(whole).tags)
    monkeypatch.setattr(html_page, "ROWS", 2)
    short = page(odd_report)
    columns = cell_columns(odd_report.results.rows, odd_report.results.metric_label)
    count = len(columns[0].cells)
    assert f"The first 2 of {count} rows" in Page(short).text
    links = [attrs for tag, attrs in Page(short).tags if tag == "a" and "download" in attrs]
    assert len(links) == len(re.findall(r"The first 2 of \d+ rows", short)) > 1
    tables = [
        list(csv.reader(io.StringIO(base64.b64decode(each["href"].split(",")[1]).decode(), newline="")))
        for each in links
    ]
    cells = [[column.head for column in columns], *map(list, zip(*(column.cells for column in columns), strict=True))]
    assert cells in tables
    for section in odd_report.sections:
        rows = [[text for _, text in section.cells(record)] for record in section.records]
        assert len(rows) <= 2 or [[column.head for column in section.shown], *rows] in tables
    assert all(body.count("<tr>") <= 2 for body in re.findall("<tbody>(.*?)</tbody>", short, re.S)[:-1])


def test_names_from_files_are_text():
    cells = [cell_of("cpu"), cell_of("cpu", 128)]
    for cell in cells:
        cell["workload"] = {"name": EVIL, "version": 1}
        cell["device"] = {**cell["device"], "model": EVIL}
    made = [event for cell in cells for n in range(2) for event in told(cell, n, [1.0, 1.0], [0.5, 0.6], profile=EVIL)]
    for event in made:
        event.setdefault("label", EVIL)
        if event["event"] == "trial_started":
            event["versions"] = {EVIL: EVIL}
            event["host"] = {"name": EVIL}
    other = told(cell_of("gpu"), 0, [1.0], [0.5], "failed", {"type": EVIL, "message": EVIL, "phase": EVIL}, EVIL + "2")
    results = of_journal(EVIL, latest(attempts([*made, *other]).values()))
    report = make_report(results, ReportContext(EVIL, EVIL, [EVIL], made=EVIL))
    html = page(report)  # figures have a test of their own
    seen = Page(html)
    assert [attrs for tag, attrs in seen.tags if tag == "script"] == [{}] and html.count("<script") == 1
    assert seen.text.count(EVIL) > 10, "all of it is there, as text"
    assert json.loads(build.text(as_json(report)))["grid"] == EVIL


def test_the_data_are_documented_and_are_data(odd_files):
    data = json.loads(odd_files[build.DATA])
    documented = set(re.findall(r"`(\w+)`", as_json.__doc__))
    assert set(data) - documented == set()
    assert data["target"]["at_least"] == 0.78
    assert isinstance(data["sections"]["target"]["records"][0]["seconds"], float)
    assert data["cells"][0]["steady"]["runs"] == 3
    assert set(data["figures_left_out"]) == set()


def test_needless_remarks_are_not_there():
    assert make_report(made_up()).remarks == []


def test_warnings_that_come_later_stand_where_they_would_have_stood():
    results = odd()

    def report(*warnings):
        return make_report(results, ReportContext(made="now", warnings=list(warnings)))

    for own, behind, later in [(["a", "b", "c"], 2, ["x", "y"]), (["a"], 0, ["x"]), (["a"], 1, ["x"]), ([], 0, ["x"])]:
        together = report(*own[:behind], *later, *own[behind:])
        assert [each.says for each in together.remarks if each.kind == "warning"] == together.context.warnings
        added = with_warnings(report(*own), later, behind)
        assert (added.context, added.remarks) == (together.context, together.remarks)


def test_a_screen_has_the_answer_and_in_full_everything(odd_report):
    def printed(full):
        terminal = io.StringIO()
        show_report(odd_report, Console(file=terminal, width=300, color_system=None), full=full)
        return " ".join(terminal.getvalue().split())

    brief, full = printed(full=False), printed(full=True)
    for words in said(odd_report):
        assert words in brief and words in full
    for section in odd_report.sections:
        assert section.title in full and section.title not in brief
    for each in odd_report.deciding:
        assert plain(each) in full
    for _, facts in odd_report.comparisons:
        assert all(plain(fact) in full for fact in facts)
    assert "all 11 cells: raybench report" in brief and "limited by:" not in brief, "the legend is in full only"


@pytest.mark.parametrize("name", REPORTS)
def test_an_answer_has_at_most_three_lines_of_eighty_columns(name):
    terminal = io.StringIO()
    show_verdict(REPORTS[name](), Console(file=terminal, width=80, color_system=None))
    lines = terminal.getvalue().splitlines()
    assert 1 <= len(lines) <= 3 and max(map(len, lines)) <= 80


def test_a_sentence_that_does_not_fit_into_the_answer_is_shortened():
    fact = BestToTargetFact(
        "batch 128", "batch 32", Target("val/accuracy", 0.9), 2.22, 2.92, 1.32, 0.9, 1.9, Outcome.NOT_SIGNIFICANT, True
    )
    long = (
        "Time to 90% accuracy at best settings: no significant difference (batch 128: 2.22 s, batch 32: 2.92 s).",
        "At best settings batch 128 takes 2.22 s to 90%, batch 32 2.92 s: 1.32x (95% CI 1.10–1.60).",
    )
    short = (
        "Time to 90%: no significant difference (batch 128: 2.22 s, batch 32: 2.92 s).",
        "Batch 128 takes 2.22 s to 90%, batch 32 2.92 s: 1.32x (95% CI 1.10–1.60).",
    )
    sure = dataclasses.replace(fact, low=1.1, high=1.6, outcome=Outcome.HIGHER)
    report = REPORTS["batches"]()
    for each, full, brief in zip((fact, sure), long, short, strict=True):
        own = dataclasses.replace(report, verdict=[*report.verdict[:2], [each]])
        for width, words in ((80, brief), (120, full)):
            terminal = io.StringIO()
            show_verdict(own, Console(file=terminal, width=width, color_system=None))
            assert terminal.getvalue().splitlines()[2] == words


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [80, 120])
def test_a_screen_fits_and_breaks_no_word(name, width):
    terminal = io.StringIO()
    report = REPORTS[name]()
    show_table(report, Console(file=terminal, width=width, color_system=None))
    lines = [line.rstrip() for line in terminal.getvalue().splitlines() if "raybench report" not in line]
    assert max(map(len, lines), default=0) <= width
    columns = (
        ranking_columns(report.results, report.ranking)
        if report.ranking
        else cell_columns(report.results.rows, report.results.metric_label)
    )
    words = {word for column in columns for text in (column.head, *column.cells) for word in text.split()}
    shown = {word for line in lines for word in line.split() if "─" not in word and "skipped:" not in line}
    assert not report.results.cells or shown <= words | set(" ".join(lines[-1:]).split())


def test_findings_that_turn_no_verdict_are_on_the_screen_in_full_only():
    results = made_up()
    steal = Finding("steal", "cores were taken", "wait", {"share": 0.06}, too_long=0.06)
    report = make_report(dataclasses.replace(results, findings={run.key: (steal,) for run in results.latest.values()}))

    def printed(full):
        terminal = io.StringIO()
        show_report(report, Console(file=terminal, width=300, color_system=None), full=full)
        return terminal.getvalue()

    words = "Note: steal in 6 runs: cores were taken; this may have made the time up to 1.06x as long"
    assert words in printed(full=True) and "cores were taken" not in printed(full=False)


def test_why_energy_was_not_measured_is_on_the_page_and_on_the_screen_in_full():
    results = made_up()
    audit = {"energy": {"missing": ["energy of the CPU: no permission to read <energy_uj>"]}}
    runs = {name: dataclasses.replace(run, audit=audit) for name, run in results.latest.items()}
    report = make_report(dataclasses.replace(results, latest=runs))

    def printed(full):
        terminal = io.StringIO()
        show_report(report, Console(file=terminal, width=300, color_system=None), full=full)
        return terminal.getvalue()

    words = "Energy of the CPU: no permission to read <energy_uj> (6 runs)."
    assert f"Note: {words}" in printed(full=True) and words not in printed(full=False)
    assert words.replace("<", "&lt;").replace(">", "&gt;") in page(report)


def test_a_caution_has_its_letter_if_the_table_shows_letters_or_the_answer_names_it():
    results = made_up(("cpu",), (256, 512, 1024))
    busy = Finding("busy_host", "others kept a core busy", "stop them", {"share": 0.5}, too_long=9.0, too_short=9.0)
    for number, named in ((0, True), (1, False)):  # the baseline, and a batch that is not the fastest
        own = {run.key: (busy,) for run in results.completed(results.cells[number])}
        report = make_report(dataclasses.replace(results, findings=own, baseline={"batch_size": 256}))
        for width in (80, 200):
            terminal = io.StringIO()
            show_report(report, Console(file=terminal, width=width, color_system=None))
            text = terminal.getvalue()
            assert ("  cautions" in text) == (width > 80)
            assert (", see caution a)." in " ".join(text.split())) == named
            letter = " a" if named or width > 80 else ""
            assert f"Caution{letter}: busy host in 3 runs" in text
            show_report(report, Console(file=terminal, width=width, color_system=None), full=True)
            legend = "cautions: those that could reverse a comparison with this cell."
            assert (legend in terminal.getvalue()) == (width > 80)


def test_a_warning_that_repeats_a_finding_can_be_removed():
    busy = Finding("busy_host", "others kept a core busy", "stop them", {"share": 0.5}, too_long=9.0)
    results = made_up(("cpu",), (256, 512))
    own = {run.key: (busy,) for run in results.latest.values()}
    report = make_report(dataclasses.replace(results, findings=own), ReportContext(warnings=["busy", "other"]))
    assert has_finding(report, "busy_host") and not has_finding(report, "steal")
    left = without_warning(report, "busy")
    assert [remark for remark in report.remarks if remark not in left.remarks] == [Remark("warning", "busy")]


def test_a_screen_has_what_could_change_the_answer():
    results = made_up(("cpu", "gpu", "tpu"), (256, 512))
    busy = Finding("busy_host", "others kept a core busy", "stop them", {"share": 0.5}, too_long=9.0)
    own = {run.key: (busy,) for run in results.latest.values() if run.profile == "cpu"}
    report = make_report(dataclasses.replace(results, findings=own))
    terminal = io.StringIO()
    show_report(report, Console(file=terminal, width=200, color_system=None))
    says = "busy host in 6 runs: others kept a core busy; this may have made the time up to 10.0x as long. Stop them."
    assert f"Caution a: {says}" in terminal.getvalue()


def test_one_machine_on_each_side_is_said_to_be_one_of_its_model():
    def verdict(*hosts):
        results = made_up()
        machines = dict(zip(("cpu", "gpu"), hosts, strict=True))
        runs = {
            name: dataclasses.replace(run, host={"name": machines[run.profile]}) for name, run in results.latest.items()
        }
        return [remark.says for remark in make_report(dataclasses.replace(results, latest=runs)).remarks]

    words = "One machine per side: another machine of the same model may differ by up to 4%."
    assert words in verdict("node-1", "node-2")
    assert words not in verdict("node-1", "node-1"), "the same machine's two devices"

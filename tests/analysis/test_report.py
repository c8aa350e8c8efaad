"""The report of a grid: its sentences, its tables, its page and its data."""

import dataclasses
import io
import json
import re
from html.parser import HTMLParser

import pytest
from made_up_grids import cell_of, contract_events, made_up, odd, told
from rich.console import Console

from raybench import reports
from raybench.analysis.canary import Drift
from raybench.analysis.findings import MACHINE_DRIFT, Finding
from raybench.analysis.report import Told, make_report
from raybench.analysis.results import attempts, latest
from raybench.analysis.sentences import markdown, plain
from raybench.analysis.standing import Standing, of_journal
from raybench.cli.verdict import show_report
from raybench.trial import events
from raybench.trial.job import Target

CONTRACT = [
    "*other* trains `katnoria_cnn` (batch 256) **2.02 × as fast** as *cpu*, steady epochs, 3 runs each "
    "(95 %: 1.97 to 2.08).",
    "Accuracy after 2 epochs is the same within what 3 runs can show.",
]
"""The verdict of `contract.md` 6, word for word."""

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
    standing = dataclasses.replace(odd(), target=Target("val/accuracy", 0.78))
    return make_report(standing, Told("A grid in which much went wrong.", "name: made_up\n", ["a proof has failed"]))


@pytest.fixture(scope="module")
def odd_files(odd_report):
    return reports.files(odd_report)


def test_the_verdict_of_the_contract_in_every_form():
    report = contract()
    (paragraph,) = report.verdict
    assert [words for words in map(markdown, paragraph) if words in CONTRACT] == CONTRACT
    assert markdown(paragraph[0]) == CONTRACT[0], "it comes first"
    made = reports.files(report)
    page = Page(made[reports.HTML])
    for sentence in said(report):
        assert sentence in page.text
    assert "<strong>2.02 × as fast</strong> as <em>cpu</em>" in made[reports.HTML]
    data = json.loads(made[reports.DATA])
    assert data["v"] == 1 and data["verdict"] == said(report)
    ratio = data["cells"][1]["speedup"]
    assert [round(ratio[end], 2) for end in ("ratio", "low", "high")] == [2.02, 1.97, 2.08]


def journal_of(folder, made):
    """Events as a journal on disk, and what a person sees of it: the terminal's text and the page."""
    journal = folder / "journal.jsonl"
    journal.write_text("".join(json.dumps(event) + "\n" for event in made))
    report = reports.of_source(str(journal), folder)
    terminal = io.StringIO()
    show_report(report, Console(file=terminal, width=200, color_system=None))
    return " ".join(terminal.getvalue().split()), reports.files(report)[reports.HTML]


def test_the_contract_s_two_sentences_from_a_journal_to_the_terminal_and_the_page(tmp_path):
    terminal, page = journal_of(tmp_path, contract_events())
    assert (
        "other trains katnoria_cnn (batch 256) 2.02 × as fast as cpu, steady epochs, 3 runs each (95 %: 1.97 to 2.08)."
    ) in terminal
    assert "Accuracy after 2 epochs is the same within what 3 runs can show." in terminal
    assert (
        '<p class="first"><em>other</em> trains <code>katnoria_cnn</code> (batch 256) <strong>2.02 × as fast</strong> '
        "as <em>cpu</em>, steady epochs, 3 runs each (95 %: 1.97 to 2.08).</p>"
    ) in page
    assert "Accuracy after 2 epochs is the same within what 3 runs can show." in page


def test_the_contract_s_first_repeat_alone_has_no_interval(tmp_path):
    terminal, page = journal_of(tmp_path, [event for event in contract_events() if event["trial"].endswith("-r0")])
    assert (
        "other trains katnoria_cnn (batch 256) 2.00 × as fast as cpu, steady epochs, one run each: no interval."
    ) in terminal
    assert "steady epochs, one run each: no interval.</p>" in page
    accuracy = "Accuracy after 2 epochs is 56.10 % on other and 56.10 % on cpu, one run each: no interval."
    assert accuracy in terminal and accuracy in Page(page).text
    assert "95 %: " not in terminal and "95 %: " not in Page(page).text


def test_one_run_each_shows_no_interval():
    report = make_report(made_up(repeats=1))
    assert "one run each: no interval" in said(report)[0] and "95 %" not in said(report)[0]
    assert any("one completed run only" in doubt.says for doubt in report.doubts)


def test_nothing_completed():
    standing = made_up(ends={(device, 256, 5e-4, n): "oom" for device in ("cpu", "gpu") for n in range(3)})
    report = make_report(standing)
    assert said(report) == [
        "cpu has no time: of 3 runs 3 ran out of memory.",
        "gpu has no time: of 3 runs 3 ran out of memory.",
    ]
    page = Page(reports.files(report)[reports.HTML])
    assert "Left out" in page.text and "no run has completed" in page.text
    assert said(make_report(Standing("x", "y", [], {}, {}))) == ["No run has completed, so that there is no verdict."]


def test_many_cells_are_summed_up():
    report = make_report(made_up(("gpu", "tpu"), (64, 128, 512), (1.25e-4, 5e-4)))
    first = said(report)[0]
    assert re.fullmatch(
        r"Over 6 settings tpu trains katnoria_cnn 2\.\d+ to 2\.\d+ × as fast as gpu, steady epochs: "
        r"surely faster in 6\.",
        first,
    )
    assert len(said(report)) < 10 and len(report.comparisons) == 12


def test_the_page_needs_nothing_else(odd_files):
    page = Page(odd_files[reports.HTML])
    asked = [(tag, attrs) for tag, attrs in page.tags if tag in ("script", "link", "img", "iframe", "object", "base")]
    assert asked == []
    for tag, attrs in page.tags:
        for name, value in attrs.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "xlink:href", "action"):
                assert value.startswith("#"), (tag, value)
    assert not re.search(r"@import|url\((?!#)", odd_files[reports.HTML])
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for tag, attrs in page.tags if tag in ("a", "use") and "href" in attrs} <= set(ids)


def test_the_page_has_its_parts_in_order(odd_files):
    text = Page(odd_files[reports.HTML]).text
    heads = ["The comparison", "Figures", "Time to the target", "What to doubt", "The grid file", "The machines"]
    places = [text.index(head) for head in heads]
    assert places == sorted(places)
    assert text.index("× as fast as cpu") < places[0], "the verdict first"
    assert "a proof has failed" in text and "name: made_up" in text and "torch 2.13.0" in text
    assert "A grid in which much went wrong." in text


def test_names_from_files_are_text(tmp_path):
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
    standing = of_journal(EVIL, latest(attempts([*made, *other]).values()))
    report = make_report(standing, Told(EVIL, EVIL, [EVIL], made=EVIL))
    html = reports.files(report)[reports.HTML]
    page = Page(html)
    assert not [tag for tag, _ in page.tags if tag == "script"] and "<script" not in html
    assert page.text.count(EVIL) > 10, "all of it is there, as text"
    assert json.loads(reports.files(report)[reports.DATA])["grid"] == EVIL


def test_the_data_are_documented_and_are_data(odd_files):
    from raybench.analysis.report import as_json

    data = json.loads(odd_files[reports.DATA])
    documented = set(re.findall(r"`(\w+)`", as_json.__doc__))
    assert set(data) - documented == set()
    assert data["target"]["at_least"] == 0.78
    assert isinstance(data["sections"]["target"]["records"][0]["seconds"], float)
    assert data["cells"][0]["steady"]["runs"] == 3
    assert set(data["figures_left_out"]) == set()


def test_what_a_person_does_not_need_to_doubt_is_not_there():
    assert make_report(made_up()).doubts == []


def test_skipped_trials_have_no_number_and_no_error():
    made = [*contract_events(), events.trial_skipped("0123456789ab-r0", "0123456789ab", "no TPU on any node")]
    report = make_report(of_journal("x", latest(attempts(made).values())))
    assert report.troubles == []
    assert any("was skipped: no TPU on any node" in sentence for sentence in said(report))


def test_a_drift_is_told_once(capsys):
    standing = made_up()
    trial = next(iter(standing.latest))
    drift = Drift("torch on cpu", 1.5, 0.1, ("a run",), (("another-r0", 1),))
    report = make_report(standing, Told(drifts=[drift]))
    assert [doubt.kind for doubt in report.doubts] == ["drift"]
    show_report(report)
    assert "drift: torch on cpu changed" in capsys.readouterr().out
    touched = Finding(MACHINE_DRIFT, "it was slow", "wait", {"slower": 1.5})
    found = dataclasses.replace(standing, findings={(trial, 1): (touched,)})
    report = make_report(found, Told(drifts=[dataclasses.replace(drift, keys=((trial, 1),))]))
    assert [doubt.kind for doubt in report.doubts] == ["finding"]
    show_report(report)
    out = capsys.readouterr().out
    assert "machine drift (1 of 6 runs): it was slow. Wait." in out and "drift: torch" not in out, "once is enough"
    assert "it was slow" in Page(reports.files(report)[reports.HTML]).text


def test_a_screen_has_the_beginning_and_in_full_everything(odd_report):
    def printed(full):
        terminal = io.StringIO()
        show_report(odd_report, Console(file=terminal, width=300, color_system=None), full=full)
        return " ".join(terminal.getvalue().split())

    brief, full = printed(full=False), printed(full=True)
    left_out = [words for words in said(odd_report) if words not in brief]
    assert f"… and {len(left_out)} sentences more on the page, and with `raybench report --full`" in brief
    assert [words for words in said(odd_report) if words not in full] == [] and "more on the page" not in full
    for section in odd_report.sections:
        assert section.title in full and section.title not in brief
    for each in odd_report.deciding:
        assert plain(each) in full


def test_a_screen_says_wherever_a_ratio_is_not_the_hardware_s():
    standing = made_up(("cpu", "gpu", "tpu"), (256, 512))
    busy = Finding("busy_host", "others kept a core busy", "stop them", {"share": 0.5})
    own = {run.key: (busy,) for run in standing.latest.values() if run.profile == "cpu"}
    report = make_report(dataclasses.replace(standing, findings=own))
    terminal = io.StringIO()
    show_report(report, Console(file=terminal, width=200, color_system=None))
    words = "The ratio is not to be credited to the hardware."
    assert " ".join(terminal.getvalue().split()).count(words) == 2 == said(report).count(words), "of gpu and of tpu"

"""`--open`: the page of a running grid, in a browser or by its address."""

import re
import webbrowser

import pytest
from support.executors import DrawnTimes

from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.execution.progress import ProgressListener
from raybench.run import run_grid


class Reader(ProgressListener):
    """Reads the page at the start of each trial, as somebody at a browser would."""

    def __init__(self, page):
        self.page, self.pages = page, []

    def event(self, event):
        if event["event"] == "trial_started":
            self.pages.append(self.page.read_text())


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """The addresses that the browser has opened."""
    browser, addresses = tmp_path / "browser", tmp_path / "opened.txt"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {addresses}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser([str(browser), "%s"]))
    monkeypatch.setattr("raybench.reporting.figures.rendered_figures", lambda *_: {})
    return lambda: addresses.read_text().split()


def test_the_page_follows_the_grid_and_has_an_answer_only_at_its_end(digits, tmp_path, opened):
    page = tmp_path / "results" / "digits" / "report.html"
    reader = Reader(page)
    options = GridOptions(results=page.parents[1], tracking=None, checks=False, open=True)
    executor = DrawnTimes(lambda job: job.cell.settings.batch_size / 32)
    outcome = run_grid(load_grid(digits), executor, reader, options)
    assert [re.search(r"Running: (\d of 2 trials) so far", text)[1] for text in reader.pages] == [
        "0 of 2 trials",
        "1 of 2 trials",
    ]
    assert all("location.reload" in text and 'class="best"' not in text for text in reader.pages)
    end = page.read_text()
    assert "location.reload" not in end and "Running" not in end and 'class="best"' in end
    assert opened() == [page.as_uri()] and outcome.exit_status == 0
    run_grid(load_grid(digits), DrawnTimes(lambda job: 1.0), reader, options)
    assert opened() == 2 * [page.as_uri()] and page.read_text() == end, "nothing was left to run"


@pytest.mark.parametrize("terminal", [False, True])
def test_without_a_window_the_address_is_printed(grid, digits, tmp_path, monkeypatch, terminal):
    def get():
        if terminal:  # such as w3m, which would take over the terminal
            return webbrowser.GenericBrowser("false")
        raise webbrowser.Error("no browser")

    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setattr(webbrowser, "get", get)
    said = grid(digits, "--open")
    page = tmp_path / "raybench-results" / "digits" / "report.html"
    assert said.status == 0 and page.as_uri() in said.out and "Running" not in page.read_text()

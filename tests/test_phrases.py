"""Texts that users read are plain English: none of the phrases below, which readers had to translate."""

import ast
import re
from pathlib import Path

import pytest
from support import ROOT

import raybench

PACKAGE = Path(raybench.__file__).parent

PHRASES = {
    "not to be told": "no significant difference",
    "cannot be told": "cannot be separated",
    "what it comes to": "the result",
    "has come to": "the results of",
    "not to be credited": "may not be due to the hardware alone",
    "by a person": "by the user",
    "is told as": "is reported as",
    "× as fast": "1.5x faster, or takes 1.8x as long",
    "× as long": "1.8x as long",
    "surely faster": "significantly faster",
    "surely slower": "significantly slower",
    "surely from": "significant from",
    "runs than anyone makes": "more than 1,000 runs",
    "proves no mean": "one run",
    "had some luck": "is biased",
    "if it is to be known": "to get this data",
    "stands in for": "is used instead of",
    "least and most": "minimum and maximum",
    "once that is mended": "after fixing the cause",
    "look at the runs": "MLflow",
    "for none came": "because none followed",
    "than their spread says": "than their noise",
    "there is to doubt": "the findings of",
    "never asked": "receives callbacks",
    "(95 %:": "95% CI 1.3–1.8",
}
"""Phrases, each with what to write instead."""


def strings(path):
    """The texts of a Python file: messages and docstrings, without comments and code."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def texts():
    """Each file that has texts for users, and these texts."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, " ".join(strings(path))
    for folder, pattern in ((PACKAGE, "*.j2"), (PACKAGE / "sources", "*.yaml"), (ROOT / "docs", "*.md")):
        for path in sorted(folder.rglob(pattern)):
            yield path, path.read_text()
    yield ROOT / "README.md", (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def all_texts():
    return [(path.relative_to(ROOT).as_posix(), re.sub(r"\s+", " ", text).lower()) for path, text in texts()]


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_text_has_a_phrase_that_needs_translation(all_texts, phrase):
    found = [path for path, text in all_texts if phrase in text]
    assert not found, f"write, for example: {PHRASES[phrase]}"


def test_the_texts_are_found(all_texts):
    seen = dict(all_texts)
    assert "significant difference" in seen["raybench/reporting/templates/verdict.html.j2"]
    assert "run again with `--rerun` on a quiet machine" in seen["raybench/analysis/diagnostics/run_conditions.py"]
    assert "readme.md" in {path.lower() for path in seen} and any(path.endswith(".yaml") for path in seen)


ABOUT_PUBLISHED = ("published.md", "report.md", "results_as_tables.md", "findings.md", "adding_a_workload.md")


def test_a_caveat_is_one_of_a_published_result():
    """Those of the user's own runs are cautions and notes (`docs/method/findings.md`)."""
    for path, text in texts():
        published = "published" in text and (PACKAGE in path.parents or path.name in ABOUT_PUBLISHED)
        assert published or "literature" in path.parts or "caveat" not in text.lower(), path

"""What a report is shared as: figures, a table, the method as a paragraph, and where results come from."""

import json
import re
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from support import ROOT

import raybench as package
from raybench.reporting import build
from raybench.reporting.page import page

CLAIMS = ROOT / "notebooks" / "published" / "claims"
RESULTS = ("--results", str(ROOT / "notebooks" / "recorded"))


def shared(raybench, tmp_path, *files):
    """Write files with the report of the quick start, and return their content."""
    options = [part for file in files for part in (file[0], str(tmp_path / file[1]))]
    said = raybench("report", "quickstart", *RESULTS, *options)
    assert said.status == 0, said.err
    assert all(f"written: {tmp_path / name}" in said.out.replace("\n", "") for _, name in files)
    return [(tmp_path / name).read_bytes() for _, name in files]


def test_figures(raybench, tmp_path):
    svg, png = shared(raybench, tmp_path, ("--figure", "speed.svg"), ("--figure", "loss.png"))
    assert svg.startswith(b"<?xml") and b"<svg" in svg and png.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("option", "name", "says"),
    [
        ("--figure", "sped.svg", "the name of the file is that of a figure; did you mean speed?"),
        ("--figure", "speed.gif", "use one of .svg, .png, .pdf"),
        ("--figure", "time_and_price.svg", "fewer than two configurations have a price"),
    ],
)
def test_wrong_names(raybench, tmp_path, option, name, says):
    said = raybench("report", "quickstart", *RESULTS, option, str(tmp_path / name))
    assert said.status == 2 and says in " ".join(said.err.split()) and not (tmp_path / name).exists()


def test_tables_have_the_numbers_of_the_report(raybench, tmp_path):
    markdown, data = shared(raybench, tmp_path, ("--table", "q.md"), ("--json", "q.json"))
    markdown, report = markdown.decode(), json.loads(data)
    for each in report["configurations"]:
        assert f"| {each['label']} |" in markdown
        assert f"{100 * each['quality']['value']:.2f}%" in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.count(" | ") for line in rows[-4:]} == {rows[-6].count(" | ")}
    assert raybench("report", "quickstart", *RESULTS, "--table", "-").out == markdown


def test_the_method_has_the_numbers_of_the_grid(raybench, tmp_path):
    (data,) = shared(raybench, tmp_path, ("--json", "q.json"))
    report = json.loads(data)
    trials = package.load(RESULTS[1], grid="quickstart").trials
    text = report["method"]
    assert f"{len(trials)} completed runs of {len(report['configurations'])} configurations" in text
    assert "median of 2 epochs after 1 epoch of warm-up" in text and "best of 4 (Bonferroni)" in text
    assert f"A run took {1000 * trials['epochs_s'].median():.0f} ms" in text
    assert report["dates"][0] == str(trials["started"].min())[:10] and report["dates"][0] in text


def test_provenance_of_a_grid_and_of_a_table(tmp_path):
    path = CLAIMS / "modded_81.csv"
    made = build.from_grid(build.one_grid([str(path)], tmp_path))
    digest = sha256(path.read_bytes()).hexdigest()[:16]
    assert made.provenance == {"sources": [f"modded_81.csv, sha256:{digest}"]}
    assert "synchronized" not in made.method, "others have measured it"
    own = build.from_grid(build.one_grid(["quickstart"], Path(RESULTS[1])))
    assert own.provenance["machines"] and own.provenance["framework"][0].startswith("torch ")
    for text in (own.method, *(text for texts in own.provenance.values() for text in texts)):
        assert text in re.sub("&#34;|&quot;", '"', page(own))


def test_citation_names_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (citation["version"], citation["license"]) == (package.__version__, project["license"])
    assert f"version = {{{package.__version__}}}" in (ROOT / "docs" / "report.md").read_text()

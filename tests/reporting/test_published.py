"""Reports of published results: the sentences that follow from their numbers, in the terminal, as page and data."""

import json

import pytest

import raybench
from raybench.cli.published_view import show_published
from raybench.reporting.html import published_page
from raybench.reporting.published import as_json, published_report
from raybench.reporting.sentences import plain

ALL = raybench.published()


def tables(report):
    for section in report.sections:
        if section.name == "rules":
            yield from ([text for _, text in section.cells(record)] for record in section.records)


@pytest.mark.parametrize("name", ALL)
def test_a_published_report_in_words(name, snapshot):
    """The numbers are tested by arithmetic in `test_published`."""
    report = published_report(name, ALL[name])
    paragraphs = ["\n".join(map(plain, paragraph)) for paragraph in report.verdict]
    assert "\n\n".join([*paragraphs, *map(" | ".join, tables(report))]) == snapshot


@pytest.mark.parametrize("name", ALL)
def test_every_source_has_its_protocol_and_its_caveats_in_every_form(name, capsys):
    report, source = published_report(name, ALL[name]), ALL[name]
    page, data = " ".join(published_page(report).split()), as_json(report)
    show_published(report)
    printed = " ".join(capsys.readouterr().out.split())
    for words in (source.source, source.protocol, source.counts, *source.caveats):
        told = " ".join(words.split())
        assert told in printed
        assert told.replace("'", "&#39;") in page
    assert data["verdict"] and data["caveats"] == source.caveats
    assert json.loads(json.dumps(data))["sections"]["reported"]["records"]
    for paragraph in report.verdict:
        assert all(plain(each) in printed for each in paragraph)


def test_every_number_says_whether_it_is_claimed_or_derived(capsys):
    report = published_report("davidnet_tpu", ALL["davidnet_tpu"])
    origins = {record["origin"] for record in as_json(report)["sections"]["reported"]["records"]}
    assert origins == {"derived: from the log of its notebook"}
    words = [plain(each) for paragraph in report.verdict for each in paragraph]
    assert (
        "Derived: 19.3x (throughput of steady training; 39,868 ÷ 2,069 examples/s in the logs of its notebooks)."
        in words
    )
    assert any(
        each.startswith("Claimed: TPUv2-8 is 5x faster than T4 (“around 5x slower”, of training)") for each in words
    )
    record, *_ = as_json(published_report("resnet63", ALL["resnet63"]))["sections"]["reported"]["records"]
    assert record["origin"] == "derived: the mean of calls 3 and 4, wall time", "of calls, a rule makes the number"
    show_published(published_report("katnoria_cnn", ALL["katnoria_cnn"]))
    assert capsys.readouterr().out.count("  claimed ") >= 3

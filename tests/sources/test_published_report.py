"""Reports of published results: the sentences that follow from their numbers, in the terminal, as page and data."""

import json

import pytest

import raybench
from raybench.analysis.page import published_page
from raybench.analysis.sentences import plain
from raybench.cli.published import show_published
from raybench.sources.published_report import as_json, published_report

ALL = raybench.published()


def verdict(name):
    return [[plain(each) for each in paragraph] for paragraph in published_report(name, ALL[name]).verdict]


def test_resnet63_by_its_own_rule_and_by_every_other():
    mac, i5 = verdict("resnet63")
    assert mac == [
        "GTX 1080 trains resnet63 159.42 × as fast as Mac mini 2014, by the source's own rule, 3 runs each "
        "(95 %: 158.0 to 160.8).",
        "The source says 159.42 × (the mean of calls 3 and 4).",
        "By other rules the same runs give 8.83 × over all calls and 3.57 × at the first, the cold one.",
        "Processor time would say 421 × and is not the headline: it adds up the time of all cores, and leaves out "
        "waiting "
        "for a device.",
    ]
    assert i5[:3] == [
        "GTX 1080 trains resnet63 52.25 × as fast as i5-7500, by the source's own rule, 3 runs each "
        "(95 %: 52.00 to 52.50).",
        "The source says 52.25 × (the mean of calls 3 and 4).",
        "By other rules the same runs give 3.22 × over all calls and 1.50 × at the first, the cold one.",
    ]
    assert len(i5) == 4


def test_dawnbench_with_its_costs():
    assert verdict("dawnbench_resnet164") == [
        ["P100 trains resnet164 31.4 × as fast as 16 vCPU, 9101 s against 286014 s, one run each: no interval."],
        [
            "K80 trains resnet164 8.25 × as fast as 16 vCPU, 34672 s against 286014 s, one run each: no interval.",
            "The run costs 42.35 on 16 vCPU, 4.55 × as much as the 9.31 on K80.",
        ],
    ]


def test_davidnet_with_its_misses():
    target, alone = verdict("davidnet")
    assert target == [
        "35 of 50 runs on V100 reach 94 % (95 %: 56 to 81 %), in 74.0 s: with a run again after each miss a success "
        "takes "
        "105.7 s on average (95 %: 91.5 to 132 s, for that share alone)."
    ]
    assert alone == [
        "On V100 davidnet took 74 s, the mean of 50 runs, with an accuracy of 94.08 %.",
        "On V100 the first of the ladder took 297 s.",
        "On V100 an early step of the ladder took 79 s.",
        "On V100 the last of the ladder took 26 s.",
    ]


def test_what_is_claimed_and_does_not_follow():
    assert verdict("imdb_lstm") == [
        [
            "The source says that workstation GPU is 57 × as fast as free cloud CPU (an epoch); it reports no "
            "numbers from "
            "which that would follow."
        ],
        ["On workstation GPU an epoch took 119 s."],
    ]
    steady, whole = verdict("davidnet_tpu")
    assert steady == [
        "TPUv2-8 trains davidnet 19.3 × as fast as T4, 39868 examples/s against 2069 examples/s, one number each: no "
        "interval.",
        "The source says 19.3 × (throughput of steady training).",
        "They also differ in decay rule (sum_over_replicas against mean) and replicas (8 against not told).",
    ]
    assert whole[0].startswith(
        "The source says that TPUv2-8 is 9.2 × as fast as T4 (end to end); it reports no numbers"
    )


def test_two_measures_of_one_source():
    said, logs = verdict("resunet_v1")
    assert said == [
        "TPUv2-8 trains resunet_v1 3.15 × as fast as P100, 740 s (one epoch, as the text says) against 2331 s (one "
        "epoch), "
        "one number each: no interval.",
        "They also differ in batch (256 against 128), optimizer (sgd against adam), learning rate (0.08 against "
        "0.01) and "
        "replicas (8 against not told).",
    ]
    assert logs[0].startswith("TPUv2-8 trains resunet_v1 1.96 × as fast as P100, 235.6 examples/s (throughput")
    assert logs[1] == "The source says 1.96 × (throughput by its own logs)."


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("katnoria_cnn", "GTX 1080 Ti trains katnoria_cnn 4.25 × as fast as Colab TPU, 32 s against 136 s, one number"),
        ("imdb_bilstm", "16 vCPU trains imdb_bilstm 2.34 × as fast as K80, 129 s (an epoch) against 302 s (an epoch)"),
        ("imdb_cnn", "K40 trains imdb_cnn 9.00 × as fast as i5, 10 s (an epoch) against 90 s (an epoch)"),
        ("mnist_cnn", "The source reports no time. Accuracy was 99.42 % on TPU and 99.41 % on T4."),
        ("airbench94", "On A100 airbench94 took 3.83 s, the mean of 1000 runs, with an accuracy of 94.01 %."),
        ("resunet_v2", "On P100 an epoch took 1151 s."),
    ],
)
def test_the_first_sentence_of_the_others(name, says):
    assert verdict(name)[0][0].startswith(says)


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


def test_the_table_of_rules():
    (rules,) = (
        section for section in published_report("resnet63", ALL["resnet63"]).sections if section.name == "rules"
    )
    assert [[text for _, text in rules.cells(record)] for record in rules.records] == [
        ["as the source counts", "159.42 ×", "52.25 ×"],
        ["over all calls", "8.83 ×", "3.22 ×"],
        ["at the first, the cold one", "3.57 ×", "1.50 ×"],
        ["processor time of the calls that the source counts; not the headline", "421.24 ×", "188.81 ×"],
    ]
    assert [column.head for column in rules.shown] == [
        "counted",
        "GTX 1080 over Mac mini 2014",
        "GTX 1080 over i5-7500",
    ]

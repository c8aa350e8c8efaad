"""Facts as sentences: every fact has its macro, and what users write is escaped."""

from dataclasses import dataclass

import pytest

from raybench.analysis import learning, summary  # noqa: F401 — they define facts
from raybench.analysis.diagnostics import diagnose  # noqa: F401 — declares the kinds of findings
from raybench.analysis.fact import Fact
from raybench.analysis.remarks import SyntheticDataFact
from raybench.analysis.run_counts import Ending, RunCounts
from raybench.analysis.target import MeanAccuracyFact
from raybench.analysis.verdict import (
    ConfounderFact,
    EpochTimeFact,
    HardwareCautionFact,
    Outcome,
    Samples,
    SpeedupFact,
    reasons,
)
from raybench.core.job import Target
from raybench.core.text import join_words
from raybench.reporting import sentences
from raybench.reporting.sentences import as_html, between, digits, end, markdown, plain, plural, render_phrase, starting

ODD = EpochTimeFact("gpu*<b>", 'batch "1"', 2.02, None, None, False, 1)


def test_three_ways_to_write_a_sentence():
    assert plain(ODD) == 'gpu*<b> takes 2.02 s/epoch at batch "1" (one run).'
    assert markdown(ODD) == r'*gpu\*\<b\>* takes **2.02 s/epoch** at batch "1" (one run).'
    assert as_html(ODD) == "<em>gpu*&lt;b&gt;</em> takes <strong>2.02 s/epoch</strong> at batch &#34;1&#34; (one run)."
    assert "(`` my`data ``)" in markdown(SyntheticDataFact("my`data"))


def test_every_fact_has_its_macro_and_every_macro_its_fact():
    facts = {each.__name__ for each in Fact.__subclasses__() if each.__module__.startswith("raybench")}
    macros = set(sentences._macros())
    assert {name for name in macros if name.endswith("Fact")} == facts
    assert {name.replace("Remedy", "Fact") for name in macros if name.endswith("Remedy")} < facts


def test_a_fact_without_a_macro_is_an_error():
    @dataclass(frozen=True)
    class NewFact(Fact):
        pass

    with pytest.raises(KeyError):
        plain(NewFact())


@pytest.mark.parametrize("code", reasons())
def test_each_reason_has_its_sentence_of_one_side_and_of_both(code, snapshot):
    did, measures = reasons()[code]
    assert [plain(ConfounderFact(code, sides, did, measures)) for sides in (("gpu",), ("gpu", "cpu"))] == snapshot


def test_what_a_caution_is_named():
    assert plain(HardwareCautionFact()) == "The speed-up may not be due to the hardware alone."


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (Samples(1, 1), "one run each"),
        (Samples(3, 3), "3 runs each"),
        (Samples(3, 1), "3 and 1 run"),
        (Samples(2, 3, "machine"), "2 machines and 3 runs"),
        (Samples(2, 2, "machine", "machine"), "2 machines each"),
    ],
)
def test_samples_in_words(samples, words):
    fact = SpeedupFact("gpu", "cpu", "", 2.0, None, None, Outcome.UNKNOWN, False, False, samples, False)
    assert plain(fact) == f"gpu is 2.00x faster than cpu ({words})."


@pytest.mark.parametrize(
    ("counts", "table", "figure"),
    [
        (RunCounts(3, 3), "3/3 completed", ""),
        (RunCounts(3, 2, endings=(Ending("not run", 1),)), "2/3 completed, 1 not run", "1 not run"),
        (
            RunCounts(2, 0, endings=(Ending("oom", 2, "train", 2**31),)),
            "0/2 completed, 2 oom in train, asked 2.0 GiB",
            "oom",
        ),
        (
            RunCounts(3, 0, endings=(Ending("diverged", 1), Ending("oom", 2, None, 2**31))),
            "0/3 completed, 1 diverged, 2 oom asked 2.0 GiB",
            "2 oom, 1 diverged",
        ),
        (RunCounts(3, 0, "no TPU"), "skipped: no TPU", "skipped"),
        (RunCounts(3, 1, "no <TPU>", (Ending("lost", 1),)), "1/3 completed, 1 lost", "1 lost, 1 skipped"),
    ],
)
def test_run_counts_in_words(counts, table, figure):
    assert (render_phrase("run_counts", counts), render_phrase("run_troubles", counts)) == (table, figure)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Target("val/accuracy", 0.94, None), "94% accuracy"),
        (Target("val/loss", None, 0.3), "val/loss 0.3 or less"),
        (Target("val/f1", 0.5, None), "val/f1 0.5 or more"),
    ],
)
def test_goals_in_words(target, words):
    assert render_phrase("goal", target) == words


def test_one_run_proves_no_mean():
    fact = MeanAccuracyFact("gpu", 1, 0.95, None, None, 0.94, Outcome.UNKNOWN)
    assert plain(fact) == "gpu has an accuracy of 95.00% in one run."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.921, "3.92"),
        (0.01782, "0.0178"),
        (2331.4, "2331"),
        (159.42, "159"),
        (0, "0"),
        (1e-5, "0.0000100"),
        (7e-15, "0"),
    ],
)
def test_three_significant_digits(value, text):
    assert digits(value) == text
    assert digits(7e-15) == "0", "what rounding leaves"


def test_ends_that_say_nothing_are_not_spelt_out():
    assert (end(1e-9), end(1e9), end(1.97)) == ("<0.001", ">9999", "1.97")
    assert render_phrase("ci", 1e-9, 2.08, " s", "3 runs") == " (95% CI <0.001–2.08 s, 3 runs)"
    assert render_phrase("ci", None, None, "", "one run") == " (one run)"
    assert render_phrase("ci", None, None) == ""


def test_equal_values_have_an_interval_of_zero():
    assert between(0.0, 0.0) == "0–0"
    assert between(0.0, 1e5) == "<0.001–>9999", "an end of a ratio that rounding made 0"


def test_an_interval_with_negative_ends_has_signs():
    assert [between(*ends) for ends in ((1.34, 1.78), (-1.1, 0.68), (-2.0, -0.5))] == [
        "1.34–1.78",
        "−1.1 to +0.68",
        "−2.0 to −0.50",
    ]


@pytest.mark.parametrize(
    ("name", "start"), [("batch 128", "Batch 128"), ("gpu", "gpu"), ("decay 0", "Decay 0"), ("batches", "batches")]
)
def test_a_sentence_starts_with_a_capital_unless_with_the_users_own_name(name, start):
    assert starting(name) == start


def test_numbers_of_things():
    assert [plural(count, "run") for count in (1, 3, 9.9)] == ["1 run", "3 runs", "9.9 runs"]


def test_lists_in_words():
    assert [join_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]

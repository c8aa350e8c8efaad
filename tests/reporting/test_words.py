"""Numbers and sentences."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answers import configuration, quick_start
from support.made_up_runs import MadeUpGrid

from raybench.analysis.answer import Caution, Criterion, Difference, Effect, EffectPart, Ratio
from raybench.core.job import Target
from raybench.core.labels import configuration_label
from raybench.core.text import names_text
from raybench.reporting.words.best import best_texts
from raybench.reporting.words.effects import effect_detail
from raybench.reporting.words.goodput import compilation_sentences, goodput_text
from raybench.reporting.words.numbers import number, ratio_text, seconds_text
from raybench.reporting.words.quality import quality_words, target_text
from raybench.reporting.words.ratios import ratio_words
from raybench.reporting.words.status import caution_text

FASTEST, CHEAPEST, ENERGY = Criterion.FASTEST, Criterion.CHEAPEST, Criterion.LEAST_ENERGY


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.9161, "3.92"), (0.01784, "0.0178"), (12331.4, "12,331"), (99.96, "100"), (0, "0"), (1000, "1,000")],
)
def test_number(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.3e-5, "43.0 µs"), (0.43, "430 ms"), (74, "74.0 s"), (750, "12.5 min"), (11160, "3.10 h")]
)
def test_duration(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Ratio(5.1, 4.8, 5.4), "5.1x (4.8–5.4)"),
        (Ratio(0.98, 0.95, 1.02), "0.98x (0.95–1.02)"),
        (Ratio(1.55, 1.5498, 1.5503), "1.5500x (1.5498–1.5503)"),
        (Ratio(12.9, 12.3, 13.5), "13x (12–14)"),
        (Ratio(1.6676, 1.6669, 1.6683), "1.668x (1.667–1.668)"),
        (Ratio(1.013, 0.9962, 1.03), "1.013x (0.996–1.030)"),
        (Ratio(1.2, 1.19998, 1.20003), "1.20000x (1.19998–1.20003)"),
        (Ratio(132897172378.0, 1e11, 1.7e11), ">9999x"),
        (Ratio(0.0567, 0.00223, 1.44), "0.057x (0.0022–1.4)"),
        (Ratio(1, 1e-9, 1e9), "1.0x (<0.001–>9999)"),
        (Ratio(2.4, 1.002, 5.6), "2.400x (1.002–5.600)"),
        (Ratio(2.93), "2.9x"),
        (None, "–"),
    ],
)
def test_ratio(ratio, text):
    assert ratio_text(ratio) == text


@given(st.floats(0.01, 100), st.floats(1e-6, 1))
def test_ends_of_an_interval_differ(value, width):
    low, high = value * (1 - width / 2), value * (1 + width / 2)
    shown = ratio_text(Ratio(value, low, high))
    ends = shown.partition("(")[2].rstrip(")").split("–")
    assert ends[0] != ends[1]


@pytest.mark.parametrize(
    ("ratio", "criterion", "text"),
    [
        (Ratio(9.2, 8.8, 9.6), FASTEST, "9.2x as fast as cpu (95% CI 8.8–9.6)"),
        (Ratio(1.06, 1.04, 1.08), FASTEST, "6% faster than cpu (95% CI 4–8%)"),
        (Ratio(1.05, 1e-4, 1e4), FASTEST, "1.1x as fast as cpu, not shown to be faster (95% CI <0.001–>9999)"),
        (Ratio(1.02, 0.95, 1.09), FASTEST, "2% faster than cpu, not shown to be faster (95% CI −5% to +9%)"),
        (Ratio(0.96, 0.94, 0.98), FASTEST, "4% slower than cpu (95% CI 2–6%)"),
        (Ratio(0.625, 0.5, 0.7), FASTEST, "takes 1.6x as long as cpu (95% CI 1.4–2.0)"),
        (Ratio(4, 3.9, 4.1), CHEAPEST, "75% cheaper than cpu (95% CI 74–76%)"),
        (Ratio(0.5, 0.4, 0.6), CHEAPEST, "costs 2.0x as much as cpu (95% CI 1.7–2.5)"),
        (Ratio(1.09, 1.07, 1.1), CHEAPEST, "8% cheaper than cpu (95% CI 7–9%)"),
        (Ratio(0.92, 0.91, 0.94), ENERGY, "9% more device energy than cpu (95% CI 6–10%)"),
        (Ratio(1.5, 0.4, 5), CHEAPEST, "costs 0.67x as much as cpu, not shown to be cheaper (95% CI 0.20–2.5)"),
        (Ratio(2.93), FASTEST, "2.9x as fast as cpu"),
    ],
)
def test_ratio_in_words(ratio, criterion, text):
    assert ratio_words(ratio, criterion, "cpu") == text


def test_second_ratio_omits_the_reference():
    assert ratio_words(Ratio(2, 1.9, 2.1), CHEAPEST, "") == "50% cheaper (95% CI 47–52%)"


def test_ratio_of_few_successes():
    ratio = Ratio(2, 1.9, 2.1, 3, 3, holds_if_no_miss=True)
    assert ratio_words(ratio, FASTEST, "cpu").endswith("if no run misses the target")


@pytest.mark.parametrize(
    ("difference", "metric", "text"),
    [
        (Difference(-0.004, -0.007, -0.001), "val/accuracy", "0.4 points less accurate (95% CI 0.1–0.7)"),
        (Difference(0.02, 0.01, 0.03), "val/accuracy", "2.0 points more accurate (95% CI 1.0–3.0)"),
        (
            Difference(-0.02, -0.05, 0.01),
            "val/accuracy",
            "accuracy −2.0 points, not distinguishable from equal (95% CI −5.0 to +1.0 points)",
        ),
        (
            Difference(0.001, -0.002, 0.004, runs=3, other_runs=3, is_equal=True),
            "val/accuracy",
            "equal accuracy within 1 point (+0.1)",
        ),
        (Difference(-0.04, -0.08, -0.0004), "val/accuracy", "4.00 points less accurate (95% CI 0.04–8.00)"),
        (Difference(-0.01), "val/accuracy", "1.0 points less accurate"),
        (Difference(0), "val/accuracy", "the same accuracy"),
        (Difference(-0.12, -0.19, -0.05), "val/loss", "val/loss 0.12 lower (95% CI 0.05–0.19)"),
        (Difference(0.02, 0.01, 0.03), "train/accuracy", "train/accuracy 2.0 points higher (95% CI 1.0–3.0)"),
    ],
)
def test_quality_in_words(difference, metric, text):
    assert quality_words(difference, metric) == text


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (Target("val/accuracy", 0.94), "94% accuracy"),
        (Target("val/accuracy", 90), "90% accuracy"),
        (Target("train/accuracy", 0.995), "99.5% train/accuracy"),
        (Target("val/loss", None, 0.3), "val/loss 0.3"),
    ],
)
def test_target(target, text):
    assert target_text(target) == text


@pytest.mark.parametrize(
    ("axes", "text"),
    [
        ({"compile": False, "nesterov": True}, "no compile, nesterov"),
        ({"device": "gpu", "batch_size": 32, "compile": "max-autotune"}, "gpu, batch 32, compile max-autotune"),
    ],
)
def test_label_of_a_configuration(axes, text):
    assert configuration_label(axes, axes) == text


def test_effect_with_unlike_qualities_has_their_range():
    parts = EffectPart("device", "cpu", Ratio(1.0)), EffectPart("device", "gpu", Ratio(8.0))
    quality = {"val/accuracy": Difference(-0.02, -0.024, -0.016)}
    effect = Effect("batch_size", 512, 32, 2, 3, Ratio(2.8), 1.0, 8.0, True, parts, quality, -0.039, -0.001)
    assert effect_detail(quick_start(), effect) == "speed: on cpu 1.0x, on gpu 8.0x; accuracy, points: −3.9 to −0.1"
    alike = replace(effect, quality_least=-0.021, quality_most=-0.019)
    assert effect_detail(quick_start(), alike) == "speed: on cpu 1.0x, on gpu 8.0x"


def test_many_names_are_counted():
    assert names_text([str(n) for n in range(6)]) == "0; 1; 2; 3; 2 more"


@pytest.mark.parametrize(
    ("caution", "text"),
    [
        (
            Caution("busy_host", "other programs took 1.8 of 2 cores", "close them", "a", 12, 12, too_long=0.2),
            "Other programs took 1.8 of 2 cores (12 of 12 runs; the worst perhaps 20% too long). Close them.",
        ),
        (Caution("x", "it was slow"), "It was slow."),
        (Caution("x", "it was slow", too_long=8.0), "It was slow (perhaps 9x as long or more)."),
    ],
)
def test_caution(caution, text):
    assert caution_text(caution) == text


@pytest.mark.parametrize(
    ("new", "first"),
    [([1.0, 1.3, 0.9, 1.2], "Undecided between a.py and b.py. "), ([2.0, 2.01, 2.02, 2.0], "Faster: a.py")],
)
def test_two_versions_that_noise_may_have_ordered_are_undecided(new, first):
    grid = MadeUpGrid({"version": "a.py"}).add({"version": "a.py"}, [1.1, 1.2, 0.9, 1.0]).add({"version": "b.py"}, new)
    assert str(best_texts(grid.answer())[0]).startswith(first)


def test_shares_of_a_run():
    """8 of 100 s are start-up and data, 5 compile in training and in evaluation."""
    parts = {"setup": 1, "data": 4, "build": 3, "compile": 4, "compile_evaluate": 1, "train": 80, "evaluate": 7}
    each = configuration(0, "gpu", {}, 2.0, 0.9, run_parts_s=parts | {"input_wait": 0.2, "other": 0, "checkpoint": 0})
    assert goodput_text(each) == "training 80%: loading 8%, evaluation 7%, compilation 5%"
    assert goodput_text(configuration(0, "gpu", {}, 2.0, 0.9)) == "–"


@pytest.mark.parametrize(
    ("compiled_s", "end"),
    [
        # 120 s are 60 epochs of 2 s: 30 s more and 60 of 1.5 s take as long.
        (1.5, "(30.0 s more than compile no) pays after 120 s of training: compile."),
        (2.1, "does not pay: compile is not faster."),
    ],
)
def test_when_compilation_pays(compiled_s, end):
    answer = quick_start()
    rows = [
        configuration(i, label, {"compile": value}, s, 0.9, run_parts_s={"compile": c, "train": 9.0})
        for i, (label, value, s, c) in enumerate((("compile no", False, 2.0, 1.0), ("compile", True, compiled_s, 31.0)))
    ]
    answer = replace(answer, configurations=tuple(rows), axes={"compile": (False, True)})
    (text,) = compilation_sentences(answer)
    assert text.startswith("Compilation (30.0 s more than compile no) ") and text.endswith(end)

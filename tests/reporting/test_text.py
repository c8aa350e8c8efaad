"""The report as text: what is always in it, at every width."""

from dataclasses import replace

import pytest
from support.answers import ANSWERS, devices_with_target, difference, quick_start
from support.made_up_runs import MadeUpGrid

from raybench.analysis.answer import Answer, Effect, Ending, ToTarget
from raybench.reporting.layout import TEXT, Column, table_lines
from raybench.reporting.text import MAX_ROWS, report_text
from raybench.reporting.words.best import best_texts
from raybench.reporting.words.effects import effect_detail, effect_speed
from raybench.reporting.words.numbers import ratio_text
from raybench.reporting.words.quality import metric_text
from raybench.reporting.words.status import status_sentences, trust_sentence


def joined(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def many(count: int = 30) -> Answer:
    """An answer with many configurations."""
    grid = MadeUpGrid()
    for number in range(count):
        grid.add({"batch_size": 2**number}, [1 + number / 10, 1.01 + number / 10])
    return grid.answer()


@pytest.mark.parametrize("width", range(60, 140, 5))
@pytest.mark.parametrize("name", ANSWERS)
def test_every_width_has_sentences_intervals_and_quality(name, width):
    answer = ANSWERS[name]()
    text = report_text(answer, width)
    assert max(map(len, text.splitlines())) <= width
    sentences = [*status_sentences(answer), *map(str, best_texts(answer)), trust_sentence(answer)]
    assert all(joined(sentence) in joined(text) for sentence in sentences)
    lines = text.splitlines()
    for each in answer.configurations:
        if each.ratio and not answer.target:
            assert any(ratio_text(each.ratio) in line for line in lines)
        if each.quality:
            assert metric_text(answer.metric, each.quality.value) in text


def test_columns_that_do_not_fit_are_named_and_not_explained():
    narrow, wide = (report_text(ANSWERS["busy_host"](), width) for width in (60, 300))
    assert "Too wide for 60 columns: " in narrow and "Too wide" not in wide
    assert "MFU of the measured peak" in joined(wide) and "MFU of the measured peak" not in joined(narrow)


def test_of_many_configurations_best_and_worst_are_shown():
    answer = many()
    short, full = report_text(answer, 80), report_text(answer, 80, full=True)
    assert f"… {30 - MAX_ROWS} more: --full" in short
    rows = [line.split()[0] for line in short.splitlines() if line.lstrip()[:1].isdigit() and "batch" in line]
    assert rows == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "28", "29", "30"]
    assert "effect of" not in short, "one axis: the table of configurations has it"
    assert all(f"batch {2**number} " in full for number in range(30))
    assert "allow for choosing the best of 30." in joined(short)


def test_of_many_effects_the_first_are_shown():
    grid = MadeUpGrid()
    for number in range(15):
        for decay in (0.0, 0.1):
            grid.add({"batch_size": 2**number, "weight_decay": decay}, [1 + number / 10, 1.01 + number / 10])
    assert f"… {15 - MAX_ROWS} more: --full" in report_text(grid.answer(), 80)


def test_notes_are_shown_in_full_only():
    answer = MadeUpGrid().add({"device": "cpu"}, [1, 1.1]).answer(warnings=["the disk is nearly full"])
    assert "The disk is nearly full." not in report_text(answer, 80)
    assert "Note: The disk is nearly full." in report_text(answer, 80, full=True)


def test_a_label_is_wrapped_between_its_parts():
    columns = [
        Column("configuration", ["gpu, batch 512, decay 5e-4"], kind="label"),
        Column("speed", ["1.20x (1.15–1.25)"]),
    ]
    lines = [line for line, _ in table_lines(columns, 40)]
    assert lines[2:] == ["gpu, batch 512,        1.20x (1.15–1.25)", "decay 5e-4"]


def test_the_last_column_of_sentences_is_wrapped():
    columns = [
        Column("name", ["a"]),
        Column("purpose", ["to see whether it works at all"], kind=TEXT),
    ]
    lines = [line for line, _ in table_lines(columns, 28)]
    assert lines[2:] == ["a     to see whether it works", "      at all"] or max(map(len, lines)) <= 28


def test_an_effect_whose_sign_differs_has_its_range():
    effect = Effect("device", "gpu", "cpu", 2, 3, None, 0.44, 3.1, varies=True)
    assert effect_speed(effect) == "0.44x to 3.1x"
    assert (
        effect_detail(quick_start(), effect) == "speed: no mean, because it differs between 2 pairs of configurations"
    )


def test_an_effect_on_quality_alone_says_nothing_of_speed():
    effect = Effect("device", "gpu", "cpu", 2, 3, quality={"val/accuracy": difference(0.01)})
    assert effect_detail(quick_start(), effect) == ""


def test_one_configuration_has_nothing_to_compare_with():
    text = report_text(MadeUpGrid().add({"device": "cpu"}, [1, 1.1, 1.05]).answer(), 80)
    assert "nothing to compare it with" in text and "effect of" not in text


def test_long_intervals_fit_sixty_columns():
    columns = [
        Column("effect of", ["precision bf16 vs. fp32"], kind="label"),
        Column("speed", ["1.424x (1.416–1.433)"]),
        Column("accuracy, points", ["−0.46 (−0.53 to −0.39)"]),
    ]
    assert max(len(line) for line, _ in table_lines(columns, 60)) <= 60


def test_a_configuration_without_a_run_did_not_miss_the_target():
    answer = devices_with_target()
    *first, last = answer.configurations
    none = replace(last, seconds=None, to_target=ToTarget(0, 0), endings=(Ending("oom", 4),))
    text = report_text(replace(answer, configurations=(*first, none)), 60)
    assert "out of memory" in text and "not reached" not in text


def test_nothing_completed():
    text = report_text(MadeUpGrid().add({"device": "cpu"}, [1], status="oom").answer(), 80)
    assert "No run has completed." in text and "1 out of memory." in text

"""What a report says and the numbers it says it of: sign, interval, significance and number of runs."""

import re
from dataclasses import replace

import pytest
from support.made_up_grids import made_up
from support.report_grids import CPU, GPU, LEARNING, REPORTS, Grid, contract

from raybench.core.job import Target
from raybench.reporting.report import make_report
from raybench.reporting.sentences import digits, plain


def compared():
    """Label, row and first sentence of each cell of each report that is compared with a baseline."""
    for name, make in REPORTS.items():
        report = make()
        for row, (label, sentences) in zip(report.results.rows, report.comparisons, strict=True):
            if row.speedup and not row.is_aa_test:
                yield f"{name}: {label}", row, plain(sentences[0])


def test_a_sentence_says_what_the_numbers_of_its_row_say():
    seen = set()
    for label, row, words in compared():
        found = row.speedup
        significant = found.low is not None and not found.low <= 1 <= found.high
        seen.add((significant, found.low is None, found.ratio > 1))
        assert ("95% CI" in words) == (found.low is not None), label
        unclear = "No significant difference" in words or "are equally fast" in words
        assert unclear == (found.low is not None and not significant), label
        slower = not unclear and found.ratio < 1
        if unclear:
            assert f"ratio {digits(found.ratio)}" in words, label
        elif slower:
            assert f"takes {digits(1 / found.ratio)}x as long" in words, label
        else:
            assert f"is {digits(found.ratio)}x faster" in words, label
        if significant:
            runs = row.steady.runs
            assert f", {runs} runs each" in words or f", {runs} and " in words, label
            low, high = (1 / found.high, 1 / found.low) if slower else (found.low, found.high)
            assert f"(95% CI {digits(low)}–{digits(high)}," in words, label
    assert {(True, False, True), (True, False, False), (False, False, False), (False, True, True)} <= seen


def test_every_interval_goes_around_its_number():
    number = r"(<?[\d.]+|>9999)"
    seen = 0
    for make in REPORTS.values():
        for _, sentences in make().comparisons:
            for words in map(plain, sentences):
                for value, low, high in re.findall(rf"{number}(?:x |:|\b)[^(;.]*\(95% CI {number}–{number}[,)]", words):
                    ends = [float(end.strip("<>")) for end in (low, value, high)]
                    assert ends == sorted(ends), words
                    seen += 1
    assert seen > 90


def test_a_cost_is_the_price_by_the_time():
    report = REPORTS["prices"]()
    cpu, dearer = report.results.rows[:2]
    assert dearer.epoch_price == pytest.approx(0.35 * dearer.steady.value / 3600)
    (words,) = [plain(each) for each in dict(report.comparisons)["dearer"] if "An epoch costs" in plain(each)]
    assert f"{digits(dearer.epoch_price / cpu.epoch_price)}x as much" in words
    assert f"equal at {digits(0.1 * dearer.speedup.ratio)} per hour" in words


def test_the_other_way_round_is_the_inverse():
    def ratio(baseline, other):
        return Grid().add("cpu", baseline).add("gpu", other).report().results.rows[1].speedup

    there, back = ratio(CPU, GPU), ratio(GPU, CPU)
    assert there.ratio == pytest.approx(4.02, abs=0.01) and there.low < there.ratio < there.high
    assert (back.ratio, back.low, back.high) == pytest.approx((1 / there.ratio, 1 / there.high, 1 / there.low))


def test_the_contract_s_numbers():
    cpu, other = contract().results.rows
    assert cpu.speedup is None and cpu.is_baseline
    assert [round(end, 2) for end in (other.speedup.ratio, other.speedup.low, other.speedup.high)] == [2.02, 1.97, 2.08]
    assert contract(repeats=1).results.rows[1].speedup.low is None


def test_a_difference_in_accuracy_has_its_sign():
    for shift, words in ((-0.03, "points less accurate"), (0.03, "points more accurate")):
        grid = Grid().add("cpu", CPU).add("gpu", GPU, accuracies=(shift, shift + 0.001, shift + 0.002))
        (sentence,) = [plain(each) for each in dict(grid.report().comparisons)["gpu"] if " accurate " in plain(each)]
        assert words in sentence and sentence.startswith("gpu is ")


def test_of_an_error_the_lowest_is_the_best():
    report = REPORTS["error_as_metric"]()
    (best,) = [section for section in report.sections if section.name == "best"]
    assert [record["best"] for record in best.records] == ["b128", "b128"]
    assert report.results.less_is_better, "its target says so"
    assert not replace(report.results, target=Target("val/depth", 0.1, None)).less_is_better
    assert not made_up().less_is_better


def test_a_part_of_an_epoch_is_no_epoch():
    def shorter_at_the_end(event):
        if event.get("epoch") == len(LEARNING):
            event["steps"] = 140

    report = Grid().add("cpu", CPU, epochs=3.9, event=shorter_at_the_end).add("gpu", GPU, epochs=3.9).report()
    assert {report.results.steps(cell) for cell in report.results.cells} == {156}
    (jobs,) = [section for section in report.sections if section.name == "jobs"]
    seconds = {record["device"]: record["seconds"] for record in jobs.records}
    assert seconds["cpu"] == pytest.approx(100 * 4.06 + 4.5, rel=0.01)
    assert any("after 3.9 epochs" in plain(each) for each in dict(report.comparisons)["gpu"]), (
        "nine point nine are not ten"
    )


def test_restarts_do_not_make_runs_that_stop_at_the_target_prove_a_mean():
    stop = {"stop_at_target": {"metric": "val/accuracy", "at_least": 0.75}}
    grid = Grid(target=Target("val/accuracy", 0.75)).add("cpu", CPU, **stop).add("gpu", GPU, **stop)
    report = grid.report()
    every = [plain(each) for _, sentences in report.comparisons for each in sentences]
    assert any("reached 75% accuracy in 3 of 3 runs" in each for each in every)
    assert not any("mean accuracy" in each or "accurate" in each for each in every) and not report.deciding


def test_a_target_of_the_file_counts_and_not_that_of_its_runs():
    aimed = replace(made_up(), target=Target("val/accuracy", 0.99))
    (section,) = [each for each in make_report(aimed).sections if each.name == "target"]
    assert [record["reached"] for record in section.records] == [0, 0]

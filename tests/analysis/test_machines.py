"""Machines as the unit of comparisons of models of device."""

import math

import pytest
from support.made_up_runs import MadeUpGrid

from raybench.analysis.changed_values import changed_values

SAME = {"versions": {"torch": "2.13"}}


def around(seconds, count=3, noise=0.001):
    return [seconds * (1 + noise * (number - (count - 1) / 2)) for number in range(count)]


def grid_of(machines, noise=0.001, kernel="6.8", **further):
    """A grid with the seconds of each machine by device, three runs each, on two batch sizes."""
    grid = MadeUpGrid(**further)
    for device, listed in machines.items():
        for batch in (32, 64):
            seconds = [each * (2 if batch == 32 else 1) for each in listed]
            grid.add({"device": device, "batch_size": batch}, [s for each in seconds for s in around(each, 3, noise)])
    for run in grid.attempts:
        name = f"{run.profile}-{run.repeat // 3}"
        run.host = {"name": name, "kernel": kernel} if kernel else {"name": name}
        run.versions = SAME["versions"]
    return grid


def half(ratio):
    return math.log(ratio.high / ratio.low) / 2


def by_axis(answer):
    return {each.axis: each for each in answer.effects}


def test_one_machine_of_each_model_has_the_variance_of_public_results():
    effect = by_axis(grid_of({"a": [1.0], "b": [2.0]}).answer())["device"].speed
    assert half(effect) == pytest.approx(2.3646 * 0.009 * math.sqrt(2), rel=0.02)
    assert effect.machines == 2 and effect.machine_sd == pytest.approx(0.009)
    assert effect.these_low < effect.value < effect.these_high and effect.these_high / effect.these_low < 1.01


def test_unknown_software_has_that_of_different_owners():
    effect = by_axis(grid_of({"a": [1.0], "b": [2.0]}, kernel=None).answer())["device"].speed
    assert half(effect) == pytest.approx(2.0687 * 0.023 * math.sqrt(2), rel=0.02)


def test_settings_are_compared_within_each_machine():
    """Machines that differ by 20% do not widen the interval of a setting that all of them ran."""
    one, three = (grid_of({"a": seconds}).answer() for seconds in ([1.0], [1.0, 1.2, 0.8]))
    first, second = (by_axis(each)["batch_size"].speed for each in (one, three))
    assert second.value == pytest.approx(first.value) and half(second) <= half(first)


def test_another_model_does_not_change_the_effect_of_a_setting():
    with_third = grid_of({"a": [1.0, 1.2], "b": [2.0]}).answer()
    effect = by_axis(with_third)["batch_size"].speed
    assert effect.value == pytest.approx(2) and half(effect) < 0.02


def test_machines_that_differ_more_than_usual_widen_the_interval():
    """By the formula: v = SS/d on d degrees of freedom after the F test."""
    usual, wide = (grid_of({"a": [1, 1 + spread], "b": [2, 2 * (1 + spread)]}).answer() for spread in (0.01, 0.1))
    assert half(by_axis(usual)["device"].speed) < 0.025
    squares = 2 * math.log(1.1) ** 2 / 2
    expected = 4.3027 * math.sqrt(squares / 2)
    assert half(by_axis(wide)["device"].speed) == pytest.approx(expected, rel=0.03)


def test_these_machines_alone_have_the_interval_of_runs():
    answer = grid_of({"a": [1.0], "b": [1.02]}, these_machines=True).answer()
    effect = by_axis(answer)["device"].speed
    assert half(effect) < 0.01 and effect.is_significant and answer.these_machines
    models = by_axis(grid_of({"a": [1.0], "b": [1.02]}).answer())["device"].speed
    assert models.is_of_these_machines and not models.is_significant


def test_slow_machine_is_a_caution_with_its_size():
    answer = grid_of({"a": [1.0, 1.002, 0.998, 1.06], "b": [2.0]}).answer()
    slowest = answer.machine_speeds[0]
    assert slowest.name == "a-3" and slowest.is_slow and slowest.others == 3
    assert slowest.speed.value == pytest.approx(1 / 1.06, rel=0.002) and slowest.speed.high < 0.96
    (caution,) = (each for each in answer.trust.cautions if each.code == "slow_machine")
    assert "a-3 is 5.7% slower than 3 others of its model (95% CI 5" in caution.text
    usual = grid_of({"a": [1.0, 1.002, 0.998, 1.01], "b": [2.0]}).answer()
    assert not any(each.is_slow for each in usual.machine_speeds)


@pytest.mark.parametrize(("seconds", "is_slow"), [(1.024, False), (1.036, True)])
def test_the_slowest_of_several_machines_may_be_slow_by_chance(seconds, is_slow):
    slowest, *_ = grid_of({"a": [seconds, *[1.0] * 5]}).answer().machine_speeds
    assert slowest.is_slow is is_slow


def in_sessions(grid, machine_id=""):
    """The same grid, whose first three repeats ran on a machine at 8, and the others at 11."""
    for run in grid.attempts:
        hour = 8 + 3 * (run.repeat // 3)
        run.started, run.ended = (f"2026-11-20T{hour:02}:{run.repeat:02}:{s}+00:00" for s in ("00", "30"))
        run.host = {"name": "vm", "machine_id": f"{hour}{machine_id}" if machine_id else ""}
    return grid


@pytest.mark.parametrize(("count", "is_said"), [(1, True), (20, False)])
def test_one_of_many_configurations_may_differ_between_sessions_by_chance(count, is_said):
    grid = MadeUpGrid()
    for number in range(count):
        later = 1.0 if number else 1.06
        grid.add({"batch_size": 32 + number}, [*around(1.0, noise=0.02), *around(later, noise=0.02)])
    cautions = in_sessions(grid).answer().trust.cautions
    assert any(each.code == "sessions_differ" for each in cautions) is is_said


def test_sessions_that_differ_are_a_caution():
    """As on a virtual machine three hours later; a new one of the same name is another machine."""

    def grid(later, machine_id=""):
        grid = MadeUpGrid().add({"batch_size": 32}, [*around(1.0), *around(later)]).add({"batch_size": 64}, around(2.0))
        return in_sessions(grid, machine_id)

    (caution,) = (each for each in grid(0.63).answer().trust.cautions if each.code == "sessions_differ")
    assert caution.text == (
        "vm: batch 32 took 0.63x as long in the session of 2026-11-20 11:03 UTC as in the one before (95% CI 0.63–0.63)"
    )
    assert not any(each.code == "sessions_differ" for each in grid(1.001).answer().trust.cautions)
    answer = grid(0.63, "abcdef").answer()
    assert [each.name for each in answer.machine_speeds] == ["vm (8abcde)", "vm (11abcd)"]
    runs = grid(0.63, "id").attempts
    (change,) = changed_values(runs[:3], runs[3:6])
    assert str(change) == "host.name: vm (8id) → vm (11id)"


def test_quality_is_not_widened_by_machines():
    answers = (grid_of({"a": [1.0], "b": [2.0]}, these_machines=alone).answer() for alone in (False, True))
    first, second = (by_axis(each)["device"].quality["val/accuracy"] for each in answers)
    assert (first.low, first.high) == (second.low, second.high)


def test_what_is_shown_to_be_slower_on_the_same_machines_cannot_be_the_best():
    """Machines that differ by 20% leave models undecided, but not the settings on each machine."""
    answer = grid_of({"a": [1.0, 1.2], "b": [1.0]}).answer()
    rivals = [answer.configurations[index].axes for index in answer.best[0].indistinguishable]
    assert rivals == [{"device": "a", "batch_size": 64}]

from itertools import product

import numpy as np
import pytest

from raybench.analysis.factored import FULL, PREDICTED, TIMING, Setting, study
from raybench.analysis.refutation import FullRun, check
from raybench.analysis.surface import Learning, Surface

BATCHES, DECAYS = (64, 128, 512), (1.25e-4, 2.5e-4, 5e-4)
EPOCH_S = {("gpu", 64): 20.0, ("gpu", 128): 14.0, ("gpu", 512): 11.0}
EPOCH_S |= {("tpu", 64): 9.0, ("tpu", 128): 4.0, ("tpu", 512): 1.2}
START_S = {place: {"gpu": 5.0, "tpu": 40.0}[place[0]] for place in EPOCH_S}
EPOCHS = {(64, 1.25e-4): 24.0, (64, 2.5e-4): 20.0, (64, 5e-4): 16.0}
EPOCHS |= {(128, 1.25e-4): 26.0, (128, 2.5e-4): 21.0, (128, 5e-4): 24.0}
EPOCHS |= {(512, 1.25e-4): 31.0, (512, 2.5e-4): 36.0, (512, 5e-4): 40.0}
SETTINGS = [
    Setting(device, f"batch {batch}, decay {decay:g}", (device, batch), (batch, decay))
    for device, batch, decay in product(("gpu", "tpu"), BATCHES, DECAYS)
]
PLACES, SPREAD, NOISE = list(EPOCH_S), 0.05, 0.02


def noisy(random, values, sd, repeats=3):
    return {key: (value * np.exp(random.normal(0, sd, repeats))).tolist() for key, value in values.items()}


def truth(setting):
    return START_S[setting.timed] + EPOCHS[setting.learned] * EPOCH_S[setting.timed]


def measured(seed):
    random = np.random.default_rng(seed)
    runs = {key: [Learning(epochs) for epochs in some] for key, some in noisy(random, EPOCHS, SPREAD).items()}
    return Surface(SETTINGS, noisy(random, EPOCH_S, NOISE), noisy(random, START_S, NOISE), runs), random


@pytest.fixture(scope="module")
def grids():
    return [measured(seed) for seed in range(200)]


def test_it_finds_the_best_setting_on_each_device_and_its_intervals_cover(grids):
    best = {
        device: min((setting for setting in SETTINGS if setting.device == device), key=truth)
        for device in ("gpu", "tpu")
    }
    assert {setting.learned for setting in best.values()} == {(128, 2.5e-4), (512, 1.25e-4)}, "they differ by device"
    for device, setting in best.items():
        found = [surface.best[device] for surface, _ in grids]
        right = np.array([each.setting == setting for each in found])
        assert right.mean() > 0.95
        assert 0.8 < np.mean([each.fastest for each in found]) <= right.mean() + 0.02, "it promises no more"
    covered = [each.low <= truth(each.setting) <= each.high for surface, _ in grids for each in surface.predictions]
    assert 0.935 <= np.mean(covered) <= 0.98
    ratios = [surface.ratio(best["gpu"], best["tpu"]) for surface, _ in grids]
    inside = np.mean([low <= truth(best["gpu"]) / truth(best["tpu"]) <= high for _, low, high in ratios])
    assert 0.92 <= inside <= 0.985


def full_runs(random, setting, factor=1.0, runs=2):
    made = []
    for epochs in EPOCHS[setting.learned] * factor * np.exp(random.normal(0, SPREAD, runs)):
        each = EPOCH_S[setting.timed] * np.exp(random.normal(0, NOISE))
        made.append(FullRun(START_S[setting.timed] + epochs * each, Learning(epochs)))
    return made


def test_one_whose_numerics_differ_is_refuted_and_another_is_not(grids):
    checked = [SETTINGS[10], SETTINGS[15]]
    alike = [check(surface, {each: full_runs(random, each) for each in checked}) for surface, random in grids]
    assert np.mean([any(each.refuted_by for each in grid) for grid in alike]) <= 0.065
    for surface, random in grids[:100]:
        first, second = check(
            surface, {checked[0]: full_runs(random, checked[0]), checked[1]: full_runs(random, checked[1], 1.4)}
        )
        assert second.refuted_by == "epochs"
    assert "they did not take as many epochs" in second.says
    assert "2 full runs" in first.says


def test_the_same_epochs_in_another_time_refute_it_too(grids):
    surface, random = grids[0]
    slowed = [FullRun(run.seconds * 2, run.learning) for run in full_runs(random, SETTINGS[10])]
    assert check(surface, {SETTINGS[10]: slowed})[0].refuted_by == "time"
    assert check(surface, {SETTINGS[10]: []}) == []


def test_many_misses_where_others_reach_it_refute_it(grids):
    reached = {(64, 1e-4): [Learning(10.0)] * 10}
    place = Setting("gpu", "batch 64", ("gpu", 64), (64, 1e-4))
    surface = Surface([place], {("gpu", 64): [1.0, 1.1]}, {}, reached)
    missed = [FullRun(24.0, Learning(24.0, reached=False))]
    assert check(surface, {place: missed})[0].refuted_by is None, "one of eleven"
    assert check(surface, {place: missed * 5})[0].refuted_by == "misses"


def test_misses_are_paid_for_with_restarts():
    """Half of the runs miss after 20 epochs: on the average one miss for each success."""
    place = Setting("gpu", "batch 64", "gpu", "64")
    runs = {"64": [Learning(10.0), Learning(10.0), Learning(20.0, reached=False), Learning(20.0, reached=False)]}
    found = Surface([place], {"gpu": [2.0, 2.0]}, {"gpu": [5.0, 5.0]}, runs).best["gpu"]
    assert found.seconds == pytest.approx(5 + 10 * 2 + 1 * (5 + 20 * 2))
    assert found.share == 0.5
    assert found.high > 1.5 * found.seconds, "four runs leave the share open"


def test_what_was_never_reached_or_timed_has_no_prediction():
    settings = [Setting("gpu", name, name, name) for name in ("both", "missed", "untimed", "untried")]
    runs = {"both": [Learning(10.0)], "missed": [Learning(24.0, reached=False)], "untimed": [Learning(9.0)]}
    surface = Surface(settings, {name: [1.0] for name in ("both", "missed", "untried")}, {}, runs)
    both, missed, untimed, untried = surface.predictions
    assert (both.seconds, both.low, both.fastest) == (pytest.approx(10.0), None, None), "nothing was repeated"
    assert (missed.seconds, missed.share) == (None, 0.0)
    assert (untimed.seconds, untried.seconds, untried.share) == (None, None, None)
    assert surface.best["gpu"] is both
    assert surface.ratio(settings[0], settings[0]) is None


def test_a_setting_that_ran_once_takes_its_spread_from_the_others():
    settings = [Setting("gpu", name, name, name) for name in ("often", "once")]
    runs = {"often": [Learning(10.0), Learning(11.0), Learning(12.0)], "once": [Learning(20.0)]}
    surface = Surface(settings, {"often": [1.0, 1.1], "once": [1.0]}, {}, runs)
    often, once = surface.predictions
    assert once.low < 20 < once.high
    assert once.high / once.low > often.high / often.low


def test_full_training_where_it_is_cheapest_and_short_timing_elsewhere():
    plan = study(SETTINGS, ["tpu", "gpu"])
    counts = {what: sum(each == what for each in plan.values()) for what in (FULL, TIMING, PREDICTED)}
    assert counts == {FULL: 9, TIMING: 3, PREDICTED: 6}
    assert all(plan[setting] == FULL for setting in SETTINGS if setting.device == "tpu")
    apart = [
        Setting(setting.device, setting.name, setting.timed, (*setting.learned, setting.device)) for setting in SETTINGS
    ]
    assert set(study(apart, ["tpu"]).values()) == {FULL}, "numerics differ: each has to be learned"


def test_two_runs_far_apart_leave_the_interval_open():
    place = Setting("gpu", "batch 64", "gpu", "64")
    found = Surface(
        [place], {"gpu": [1.0, 1000.0]}, {"gpu": [1.0, 50.0]}, {"64": [Learning(2.0), Learning(20.0)]}
    ).best["gpu"]
    assert found.low < 1
    assert 1e6 < found.high < float("inf")

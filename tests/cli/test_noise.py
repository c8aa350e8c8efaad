"""`raybench noise`: the noise of one configuration, and what a number of repeats shows in spite of it."""

import math

import numpy as np
import pytest

from raybench.analysis.intervals import Sample, difference
from raybench.analysis.measured import Measured
from raybench.analysis.noise import noise_floor


def measured(logs, accuracies=()):
    times, qualities = (tuple(map(Sample, range(len(values)), values)) for values in (logs, accuracies))
    return Measured(0, {}, times=times, qualities={"val/accuracy": qualities} if qualities else {})


def test_difference_that_repeats_show_is_found_in_4_of_5_comparisons():
    noise = noise_floor(measured(np.random.default_rng(0).normal(0, 0.02, 1000).tolist())).time
    assert noise.sd == pytest.approx(0.02, rel=0.1)
    rng, found = np.random.default_rng(1), []
    for _ in range(1000):
        sides = rng.normal([[noise.shown(5)], [0.0]], 0.02, (2, 5)).tolist()
        low, high = difference(*([Sample(n, value) for n, value in enumerate(side)] for side in sides)).interval()
        found.append(not low <= 0 <= high)
    assert 0.72 < np.mean(found) < 0.88
    assert noise.shown(20) < noise.shown(3) / 2


def test_interval_of_the_noise_contains_it():
    rng = np.random.default_rng(2)
    ranges = [noise_floor(measured(rng.normal(0, 0.02, 6).tolist())).time.sd_range for _ in range(500)]
    assert 0.92 < np.mean([low <= 0.02 <= high for low, high in ranges]) < 0.98


def test_drift_is_shown_if_it_exceeds_the_noise():
    rising = [0.03 * place + noise for place, noise in enumerate((0.001, -0.002, 0.002, 0.0, -0.001, 0.001))]
    assert noise_floor(measured(rising)).time.drift == pytest.approx(0.15, rel=0.1)
    assert noise_floor(measured([0.0, 0.02, -0.01, 0.01, -0.02, 0.0])).time.drift == 0.0


def test_few_runs_show_no_noise():
    assert noise_floor(measured([0.0, 0.1])).time is None
    floor = noise_floor(measured([0.0, 0.1, 0.2], [0.9, 0.91, 0.92]))
    assert floor.metrics["val/accuracy"].sd == pytest.approx(0.01)
    assert floor.most_telling == "" and math.isfinite(floor.time.sd)


@pytest.mark.slow
def test_command_prints_its_noise_and_plan_reads_it(raybench, tmp_path):
    (tmp_path / "train.py").write_text(
        "import time\nfor n in range(1, 5):\n    time.sleep(0.3)\n"
        "    print(f'epoch {n} val_loss {1 / n}', flush=True)\n"
    )
    (tmp_path / "g.yaml").write_text(
        "name: g\nworkload: {command: [python, train.py, '{size}']}\naxes: {params.size: [1, 2]}\nrepeats: 3\n"
    )
    said = raybench("noise", "g.yaml", "--runs", "3").out
    assert "Noise of time: sd " in said and "in 3 runs" in said and "10 repeats show a change of " in said
    assert "val/loss" in said and "size 2" not in said
    assert "By `raybench noise`, 3 repeats would show a change of " in raybench("plan", "g.yaml").out

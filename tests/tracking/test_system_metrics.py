"""A trial's samples as time series of its run."""

import json

import pytest

from raybench.results.attempt import attempts
from raybench.tracking.mlflow import MlflowClient, Runs
from raybench.tracking.system_metrics import MOST, points


def write(folder, count, **changes):
    gpu = {"id": "0", "clock_mhz": 1980, "power_w": 300.0, "temperature_c": 60, "throttled": []}
    with (folder / "samples.jsonl").open("w") as file:
        for number in range(count):
            minutes, seconds = divmod(number, 60)
            told = {
                "t": f"2026-11-21T09:{minutes:02}:{seconds:02}.000Z",
                "seconds": 1.0,
                "busy_s": 1.5,
                "own_cpu_s": 1.25,
                "mhz": 2000.0 + number,
                "rss_bytes": 1000,
                "gpus": [gpu],
            }
            file.write(json.dumps(told | changes) + "\n")


def of(found, name):
    return [(point.step, point.value) for point in found if point.name == name]


def test_a_short_trial_has_a_point_a_sample(tmp_path):
    write(tmp_path, 3)
    found = points(tmp_path)
    assert of(found, "system/mhz") == [(1, 2000.0), (2, 2001.0), (3, 2002.0)]
    assert of(found, "system/own_cpu") == [(1, 1.25), (2, 1.25), (3, 1.25)]
    assert of(found, "system/other_cpu")[0] == (1, 0.25)
    assert of(found, "system/gpu_0_power_w")[-1] == (3, 300.0)
    assert found[-1].t - found[0].t == 2000
    assert {point.name for point in found} == {
        *("system/own_cpu", "system/other_cpu", "system/mhz", "system/rss_bytes"),
        *("system/gpu_0_clock_mhz", "system/gpu_0_power_w", "system/gpu_0_temperature_c"),
    }


def test_a_long_trial_has_no_more_points_than_a_page_shows(tmp_path):
    write(tmp_path, 1001)
    found = of(points(tmp_path), "system/mhz")
    assert 100 < len(found) <= MOST
    assert found[0] == (6, 2002.5), "the mean of the first six"
    assert found[-1][0] == 1001, "the last sample is in it"


def test_samples_that_are_not_there_or_damaged_are_no_series(tmp_path):
    assert points(tmp_path) == []
    (tmp_path / "samples.jsonl").write_text('{"t": "noon", "seconds": 1.0, "mhz": 1.0}\n[]\n{"t": 1}\n{"seco')
    assert points(tmp_path) == []


@pytest.mark.parametrize("left_out", ["busy_s", "own_cpu_s", "mhz", "rss_bytes", "gpus"])
def test_what_was_not_read_has_no_series(tmp_path, left_out):
    write(tmp_path, 2)
    lines = (tmp_path / "samples.jsonl").read_text().splitlines()
    told = [{name: value for name, value in json.loads(text).items() if name != left_out} for text in lines]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in told))
    gone = {"busy_s": "other_cpu", "own_cpu_s": "own_cpu", "gpus": "gpu_0_power_w"}.get(left_out, left_out)
    found = points(tmp_path)
    assert found and of(found, f"system/{gone}") == []


def test_a_run_has_the_series_and_the_samples_once_it_has_ended(tmp_path, own_store, golden_events):
    store = own_store
    folder = tmp_path / "attempt"
    folder.mkdir()
    write(folder, 1000)
    runs = Runs(store, "series")
    (attempt,) = attempts(golden_events[:-1]).values()
    run = runs.write(attempt, None, folder)
    client = MlflowClient(store.uri)
    assert client.get_metric_history(run.run_id, "system/own_cpu") == [], "nothing while it is timed"
    attempt.take(golden_events[-1])
    runs.write(attempt, run, folder)
    history = client.get_metric_history(run.run_id, "system/mhz")
    assert sorted((metric.step, metric.value) for metric in history) == of(points(folder), "system/mhz")
    assert len(history) == MOST
    assert "samples.jsonl" in {file.path for file in client.list_artifacts(run.run_id)}

"""From samples to what a trial's conditions come to, and what the kernel's files say, with made-up numbers."""

from datetime import UTC, datetime

import pytest

from raybench.monitoring.host import TICKS, core_times, mhz
from raybench.monitoring.summary import moment, summarise, widen

START = moment("2026-11-21T09:00:00.000Z")


def at(seconds):
    return datetime.fromtimestamp(START + seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sample(end, seconds=1.0, **told):
    return {"t": at(end), "at": end, "seconds": seconds, **told}


def test_other_time_is_what_the_cores_did_less_what_the_trial_used():
    samples = [sample(n, busy_s=1.5, own_cpu_s=1.0, steal_s=0.1, iowait_s=0.2) for n in (1, 2, 3, 4)]
    told = summarise(samples)
    assert told["host"] == {"own_cpu_s": 4.0, "other_cpu_s": 2.0, "steal_s": 0.4, "iowait_s": 0.8}
    assert (told["seconds"], told["samples"], told["within"]) == (4.0, 4, "trial")


def test_rounding_of_the_counters_is_no_negative_time():
    assert summarise([sample(1, busy_s=0.99, own_cpu_s=1.0)])["host"]["other_cpu_s"] == 0.0


def test_a_sample_counts_by_its_part_inside_the_epochs():
    samples = [sample(n, busy_s=float(n), own_cpu_s=0.0, mhz=1000.0 * n) for n in (1, 2, 3, 4)]
    told = summarise(samples, (START + 1.5, START + 3.25))
    assert (told["seconds"], told["samples"], told["within"]) == (1.75, 3, "epochs")
    assert told["host"]["other_cpu_s"] == pytest.approx(0.5 * 2 + 3 + 0.25 * 4)
    assert told["host"]["mhz"] == {"first": 2000.0, "last": 4000.0, "min": 2000.0, "max": 4000.0}


def test_epochs_too_short_to_measure_are_replaced_by_the_whole_trial():
    samples = [sample(n / 4, 0.25, busy_s=0.5, own_cpu_s=0.25) for n in (1, 2, 3, 4)]
    told = summarise(samples, (START + 0.5, START + 0.75))
    assert (told["seconds"], told["samples"], told["within"]) == (1.0, 4, "trial")
    assert told["host"]["other_cpu_s"] == pytest.approx(1.0)
    assert summarise(samples, (START + 0.25, START + 0.8))["within"] == "epochs"


def test_a_peak_before_the_epochs_is_the_trials_peak():
    samples = [sample(1, peak_rss_bytes=900, load_1m=9.0), sample(2, peak_rss_bytes=500, load_1m=1.0)]
    told = summarise(samples, (START + 1, START + 2))
    assert told["process"] == {"peak_rss_bytes": 900}
    assert told["host"] == {"load_1m": {"mean": 1.0, "max": 1.0}}


def test_a_slow_end_shows_in_the_quarters():
    speeds = [3000, 3000, 2900, 2500, 2400, 2000, 2000, 2100]
    told = summarise([sample(n, mhz=float(speed)) for n, speed in enumerate(speeds, 1)])
    assert told["host"]["mhz"] == {"first": 3000.0, "last": 2050.0, "min": 2000.0, "max": 3000.0}


def test_gpus_are_summarised_one_by_one():
    def gpu(name, power, throttled):
        return {"id": name, "clock_mhz": 1980, "power_w": power, "temperature_c": 60, "throttled": throttled}

    samples = [
        sample(1, gpus=[gpu("0", 100.0, []), gpu("1", 50.0, [])]),
        sample(4, 3.0, gpus=[gpu("0", 300.0, ["power_cap"]), gpu("1", 50.0, [])]),
    ]
    first, second = summarise(samples)["gpus"]
    assert (first["id"], second["id"]) == ("0", "1")
    assert first["power_w"] == {"mean": 250.0, "max": 300.0}, "by time, not by sample"
    assert first["clock_mhz"] == {"first": 1980.0, "last": 1980.0, "min": 1980, "max": 1980}
    assert first["throttled"] == {"power_cap": 0.75}
    assert second["throttled"] == {}, "asked, and never"
    assert "memory_clock_mhz" not in first, "what is not told is left out"


def test_nothing_told_is_nothing_said():
    assert summarise([]) == {"seconds": 0, "samples": 0, "within": "trial", "host": {}, "process": {}, "gpus": []}
    assert summarise([sample(1)])["host"] == {}


def test_epochs_are_as_long_as_their_ledgers():
    first = {"t": at(10), "ledger": {"compile": 1.0, "train": 3.0, "evaluate": 0.5}}
    window = widen(None, first)
    assert window == pytest.approx((START + 5.5, START + 10))
    assert widen(window, {"t": at(14), "ledger": {"train": 3.5}}) == pytest.approx((START + 5.5, START + 14))


STAT = """\
cpu  9 9 9 9 9 9 9 9 9 9
cpu0 100 20 30 400 5 6 7 8 50 0
cpu1 1 2 3 4 5 6 7 8 0 0
cpu10 7 7 7 7 7 7 7 7 7 7
intr 123
"""


def test_the_cores_times_are_those_of_proc_stat(tmp_path):
    (tmp_path / "stat").write_text(STAT)
    times = core_times([0, 1], tmp_path)
    assert times.busy * TICKS == pytest.approx(100 + 20 + 30 + 6 + 7 + 1 + 2 + 3 + 6 + 7), "guests are in user already"
    assert [value * TICKS for value in (times.idle, times.iowait, times.steal)] == pytest.approx([404, 10, 16])


@pytest.mark.parametrize("text", [None, "", "cpu0 0 0 0 0 0 0 0 0\n", "cpu0 a b c d e f g h\n", "cpu0 1 2\n"])
def test_a_system_that_does_not_tell_says_nothing(tmp_path, text):
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert core_times([0], tmp_path) is None


def test_frequencies_come_from_the_governor_or_from_cpuinfo(tmp_path):
    assert mhz([0, 1], tmp_path) is None
    (tmp_path / "proc").mkdir()
    cores = "processor\t: {}\nmodel name\t: X\ncpu MHz\t\t: {}\ncache size\t: 1\n\n"
    (tmp_path / "proc" / "cpuinfo").write_text("".join(cores.format(n, 1000 + n) for n in range(4)))
    assert mhz([1, 3], tmp_path) == 1002.0
    for core in (1, 3):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{2_000_000 + 200_000 * core}\n")
    assert mhz([1, 3], tmp_path) == 2400.0
    assert mhz([0, 1], tmp_path) == 1000.5, "a core without a governor: all from the other file"


def test_of_many_cores_a_few_are_read(tmp_path):
    for core in range(64):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text("3000000\n" if core % 8 == 0 else "no number")
    assert mhz(list(range(64)), tmp_path) == 3000.0

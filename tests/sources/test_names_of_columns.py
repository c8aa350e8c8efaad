"""Names that people give to columns of times, rates, prices and machines."""

import pytest

from raybench import load
from raybench.core.options import ReportOptions
from raybench.errors import FileError, UsageError
from raybench.reporting import build


def report(path):
    return build.from_grid(build.one_grid([str(path)], str(path)), ReportOptions())


def runs(tmp_path, head, values, more=""):
    """Write three runs of two GPUs, of which the second takes twice as long."""
    lines = [f"{gpu},{value * (1 + n / 100)}{more}" for gpu, value in zip("ab", values, strict=True) for n in range(3)]
    (tmp_path / "runs.csv").write_text("\n".join([head, *lines]))
    return tmp_path / "runs.csv"


@pytest.mark.parametrize(
    ("name", "unit", "seconds"),
    [
        ("train_hours", "run", 3600),
        ("train_h", "run", 3600),
        ("wall_clock_hours", "run", 3600),
        ("elapsed_min", "run", 60),
        ("time (s)", "run", 1),
        ("time_per_epoch", "epoch", 1),
        ("epoch_minutes", "epoch", 60),
        ("step_ms", "step", 1e-3),
        ("ms_per_step", "step", 1e-3),
    ],
)
def test_a_time_is_known_by_its_words(tmp_path, name, unit, seconds):
    answer = report(runs(tmp_path, f"gpu,{name}", (1, 2))).answer
    assert answer.unit.label == unit
    assert [row.seconds.value for row in answer.configurations] == pytest.approx([1.01 * seconds, 2.02 * seconds], 1e-3)
    assert [row.total_s is None for row in answer.configurations] == [unit != "run"] * 2, "no price of a whole run"


@pytest.mark.parametrize(
    ("head", "begin", "ends"),
    [
        ("start_time,end_time", "23:50:00", ("00:20:00", "00:50:00")),
        ("begin,end", "9:50", ("10:20", "10:50")),
        ("started,ended", "2026-11-01T23:50:00+01:00", ("2026-11-01T23:20:00Z", "2026-11-01T23:50:00Z")),
    ],
)
def test_two_points_in_time_give_the_duration(tmp_path, head, begin, ends):
    path = tmp_path / "runs.csv"
    lines = [f"{gpu},{seed},{begin},{end},0.9" for gpu, end in zip("ab", ends, strict=True) for seed in (1, 2)]
    path.write_text("\n".join([f"gpu,seed,{head},val_acc", *lines]))
    answer = report(path).answer
    assert [row.seconds.value for row in answer.configurations] == pytest.approx([1800, 3600])
    assert head.replace(",", " and ") in answer.status.repeats[0]
    alone = "\n".join(line.rpartition(",0.9")[0].rpartition(",")[0] for line in lines)
    path.write_text(f"gpu,seed,{head.partition(',')[0]}\n{alone}")
    with pytest.raises(FileError, match="no column is a time"):
        report(path)


@pytest.mark.parametrize("head", ["training_s,total_time", "total_time,training_s", "time_s,train_h"])
def test_training_and_whole_runs_are_two_times(tmp_path, head):
    whole_first = head.startswith("t") and not head.startswith("training")
    lines = []
    for gpu, training, whole in (("a", 100, 200), ("b", 120, 150)):
        for run in range(3):
            times = [(training + run) / (3600 if head.endswith("_h") else 1), whole + run]
            lines.append(f"{gpu},{','.join(map(str, times[::-1] if whole_first else times))},0.9")
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([f"gpu,{head},val_acc", *lines]))
    (a, b), unit = report(path).answer.configurations, report(path).answer.unit
    assert (a.seconds.value, b.ratio.value) == (pytest.approx(101, 1e-3), pytest.approx(101 / 121, 1e-3))
    assert (unit.label, a.total_s) == ("training", pytest.approx(201, 1e-3))
    grid = build.one_grid([str(path)], str(path))
    whole = build.from_grid(grid, ReportOptions(whole_runs=True)).answer
    assert (whole.unit.label, whole.configurations[1].ratio.value) == ("run", pytest.approx(201 / 151, 1e-3))


@pytest.mark.parametrize("head", ["time_s,total_time", "duration,runtime_min", "total_time,train_time"])
def test_two_times_that_names_do_not_tell_apart_are_asked_for(tmp_path, head):
    path = runs(tmp_path, f"gpu,{head}", (1, 2), ",5")
    first, second = head.split(",")
    with pytest.raises(FileError, match=rf"1:3: {second}: a time of a run, as {first} is: name that of its training"):
        report(path)


@pytest.mark.parametrize(
    ("head", "line", "unit"),
    [
        ("device,seed,epoch,step,time_s", "{gpu},{seed},{epoch},{step},{elapsed}", "epoch"),
        ("gpu,seed,step,epoch,elapsed_min", "{gpu},{seed},{step},{epoch},{minutes}", "epoch"),
        ("run,epoch,step,step_time", "{gpu}-{seed},{epoch},{step},{each}", "epoch"),
        ("device,seed,step,step_ms", "{gpu},{seed},{step},{ms}", "step"),
    ],
)
def test_a_log_of_steps_has_the_runs_that_its_columns_tell_apart(tmp_path, head, line, unit):
    lines = []
    for gpu, each in (("a", 0.2), ("b", 0.1)):
        for seed in range(3):
            for step in range(1, 13):
                took = {"elapsed": step * each, "minutes": step * each / 60, "each": each, "ms": 1000 * each}
                values = {"gpu": gpu, "seed": seed, "step": step, "epoch": (step + 3) // 4, **took}
                lines.append(f"{line.format(**values)},{2 - step / 10 + seed / 100}")
    (tmp_path / "log.csv").write_text("\n".join([f"{head},train_loss", *lines]))
    for source in (tmp_path / "log.csv", tmp_path):
        answer = report(source).answer
        assert [row.completed for row in answer.configurations] == [3, 3] and answer.unit.name == unit
        assert [row.seconds.value for row in answer.configurations] == pytest.approx(
            [0.8, 0.4] if unit == "epoch" else [0.2, 0.1]
        )


@pytest.mark.parametrize("name", ["machine", "node", "Hostname", "host_name", "server"])
@pytest.mark.parametrize("epoch", ["", ",epoch"])
def test_machines_are_no_axes(tmp_path, name, epoch):
    lines = [f"{gpu},{gpu}{seed},{seed},{9 + seed}{epoch and ',1'}" for gpu in "xy" for seed in (1, 2)]
    (tmp_path / "runs.csv").write_text("\n".join([f"device,{name},seed,time_s{epoch}", *lines]))
    answer = report(tmp_path / "runs.csv").answer
    assert [({*row.axes}, row.completed) for row in answer.configurations] == [({"device"}, 2)] * 2
    assert [*load(tmp_path / "runs.csv").trials["host"]] == ["x1", "x2", "y1", "y2"]


@pytest.mark.parametrize("name", ["seconds", "time_s", "time"])
@pytest.mark.parametrize(
    ("times", "second"),
    [((20.0, 40.1, 59.9, 80.0), 20.1), ((50, 74, 99, 123), 24), ((20, 20.1, 20.2, 20.3), 20.1), ((9, 8, 30, 9), 8)],
)
def test_times_that_grow_with_each_epoch_are_elapsed(tmp_path, name, times, second):
    lines = [f"{seed},{n},{took + seed / 1000}" for seed in (1, 2) for n, took in enumerate(times, 1)]
    (tmp_path / "epochs.csv").write_text("\n".join([f"seed,epoch,{name}", *lines, f"3,1,{times[0]}"]))
    assert load(tmp_path / "epochs.csv").epochs["epoch_s"][1] == pytest.approx(second, abs=0.01)
    answer = report(tmp_path / "epochs.csv").answer
    is_elapsed = times[-1] > 50
    assert f"{name} is taken for the seconds {'since' if is_elapsed else 'of each'}" in answer.status.repeats[0]


def test_a_minimum_is_no_time_in_minutes(tmp_path):
    with pytest.raises((UsageError, FileError), match="among gpu, min_time"):
        report(runs(tmp_path, "gpu,min_time", (1, 2)))


@pytest.mark.parametrize(
    ("name", "unit"), [("tokens_per_s", "tokens"), ("samples_per_second", "samples"), ("it/s", "it")]
)
def test_a_rate_alone_is_a_speed(tmp_path, name, unit):
    answer = report(runs(tmp_path, f"gpu,{name}", (200, 100))).answer
    assert (answer.unit.counted, answer.configurations[1].ratio.value) == (unit, pytest.approx(0.5))
    assert answer.configurations[0].rate.value == pytest.approx(202, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "kind"), [("throughput", "a rate"), ("step_ms", "a time per step"), ("tokens_per_s", "a rate")]
)
def test_the_time_of_a_part_is_not_used_with_a_metric(tmp_path, name, kind):
    answer = report(runs(tmp_path, f"gpu,{name},val_acc", (1, 2), ",0.9")).answer
    text = f"Column {name} was not used: it is {kind}; add the time of the whole run as a column time_s"
    assert answer.status.repeats == (text,)


def test_a_table_without_a_time_names_its_columns(tmp_path):
    with pytest.raises((UsageError, FileError), match="among gpu, colour; name them time_s and val/loss"):
        report(runs(tmp_path, "gpu,colour", (1, 2)))


@pytest.mark.parametrize(
    "name", ["usd_per_hour", "cost_per_hour", "hourly_price", "price_per_hour", "$/hr", "price ($/h)", "hourly_cost"]
)
def test_prices_are_neither_axes_nor_losses(tmp_path, name):
    path = runs(tmp_path, f"gpu,train_hours,{name},cost_usd,cost,final_val_acc", (1, 2), ",2.5,9,8,0.9")
    for row in report(path).answer.configurations:
        assert (row.price_per_hour, list(row.axes), row.quality.value) == (2.5, ["params.gpu"], 0.9)
        assert not any("loss" in metric for metric in row.metrics)


@pytest.mark.parametrize("gpu", ["gpu", "accelerator", "device"])
@pytest.mark.parametrize("seconds", ["seconds", "time_s", "epoch_seconds"])
def test_runs_of_epochs_are_numbered_for_each_gpu(tmp_path, gpu, seconds):
    lines = [
        f"{name},{run},{epoch},{took + run / 10 + epoch / 100},{0.5 + epoch / 20 + run / 1000},{price}"
        for name, took, price in (("A100", 20, 2), ("H100", 10, 3), ("L4", 40, 1))
        for run in range(1, 5)
        for epoch in range(1, 6)
    ]
    path = tmp_path / "epochs.csv"
    path.write_text("\n".join([f"{gpu},run,epoch,{seconds},val_acc,price", *lines]))
    answer = report(path).answer
    rows = [(row.axes["device"], row.completed, row.price_per_hour) for row in answer.configurations]
    assert (rows, answer.metric) == ([("A100", 4, 2), ("H100", 4, 3), ("L4", 4, 1)], "val/accuracy")
    (guess,) = answer.status.repeats
    assert guess.startswith(f"Column {seconds} is taken for the seconds of each epoch; name it elapsed_s if")
    path.write_text(path.read_text().replace(",run,", ",trial,"))
    with pytest.raises(
        (UsageError, FileError), match="a trial has one; use the column repeat, or trial names that dif"
    ):
        report(path)

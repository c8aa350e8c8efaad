"""Logs of others as runs: excerpts of public logs, lines as public programs print them, and what is wrong with one."""

import json
from pathlib import Path

import pytest

import raybench
from raybench.core.options import ReportOptions
from raybench.errors import FileError, RaybenchError, UsageError
from raybench.reporting import build
from raybench.sources import program_log, tensorboard

LOGS = Path(__file__).parent / "logs"


def answer(source, options=None, **how):
    return build.from_grid(build.one_grid([str(source)], source, **how), options).answer


def of_table(folder, head, *rows, **options):
    """The answer about a table of runs, with options of a report."""
    (folder / "runs.csv").write_text("\n".join([head, *rows]) + "\n")
    return answer(folder / "runs.csv", ReportOptions(**options))


def test_modded_nanogpt_folders_are_the_axis_and_ids_repeats():
    found = answer(LOGS / "modded_nanogpt")
    assert [(c.axes, c.completed) for c in found.configurations] == [
        ({"params.log": "baseline"}, 2),
        ({"params.log": "this_record"}, 2),
    ]
    trials = raybench.load(LOGS / "modded_nanogpt").trials.set_index("trial")
    run = trials.loc["baseline/15273534-0000-0000-0000-000000000000"]
    assert (run["epochs_s"], run["last_val_loss"]) == (pytest.approx(84.604), 3.28), "as its last line says"


def test_parameter_golf_keeps_what_follows_the_last_whole_epoch():
    trials = raybench.load(LOGS / "parameter_golf").trials
    assert trials["epochs_s"].tolist() == [pytest.approx(600.043), pytest.approx(600.051)]
    assert trials["cell"].nunique() == 1, "two seeds are two repeats"
    assert raybench.load(LOGS / "parameter_golf").epochs["val/bpb"].dropna().iloc[-1] == pytest.approx(1.20715923)


def test_mlperf_time_is_from_run_start_to_run_stop():
    trials = raybench.load(LOGS / "mlperf").trials
    for path, row in zip(sorted((LOGS / "mlperf").rglob("result_*")), trials.itertuples(), strict=True):
        lines = [json.loads(line.split(":::MLLOG")[1]) for line in path.read_text().splitlines()]
        at_ms = {line["key"]: line["time_ms"] for line in lines if line["key"].startswith("run_")}
        assert row.epochs_s == pytest.approx((at_ms["run_stop"] - at_ms["run_start"]) / 1e3)
        assert row.last_val_loss == [line["value"] for line in lines if line["key"] == "eval_accuracy"][-1]
    assert set(trials["device"]) == {"MI300X_EPYC_9575F_pytorch_llama2_70b", "MI355X_EPYC_9575F_pytorch"}
    assert set(trials["batch_size"]) == {8} and set(trials["grid"]) == {"llama2_70b_lora"}


@pytest.mark.parametrize(
    ("name", "step_s", "unit"), [("torchtitan", 10, "10 steps"), ("llm.c", 2.5, "step"), ("nanochat", 0.8005, "step")]
)
def test_programs_are_timed_by_their_dates_steps_and_totals(name, step_s, unit):
    found = answer(LOGS / name)
    first, second = found.configurations
    assert found.unit.label == unit
    assert first.seconds.value == pytest.approx(step_s, rel=2e-3)
    assert first.seconds.value / second.seconds.value == pytest.approx(2, rel=2e-3)


def test_logs_of_this_folder_that_are_named_by_their_gpu(tmp_path, monkeypatch):
    for name in ("a100_run1", "a100_run2", "h100-1", "h100-2"):
        lines = "".join(f"step {n}/9 | loss {3 / n:.3f} | dt: {len(name)}00ms\n" for n in range(1, 10))
        (tmp_path / f"{name}.log").write_text(f"{name}\n{lines}")
    monkeypatch.chdir(tmp_path)
    found = answer(".")
    assert [(c.axes, c.completed) for c in found.configurations] == [
        ({"params.log": "a100"}, 2),
        ({"params.log": "h100"}, 2),
    ]


@pytest.mark.parametrize(
    ("files", "logs", "is_guess"),
    [
        ("L4/run0 L4/run1 L40/run0 L40/run1 T4/run0 T4/run1", "L4 L40 T4", False),
        ("L4_seed0 L4_seed1 L40_seed0 L40_seed1", "L4 L40", False),
        ("fp16_0 fp16_1 bf16_0 bf16_1 fp32_0 fp32_1", "bf16 fp16 fp32", True),
        ("base_0 base_1 v1_0 v1_1 v2_0 v2_1", "base v1 v2", True),
        ("adam1 adam2 adam3 sgd1 sgd2", "adam sgd", True),
        ("base v1 v2", "base v1 v2", False),
        ("resnet-18 resnet-50 vgg-16", "resnet-18 resnet-50 vgg-16", False),
    ],
)
def test_numbers_in_names_are_of_repeats_only_if_they_count(tmp_path, files, logs, is_guess):
    for number, name in enumerate(files.split()):
        path = tmp_path / f"{name}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"step {n}/9 | loss {3 / n + number:.3f} | dt: 9{number}ms\n" for n in range(1, 10)))
    found = answer(tmp_path)
    assert sorted(c.axes["params.log"] for c in found.configurations) == sorted(logs.split())
    assert ("The last numbers of names were taken for those of repeats" in found.status.repeats) == is_guess


def epochs_s(folder, text, name="run"):
    (folder / f"{name}.log").write_text(text)
    return raybench.load(folder / f"{name}.log").epochs["train_s"].tolist()


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        *((line, 12.3) for line in ("took 12.3s loss=", "took 12.3 s, loss=", "(12.3s) loss: ", "duration=12.3 loss=")),
        *(("done in 12.3 seconds - loss ", 12.3), ("train_time=12.3s val_time=5.0s loss=", 12.3)),
        *((f"time {text} | loss ", 69) for text in ("0:01:09", "1:09", "1m 9s", "1.15 min", "1.15 minutes")),
        *(("epoch time: 0.5 hours, loss ", 1800), ("time: 36 s/epoch loss ", 36)),
    ],
)
def test_how_programs_print_the_time_of_an_epoch(tmp_path, line, seconds):
    text = "".join(f"Epoch {n}/6 {line}{2 / n:.3f} val_acc={0.9 + n / 100}\n" for n in range(1, 7))
    assert epochs_s(tmp_path, text) == pytest.approx([seconds] * 6)
    assert raybench.load(tmp_path).trials["last_val_accuracy"].tolist() == [pytest.approx(0.96)]


@pytest.mark.parametrize("form", ["time {}s", "elapsed {}s", "{} seconds elapsed", "total: {}s"])
def test_times_that_grow_from_the_first_on_are_since_the_start(tmp_path, form):
    text = "".join(f"Epoch {n}/5 loss {2 / n:.3f} {form.format(60 * n + 8)}\n" for n in range(1, 6))
    assert epochs_s(tmp_path, text)[1:] == pytest.approx([60] * 4)


@pytest.mark.parametrize(
    ("end", "seconds"),
    [
        ("Training complete in 4m 8s", 62),
        ("Training time: 31.25 seconds", 7.8125),
        ("4 epochs completed in 0.1 hours.", 90),
        ("real\t4m17.040s", 64.26),
    ],
)
def test_a_time_of_the_whole_training_is_spread_over_its_epochs(tmp_path, end, seconds):
    text = "".join(f"Epoch {n}/4 loss {2 / n:.3f}\n" for n in range(1, 5))
    assert epochs_s(tmp_path, f"{text}{end}\n") == pytest.approx([seconds] * 4)
    assert any("spread evenly" in text for text in answer(tmp_path).status.repeats)


@pytest.mark.parametrize("name", ["Epoch {e}/4: ", ""])
def test_bars_are_timed_by_their_last_line(tmp_path, name):
    text = ""
    for e in range(1, 5):
        bar = (
            f"{name.format(e=e)}{n // 2:3d}%|##| {n}/200 [{n // 120:02d}:{n // 2 % 60:02d}<00:00]"
            for n in (0, 99, 198, 200)
        )
        text += "\r".join(bar) + f"\nEpoch {e} val_acc {0.8 + e / 100}\n"
    assert epochs_s(tmp_path, text)[1:] == pytest.approx([100] * 3, rel=0.02)


def test_lines_with_times_that_are_not_read_are_shown(tmp_path):
    (tmp_path / "run.log").write_text(
        "".join(f"Epoch {n}/4 loss {2 / n:.3f} {400 + n} samples/s\n" for n in range(1, 5))
    )
    assert any("Epoch N/N" in text for text in answer(tmp_path).status.repeats)


IMAGENET = "Epoch: [{e}][ {n}/{steps}]\tTime 0.200 ( 0.200)\tLoss {l:.3f}\tAcc@1  70.00 ( 70.00)\n"
MMENGINE = "2026/05/01 10:00:30 - mmengine - INFO - Epoch(train) [{e}][{n:3d}/{steps}]  time: 0.2000  loss: {l:.3f}\n"
STEP = "epoch {e} step {n}/{steps} loss {l:.3f} step_time 200.0 ms\n"


@pytest.mark.parametrize(("every", "first"), [(20, 1), (50, 1), (70, 1), (50, 50)])
@pytest.mark.parametrize("line", [IMAGENET, MMENGINE, STEP])
def test_steps_count_whether_they_are_logged_or_not(tmp_path, line, every, first):
    """Also those after the last logged step of an epoch; those of an evaluation do not."""
    text = ""
    for e in range(4):
        for n in range(first, 101, every):
            text += line.format(e=e, n=n, steps=100, l=2 / (e + 1))
        text += f"Epoch(val) [{e}][20/20]  accuracy/top1: {70 + e}.0  time: 0.3\nval_acc {0.7 + e / 100}\n"
    assert epochs_s(tmp_path, text)[1:] == pytest.approx([20.0] * 3, rel=0.02)


def test_whole_runs_of_logs_with_dates_hold_evaluations(tmp_path):
    text = ""
    for e in range(4):
        for n in range(100, 501, 100):
            text += f"2026-05-01 10:0{e}:{n // 10:02d} INFO epoch {e} step {n}/500 loss {2 / (e + 1)}\n"
        text += f"2026-05-01 10:0{e}:58 INFO epoch {e} val_acc {0.8 + e / 100}\n"
    (tmp_path / "run.log").write_text(text)
    grid = build.one_grid([str(tmp_path)], tmp_path)
    (row,) = build.from_grid(grid, ReportOptions(whole_runs=True)).answer.configurations
    assert row.seconds.value == pytest.approx(3 * 60 + 48)


def test_a_log_that_ends_in_an_exception_is_of_a_failed_run(tmp_path):
    lines = "".join(f"Epoch {n}/6, loss: {2 / n:.3f}, time: {10 + n}s\n" for n in range(1, 4))
    crash = 'Traceback (most recent call last):\n  File "t.py", line 3, in step\ntorch.OutOfMemoryError: CUDA\n'
    for name, end in (("a", ""), ("b", crash), ("c", f"{crash}{lines}"), ("d", f"Exception ignored in: f\n{crash}")):
        (tmp_path / f"{name}.log").write_text(f"{name}\n{lines}{end}")
    assert [c.completed for c in answer(tmp_path).configurations] == [1, 0, 1, 1]


@pytest.mark.parametrize(("end", "completed"), [("", 1), ("crash", 0)])
def test_a_log_without_times_goes_on_after_an_exception_that_was_caught(tmp_path, end, completed):
    crash = 'Traceback (most recent call last):\n  File "t.py", line 3, in step\n    step()\nValueError: x\n'
    lines = "".join(f"Epoch {n}/6, val_loss: {2 / n:.3f}\n" for n in range(1, 4))
    (tmp_path / "run.log").write_text(f"{crash}{lines}{crash if end else ''}")
    (row,) = answer(tmp_path / "run.log").configurations
    assert row.completed == completed


def transformers_lines(epoch_s):
    for e in range(1, 6):
        yield f"{{'loss': {3 / e:.4f}, 'learning_rate': 5e-05, 'epoch': {e}.0}}"
        yield f"{{'eval_loss': {3.2 / e:.4f}, 'eval_runtime': 2.1, 'eval_samples_per_second': 50.0, 'epoch': {e}.0}}"
    yield f"{{'train_runtime': {5 * epoch_s:.4f}, 'train_samples_per_second': 10.0, 'train_loss': 1.2, 'epoch': 5.0}}"


def keras_lines(epoch_s):
    for e in range(1, 6):
        bar = f"100/100 ━━━━━━━━━━ {epoch_s:.0f}s {10 * epoch_s:.0f}ms/step"
        yield f"Epoch {e}/5\n{bar} - loss: {2 / e:.4f} - val_loss: {3.2 / e:.4f}"


def lightning_lines(epoch_s):
    for e in range(5):
        half = f"Epoch {e}:  50%|█████     | 50/100 [00:{epoch_s / 2:02.0f}<00:10, 9.00it/s, v_num=0]\r"
        end = f"Epoch {e}: 100%|██████████| 100/100 [00:{epoch_s:02.0f}<00:00, 9.00it/s, v_num=0"
        yield f"{half}{end}, train_loss=1.0, val_loss={3.2 / (e + 1):.4f}]"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (transformers_lines, "spread evenly over the epochs; it includes evaluations"),
        (keras_lines, "Keras's progress bars, which include validation"),
        (lightning_lines, "progress bars, which include validation"),
    ],
)
def test_times_of_libraries_that_print_them_with_their_evaluations(tmp_path, lines, says):
    for name, epoch_s in (("a100", 20), ("h100", 10)):
        for run, more_s in enumerate((0, 2, 4)):
            (tmp_path / f"{name}_run{run}.log").write_text("\n".join(lines(epoch_s + more_s)) + "\n")
    found = answer(tmp_path)
    slow, fast = found.configurations
    assert [row.seconds.value for row in (slow, fast)] == [pytest.approx(22, rel=0.01), pytest.approx(12, rel=0.02)]
    assert fast.quality.value == pytest.approx(3.2 / 5, abs=1e-3) and found.unit.name == "epoch"
    (sentence,) = found.status.repeats
    assert sentence.endswith(says)


def test_progress_bars_of_epochs_that_take_hours(tmp_path):
    line = "Epoch {}: 100%|█████| 9/9 [1:02:03<00:00, 2.1it/s, train_loss={}]"
    (tmp_path / "run.log").write_text("".join(line.format(e, 2 / (1 + e)) + "\n" for e in range(5)))
    (row,) = answer(tmp_path).configurations
    assert row.seconds.value == pytest.approx(3723)


def test_steps_of_keras_that_take_microseconds(tmp_path):
    bars = (f"Epoch {e}/5\n9000/9000 ━━━━ 2s 250us/step - loss: {2 / e:.4f}\n" for e in range(1, 6))
    (tmp_path / "run.log").write_text("".join(bars))
    (row,) = answer(tmp_path).configurations
    assert row.seconds.value == pytest.approx(2.25)


def test_a_bar_of_keras_before_its_validation_is_not_a_second_one(tmp_path):
    text = "".join(
        f"Epoch {e}/5\n1/600 ━━ 69s 116ms/step - loss: {2 / e:.4f}\r600/600 ━━ 0s 100ms/step - loss: {2 / e:.4f}\r"
        f"600/600 ━━ 70s 116ms/step - loss: {2 / e:.4f} - val_loss: {3 / e:.4f}\n"
        for e in range(1, 6)
    )
    assert epochs_s(tmp_path, text) == pytest.approx([69.6] * 5)


@pytest.mark.parametrize("fraction", [",500", ".500000"], ids=["of logging", "of datetime"])
def test_dates_with_fractions_of_a_second(tmp_path, fraction):
    stamps = [f"00{fraction}", "02", f"03{fraction}", "05", f"06{fraction}"]
    lines = (f"2026-11-29 10:00:{stamp} epoch {n} loss {2 / n:.3f}\n" for n, stamp in enumerate(stamps, 1))
    (tmp_path / "run.log").write_text("".join(lines))
    (row,) = answer(tmp_path).configurations
    assert row.seconds.value == pytest.approx(1.5)


def timm_lines(step_s, run):
    for e in range(4):
        for step in (0, 50, 100):
            yield f"Train: {e} [{step:4d}/101 ({step:3d}%)]  Loss: {6 / (1 + e):.3f}  Time: {step_s:.4f}s, 9.00/s"
        yield f"Test: [  48/48]  Time: 0.300 (0.310)  Acc@1: {15 * (e + 1) + run / 10:.3f}"


def torchvision_lines(step_s, run):
    for e in range(4):
        yield f"Epoch: [{e}]  [  0/101]  eta: 0:00:30  loss: {5 / (1 + e):.4f}  time: {step_s:.4f}  data: 0.01"
        yield f"Epoch: [{e}] Total time: 0:00:{101 * step_s:02.0f}\nTest: Total time: 0:00:05"
        yield f"Test:  Acc@1 {15 * (e + 1) + run / 10:.3f} Acc@5 80.0"


@pytest.mark.parametrize("lines", [timm_lines, torchvision_lines])
def test_times_of_an_epoch_by_its_steps_or_its_total(tmp_path, lines):
    for name, step_s in (("a100", 0.4), ("h100", 0.2)):
        for run in range(3):
            (tmp_path / f"{name}_run{run}.log").write_text("\n".join(lines(step_s + run / 50, run)) + "\n")
    slow, fast = answer(tmp_path).configurations
    assert slow.seconds.value == pytest.approx(101 * 0.42, rel=0.02)
    assert fast.seconds.value == pytest.approx(101 * 0.22, rel=0.03)


def nanogpt_lines(step_s):
    for step in range(0, 1501, 10):
        if step % 250 == 0:
            yield f"step {step}: train loss {9 / (1 + step):.4f}, val loss {9 / (1 + step):.4f}"
        time_s = step_s + 30 * (step % 250 == 0)
        yield f"iter {step}: loss {9 / (1 + step):.4f}, time {1000 * time_s:.2f}ms, mfu 9.00%"


def rank_lines(step_s):
    for step in range(1, 51):
        for rank in range(4):
            yield f"[rank{rank}] step {step}/50 | loss {9 / step:.4f} | {1000 * step_s:.2f} ms"


def megatron_lines(step_s):
    for step in range(100, 600, 100):
        elapsed = f"elapsed time per iteration (ms): {1000 * step_s:.1f}"
        yield f" iteration {step:8d}/  600 | consumed samples: {256 * step} | {elapsed} | lm loss: {9 / step:.6E} |"


def detectron2_lines(step_s):
    for step in range(19, 200, 20):
        losses = f"total_loss: {9 / step:.3f}"
        yield f"[11/20 10:00:00 d2.utils.events]:  eta: 0:01:00  iter: {step}  {losses}  time: {step_s:.4f}"


@pytest.mark.parametrize(
    ("lines", "unit_s"),
    [(nanogpt_lines, 250 * 0.42 + 30), (rank_lines, 0.42), (megatron_lines, 42), (detectron2_lines, 20 * 0.42)],
)
def test_a_step_time_counts_for_the_steps_since_the_last_line(tmp_path, lines, unit_s):
    """An evaluation is in the time of one step, and the lines of further ranks are of the same step."""
    for run, step_s in enumerate((0.42, 0.421, 0.419)):
        (tmp_path / f"run{run}.log").write_text("\n".join(lines(step_s)) + "\n")
    (row,) = answer(tmp_path).configurations
    assert row.seconds.value == pytest.approx(unit_s, rel=0.02)


@pytest.mark.parametrize(
    "head",
    ["epoch,time,train/box_loss,val/box_loss", "time/iterations,time/time_elapsed,time/total_timesteps,val/loss"],
)
def test_elapsed_seconds_of_a_table_by_epoch(tmp_path, head):
    for name, epoch_s in (("a", 40), ("b", 20)):
        for seed in (1, 2, 3):
            rows = [f"{e},{e * (epoch_s + seed / 10):.3f},{e * 1000},{3 / e:.4f}" for e in range(1, 7)]
            (tmp_path / f"{name}_seed{seed}.csv").write_text("\n".join([head, *rows]) + "\n")
    found = answer(tmp_path)
    assert [(c.axes, c.completed) for c in found.configurations] == [({"params.log": "a"}, 3), ({"params.log": "b"}, 3)]
    assert [c.seconds.value for c in found.configurations] == pytest.approx([40.2, 20.2], rel=0.01)


def test_losses_of_both_parts_after_one_name(tmp_path):
    lines = [
        f"iter {n} step {n} | loss train: {9 / n:.3f}, val: {8 / n:.3f} | iter time: 346.75 ms" for n in range(1, 9)
    ]
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    (row,) = answer(tmp_path / "run.log").configurations
    assert (row.quality.value, row.seconds.value) == (1.0, pytest.approx(0.34675))


def test_a_run_that_was_resumed_has_the_time_of_its_part(tmp_path):
    lines = [*transformers_lines(10)]
    (tmp_path / "whole.log").write_text("\n".join(lines) + "\n")
    end = lines[-1].replace("'train_runtime': 50.0000", "'train_runtime': 30.0000")
    (tmp_path / "resumed.log").write_text("\n".join([*lines[4:-1], end]) + "\n")
    assert [c.seconds.value for c in answer(tmp_path).configurations] == pytest.approx([10, 10])


def test_steps_of_unequal_work_are_compared_by_what_they_print_per_second(tmp_path):
    """A step of the h100 takes longer, and has twice the tokens."""
    for name, step_s, tokens in (("a100", 0.2, 500_000), ("h100", 0.25, 1_000_000)):
        for run, change in enumerate((1.0, 1.01, 0.99)):
            line = f"{step_s * change * 1000:.1f} ms/step | tok/s {tokens / step_s / change:.0f}"
            lines = "".join(f"step {n}/90 | loss {9 / (1 + n):.3f} | {line}\n" for n in range(0, 90, 10))
            (tmp_path / f"{name}_run{run}.log").write_text(lines)
    found = answer(tmp_path)
    assert (found.unit.name, found.configurations[found.ranking[0]].axes) == ("tokens", {"params.log": "h100"})
    assert found.best[0].ratios["fastest"].value == pytest.approx(2 * 0.2 / 0.25, rel=1e-3)


@pytest.mark.parametrize(
    ("head", "rows", "says"),
    [
        ("gpu,time_to_train_min,val_loss", ["a,60,3.1", "a,61,3.2", "b,30,3.1", "b,31,3.2"], None),
        ("gpu,run,step_avg_ms", ["a,1,60", "a,2,61", "b,1,30", "b,2,31"], None),
        ("gpu,trial,minutes", ["a,1,60", "a,2,61", "b,1,30", "b,2,31"], None),
        ("gpu,duration", ["a,60", "a,61", "b,30", "b,31"], "Column duration was taken for seconds; write its unit"),
        (
            "gpu,minutes,cost ($)",
            ["a,60,9", "a,61,9", "b,30,9", "b,31,8"],
            "Not used: cost ($)",
        ),
    ],
)
def test_what_columns_of_a_table_mean(tmp_path, head, rows, says):
    found = of_table(tmp_path, head, *rows)
    (best,) = found.best
    assert [(c.axes, c.completed) for c in found.configurations] == [({"params.gpu": "a"}, 2), ({"params.gpu": "b"}, 2)]
    assert best.configuration == 1 and best.ratios["fastest"].value == pytest.approx(2, rel=0.02)
    assert any(says in text for text in found.status.repeats) if says else not found.status.repeats


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        ("gpu,seed,time", ["a,1,1:00:00", "a,2,1:01:00", "b,1,0:30:00", "b,2,0:30:30"]),
        ("gpu,seed,train time", ["a,1,1h 0m", "a,2,1h 1m", "b,1,30 min", "b,2,30.5 min"]),
        ("gpu,run,hours (h)", ["a,1,1.0", "a,2,1.017", "b,1,0.5", "b,2,0.508", "mean,,9"]),
        ("gpu,run,duration", ["a,1,60:00", "a,2,61:00", "b,1,30:00", "b,2,30:30"]),
        ("gpu,run,train_time", ["a,1,3600000 ms", "a,2,3660000 ms", "b,1,1800000 ms", "b,2,1830000 ms"]),
        ("gpu,seed,time (s)", ['a,1,"3,600.0"', 'a,2,"3,660.0"', 'b,1,"1,800.0"', 'b,2,"1,830.0"']),
        ("gpu;seed;hours", ["a;1;1,0", "a;2;1,017", "b;1;0,5", "b;2;0,508"]),
        ("gpu,Seed,days,$/h", ["a,1,0.0417,$1.50", "a,2,0.0424,$1.50", "b,1,0.0208,$3.00", "b,2,0.0212,$3.00"]),
    ],
)
def test_how_people_write_numbers_and_times(tmp_path, head, rows):
    found = of_table(tmp_path, head, *rows)
    assert [(c.axes, c.completed) for c in found.configurations] == [({"params.gpu": "a"}, 2), ({"params.gpu": "b"}, 2)]
    assert [c.seconds.value for c in found.configurations] == pytest.approx([3630, 1815], rel=0.01)


def test_runs_of_weights_and_biases(tmp_path):
    head = '"Name","State","Created","Runtime","gpu","val/loss","_runtime"'
    rows = [
        f'"{gpu}-{n}","finished","2026-11-0{n}T1{day}:00:00Z","{took_s + 9 * n}","{gpu}","1.2{n}","{took_s + n}"'
        for day, (gpu, took_s) in enumerate((("a10g", 7200), ("l40s", 4500)))
        for n in (2, 1, 3)
    ]
    for names in (head, head.replace("State", "Mode")):
        found = of_table(tmp_path, names, *rows)
        assert [c.axes["params.gpu"] for c in found.configurations] == ["a10g", "l40s"]
        assert found.configurations[1].ratio.value == pytest.approx(1.6, rel=0.01)


def test_missing_values_of_a_table(tmp_path):
    found = of_table(tmp_path, "gpu,hours", "a,1.0", "a,n/a", "b,-", "b,0.5")
    assert [c.seconds.value for c in found.configurations] == pytest.approx([3600, 1800])


@pytest.mark.parametrize(
    ("head", "rows", "values"),
    [
        ("pooling,minutes", ["mean,10", "mean,11", "max,20", "max,21"], {"mean", "max"}),
        ("mixing,minutes", ["none,10", "none,11", "crop,20", "crop,21"], {"none", "crop"}),
        (
            "nightly,minutes",
            ["2026-11-01,10", "2026-11-01,11", "2026-11-08,20", "2026-11-08,21"],
            {"2026-11-01", "2026-11-08"},
        ),
        ("model,seed,minutes", ["10m,1,10", "10m,2,10.1", "30m,1,30", "30m,2,30.2"], {"10m", "30m"}),
        ("lr,minutes,val_loss", ["0.1,2,3", "0.2,2,3", "0.3,2,3"], {0.1, 0.2, 0.3}),
    ],
)
def test_words_dates_sizes_and_numbers_that_are_settings(tmp_path, head, rows, values):
    column, axes = f"params.{head.partition(',')[0]}", [c.axes for c in of_table(tmp_path, head, *rows).configurations]
    assert all(each.keys() == {column} for each in axes) and {each[column] for each in axes} == values


def test_a_line_that_sums_up_others_is_left_out_and_said(tmp_path):
    found = of_table(tmp_path, "gpu,run,hours", "a,1,1.0", "a,2,1.1", "b,1,2.0", "b,2,2.1", "mean,,1.5")
    assert [c.completed for c in found.configurations] == [2, 2]
    assert found.status.repeats == ("Left out mean, taken for a summary of other lines",)


def test_results_without_a_known_name_are_no_axes_and_are_said(tmp_path):
    rows = ["a,1,60,62.1,76.5%", "a,2,61,62.1,76.4%", "b,1,30,62.3,76.1%", "b,2,31,61.9,76.2%"]
    found = of_table(tmp_path, "gpu,seed,minutes,MMLU,accuracy", *rows)
    assert [c.axes for c in found.configurations] == [{"params.gpu": "a"}, {"params.gpu": "b"}]
    assert found.configurations[0].quality.value == pytest.approx(0.7645)
    (said,) = found.status.repeats
    assert said.startswith("The accuracy was taken for that on training data; name it val_accuracy if it is not")
    assert "Not used: MMLU (known names: time_s" in said


@pytest.mark.parametrize(
    ("prices", "head", "rows", "per_hour"),
    [
        ("gpu,price_per_hour\na,2\nb,3", "gpu,num_gpus,hours", ["a,8,10", "a,8,10.1", "b,4,7", "b,4,7.1"], [16, 12]),
        ("", "gpu,num_gpus,hours,$/GPU/h", ["a,8,10,2", "a,8,10.1,2", "b,4,7,3", "b,4,7.1,3"], [16, 12]),
        ("device,price_per_hour\nb,2\ngpu a,1", "gpu,minutes", ["a,60", "a,61", "b,30", "b,31"], [1, 2]),
    ],
)
def test_prices_of_one_of_several_devices_and_by_names(tmp_path, prices, head, rows, per_hour):
    (tmp_path / "prices.csv").write_text(f"{prices}\n")
    options = {"prices": tmp_path / "prices.csv"} if prices else {}
    assert [c.price_per_hour for c in of_table(tmp_path, head, *rows, **options).configurations] == per_hour


def test_each_guess_on_a_table_is_said(tmp_path):
    rows = ["a,8,60,2,9.1", "a,8,61,2,9.2", "b,4,30,3,8.1", "b,4,31,3,8.2"]
    (said,) = of_table(tmp_path, "gpu,gpus,duration,price_per_hour,€", *rows).status.repeats
    for part in ("Column duration was taken for seconds", "Not used: €", "Prices are taken for those of all devices"):
        assert part in said


def test_equal_times_of_epochs_are_not_elapsed(tmp_path):
    rows = [f"{epoch},{time},{3 / epoch:.3f}" for epoch, time in enumerate((12, 12.1, 12.3), 1)]
    (tmp_path / "run.csv").write_text("\n".join(["epoch,time,val/box_loss", *rows]) + "\n")
    (row,) = build.from_grid(build.one_grid([str(tmp_path)], tmp_path)).answer.configurations
    assert row.seconds is None


@pytest.mark.parametrize("head", ["gpu,seed,minutes,price", "gpu,seed,minutes,$/h", "device,seed,train_s,epoch"])
def test_a_price_that_may_be_of_a_run_is_asked_for(tmp_path, head):
    rows = ["a,0,60,9.1", "a,1,61,9.2", "b,0,30,8.1", "b,1,31,8.2"]
    if "epoch" in head:
        head, rows = f"{head},price_per_hour", [row[:-4] + ",1" + row[-4:] for row in rows]
    (tmp_path / "runs.csv").write_text("\n".join([head, *rows]))
    with pytest.raises(FileError, match=r"3:.*9.2 here and 9.1 on line 2 differ between equal runs"):
        answer(tmp_path / "runs.csv")


def test_an_axis_can_be_said(tmp_path):
    for name, seed, loss in (("x", 1, 3.0), ("y", 2, 2.0)):
        lines = "".join(f"step {n}/9 | loss {loss / n:.3f} | dt: {100 * loss}ms\n" for n in range(1, 10))
        (tmp_path / f"{name}{seed}.log").write_text(f"width={seed * 64} depth=4\n{lines}")
    assert [c.axes for c in answer(tmp_path).configurations] == [{"params.log": "x1"}, {"params.log": "y2"}]
    found = answer(tmp_path, axis=["width=width=([0-9]+)"])
    assert [c.axes for c in found.configurations] == [{"params.width": 64}, {"params.width": 128}]
    with pytest.raises(UsageError, match="--axis width: 'w=' is neither in the name nor in the text of"):
        answer(tmp_path, axis={"width": "w="})


def test_unequal_lengths_are_in_what_the_logs_count(tmp_path):
    for name, count in (("a", 20), ("b", 30)):
        for seed in (1, 2, 3):
            lines = (f"step {n}/99 | loss {3 / n:.3f} | dt: {1000 + seed * n}ms\n" for n in range(10, 10 * count, 10))
            (tmp_path / f"{name}_seed{seed}.log").write_text("".join(lines))
    (best,) = answer(tmp_path).best
    assert any("190 steps" in words and "290 steps" in words for words in best.words)


def test_a_log_without_times_is_judged_by_its_quality(tmp_path):
    for name, loss in (("adam", 2.0), ("muon", 1.5)):
        for seed in (1, 2, 3):
            rows = "".join(f"{e},{10 * e},,{loss / e + seed / 1000}\n{e},{10 * e},{loss},\n" for e in (1, 2, 3))
            (tmp_path / f"{name}_seed{seed}.csv").write_text(f"epoch,step,train_loss,val_loss\n{rows}")
    (tmp_path / "prices.csv").write_text("device,price_per_hour\nadam,1\nmuon,2\n")
    grid = build.one_grid([str(tmp_path)], tmp_path)
    found = build.from_grid(grid, ReportOptions(prices=tmp_path / "prices.csv")).answer
    assert [(c.price_per_hour, c.total_price) for c in found.configurations] == [(1, None), (2, None)]
    assert found.clock == "No times are known, so the quality alone decides."
    (best,) = found.best
    assert found.configurations[best.configuration].axes == {"params.log": "muon"}
    assert best.quality.value == pytest.approx((1.5 - 2.0) / 3, abs=1e-5)


def test_logs_of_keras_without_times(tmp_path):
    for name, loss in (("adam", 0.5), ("sgd", 0.7)):
        for seed in (1, 2, 3):
            rows = "".join(f"{e},{1 - loss / (e + 1)},{1 - loss / (e + 1) + seed / 1000}\n" for e in range(3))
            (tmp_path / f"{name}_seed{seed}.csv").write_text(f"epoch,accuracy,val_accuracy\n{rows}")
    found = answer(tmp_path)
    assert found.clock == "No times are known, so the quality alone decides."
    assert (found.metric, found.configurations[found.best[0].configuration].axes) == (
        "val/accuracy",
        {"params.log": "adam"},
    )


def test_states_of_trainers_are_those_of_runs_and_not_of_checkpoints(tmp_path):
    def state(folder, steps):
        folder.mkdir(parents=True)
        history = [{"step": s, "epoch": s / 10, "loss": 3 / s, "learning_rate": 1e-4} for s in steps]
        history += [{"step": steps[-1], "eval_loss": 0.25, "eval_runtime": 9}]
        history += [{"step": steps[-1], "train_runtime": 60.0, "train_loss": 1.0}]
        text = json.dumps({"log_history": history, "train_batch_size": 8})
        (folder / "trainer_state.json").write_text(text)

    state(tmp_path / "mixed" / "lr1", [10, 20])
    state(tmp_path / "mixed" / "lr2", [5, 10])
    mixed = answer(tmp_path / "mixed")
    assert mixed.unit.label == "logged interval" and not any(row.ratio for row in mixed.configurations)
    tmp_path /= "run"
    state(tmp_path / "lr1" / "checkpoint-10", [10])
    state(tmp_path / "lr1" / "checkpoint-20", [10, 20])
    assert answer(tmp_path).unit.label == "10 steps"
    trials = raybench.load(tmp_path).trials
    assert (len(trials), trials["epochs_s"][0], trials["last_val_loss"][0], trials["batch_size"][0]) == (1, 60, 0.25, 8)


def test_weights_and_biases_export_is_timed_by_its_runtime(tmp_path):
    rows = "".join(f"{n},{5 + 2 * n},{1.76e9 + 2 * n},{1 / (n + 1)}\n" for n in range(5))
    (tmp_path / "run.csv").write_text(f"_step,_runtime,_timestamp,val_loss\n{rows}")
    found = raybench.load(tmp_path / "run.csv")
    assert found.trials["epochs_s"][0] == 13 and found.trials["steady_s"][0] == 2
    assert found.epochs["val/loss"].tolist() == [1 / n for n in range(1, 6)]


def test_a_table_of_runs_with_any_columns(tmp_path):
    path = tmp_path / "runs.csv"
    rows = [
        f"{kind},{lr},{60 * lr + n},{0.9 + n / 100},https://{kind}{lr}{n}"
        for kind in "ab"
        for lr in (1, 2)
        for n in (0, 1)
    ]
    path.write_text("\n".join(["kernel,lr_scale,time_min,val_acc,url", *rows]))
    found = raybench.load(path)
    assert found.trials["epochs_s"].tolist()[:2] == [3600, 3660]
    assert found.trials["cell"].nunique() == 4
    configurations = answer(path).configurations
    assert configurations[0].axes == {"params.kernel": "a", "params.lr_scale": 1}
    assert answer(path).unit.name == "run"
    with pytest.raises(RaybenchError, match="trials, without the times of epochs"):
        raybench.load(Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "gpu_h200_trials.csv")


def test_events_of_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for name, step_s in (("slow", 2), ("fast", 1)):
        writer = EventFileWriter(str(tmp_path / name))
        for n in range(6):
            value = Summary.Value(tag="val/loss", simple_value=1 / (n + 1))
            writer.add_event(Event(wall_time=1e9 + step_s * n, step=10 * n, summary=Summary(value=[value])))
        writer.close()
    fast, slow = answer(tmp_path).configurations
    assert (fast.axes, slow.seconds.value, fast.seconds.value) == ({"params.log": "fast"}, 2, 1)
    assert raybench.load(tmp_path).epochs["val/loss"].min() == pytest.approx(1 / 6)
    (file,) = (tmp_path / "slow").iterdir()
    file.write_bytes(b"damaged")
    with pytest.raises(FileError, match=f"{file}: no scalar in it; it may be damaged"):
        tensorboard.read(tmp_path / "slow")


def test_event_files_of_lightning_are_repeats():
    pytest.importorskip("tensorboard")
    (configuration,) = answer(LOGS / "tensorboard").configurations
    assert (configuration.axes, configuration.completed) == ({}, 2), "version_96 and version_97"


def test_a_resumed_trainer_has_no_times(tmp_path):
    trials = raybench.load(LOGS / "trainer").trials
    assert trials["epochs_s"][0] in (0, None), "its evaluations alone took longer than its train_runtime"
    assert raybench.load(LOGS / "trainer").epochs["val/wer"].iloc[-1] == pytest.approx(9.615871912312803)
    state = json.loads((LOGS / "trainer" / "trainer_state.json").read_text())
    state["log_history"] = state["log_history"][-4:]
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    assert raybench.load(tmp_path).trials["epochs_s"][0] == pytest.approx(476827.8094)


def test_metrics_of_lightning_without_times():
    found = answer(LOGS / "lightning")
    assert found.clock == "No times are known, so the quality alone decides."
    assert found.configurations[0].quality.value == pytest.approx(0.6192893385887146)


def test_a_chart_of_weights_and_biases_has_a_run_per_column():
    trials = raybench.load(LOGS / "wandb_export.csv").trials.set_index("trial")
    assert len(trials) == 4 and trials["params.run"].nunique() == 4
    assert trials.loc["gpt2_char_to_token1729578574.2848036", "last_train_loss"] == pytest.approx(4.36, abs=5e-3)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "result_0.txt",
            ':::MLLOG {"key": "seed", "value": 1, "time_ms": 1}\n:::MLLOG {"key"\n',
            "2:1: a damaged line of MLPerf",
        ),
        (
            "result_0.txt",
            ':::MLLOG {"key": "seed", "value": 1, "time_ms": 1}\n',
            ": no run_start with an eval_accuracy after it",
        ),
        ("trainer_state.json", '{"log_history": [\n{"step": 1,,}]}', "2:12: not JSON: "),
        ("trainer_state.json", '{"epoch": 1}', "1:1: not the state of a Trainer: no log_history"),
        ("train.log", "Traceback (most recent call last):\nKeyError: 3\n", "3:1: no line counts epochs or steps"),
        ("runs.csv", "kernel,width\na,1\nb,2\n", "1:1: no column is a time or a metric"),
        ("runs.csv", "kernel,time_s\na,1\nb,x\n", "3:2: time_s: 'x' is not a number"),
        ("runs.csv", "kernel,time_s\na,1\nb,-1\n", "3:2: time_s: -1 is not a time"),
        ("runs.csv", "kernel,train_min\na,1\nb,inf\n", "3:2: train_min: inf is not a time"),
        ("runs.csv", "lr,metric,val/f1\n1,val/f2,1\n", "2:2: metric: there is no column val/f2; did you"),
        ("runs.csv", "kernel,time_s\na,1\nb\n", "3:1: 1 values for 2 columns"),
    ],
)
def test_a_damaged_file_is_one_line_with_its_place(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError) as caught:
        raybench.load(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}:{says}".replace("::", ":")) and "\n" not in str(
        caught.value
    )


def test_a_clock_of_one_program_is_not_used_for_another(tmp_path):
    (tmp_path / "a.log").write_text("".join(f"step {n}/9 loss {n} dt: 90ms\n" for n in range(1, 10)))
    (tmp_path / "b.log").write_text("".join(f"Epoch {n}: loss {n} time: 2s\n" for n in range(1, 5)))
    first = program_log.read(tmp_path / "a.log")
    log = program_log.read(tmp_path / "b.log", first.output_clock)
    assert (len(log.columns["epoch"]), log.output_clock.label) == (4, "epoch")

"""What nobody said: in the answer if it depends on it, no verdict where sides disagree, and sayable."""

import json
import random

import pytest
from support.tables import write_csv

from raybench import load
from raybench.analysis.findings.finding import kinds
from raybench.results.metrics import HIGHER, LOWER, direction_of

chance = random.Random(0)


def around(value, spread=0.005):
    return round(value * (1 + chance.gauss(0, spread)), 5)


@pytest.fixture
def table(tmp_path):
    """Writes a CSV of runs; each is a map of its columns, with a list for what differs between its epochs."""

    def write(*runs, name="mine.csv"):
        rows = []
        for number, run in enumerate(runs):
            count = max(len(value) for value in run.values() if isinstance(value, list))
            for epoch in range(count):
                row = {name: value[epoch] if isinstance(value, list) else value for name, value in run.items()}
                rows.append({"trial": f"t{number}", "epoch": epoch + 1, **row})
        write_csv(tmp_path / name, rows)
        return name

    return write


def runs(device, seconds, epochs=5, repeats=3, **fields):
    """Runs of a device with these times; a number of a metric varies a little."""
    return [
        {
            "device": device,
            "train_s": [around(value) for value in (seconds if isinstance(seconds, list) else [seconds] * epochs)],
            **{name: [around(value)] * epochs if "/" in name else value for name, value in fields.items()},
        }
        for _ in range(repeats)
    ]


@pytest.fixture
def report(raybench, monkeypatch):
    """The report of a source as text, and as data."""
    monkeypatch.setenv("COLUMNS", "300")

    def show(*arguments):
        said = raybench("report", *arguments)
        assert said.status == 0, said.err
        data = json.loads(raybench("report", *arguments, "--json", "-").out)
        return said.out, {each["code"]: each for each in data["trust"]["cautions"]}

    return show


LOSSES = "error_rate word_error_rate loss_total loss_ema fid bits_per_byte nll_per_token ce eer brier lpips latency_ms"


@pytest.mark.parametrize(
    ("names", "is_higher"),
    [
        ([*LOSSES.split(), "RMSE", "trainLoss", "cross_entropy", "top1_error", "ppl"], False),
        (
            ["accuracy", "acc1", "mAP", "mIoU", "recall@10", "neg_mean_squared_error", "log_likelihood", "F1", "R2"],
            True,
        ),
        (["answer", "gap", "accuracy_loss", "negative_log", "lossless", "top1"], None),
    ],
)
def test_direction_by_the_words_of_a_name(names, is_higher):
    assert {name: direction_of(f"val/{name}", {}).is_higher for name in names} == dict.fromkeys(names, is_higher)
    assert not LOWER & HIGHER


@pytest.mark.parametrize("metric", ["val/error_rate", "val/fid", "val/loss_ema"])
def test_more_errors_are_no_better(table, raybench, report, metric):
    base, new = (table(*runs("cpu", 10, repeats=4, **{metric: v}), name=f"{v}.csv") for v in (0.1, 0.2))
    said = raybench("compare", base, new, "--quality", metric)
    assert said.status == 4 and "better" not in said.out and "higher" in said.out
    budget = {"budget_s": 50}
    sides = [row for name, v in (("a", 0.1), ("b", 0.2)) for row in runs(name, 10, **{metric: v}, **budget)]
    assert report(table(*sides))[0].startswith(f"Best in budget: a (the reference), best {metric} in 50 s")


@pytest.mark.parametrize("is_higher", [False, True])
def test_an_unknown_direction_is_asked_for(table, raybench, report, is_higher):
    base, new = (table(*runs("cpu", 10, repeats=4, **{"val/gap": v}), name=f"{v}.csv") for v in (0.1, 0.2))
    asked = raybench("compare", base, new, "--quality", "val/gap")
    assert asked.status == 2 and "--higher-is-better val/gap" in asked.err
    seen = raybench("compare", base, new)
    assert seen.status == 5 and "better or worse is not known" in " ".join(seen.out.split()) and "+0.1" in seen.out
    word = "higher" if is_higher else "lower"
    said = raybench("compare", base, new, "--quality", "val/gap", f"--{word}-is-better", "val/gap")
    assert said.status == (0 if is_higher else 4)
    sides = [row for name, v in (("a", 0.1), ("b", 0.2)) for row in runs(name, 10, budget_s=50, **{"val/gap": v})]
    source = table(*sides)
    text, cautions = report(source)
    assert text.startswith("No best: whether more or less val/gap is better is not known.")
    assert "metric_direction" in cautions
    expected = f"Best in budget: {'b' if is_higher else 'a (the reference)'}, best val/gap in 50 s of training: "
    assert report(source, f"--{word}-is-better", "val/gap")[0].startswith(expected)
    in_file = table(*({**row, f"{word}_is_better": "val/gap"} for row in sides))
    assert report(in_file)[0].startswith(expected)


def test_an_unknown_direction_is_asked_for_if_no_times_are_known(table, raybench, report):
    sides = [row for lr, v in ((1, 0.1), (2, 0.2)) for row in runs("cpu", 10, **{"params.lr": lr, "val/gap": v})]
    source = table(*({name: value for name, value in row.items() if name != "train_s"} for row in sides))
    text, cautions = report(source)
    assert text.startswith("No best: whether more or less val/gap is better is not known.")
    assert "metric_direction" in cautions
    first = "No times are known. Better: lr 1"
    assert report(source, "--lower-is-better", "val/gap")[0].startswith(first)
    for option in ("--html", "--table", "--json"):
        assert first in raybench("report", source, "--lower-is-better", "val/gap", option, "-").out


def test_a_change_of_an_unknown_direction_is_not_called_worse(table, raybench):
    def version(gap):
        rows = enumerate(runs("cpu", 10, repeats=6))
        return table(*({**row, "val/gap": gap + number / 1000} for number, row in rows), name=f"{gap}.csv")

    base, new = version(1.0), version(1.006)
    said = " ".join(raybench("compare", base, new, "--max-slowdown", "20%").out.split())
    assert "val/gap is different, which may be better or worse, within its limit of 1%" in said
    assert "val/gap is worse" not in said


@pytest.mark.parametrize(
    ("key", "best"), [("", ""), ("lower_is_better: [val/gap]", "p 1"), ("higher_is_better: [val/gap]", "p 2")]
)
def test_a_grid_file_says_the_direction(raybench, tmp_path, key, best):
    (tmp_path / "train.py").write_text(
        "def train(trial, p: int):\n    for _ in trial.epochs():\n        trial.log({'val/gap': 99 * p + trial.seed})\n"
    )
    grid = "name: g\nworkload: train.py:train\nrepeats: 2\nepochs: 2\nbudget: {time: 1s}\naxes: {params.p: [1, 2]}\n"
    (tmp_path / "g.yaml").write_text(grid + key)
    assert raybench("grid", "g.yaml", "--inline", "--no-checks", "--tracking", "none").status == 0
    text = " ".join(raybench("report", "g~inline").out.split())
    assert (f"Best in budget: {best}" if best else "No best: whether more or less val/gap is better") in text


def test_qualities_of_unequal_length_are_not_compared(table, report):
    fields = {"val/accuracy": 0.8}
    text, _ = report(table(*runs("cpu", 20, 3, **fields), *runs("gpu", 5, 12, **fields)))
    assert "val/accuracy not compared (cpu: 3 epochs; gpu: 12 epochs)" in text
    assert "accurate" not in text and "No cautions" not in text
    sides = [row for n in (3, 12) for row in runs("cpu", 9, n, **fields)]
    text, _ = report(table(*({**row, "epochs": len(row["train_s"])} for row in sides)))
    assert "not compared" not in text, "the number is an axis"


def test_a_longer_evaluation_is_in_the_answer(table, report):
    def sides(own, other):
        return [*runs("cpu", 12, evaluate_s=own), *runs("gpu", 10, evaluate_s=other)]

    words = "an epoch of gpu with its evaluation takes 2.9x as long as one of cpu"
    assert words in report(table(*sides(2, 30)))[0].partition("\n\n")[0]
    assert "evaluation" not in report(table(*sides(2, 2.5)))[0].partition("\n\n")[0]


@pytest.mark.parametrize(("compile_s", "is_said"), [(50, True), (5, False)])
def test_a_compilation_that_makes_runs_longer_is_in_the_answer(table, report, compile_s, is_said):
    compiled = runs("gpu", 8, 6, compile=True, compile_s=[compile_s, 0, 0, 0, 0, 0])
    answer = report(table(*runs("gpu", 10, 6, compile=False, compile_s=0), *compiled))[0]
    words = "a run of 6 epochs takes 1.6x as long as with no compile, and it pays after about 25 epochs"
    assert answer.startswith("Faster: compile") and (words in answer) is is_said
    assert "Compilation (" in answer and " pays after " in answer, "of training"


@pytest.mark.parametrize("seconds", [[50, 50, 50, 84, 65], [80, 40, 80, 80, 40, 80], [24] * 4 + [12] * 4])
def test_a_speed_that_changes_is_that_of_all_epochs(table, report, seconds):
    mean = sum(seconds[1:]) / len(seconds[1:])
    source = table(*runs("cpu", seconds, repeats=5), *runs("gpu", 60, len(seconds)))
    text, cautions = report(source)
    assert "changing_speed" in cautions and "[caution a]" in text
    assert ("slows it down" in text) == (seconds[-1] > seconds[1])
    assert "short_warmup" not in cautions, "half of the training is no warm-up"
    (cpu, _) = load(source).comparison.time_s
    assert cpu == pytest.approx(mean, rel=0.01)


def test_steady_speeds_have_no_caution(table, report):
    assert not report(table(*runs("cpu", 50, 8), *runs("gpu", 60, 8)))[1]


def test_times_with_few_digits(table, report):
    def sides(*minutes):
        return [{"device": d, "train_s": [60 * m] * 2} for d, own in zip("ab", minutes, strict=True) for m in own]

    text, _ = report(table(*sides([28.7] * 3, [22.4] * 3)), "--full")
    assert "1.3x as fast as a," in text and "95%" not in text and "equal in all digits" in text
    text, _ = report(table(*sides([28.7, 28.7, 28.8], [22.4, 22.4, 22.3])), "--these-machines")
    assert "1.28x as fast as a (95% CI 1.28–1.29)" in text, "as many digits as the times have"


def test_a_price_of_a_kind_is_a_caution(table, report, tmp_path):
    gpu = {"device_kind": "cuda", "device_model": "NVIDIA H200"}
    source = table(*runs("gpu", 5, **gpu), *runs("cpu", 50, device_kind="cpu", device_model="AMD EPYC"))
    for name, is_guess in (("cuda", True), ("gpu", False), ("NVIDIA H200", False)):
        (tmp_path / "prices.csv").write_text(f"device,price_per_hour\n{name},0.35\ncpu,0.1\n")
        text, cautions = report(source, "--prices", "prices.csv")
        assert "cheapest" in text and ("price_of_kind" in cautions) is is_guess
        assert "would be cheaper" in text
    twins = table(*runs("gpu", 5, **gpu, price_per_hour=0.35), *runs("same", 6, **gpu, price_per_hour=0.35))
    assert "would be cheaper" not in report(twins)[0], "it is the same machine"


def test_a_machine_does_not_stand_for_its_model_in_silence(table, report):
    hosts = [row for device, host, s in (("a", "n1", 10), ("b", "n2", 9.8)) for row in runs(device, s, 8, 5, host=host)]
    answer = report(table(*hosts))[0]
    assert "not shown for the models" in answer.partition("\n\n")[0] and "on 2 machines (a 1, b 1)" in answer
    assert "on 2 machines" not in report(table(*({**row, "host": "n1"} for row in hosts)))[0]


def test_survivors_are_named(table, report):
    gpu = runs("gpu", 5, 3, repeats=4, **{"val/loss": 0.3})
    gpu[3]["status"] = "diverged"
    text, _ = report(table(*runs("cpu", 10, 3, repeats=4, status="completed", **{"val/loss": 0.3}), *gpu))
    answer = text.split("\n\n")[1]
    assert answer.startswith("Faster: gpu") and "; 3 of 4 runs of gpu completed, 1 diverged" in answer
    assert "No cautions" not in text


def test_a_trade_off_says_once_what_is_wrong_with_a_pair(table, report):
    fields = {"price_per_hour": 1.0, "status": "completed", "val/accuracy": 0.8}
    gpu = runs("gpu", 5, 8, repeats=4, **{**fields, "price_per_hour": 3.0}, evaluate_s=9)
    gpu[3]["status"] = "diverged"
    answer = report(table(*runs("cpu", 10, 4, repeats=4, evaluate_s=1, **fields), *gpu))[0].split("\n\n")[1]
    assert answer.startswith("Trade-off: cpu")
    assert answer.count("not compared") == answer.count("evaluation") == answer.count("of 4 runs") == 1
    assert "3 of 4 runs of gpu completed" in answer and "cpu: 4 epochs; gpu: 8 epochs" in answer
    assert "an epoch of gpu with its evaluation takes 1.3x as long as one of cpu" in answer


@pytest.mark.parametrize(
    ("metric", "values", "words"),
    [
        ("val/loss", (0.5, 0.6), "; val/loss of new is 20% higher (95% CI "),
        ("test/accuracy", (0.9, 0.8), "; test/accuracy of new is 10 points lower (95% CI "),
        ("val/loss", (0.6, 0.5), ""),
        ("val/loss", (0.5, 0.5), ""),
        ("val/gap", (0.5, 0.6), ""),
        ("train/loss", (0.5, 0.6), ""),
    ],
)
@pytest.mark.parametrize("options", [[], ["--budget", "50s"], ["--target", "val/accuracy>=0.9"]])
def test_a_worse_second_metric_of_the_best_is_said(table, raybench, report, metric, values, words, options):
    spread, sides = (1.0, 0.998, 1.003, 1.001), []
    for name, seconds, quality, value in (("old", 13, 0.95, values[0]), ("new", 10, 0.951, values[1])):
        rows = enumerate(runs(name, seconds, repeats=4, **({"budget_s": 50} if "--budget" in options else {})))
        sides += [{**row, "val/accuracy": quality, metric: value * spread[number]} for number, row in rows]
    text = report(table(*sides), *options)[0]
    answer, _, rest = text.partition("\n\n")
    assert ((words or f"; {metric}") in answer) is bool(words)
    assert not words or "No cautions" not in rest


@pytest.mark.parametrize("further", [[], [("gpu", 25, 64)], [("cpu", 4, 512)]])
def test_sides_that_differ_in_more_than_the_device_are_named(table, report, further):
    sides = [("cpu", 10, 64), ("gpu", 5, 512), *further]
    text = report(table(*(run for name, s, batch in sides for run in runs(name, s, batch_size=batch))))[0]
    (sentence,) = (line for line in text.split("\n\n") if line.startswith("Faster: "))
    if ("cpu", 4, 512) in sides:
        assert "Faster: cpu, batch 512" in sentence and "which may be" not in sentence
    else:
        assert "Faster: gpu, batch 512" in sentence and "as fast as cpu, batch 64" in sentence
        assert "cpu has no completed run with batch 512, which may be the reason" in sentence


def test_a_percentage_against_fractions_has_no_verdict(raybench, tmp_path):
    """Two versions of one program, of which one logs percent."""
    for name, factor in (("base", 0.867), ("new", 81.7), ("float", 1.0000001)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(
            "def train(trial):\n    for epoch in trial.epochs(2):\n"
            f"        trial.log({{'val/accuracy': {factor}, 'train/loss': 1 / (epoch + 1 + trial.seed / 9)}})\n"
        )
        (tmp_path / name / "g.yaml").write_text("name: g\nworkload: train.py:train\nrepeats: 2\n")
        options = ("--inline", "--no-checks", "--tracking", "none", "--results", tmp_path / name / "r")
        assert raybench("grid", tmp_path / name / "g.yaml", *options).status == 0
    sources = [tmp_path / name / "r" for name in ("base", "new", "float")]
    text = raybench("compare", sources[0], sources[1], "--quality", "val/accuracy").out
    assert "val/accuracy is kept" not in text and "+80" not in text
    assert "is read as percent" in text
    assert "100.00%" in raybench("report", sources[2]).out


def test_a_fraction_may_be_slightly_above_one(table, report):
    sides = [{"device": d, "train_s": [9.0], "val/accuracy": [v]} for d, v in (("a", 1.0000001), ("b", 0.9))]
    text, cautions = report(table(*sides))
    assert "10.0 points more accurate" in text and "90.0" in text and "percent_or_fraction" not in cautions


def test_sides_of_a_table_may_log_percent_and_fractions(table, report):
    sides = [row for device, f1 in (("cpu", 0.86), ("gpu", 81.7)) for row in runs(device, 9, **{"val/f1": f1})]
    text, cautions = report(table(*sides))
    assert "read as percent for gpu and as fractions for cpu: they are not compared" in text
    assert "percent_or_fraction" in cautions and "higher" not in text.partition("\n\n")[0]


@pytest.mark.usefixtures("in_process")
def test_a_whole_run_says_so_in_the_answer(raybench, tmp_path):
    (tmp_path / "train.py").write_text("import time\ntime.sleep(0.2)\nprint('loss 0.3')\n")
    said = raybench("run", "--repeats", "1", "--tracking", "none", "--", "python", "train.py", "{1,2}")
    assert "per run with its start-up" in " ".join(said.out.split()) and "s/run" in said.out


def test_an_unreadable_request_is_in_the_status(raybench, tmp_path):
    (tmp_path / "train.py").write_text("def train(trial):\n    for epoch in trial.epochs(2):\n        pass\n")
    (tmp_path / "g.yaml").write_text("name: g\nworkload: train.py:train\n")
    assert raybench("grid", "g.yaml", "--inline", "--no-checks", "--tracking", "none").status == 0
    (file,) = (tmp_path / "raybench-results").glob("*/executions/*.json")
    assert "cannot be read" not in raybench("report", "g~inline").out
    file.write_text(file.read_text()[:-40])
    assert raybench("report", "g~inline").out.startswith("The grid has damaged files: 1 request of it cannot be read")


def test_every_guess_can_be_said_instead():
    guesses = [kind for kind in kinds().values() if kind.guess]
    assert len(guesses) > 10
    assert all(kind.remedy and kind.condition for kind in guesses)

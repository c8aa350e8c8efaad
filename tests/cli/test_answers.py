"""What a buyer reads first: tables of epochs with a known truth through `raybench report FILE.csv`."""

import json
import re
from itertools import chain, product

import pytest
from support.tables import write_csv

NOISE = (1.0, 1.004, 0.997, 1.002, 0.998)
"""Factors of the times of repeats."""


def rows(
    seconds, quality=None, metric="val/accuracy", repeats=3, epochs=2, spread=1.0, qualities=(0, 1e-4, -1e-4), **columns
):
    """The rows of a configuration: epochs of each repeat, with a quality at its end that varies by `qualities`."""
    return [
        {
            **columns,
            "repeat": repeat,
            "epoch": epoch,
            "train_s": seconds * (1 + spread * (NOISE[repeat % 5] - 1)),
            **({} if quality is None else {metric: quality + qualities[repeat % 3] - (epochs - epoch) / 100}),
        }
        for repeat, epoch in product(range(repeats), range(1, epochs + 1))
    ]


@pytest.fixture
def report(raybench, tmp_path):
    """Writes rows into a CSV file and returns its report at 80 columns: text in one line, lines, and JSON."""

    def run(*configurations, options=()):
        write_csv(tmp_path / "runs.csv", chain(*configurations))
        said = raybench("report", "runs.csv", *options)
        assert said.status == 0, said.err
        return " ".join(said.out.split()), said.lines, json.loads(raybench("report", "runs.csv", "--json", "-").out)

    return run


def devices(**seconds):
    return [rows(each, 0.9, device=device) for device, each in seconds.items()]


@pytest.mark.parametrize(
    ("configurations", "verdict", "first"),
    [
        (devices(a=4.0, b=2.0), "Faster", "Faster: b: 2.0x as fast as a (95% CI"),
        (devices(a=4.0, b=2.0, c=1.0), "Faster", "Faster: c, fastest of 3: 4.0x as fast as a (95% CI"),
        (
            [rows(s, 0.9, framework=name) for name, s in (("a", 4.0), ("b", 4.01))],
            "Equal",
            "Equal: a and b differ by less than 5% in speed. a (the reference): ",
        ),
        (
            [rows(4.0, 0.9, device="a", spread=30), rows(4.2, 0.9, device="b", spread=30)],
            "Undecided",
            "Undecided between a and b. Fastest in these runs: a (the reference): ",
        ),
        (
            [*devices(a=40.0), rows(4.0, 0.9, device="b", spread=30), rows(4.2, 0.9, device="c", spread=30)],
            "Undecided",
            "Undecided between b and c. Fastest of 3 in these runs: b: 9.9x as fast as a",
        ),
        (
            [rows(each, 0.9, device=device, repeats=1) for device, each in (("a", 4.0), ("b", 2.0))],
            "One run each",
            "One run each: b, fastest: 2.0x as fast as a",
        ),
        ([rows(4.0, 0.9)], "", "Runs: 4.00 s per epoch"),
    ],
)
def test_the_verdict_comes_first(report, configurations, verdict, first):
    text, _, data = report(*configurations)
    assert text.lower().startswith(first.lower())
    assert data["sentences"]["verdict"] == verdict
    assert data["sentences"]["best"][0].startswith(verdict)


def batches():
    """A gpu that gains more from a large batch: 2.7x as fast at batch 32, 4.3x at 128, 7.3x with both."""
    seconds = {("cpu", 32): 8.0, ("cpu", 128): 4.7, ("gpu", 32): 3.0, ("gpu", 128): 1.1}
    return [rows(s, 0.9, device=d, batch_size=b, examples=1000) for (d, b), s in seconds.items()]


def test_the_best_of_each_device_are_compared(report):
    """The sentence, the table and JSON have the same reference; a ratio that mixes axes has to be asked for."""
    text, lines, data = report(*batches())
    assert text.startswith(
        "Faster: gpu, batch 128, fastest of 4: 4.3x as fast as cpu, batch 128 (best with cpu; 95% CI"
    )
    (best,) = data["best"]
    assert data["compared"] == "device" and best["other"] == data["configurations"][best["configuration"]]["reference"]
    assert any("gpu, batch 128" in line and "4.3x" in line for line in lines)
    assert "Speed is relative to cpu, batch 128 (best with cpu)" in text
    alike, _, _ = report(*batches(), options=["--baseline", "device=cpu"])
    assert alike.startswith("Faster: gpu, batch 128, fastest of 4: 4.3x as fast as cpu, batch 128 (95% CI")
    mixed, _, _ = report(*batches(), options=["--baseline", "device=cpu", "--baseline", "batch_size=32"])
    assert mixed.startswith("Faster: gpu, batch 128, fastest of 4: 7.3x as fast as cpu, batch 32 (95% CI")


def test_what_ties_on_one_device_leaves_the_verdict_on_devices(report):
    seconds = {("cpu", 0.0): 8.0, ("cpu", 0.1): 8.01, ("gpu", 0.0): 2.0, ("gpu", 0.1): 2.001}
    text, _, _ = report(*(rows(s, 0.9, device=d, weight_decay=w) for (d, w), s in seconds.items()))
    assert text.startswith("Faster: gpu, decay 0, fastest of 4: 4.0x as fast as cpu, decay 0 (best with cpu; 95% CI")
    assert "Not distinguishable from it in speed: gpu, decay 0.1." in text


@pytest.mark.parametrize(
    ("qualities", "metric", "second"),
    [
        (
            (0.938, 0.937, 0.905),
            "val/accuracy",
            "Fastest within 1 point of the best accuracy: tensorflow: 1.12x as fast",
        ),
        ((3.27, 3.28, 3.40), "val/loss", "Fastest within 1% of the best val/loss: tensorflow: 1.12x as fast as torch"),
        ((0.938, 0.905, 0.905), "val/accuracy", "Fastest within 1 point of the best accuracy: torch (the reference): "),
        ((0.938, 0.937, 0.931), "val/accuracy", ""),
    ],
)
def test_the_fastest_that_keeps_the_quality(report, qualities, metric, second):
    frameworks = zip(("torch", "tensorflow", "jax"), (5.6, 5.0, 4.0), qualities, strict=True)
    text, _, data = report(*(rows(s, q, metric, framework=name) for name, s, q in frameworks))
    assert text.startswith("Faster: jax, fastest of 3: 1.40x as fast as torch")
    assert [each[: len(second)] for each in data["sentences"]["best"][1:]] == ([second] if second else [])


def test_a_free_device_is_the_cheapest(report):
    prices = (("own", 12.0, 0.0), ("a100", 6.0, 2.0), ("h100", 3.0, 4.0))
    text, _, _ = report(*(rows(s, 0.9, device=d, price_per_hour=p) for d, s, p in prices))
    assert text.startswith(
        "Trade-off: own, cheapest of 3: free and 3.33 h per 1,000 epochs; h100 saves 150 min (4.0x as"
    )
    assert "Slower and more expensive" not in text and "own: free; a100: $2.00 per hour" in text


def test_80_columns_have_the_price_of_a_run(report, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    sides = (rows(s, 0.9, device=name, price_per_hour=s) for name, s in (("a100-80gb", 6.0), ("h100-80gb", 4.0)))
    text = report(*sides)[0]
    assert "$/training" in text.partition("Too wide for 80 columns")[0], text


def column(lines, name):
    """The texts of a column of the table of configurations that is aligned to the right, without intervals."""
    lines = [re.sub(r"( [\d.]+) (\([\d.]+–[\d.]+\))", lambda one: one[1].rjust(len(one[0])), line) for line in lines]
    place = next(number for number, line in enumerate(lines) if line.startswith("#"))
    end = lines[place].index(name) + len(name)
    return [line[:end].split()[-1] for line in lines[place + 2 :] if line[:1].isdigit()]


@pytest.mark.parametrize(
    ("seconds", "price", "head", "texts"),
    [
        ((16.676, 10.0), None, "s/epoch", ["10.000", "16.676"]),
        ((0.02, 0.011), None, "ms/epoch", ["11.000", "20.000"]),
        ((72_000.0, 30_000.0), None, "h/epoch", ["8.333", "20.000"]),
        ((0.02, 0.01), (1.45, 2.2), "$/M epochs", ["6.111", "8.056"]),
        ((20.0, 10.0), (1.45, 2.2), "$/1,000 epochs", ["6.111", "8.056"]),
        ((2000.0, 1000.0), (1.45, 2.2), "$/epoch", ["0.6111", "0.8056"]),
    ],
)
def test_numbers_of_a_column_have_a_unit_and_the_same_decimals(report, seconds, price, head, texts):
    priced = [{} if price is None else {"price_per_hour": each} for each in price or (0, 0)]
    _, lines, _ = report(*(rows(s, spread=0.02, device=d, **p) for d, s, p in zip("ab", seconds, priced, strict=True)))
    assert column(lines, head) == texts


def test_digits_of_a_quality_follow_its_differences(report):
    losses = zip(("fp32", "tf32", "bf16"), (5.6, 5.0, 4.0), (3.2784, 3.2787, 3.2790), strict=True)
    _, lines, _ = report(*(rows(s, q, "val/loss", qualities=(0, 2e-5, -2e-5), precision=name) for name, s, q in losses))
    shown = column(lines, "val/loss")
    assert len({*shown}) == 3 and {len(each) for each in shown} == {len(shown[0])}


def test_one_axis_has_one_table(report):
    text, _, data = report(*devices(a=4.0, b=2.0, c=1.0))
    assert "effect of" not in text and len(data["effects"]) == 2
    assert "0.0 (" in text or " 0.0" in text, "differences of accuracy are in the table of configurations"


def test_a_table_is_not_continued_by_the_same_command(report):
    runs = [row | {"status": "completed"} for each in devices(a=4.0, b=2.0) for row in each]
    stopped = [row | {"status": "killed"} for row in runs[-2:]]
    text, _, _ = report([*runs[:-2], *stopped])
    assert text.startswith("Not finished: 5 of 6 runs completed; 1 stopped. Faster: b")
    assert "same command" not in text


def test_devices_that_are_numbers_of_threads_are_meant_so(report):
    cores = {"device_kind": "cpu", "device_count": 2}
    text, _, _ = report(*(rows(s, 0.9, device=d, threads=t, **cores) for d, t, s in (("one", 1, 8.0), ("two", 2, 4.0))))
    assert "Remove `threads`" not in text and text.startswith("Faster: two")
    alone, _, _ = report(*(rows(s, 0.9, device=d, threads=1, **cores) for d, s in (("one", 8.0), ("other", 4.0))))
    assert "Remove `threads`" in alone
    cores |= {"grid": "mine~smoke", "price_per_hour": 2}
    runs = [rows(s, 0.9, device=d, threads=1, **cores) for d, s in (("one", 8.0), ("other", 4.0))]
    smoke, _, data = report(*runs)
    assert smoke.startswith("Smoke run: ") and not re.search(r"Remove|Faster|accuracy|\d\.\d|\$", smoke), "no results"
    assert {row["seconds"] or row["quality"] or row["ratio"] for row in data["configurations"]} == {None}


def test_a_baseline_without_runs_leaves_the_others_to_be_compared(report):
    batches = [rows(s, q, device="cpu", batch_size=b) for b, s, q in ((32, 4.0, 0.9), (64, 2.0, 0.8))]
    failed = [row | {"status": "failed"} for row in rows(1.0, None, device="gpu", batch_size=32)]
    text, _, data = report(*batches, failed, options=["--baseline", "device=gpu"])
    assert "Faster: cpu, batch 64: 2.00x as fast as cpu, batch 32 (9" in text
    assert [effect["axis"] for effect in data["effects"]] == ["batch_size"]


def test_names_are_not_capitalized(report):
    goal = {"target_metric": "val/accuracy", "target_at_least": 0.89, "epochs": 20}
    speeds = (("dgx1", 10.0), ("v100x8", 12.0), ("tpu_v3_8", 13.0))
    text, _, _ = report(*(rows(s, 0.9, device=d, repeats=5, **goal) for d, s in speeds))
    assert text.startswith(
        "Undecided between dgx1, v100x8 and tpu_v3_8. First to 89% accuracy in these runs: dgx1 (the reference)"
    )
    assert "Slower, but 5 runs cannot show that dgx1 never misses the target: v100x8; tpu_v3_8." in text
    assert "V100x8" not in text and "Dgx1" not in text


@pytest.mark.parametrize("qualities", [(0, 0, 0), (0, 5e-8, -5e-8)])
def test_equal_accuracies_are_the_same(report, qualities):
    text, _, _ = report(*(rows(s, 0.9, device=d, qualities=qualities) for d, s in (("a", 4.0), ("b", 2.0))))
    assert "2.00 s per epoch, equal accuracy within 1 point. #" in text and "0.00000" not in text


@pytest.mark.parametrize(("status", "words"), [("diverged", "diverged"), ("oom", "out of memory")])
def test_what_did_not_complete_is_named(report, status, words):
    first, second = (rows(s, 0.9, device=d) for d, s in (("a", 4.0), ("b", 2.0)))
    ended = [row | {"status": status if row["repeat"] == 2 else "completed"} for row in second]
    text, _, _ = report([row | {"status": "completed"} for row in first], ended)
    assert text.startswith(f"Incomplete: 5 of 6 runs completed; 1 {words} (b). Faster: b: 2.0x as fast as a")


def test_that_no_run_reached_the_target_is_said_first(report):
    goal = {"target_metric": "val/accuracy", "target_at_least": 0.99}
    text, _, _ = report(*(rows(s, 0.9, device=d, **goal) for d, s in (("a", 4.0), ("b", 2.0))))
    assert text.startswith("No run reached 99% accuracy. Faster: b: 2.0x as fast as a")


@pytest.mark.parametrize(("missed", "words"), [(3, "Not reached by b (0 of 3)."), (1, "fewer runs by b (2 of 3).")])
def test_who_missed_the_target_is_named(report, missed, words):
    goal = {"target_metric": "val/accuracy", "target_at_least": 0.89}
    first, second = (rows(s, 0.9, device=d, **goal) for d, s in (("a", 4.0), ("b", 5.0)))
    text, _, _ = report(first, [row | {"val/accuracy": 0.8} if row["repeat"] < missed else row for row in second])
    assert words in text


def test_of_equal_speeds_the_best_quality_is_named(report):
    decays = ((0.0, 4.0, 0.90), (5e-4, 4.01, 0.94))
    text, _, _ = report(*(rows(s, q, weight_decay=d) for d, s, q in decays))
    equal = "Equal: decay 0 and decay 5e-4 differ by less than 5% in speed."
    assert text.startswith(f"{equal} Fastest within 1 point of the best accuracy: decay 5e-4: as fast as decay 0 (")

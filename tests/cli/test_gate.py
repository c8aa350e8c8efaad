"""`raybench compare` is no gate that a worse version passes: each way in which one was kept, with its exit status.

Both versions are logs of anybody's program: a CSV of epochs each.
"""

import json
import re
from itertools import chain

import pytest
from support import ROOT
from support.tables import write_csv

KEEP, DISCARD, UNDECIDED = 0, 4, 5
JITTER = (0.0, 0.004, -0.003, 0.002, -0.002, 0.001)
ACCURACY = {"val/accuracy": [0.5, 0.8, 0.87]}
BOTH = {"val/loss": [0.9, 0.6, 0.5], **ACCURACY}


def rows(seconds=1.0, metrics=ACCURACY, start=3.0, end=1.0, repeats=6, further=None, spread=1.0, shift=0.0):
    """The lines of a program's epochs: repeats that differ a little.

    Args:
        seconds: of an epoch, or a list with those of each.
        metrics: the values of each after each epoch; None is not logged.
        start, end: seconds of the whole run before and after its epochs.
        shift: of the jitter, so that no two versions are equal.
    """
    epochs = len(next(iter(metrics.values()), [0] * 3))
    for repeat in range(repeats):
        jitter = spread * JITTER[(repeat + int(shift)) % 6] + 1e-5 * shift
        times = [each * (1 + jitter) for each in (seconds if isinstance(seconds, list) else [seconds] * epochs)]
        values = {"wall_s": start + end + sum(times), **(further or {})}
        for number, of_epoch in enumerate(times, 1):
            logged = {n: "" if v[number - 1] is None else v[number - 1] * (1 + jitter / 10) for n, v in metrics.items()}
            yield {"trial": f"t{repeat}", "repeat": repeat, "epoch": number, "train_s": of_epoch, **values, **logged}


@pytest.fixture
def compare(raybench, tmp_path):
    """Compares two programs by their logs; the comparison is what `--json` writes."""

    def run(base, new, *options):
        write_csv(tmp_path / "base.csv", base)
        write_csv(tmp_path / "new.csv", new)
        said = raybench("compare", "base.csv", "new.csv", "--json", "out.json", *options)
        said.found = json.loads((tmp_path / "out.json").read_text())
        return said

    return run


def new(**fields):
    return list(rows(**{"shift": 1.0, **fields}))


NAN = [float("nan")] * 3
LOWER = [0.5, 0.7, 0.77]
WORSE = {
    "no metric": (ACCURACY, new(metrics={}), DISCARD, "no run of new has logged val/accuracy"),
    "NaN in every epoch": (ACCURACY, new(metrics={"val/accuracy": NAN}), DISCARD, "no run of new has logged"),
    "metric renamed": (ACCURACY, new(metrics={"val/top1": [0.5, 0.8, 0.99]}), DISCARD, "no run of new has logged"),
    "a second metric is worse": (BOTH, new(metrics={**BOTH, "val/accuracy": LOWER}), DISCARD, "10 points lower"),
    "a loss is worse": (BOTH, new(metrics={**BOTH, "val/loss": [0.9, 0.7, 0.6]}), UNDECIDED, "val/loss is 20% higher"),
    "more epochs, each shorter": (
        ACCURACY,
        new(seconds=0.5, metrics={"val/accuracy": [0.3, 0.5, 0.6, 0.7, 0.8, 0.87]}),
        UNDECIDED,
        "6 epochs",
    ),
    "ends after one epoch": (ACCURACY, new(metrics={"val/accuracy": [0.8]}), UNDECIDED, "1 epoch"),
    "metric of an earlier epoch": (
        ACCURACY,
        new(metrics={"val/accuracy": [0.5, 0.87, None]}),
        UNDECIDED,
        "val/accuracy of new is that of epoch 2",
    ),
    "metric in good runs only": (
        ACCURACY,
        [{**line, "val/accuracy": ""} if line["repeat"] in (1, 3) else line for line in new()],
        UNDECIDED,
        "2 of 6 runs of new did not log val/accuracy",
    ),
    "no time of the whole run": (
        ACCURACY,
        [{name: line[name] for name in line if name != "wall_s"} for line in new(start=30.0)],
        UNDECIDED,
        "no time of the whole run of new is known",
    ),
    "whole run shorter than its epochs": (
        ACCURACY,
        [{**line, "wall_s": 1.0} for line in new(start=30.0)],
        UNDECIDED,
        "less time as a whole than its epochs",
    ),
    "later runs use what the first one left": (
        ACCURACY,
        [*new(seconds=2.0)[:3], *new(seconds=0.1)[3:]],
        UNDECIDED,
        "the first run of new was slower than all others",
    ),
    "copies of its fastest run": (
        ACCURACY,
        [{**line, "trial": f"c{n}", "repeat": n} for n in range(6) for line in new(seconds=[1.0, 1.02, 1.04])[:3]],
        UNDECIDED,
        "runs of new have exactly the same times",
    ),
    "one run of six collapses": (
        ACCURACY,
        [{**line, "val/accuracy": 0.1} if line["repeat"] == 3 else line for line in new()],
        UNDECIDED,
        "13 points lower in these runs, which may be chance",
    ),
    "half of the runs fail": (
        ACCURACY,
        [{**line, "status": "failed" if line["repeat"] % 2 else "completed"} for line in new()],
        UNDECIDED,
        "3 of 6 runs of new did not complete",
    ),
    "diverges to infinity": (BOTH, new(metrics={**BOTH, "val/loss": [0.9, 0.6, float("inf")]}), DISCARD, "diverged"),
    "training in the time of evaluation": (
        ACCURACY,
        [{**line, "evaluate_s": 3.0, "wall_s": line["wall_s"] + 9} for line in new(seconds=0.5)],
        DISCARD,
        "slower as a whole run",
    ),
    "slow start": (ACCURACY, new(start=6.0), DISCARD, "slower as a whole run (new by"),
    "slow first epoch": (ACCURACY, new(seconds=[3.0, 1.0, 1.0]), DISCARD, "slower as a whole run (new by"),
    "slow end": (ACCURACY, new(end=4.0), DISCARD, "slower as a whole run (new by"),
    "configuration missing": (ACCURACY, [{**line, "batch_size": 64} for line in new()], DISCARD, "no result in new"),
}


@pytest.mark.parametrize(("metrics", "worse", "status", "reason"), WORSE.values(), ids=WORSE)
def test_worse_version_is_not_kept(compare, metrics, worse, status, reason):
    base = list(rows(metrics=metrics))
    if "batch_size" in worse[0]:
        base = [{**line, "batch_size": size, "trial": f"{size}{line['trial']}"} for size in (32, 64) for line in base]
        worse += [{**line, "batch_size": 16, "trial": f"16{line['trial']}"} for line in worse]
    said = compare(base, worse)
    assert said.status == status, said.out
    assert reason.lower() in said.out.replace("\n", " ").lower()


OF_BOTH = {
    "a device that is not named": ({"device_model": "A100"}, {}, "model A100; of new: not known"),
    "a different host, no device named": ({"host": "a"}, {"host": "b"}, "of which no hardware is known"),
    "data that are not named": ({"data": "cifar10"}, {}, "name cifar10; of new: not known"),
    "more cores than threads": ({"threads": 1, "cpu_s": 1.0}, {"threads": 1, "cpu_s": 0.9}, "computed on 1.8 cores"),
    "whole seconds": ({}, {"train_s": 1}, "new may be up to"),
    "a faster device": ({"device_model": "A100"}, {"device_model": "H100"}, "hardware of base: model A100"),
    "more threads": ({"threads": 1}, {"threads": 8}, "hardware of base: threads 1"),
    "easier data": ({"data": "cifar10"}, {"data": "cifar10-synthetic"}, "data set of base: name cifar10"),
    "half of the examples": ({"examples": 1000}, {"examples": 500}, "base count 3000 examples, those of new 1500"),
    "examples not counted": ({"examples": 1000}, {}, "base count 3000 examples, those of new 0"),
    "made-up tokens": ({"units/tokens": 1000}, {"units/tokens": 2000}, "base count 3000 tokens, those of new 6000"),
    "half of the steps": ({"steps": 100}, {"steps": 50}, "base count 300 steps, those of new 150"),
}


@pytest.mark.parametrize(("base", "worse", "reason"), OF_BOTH.values(), ids=OF_BOTH)
def test_different_job_is_not_kept(compare, base, worse, reason):
    said = compare([{**line, **base} for line in rows()], [{**line, **worse} for line in new(seconds=0.5)])
    assert said.status == UNDECIDED and reason.lower() in said.out.replace("\n", " ").lower(), said.out


@pytest.mark.parametrize("fields", [{"seconds": [5.0, 1.0, 1.0]}, {"seconds": [3.0, 3.0, 1.0], "warmup": 2}])
def test_all_epochs_are_compared_if_whole_runs_have_no_time(compare, fields):
    """A first epoch that is slow, and one that is called a warm-up."""
    sides = [rows(), ({**line, "warmup_epochs": fields.get("warmup", 1)} for line in new(seconds=fields["seconds"]))]
    said = compare(*([{name: line[name] for name in line if name != "wall_s"} for line in side] for side in sides))
    assert said.status == DISCARD and "slower as a whole run" in said.out, said.out


@pytest.mark.parametrize(
    ("metrics", "worse", "direction"),
    [
        (ACCURACY, {"val/accuracy": LOWER}, {"lower_is_better": "val/accuracy"}),
        ({"val/loss": [0.9, 0.6, 0.5]}, {"val/loss": [0.9, 0.8, 0.7]}, {"higher_is_better": "val/loss"}),
    ],
)
def test_new_does_not_say_what_is_better(compare, metrics, worse, direction):
    said = compare(rows(metrics=metrics), [{**line, **direction} for line in new(metrics=worse)])
    assert said.status == DISCARD, said.out


def test_faster_epochs_are_no_faster_run(compare):
    """Training that moved to compilation: equal as a whole."""
    said = compare(rows(), [{**line, "compile_s": 0.5} for line in new(seconds=0.5, end=2.5)])
    assert said.status == KEEP and "in its epochs, not as a whole run" in said.lines[0], said.out


def test_same_version_is_kept(compare):
    assert compare(rows(metrics=BOTH), new(metrics=BOTH)).status == KEEP


@pytest.mark.parametrize("metrics", [ACCURACY, {"val/accuracy": LOWER}])
def test_same_runs_compare_nothing(compare, metrics):

    said = compare(rows(), rows(metrics=metrics))
    assert said.status == UNDECIDED and "the same runs" in said.out
    assert "busy" not in said.lines[0] and "Differences" not in said.out


def test_keep_says_how_much_faster(compare):
    said = compare(rows(), new(seconds=0.85))
    assert said.status == KEEP and said.lines[0].startswith("Keep: faster (new by 18%, at least 17%)"), said.out


def test_keep_says_what_is_lost_within_the_limit(compare):
    said = compare(rows(), new(seconds=0.97, metrics={"val/accuracy": [0.5, 0.8, 0.865]}))
    assert said.status == KEEP and "val/accuracy is worse within its limit of 1 point: new −0.5" in said.out, said.out


@pytest.mark.parametrize(
    ("column", "factor", "amount"),
    [
        ("peak_memory_bytes", 10, "peak memory 10x"),
        ("price_per_hour", 3, "price 3.0x"),
        ("energy_j", 1.2, "energy +20%"),
    ],
)
def test_what_decides_nothing_and_grew_is_in_the_head(compare, column, factor, amount):
    """By more than the limit; the decision is about speed and quality."""
    base, more, same = (
        [{**line, column: 1e6 * by} for line in rows(shift=n)] for n, by in enumerate((1, factor, 1.04))
    )
    said = compare(base, more)
    assert said.status == KEEP and said.lines[1].startswith(f"In these runs, new takes more: {amount} ("), said.out
    assert [*said.found["changes"][0]["growth"].values()] == [pytest.approx(factor, rel=0.01)]
    assert "takes more" not in compare(base, same).out


def test_metrics_have_limits_of_their_own(compare):
    worse = new(metrics={"val/loss": [0.9, 0.6, 0.52], "val/accuracy": [0.5, 0.8, 0.85]})
    options = ["--quality", "val/loss=5%", "--quality", "val/accuracy=3%"]
    assert compare(rows(metrics=BOTH), worse, *options).status == KEEP
    said = compare(rows(metrics=BOTH), worse, *options[:-1], "val/accuracy=1%")
    assert said.status == DISCARD and "2 points lower" in said.out
    assert said.found["metrics"]["val/loss"] | {"max_loss": 0.05, "decides": True} == said.found["metrics"]["val/loss"]


def test_open_quality_asks_for_repeats_also_on_a_busy_machine(compare):
    """The speed is clear, whatever other programs did."""
    lines = new(metrics={"val/accuracy": [0.5, 0.8, 0.87]}, seconds=0.8)
    for line in lines:
        line["val/accuracy"] += 0.02 * (-1) ** line["repeat"]
    said = compare(rows(), lines, "--quality", "val/accuracy")
    assert said.status == UNDECIDED and "more repeats could decide it" in said.lines[0], said.out
    assert said.found["more_repeats"] > 0


def test_whole_runs_have_a_limit_of_their_own(compare):
    assert compare(rows(), new(start=3.3, end=1.4), "--max-slowdown-total", "20%").status == KEEP
    assert compare(rows(), new(start=3.3, end=1.4)).status == DISCARD


def test_anchor_ends_a_chain_of_small_losses(compare, tmp_path):
    """Each version is 3% faster than the last one, and half a point worse."""
    steps = [new(seconds=0.97**n, metrics={"val/accuracy": [0.5, 0.8, 0.87 - 0.005 * n]}, shift=n) for n in range(4)]
    write_csv(tmp_path / "first.csv", steps[0])
    found = [compare(*steps[n : n + 2]) for n in range(3)]
    assert [each.status for each in found] == [KEEP] * 3
    found = [compare(*steps[n : n + 2], "--anchor", "first.csv") for n in range(3)]
    assert [each.status for each in found] == [KEEP, KEEP, DISCARD]
    changes = found[2].found["changes"]
    assert [(each["against"], each["verdict"]) for each in changes] == [
        ("base", "within the limit"),
        ("anchor", "lower quality"),
    ]


def test_target_is_that_of_base(compare):
    """A version that lowers its target reaches it sooner, and is not the same job."""
    base, worse = (rows(metrics={"val/accuracy": [0.5, 0.8, 0.87]}, shift=n) for n in (0, 1))
    said = compare(
        [{**line, "target_metric": "val/accuracy", "target_at_least": 0.85} for line in base],
        [{**line, "target_metric": "val/accuracy", "target_at_least": 0.4, "train_s": 1.2} for line in worse],
    )
    assert said.status == DISCARD and said.found["target"]["at_least"] == 0.85, said.out


def test_comment_has_no_markup_of_a_version(compare, tmp_path):
    hostile = "<img src=x> @octocat [a](http://e.vil) #1"
    lines = [[{**line, "device": name} for line in rows(shift=n) for name in (hostile, "b")] for n in (0, 1)]
    lines = [[{**line, "trial": line["trial"] + line["device"]} for line in each] for each in lines]
    assert compare(*lines, "--markdown", "out.md").status == KEEP
    text = (tmp_path / "out.md").read_text()
    assert "octocat" in text and not any(each in text for each in ("<img", "@octocat", "[a]", "http://e", " #1"))


def test_every_field_is_documented(compare):
    """The table in docs/compare.md names every field of the JSON, and no other."""
    page = (ROOT / "docs" / "compare.md").read_text()
    named = set(
        re.findall(r"`([a-z_]+)(?:\[\])?`", page[page.index("| field | meaning |") : page.index("`raybench plan")])
    )
    written = compare(rows(metrics=BOTH), new(metrics=BOTH)).found
    (change,) = written["changes"]
    parts = [change, change["speed"], change["quality"]["val/loss"], written["metrics"]["val/loss"], written["limits"]]
    assert named - {"keep", "discard", "undecided", "base", "new"} == {*chain(written, written["unit"], *parts)}

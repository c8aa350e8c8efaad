"""`raybench report` and `compare` of CSVs in which noise, or few epochs, could pass for a result."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def write(tmp_path):
    """Writes a CSV of runs: by the values of its columns, the seconds of each repeat, or of each of its epochs."""

    def write(name, columns, runs, accuracy=lambda number, epoch: 0.9):
        lines = [f"trial,repeat,epoch,train_s,val/accuracy,{columns}"]
        for values, repeats in runs.items():
            for number, seconds in enumerate(repeats):
                for epoch, each in enumerate(seconds if isinstance(seconds, list) else [seconds] * 4, 1):
                    shown = accuracy(number, epoch) if callable(accuracy) else accuracy[values][number]
                    trial = f"{values}-{number}".replace(",", "-")
                    lines.append(f"{trial},{number},{epoch},{each},{shown},{values}")
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return name

    return write


@pytest.fixture
def answer(raybench):
    """The JSON of a report."""
    return lambda name: json.loads(raybench("report", name, "--json", "-").out)


THREADS = {
    "cpu,1,32": (20.1, 21.4, 18.7),
    "cpu,2,32": (50.2, 54.7, 50.6),
    "cpu,1,64": (12.6, 8.8, 10.1),
    "cpu,2,64": (11.7, 11.5, 12.6),
    "cpu,1,128": (5.2, 5.3, 5.4),
    "cpu,2,128": (4.0, 3.9, 3.6),
}
"""Two threads take 2.4x, 1.3x and 0.7x as long as one."""


def test_pairs_that_disagree_have_no_mean(raybench, write):
    text = raybench("report", write("mine.csv", "device,threads,batch_size", THREADS)).out
    assert "batch 128, threads 2" in text.splitlines()[0]
    row = next(line for line in text.splitlines() if line.startswith("threads 2 vs. 1"))
    assert row.split()[4:7] == ["0.39x", "to", "1.4x"] and "(" not in row.partition("1.4x")[2].partition(" ")[0]
    assert "2 threads: takes" not in text, "it is slower in two pairs of three, and the fastest of all has 2 threads"


def test_pairs_that_agree_have_a_mean(answer, write):
    slower = {values: [each / 2 * (1 + (",2," in values)) for each in (10.0, 10.4, 9.7)] for values in THREADS}
    made = answer(write("mine.csv", "device,threads,batch_size", slower))["effects"]
    effect = next(each for each in made if each["axis"] == "threads")
    assert effect["speed"]["low"] < effect["speed"]["value"] < effect["speed"]["high"] < 1


def test_intervals_of_qualities_allow_for_choosing_the_best(answer, write):
    qualities = {f"cpu,{batch}": [0.9 + n / 1000 for n in (batch % 3, 2, 5)] for batch in (8, 16, 32, 64, 128, 256)}
    runs = dict.fromkeys(qualities, (5.0, 5.1, 4.9))
    two = {values: runs[values] for values in ("cpu,8", "cpu,16")}
    of_all, of_two = (
        answer(write(name, "device,batch_size", some, qualities))["configurations"][1]["quality_difference"]
        for name, some in (("all.csv", runs), ("two.csv", two))
    )
    assert of_all["value"] == of_two["value"]
    assert of_all["high"] - of_all["value"] > 1.2 * (of_two["high"] - of_two["value"])


@pytest.mark.parametrize(
    ("column", "is_equal"),
    [
        (lambda number, epoch: 0.9, True),  # perhaps 0.90 or 0.900
        (lambda number, epoch: (0.7, 0.6 + number / 10, 0.8, 0.9)[epoch - 1], False),  # of ten examples
        (lambda number, epoch: (0.7012, 0.7518 + number / 100, 0.8, 0.9)[epoch - 1], True),
    ],
)
def test_equal_accuracies_have_the_noise_of_their_last_digit(raybench, write, column, is_equal):
    base, new = {"cpu": (10.0, 10.1, 10.2)}, {"gpu": (9.1, 9.0, 9.2)}
    text = raybench("report", write("both.csv", "device", base | new, column)).out
    assert ("equal accuracy within 1 point" in text.splitlines()[0]) is is_equal
    sides = [write(name, "device", {"cpu": seconds}, column) for name, (seconds,) in
             {"base.csv": base.values(), "new.csv": new.values()}.items()]  # fmt: skip
    (change,) = json.loads(raybench("compare", *sides, "--max-quality-loss", "1%", "--json", "-").out)["changes"]
    assert change["quality_kept"] == {"val/accuracy": is_equal}, "by the same rule"


@pytest.mark.parametrize(
    ("cpu", "slow"),
    [
        ((10.0, 10.1, 9.9, 30.0), 1),  # one run was disturbed
        ((13.0, 10.1, 9.9, 13.1, 13.2), 3),  # two states of the machine
        ((10.0, 10.5, 11.0, 11.5), 0),
        ((10.0, 10.01, 9.99, 10.5), 0),  # hardly slower
    ],
)
def test_runs_that_are_far_slower_than_their_repeats(answer, write, cpu, slow):
    gpu = [[8.0 + number / 100] * 4 for number in range(len(cpu))]
    cautions = answer(write("mine.csv", "device", {"cpu": cpu, "gpu": gpu}))["trust"]["cautions"]
    assert [(each["code"], each["runs"]) for each in cautions] == [("slow_runs", slow)][:slow]


@pytest.mark.parametrize(
    ("epochs", "is_unclear"), [([20, 8], True), ([20, 8, 5], True), ([20, 8, 7.9], False), ([8.2, 8], False)]
)
def test_few_epochs_that_still_become_faster(answer, write, epochs, is_unclear):
    runs = {
        device: [[each * factor * (1 + repeat / 1000) for each in epochs] for repeat in range(3)]
        for device, factor in (("cpu", 1), ("gpu", 0.5))
    }
    cautions = answer(write("mine.csv", "device", runs))["trust"]["cautions"]
    assert [each["code"] for each in cautions] == ["few_steady_epochs"] * is_unclear

"""The clock, the epochs and the metrics of programs that raybench does not know, by what they print at known times."""

import itertools
import re
from pathlib import Path

import pytest

from raybench.output.epochs import Output
from raybench.output.transcript import Transcript

STARTUP, DELAY, UNITS = 2.0, 0.2, 6
FORMATS = {
    name: (lines.splitlines(), dict(metric.split() for metric in metrics.split(", ") if metric))
    for name, lines, metrics in re.findall(
        r"^# (\w+)\n(.*?)\n-> ?([^\n]*)\n",
        (Path(__file__).parent / "formats.txt").read_text(),
        re.MULTILINE | re.DOTALL,
    )
}


ONE_LINE = {"word_language_model"}
"""Programs of which no line tells when an epoch's training ended and its evaluation began."""


def fields(number):
    """The values of an epoch, from 0."""
    v = number + 1
    counts = {"u": number, "v": v, "n": UNITS, "t": 2048 * v, "s10": 10 * v, "s50": 50 * v, "d": 20 * v - 1}
    parts = {"p": 100 * v / (UNITS + 1), "q": 100 * v // UNITS, "e": 0.1 * v}
    return counts | parts | {"l": 2 / v, "a": 1 - 0.5 / v}


def printed(lines, delay=DELAY, evaluation=0.1, units=UNITS):
    """The time and text of each line of a program, with the time of its end."""
    unit = [line.replace("\\x1b", "\x1b") for line in lines if not line.startswith("?")]
    at_end = any(line.startswith("^") for line in unit)
    begins = at_end or unit[0] == "Epoch {v}/{n}"
    evaluated = sum(line.startswith("~") for line in unit)
    heads = [line[1:].format(n=units) for line in lines if line.startswith("?")]
    out, at = [(STARTUP - (len(heads) - place) / 1e4, line) for place, line in enumerate(heads)], STARTUP
    steps = len(unit) - evaluated - begins - sum(line.startswith("+") for line in unit)
    for number in range(units):
        for place, line in enumerate(unit):
            if line.startswith("~"):
                at += evaluation / evaluated
            elif line.startswith("^") or (not at_end and not line.startswith("+") and not (begins and place == 0)):
                at += delay if at_end else delay / steps
            out.append((at, line.lstrip("~^+").format(**fields(number))))
    return out, at + 0.5


def course_of(out, end, patterns=()):
    transcript = Transcript(dict(patterns))
    for at, line in out:
        transcript.add(0, f"{line}\n".encode(), round(at * 1e9))
    output = Output(transcript, ended=round(end * 1e9))
    return output.clock, output.course(0, round(end * 1e9))


def seconds(course, state, begin, end):
    """Seconds in which the program did something, between two times in nanoseconds."""
    moments = [*course.moments, (end, "")]
    spans = (
        (max(begin, at), min(end, until)) for (at, what), (until, _) in itertools.pairwise(moments) if what == state
    )
    return sum(max(0, until - at) for at, until in spans) / 1e9


@pytest.mark.parametrize("evaluation", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("name", FORMATS)
def test_epochs_of_programs(name, evaluation):
    lines, metrics = FORMATS[name]
    clock, course = course_of(*printed(lines, evaluation=evaluation))
    assert clock.pattern and not course.is_whole
    assert len(course.epochs) == UNITS
    ends = [course.moments[1][0], *(epoch.end for epoch in course.epochs)]
    trained = [seconds(course, "train", begin, end) for begin, end in itertools.pairwise(ends)]
    evaluates = any(line.startswith("~") for line in lines)
    assert not evaluates or course.holds_evaluation == (name in ONE_LINE)
    held = evaluation if course.holds_evaluation and evaluates else 0
    assert trained == pytest.approx([DELAY + held] * UNITS, rel=0.02)
    assert ends[0] / 1e9 == pytest.approx(STARTUP, abs=0.01 + held)
    for metric, letter in metrics.items():
        values = [epoch.metrics.get(metric) for epoch in course.epochs]
        assert values == pytest.approx(
            [fields(number).get(letter) or float(letter) for number in range(UNITS)], rel=0.02
        ), metric
    assert "train/iou" not in course.epochs[0].metrics


def counted(text, gaps=0.2, start=2.0, values=()):
    """Lines of a counter, and the times between them."""
    gaps = [gaps] * len(values) if isinstance(gaps, float) else gaps
    at, out = start, []
    for value, gap in zip(values, gaps, strict=True):
        at += gap
        out += [(at, line) for line in text.format(value).split("\n")]
    return out, at + 0.1


@pytest.mark.parametrize(
    ("text", "values", "gaps", "step", "epochs", "train_s", "startup_s"),
    [
        ("step {} loss 0.5", [0, 10, 20, 30], 0.2, 10, 3, 0.2, 2.2),  # printed before the first steps, or after one
        ("step {} loss 0.5", [1, 10, 20, 30], [0.2, 0.18, 0.2, 0.2], 10, 3, 0.2, 2.2),
        ("step {} loss 0.5", [1, 101, 201, 301], 0.2, 100, 3, 0.2, 2.2),
        ("iter {}: loss 0.5", [*range(1, 11), *range(20, 101, 10)], [0.02] * 10 + [0.2] * 9, 10, 10, 0.2, 2.02),
        ("round {} loss 0.5", range(1, 1001), [0.01] * 1000, 50, 20, 0.5, 2.0),  # together as long as can be timed
        (
            " {}% |#| loss 0.5",
            [0, 11, 19, 42, 50, 71, 80, 100],
            [0, 0.11, 0.08, 0.23, 0.08, 0.21, 0.09, 0.2],
            10,
            10,
            0.1,
            2.0,
        ),
        ("epoch {} loss 0.5", [1, 2], 0.2, 1, 2, 0.2, 2.0),
        ("epoch {} loss 0.5", [5, 6, 7], 0.2, 1, 3, 0.2, 2.0),  # training goes on
        ("epoch {} loss 0.5", [1, 2, 3, 1, 2, 3], 0.2, 1, 6, 0.2, 2.0),  # of two folds
        ("Epoch: [0][{}/90] loss 0.5", [0, 10, 20, 30], 0.2, 10, 3, 0.2, 2.2),  # one epoch, so its steps
        ("epoch {} loss 0.5", [1, 2, 4, 5], [0.2, 0.2, 0.4, 0.2], 1, 5, 0.2, 2.0),  # of a skipped line
    ],
)
def test_counters(text, values, gaps, step, epochs, train_s, startup_s):
    clock, course = course_of(*counted(text, gaps, values=values))
    ends = [course.moments[1][0], *(epoch.end for epoch in course.epochs)]
    trained = [seconds(course, "train", begin, end) for begin, end in itertools.pairwise(ends)]
    assert (clock.step, len(trained), ends[0] / 1e9) == (step, epochs, pytest.approx(startup_s, abs=0.01))
    assert sorted(trained)[len(trained) // 2] == pytest.approx(train_s, rel=0.05)


def test_bars_of_any_length_are_lines_of_one_kind():
    bars = [(2 + part / 10, f"Training: {10 * part:3d}% [{'-' * part:10}] ETA:  0:00:01") for part in range(11)]
    clock, course = course_of(bars, 3.5)
    assert (clock.label, len(course.epochs), course.moments[1][0]) == ("%", 10, 2e9)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["loss 0.5", "loss 0.4", "loss 0.3"],
        ["epoch 1 loss 0.5"],
        ["layer 1: 10", "layer 2: 10", "layer 3: 10", "accuracy 0.9"],
        ["time 1 s", "time 2 s", "time 3 s"],
        ["took 1.5", "took 2.5", "took 3.5"],
    ],
)
def test_programs_without_a_counter_are_timed_whole(lines):
    at = [3 + 1e-9 * number if "layer" in line else 3 + number for number, line in enumerate(lines)]
    clock, course = course_of([*zip(at, lines, strict=True)], 9.0)
    assert course.is_whole and len(course.epochs) == 1
    assert not clock.pattern or lines[0].startswith("epoch")


def test_lines_that_arrive_together_are_epochs_without_times():
    _clock, course = course_of([(3.0, f"epoch {number} loss {number}") for number in (1, 2, 3)], 4.0)
    assert [epoch.together for epoch in course.epochs] == [1, 2, 3]
    assert [epoch.metrics["train/loss"] for epoch in course.epochs] == [1, 2, 3]


def test_training_goes_on_after_a_line_in_the_middle_of_an_epoch():
    lines = [(epoch, f"Train Epoch: {epoch} [256/ 500 (51%)] Loss: 0.5") for epoch in range(1, 6)]
    out = sorted(lines + [(at + 0.5, "Test set: Average loss: 0.4") for at, _ in lines])
    _clock, course = course_of(out, 6.0)
    ends = [epoch.end for epoch in course.epochs]
    assert [seconds(course, "train", *pair) for pair in itertools.pairwise(ends)] == pytest.approx(
        [0.5 / 0.51] * 4, rel=0.01
    )


@pytest.mark.parametrize(
    ("steps", "every", "first"), [(125, 20, 0), (31, 20, 0), (31, 20, 1), (40, 20, 1), (500, 100, 1)]
)
def test_training_does_not_end_with_its_last_logged_step(steps, every, first):
    """Of 1 s of training and 1 s of evaluation in each epoch, however often its steps are logged."""
    out = []
    for epoch in range(5):
        logged = [number for number in range(first, steps + first) if number % every == 0]
        out += [
            (2 * epoch + (number + 1 - first) / steps, f"Epoch {epoch + 1} [{number}/{steps}] loss: {2 / (epoch + 1)}")
            for number in logged
        ]
        out.append((2 * epoch + 2, f"Epoch {epoch + 1} validation accuracy: {90 + epoch}.0%"))
    _clock, course = course_of(out, 10.1)
    ends = [epoch.end for epoch in course.epochs]
    assert [seconds(course, "train", *pair) for pair in itertools.pairwise(ends)] == pytest.approx([1.0] * 4, rel=0.01)
    assert not course.holds_evaluation


def test_short_epochs_that_a_line_begins_are_timed_together():
    parts = [(0.0, "-- Generation {} --"), (0.009, "Max 5")]
    out = [(2 + epoch / 100 + at, line.format(epoch + 1)) for epoch in range(40) for at, line in parts]
    clock, course = course_of(out, 2.4)
    assert (clock.begins, clock.step, len(course.epochs)) == (True, 2, 20)
    assert course.epochs[4].end / 1e9 == pytest.approx(2.1)

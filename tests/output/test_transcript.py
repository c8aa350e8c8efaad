"""What reading a program's lines costs: it may share a core with the program."""

import random
import time

import pytest

from raybench.output import transcript
from raybench.output.transcript import NUMBERS, Transcript

LINES = 20_000
chance = random.Random(0)
COUNTED = [f"iter {number}: loss {chance.random():.4f}, {chance.random():.3f} s" for number in range(LINES)]
UNLIKE = [f"loaded {chance.getrandbits(64):016x} by {chance.getrandbits(40):x}" for _ in range(LINES)]


def read(lines, chunk_bytes=4096):
    data, reader = "\n".join([*lines, ""]).encode(), Transcript({})
    for begin in range(0, len(data), chunk_bytes):
        reader.add(0, data[begin : begin + chunk_bytes], begin)
    return reader


class Counting:
    """A pattern that counts the lines in which it looks for numbers."""

    def __init__(self):
        self.lines = 0

    def sub(self, *arguments):
        self.lines += 1
        return NUMBERS.sub(*arguments)


def test_numbers_are_looked_for_once_per_shape(monkeypatch):
    monkeypatch.setattr(transcript, "NUMBERS", counting := Counting())
    (kind,) = read(COUNTED).kinds
    assert len(kind.texts) == LINES and counting.lines < 10


@pytest.mark.parametrize(("lines", "most"), [(COUNTED, 1.0), (UNLIKE, 10.0)], ids=["alike", "unlike"])
def test_a_line_costs_little_more_than_to_look_for_its_numbers(lines, most):
    """Also if no two lines are alike; measured 0.1 and 2 times as much."""

    def cpu_s(work):
        seconds = []
        for _ in range(3):
            begin_s = time.process_time()
            work()
            seconds.append(time.process_time() - begin_s)
        return min(seconds)

    assert cpu_s(lambda: read(lines)) < most * cpu_s(lambda: [NUMBERS.sub("0", line) for line in lines])

import pytest

from raybench.trial.ledger import Ledger


class Clock:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now

    def pass_ms(self, ms):
        self.now += int(ms * 1e6)


def test_sections_exclude_each_other_and_add_up():
    clock = Clock()
    ledger = Ledger(clock=clock)
    clock.pass_ms(41)
    with ledger.section("data"):
        clock.pass_ms(310)
    clock.pass_ms(5)
    ledger.begin_epoch()
    with ledger.section("train"):
        clock.pass_ms(1000)
        with ledger.section("input_wait"):
            clock.pass_ms(11)
        clock.pass_ms(500)
    with ledger.section("evaluate"):
        clock.pass_ms(405)
    ledger.move(618_000_000, "train", "compile")
    assert ledger.epoch() == {"compile": 0.618, "train": 0.882, "input_wait": 0.011, "evaluate": 0.405}
    clock.pass_ms(2)
    sections, wall = ledger.close()
    assert sections["setup"] == 0.041
    assert sections["other"] == 0.007
    assert wall == pytest.approx(sum(sections.values())) == pytest.approx(2.274)


def test_time_before_the_ledger_is_setup():
    clock = Clock()
    clock.pass_ms(100)
    ledger = Ledger(started=0, clock=clock)
    assert ledger.close() == (
        {**dict.fromkeys(["data", "build", "compile", "train", "input_wait", "evaluate", "other"], 0.0), "setup": 0.1},
        0.1,
    )


def test_no_more_is_moved_than_there_is():
    clock = Clock()
    ledger = Ledger(clock=clock)
    with ledger.section("train"):
        clock.pass_ms(10)
    ledger.move(10**12, "train", "compile")
    ledger.move(-5, "train", "compile")
    sections, _ = ledger.close()
    assert (sections["train"], sections["compile"]) == (0.0, 0.01)


def test_a_section_that_raises_is_still_charged():
    clock = Clock()
    ledger = Ledger(clock=clock)
    with pytest.raises(KeyError), ledger.section("train"):
        clock.pass_ms(3)
        raise KeyError
    clock.pass_ms(4)
    sections, _ = ledger.close()
    assert (sections["train"], sections["other"]) == (0.003, 0.004)


def test_an_epoch_counts_only_itself():
    clock = Clock()
    ledger = Ledger(clock=clock)
    for ms in (100, 7):
        ledger.begin_epoch()
        with ledger.section("train"):
            clock.pass_ms(ms)
    assert ledger.epoch()["train"] == 0.007

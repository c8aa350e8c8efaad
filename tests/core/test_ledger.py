"""Each moment of a trial is charged to one section."""

import pytest

from raybench.core.ledger import Ledger


class Clock:
    """A wall clock that a test sets."""

    def __init__(self):
        self.now = 0

    def pass_ms(self, ms):
        self.now += int(ms * 1e6)

    def ledger(self, started=None):
        return Ledger(started, clock=lambda: self.now)


@pytest.fixture
def clock():
    return Clock()


def spend(clock, ledger, section, ms):
    with ledger.section(section):
        clock.pass_ms(ms)


def used_sections(times):
    return {name: seconds for name, seconds in times.items() if seconds}


def test_sections_exclude_each_other_and_add_up(clock):
    clock.pass_ms(40)
    ledger = clock.ledger(started=0)
    spend(clock, ledger, "data", 310)
    clock.pass_ms(5)
    for _ in range(2):
        ledger.begin_epoch()
        with ledger.section("train"):
            clock.pass_ms(1000)
            spend(clock, ledger, "input_wait", 11)
            clock.pass_ms(500)
        spend(clock, ledger, "evaluate", 405)
        assert ledger.epoch() == {"compile": 0.0, "train": 1.5, "input_wait": 0.011, "evaluate": 0.405}
    sections, wall = ledger.close()
    times = {"setup": 0.04, "data": 0.31, "train": 3.0, "input_wait": 0.022, "evaluate": 0.81, "other": 0.005}
    assert used_sections(sections) == times and wall == pytest.approx(sum(times.values()))


def test_earlier_time_of_a_shared_process(clock):
    clock.pass_ms(5000)
    ledger = clock.ledger()
    clock.pass_ms(10)
    assert ledger.close()[1] == 0.01


def test_a_section_that_raises_is_charged(clock):
    ledger = clock.ledger()
    with pytest.raises(KeyError), ledger.section("train"):
        clock.pass_ms(3)
        raise KeyError
    clock.pass_ms(4)
    assert used_sections(ledger.close()[0]) == {"train": 0.003, "other": 0.004}


def test_no_more_is_moved_than_was_spent(clock):
    ledger = clock.ledger()
    spend(clock, ledger, "train", 10)
    ledger.move(10**12, "train", "compile")
    ledger.move(-5 * 10**6, "train", "compile")
    assert used_sections(ledger.close()[0]) == {"compile": 0.01}


def test_restart_is_charged_to_the_checkpoint(clock):
    first = clock.ledger()
    for section, ms in (("data", 100), ("build", 20), ("train", 3000)):
        spend(clock, first, section, ms)
    state = first.state()
    clock.pass_ms(10**6)  # until the trial is tried again
    again = clock.ledger()
    spend(clock, again, "data", 240)
    again.go_on(state)
    spend(clock, again, "train", 1000)
    sections, wall = again.close()
    assert used_sections(sections) == {"data": 0.1, "build": 0.02, "train": 4.0, "checkpoint": 0.24}
    assert wall == pytest.approx(sum(sections.values()))


def test_times_are_those_of_the_epoch(clock, monkeypatch):
    spent_ns = iter([5_000_000_000, 5_250_000_000])
    monkeypatch.setattr("raybench.core.ledger.time.process_time_ns", lambda: next(spent_ns))
    ledger = clock.ledger()
    ledger.enter("train")
    clock.pass_ms(7)
    ledger.begin_epoch()
    clock.pass_ms(3)
    assert (ledger.epoch()["train"], ledger.epoch_cpu_s()) == (0.003, 0.25)

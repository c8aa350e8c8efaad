import pytest

from raybench.core.ledger import SECTIONS, Ledger


class Clock:
    def __init__(self):
        self.now = 0

        self.used = 0

    def __call__(self):
        return self.now

    def processor(self):
        return self.used

    def pass_ms(self, ms, used=0):
        self.now += int(ms * 1e6)
        self.used += int(used * 1e6)


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


def test_another_process_goes_on_and_what_it_needed_first_is_the_price_of_the_checkpoint():
    clock = Clock()
    first = Ledger(clock=clock, processor=clock.processor)
    for section, ms in (("data", 100), ("build", 20), ("train", 3000)):
        with first.section(section):
            clock.pass_ms(ms, used=ms)
    state = first.state()
    clock.pass_ms(10**6)  # until somebody looks after it
    again = Ledger(clock=clock, processor=clock.processor)
    for section, ms in (("data", 200), ("build", 40)):
        with again.section(section):
            clock.pass_ms(ms, used=ms)
    again.go_on(state)
    with again.section("train"):
        clock.pass_ms(1000, used=900)
    sections, wall = again.close()
    nothing = {"setup": 0.0, "compile": 0.0, "input_wait": 0.0, "evaluate": 0.0, "other": 0.0}
    assert sections == nothing | {"data": 0.1, "build": 0.02, "train": 4.0, "checkpoint": 0.24}
    assert wall == pytest.approx(sum(sections.values()))
    assert again.cpu() == sections | {"train": 3.9}


def test_a_state_that_is_none_is_refused_and_changes_nothing():
    ledger = Ledger(clock=Clock())
    negative = ledger.state() | {"spent": dict.fromkeys(SECTIONS, -1)}
    for state in ({}, {"spent": {}, "used": {}}, negative):
        with pytest.raises((KeyError, ValueError)):
            ledger.go_on(state)
    assert set(ledger.close()[0].values()) == {0.0}


def test_an_epoch_counts_only_itself():
    clock = Clock()
    ledger = Ledger(clock=clock)
    for ms in (100, 7):
        ledger.begin_epoch()
        with ledger.section("train"):
            clock.pass_ms(ms)
    assert ledger.epoch()["train"] == 0.007


def test_processor_time_is_charged_to_the_same_sections():
    clock = Clock()
    clock.pass_ms(40, used=30)
    ledger = Ledger(started=0, clock=clock, processor=clock.processor)
    with ledger.section("data"):
        clock.pass_ms(100, used=180)
    for _ in range(2):
        ledger.begin_epoch()
        with ledger.section("train"):
            clock.pass_ms(1000, used=1900)
            with ledger.section("input_wait"):
                clock.pass_ms(50, used=1)
        with ledger.section("evaluate"):
            clock.pass_ms(200, used=300)
        clock.pass_ms(3, used=2)
    assert ledger.epoch_cpu() == {"compile": 0.0, "train": 1.9, "input_wait": 0.001, "evaluate": 0.3}
    assert ledger.epoch_cpu().keys() == ledger.epoch().keys()
    sections, _ = ledger.close()
    assert ledger.cpu() == {
        "setup": 0.03,
        "data": 0.18,
        "build": 0.0,
        "compile": 0.0,
        "train": 3.8,
        "input_wait": 0.002,
        "evaluate": 0.6,
        "other": 0.004,
    }
    assert ledger.cpu().keys() == sections.keys()


def test_what_the_process_used_before_is_not_a_trial_s_that_shares_it():
    clock = Clock()
    clock.pass_ms(5000, used=4000)
    ledger = Ledger(clock=clock, processor=clock.processor)
    clock.pass_ms(10, used=7)
    ledger.close()
    assert sum(ledger.cpu().values()) == 0.007


@pytest.mark.parametrize(("counted", "moved"), [(None, 0.3), (500_000_000, 0.5), (10**12, 1.2), (-1, 0.0)])
def test_processor_time_moves_as_it_was_counted_or_in_proportion(counted, moved):
    clock = Clock()
    ledger = Ledger(clock=clock, processor=clock.processor)
    with ledger.section("train"):
        clock.pass_ms(9000, used=0)
    ledger.begin_epoch()
    with ledger.section("train"):
        clock.pass_ms(1000, used=1200)
    ledger.move(250_000_000, "train", "compile", counted)
    assert ledger.epoch()["compile"] == 0.25
    assert ledger.epoch_cpu()["compile"] == moved
    assert sum(ledger.epoch_cpu().values()) == pytest.approx(1.2)


def test_the_device_s_clock_stands_beside():
    ledger = Ledger()
    assert ledger.epoch_device() == {}
    ledger.note_device("train", 1_500_000_000)
    assert ledger.epoch_device() == {"train": 1.5}
    ledger.begin_epoch()
    assert ledger.epoch_device() == {}

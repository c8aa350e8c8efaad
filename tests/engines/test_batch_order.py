import numpy as np
import pytest

from raybench.engines.batch_order import Augmentation, BatchSampler, total_steps


def order(examples=100, batch=32, steps=None, augmentation=(), seed=0):
    return BatchSampler(examples, batch, steps, (8, 8), Augmentation.from_settings(augmentation), seed)


def test_a_pass_takes_each_example_at_most_once_and_drops_the_ragged_batch():
    epoch = order().epoch()
    assert epoch.index.shape == (3, 32)
    assert len(set(epoch.index.ravel())) == 96


def test_epochs_differ_and_seeds_repeat_them():
    first, second = order(), order()
    one, two = first.epoch().index, first.epoch().index
    assert (one != two).any()
    assert (second.epoch().index == one).all()
    assert (order(seed=1).epoch().index != one).any()


def test_steps_per_epoch_goes_on_within_a_pass_and_over_its_end():
    whole = np.concatenate([order(steps=1).epoch().index, order(steps=1).epoch().index])
    assert whole.shape == (2, 32)
    stream = order(steps=2)
    taken = np.concatenate([stream.epoch().index, stream.epoch().index])
    reference = order()
    expected = np.concatenate([reference.epoch().index, reference.epoch().index])
    assert (taken == expected[:4]).all()


def test_more_steps_than_a_pass_has_draw_the_next_pass():
    epoch = order(examples=40_000, batch=1024, steps=40).epoch()
    assert epoch.index.shape == (40, 1024)
    assert len(set(epoch.index[:39].ravel())) == 39 * 1024


def test_draws_stay_inside():
    epoch = order(augmentation=[{"crop": 2}, "flip", {"cutout": 3}], examples=4000, batch=100).epoch()
    assert (epoch.top.min(), epoch.top.max()) == (0, 4)
    assert set(np.unique(epoch.flip)) == {0, 1}
    assert (epoch.cut_left.min(), epoch.cut_left.max()) == (0, 5)


def test_a_batch_larger_than_the_set_is_refused():
    with pytest.raises(ValueError, match="batch_size 64 is larger than the 10 examples"):
        order(examples=10, batch=64)


@pytest.mark.parametrize(
    ("steps", "epochs", "total"),
    [(48, 9.9, 476), (48, 10, 480), (30, 0.1, 3), (10, 0.7, 7), (6, 2.5, 15), (1, 0.01, 1)],
)
def test_steps_of_epochs_that_are_no_whole_number(steps, epochs, total):
    assert total_steps(steps, epochs) == total


def test_only_the_last_epoch_of_a_run_is_shorter():
    stream = BatchSampler(100, 32, None, (8, 8), Augmentation(), 0, epochs=1.5)
    assert (stream.total, stream.next_steps) == (5, 3)
    assert [len(stream.epoch().index) for _ in range(3)] == [3, 2, 3], "and one more would be whole"


@pytest.mark.parametrize("steps", [None, 2, 5])
def test_an_epoch_that_is_prepared_is_the_one_that_would_be_drawn(steps):
    plain, ahead = (
        BatchSampler(100, 32, steps, (8, 8), Augmentation(1, True, 2), 0, epochs=2.5) for _ in ("plain", "ahead")
    )
    for _ in range(3):
        ahead.prepare()
        ahead.prepare()
        assert ahead.next_steps == plain.next_steps
        wanted, drawn = plain.epoch(), ahead.epoch()
        for name, values in vars(wanted).items():
            assert np.array_equal(getattr(drawn, name), values)
    ahead.prepare()  # nothing: the run has no other epoch
    assert np.array_equal(ahead.take(1).index, plain.take(1).index)


def test_an_epoch_is_filled_with_its_last_step():
    drawn = order(augmentation=["flip"]).epoch()
    filled = drawn.filled(5)
    assert (filled.index[:3] == drawn.index).all() and (filled.flip[3:] == drawn.flip[2]).all()
    assert (len(filled.index), filled.top) == (5, None)
    assert len(drawn.filled(2).index) == 3

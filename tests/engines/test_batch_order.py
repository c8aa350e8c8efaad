import numpy as np
import pytest

from raybench.engines.batch_order import Augmentation, BatchSampler, total_steps


def order(examples=100, batch=32, steps=None, augmentation=(), seed=0):
    return BatchSampler(examples, batch, steps, (8, 8), Augmentation.from_settings(augmentation), seed)


def test_pass_without_the_incomplete_batch():
    epoch = order().epoch()
    assert epoch.index.shape == (3, 32)
    assert len(set(epoch.index.ravel())) == 96


def test_seeds_repeat_epochs():
    first, second = order(), order()
    one, two = first.epoch().index, first.epoch().index
    assert (one != two).any()
    assert (second.epoch().index == one).all()
    assert (order(seed=1).epoch().index != one).any()


def test_steps_per_epoch_continues_a_pass():
    whole = np.concatenate([order(steps=1).epoch().index, order(steps=1).epoch().index])
    assert whole.shape == (2, 32)
    stream = order(steps=2)
    taken = np.concatenate([stream.epoch().index, stream.epoch().index])
    reference = order()
    expected = np.concatenate([reference.epoch().index, reference.epoch().index])
    assert (taken == expected[:4]).all()


def test_draws_stay_within_the_image():
    epoch = order(augmentation=[{"crop": 2}, "flip", {"cutout": 3}], examples=4000, batch=100).epoch()
    assert (epoch.top.min(), epoch.top.max()) == (0, 4)
    assert set(np.unique(epoch.flip)) == {0, 1}
    assert (epoch.cut_left.min(), epoch.cut_left.max()) == (0, 5)


def test_batch_larger_than_the_set():
    with pytest.raises(ValueError, match="batch_size 64 is larger than the 10 examples"):
        order(examples=10, batch=64)


@pytest.mark.parametrize(
    ("steps", "epochs", "total"),
    [(48, 9.9, 476), (48, 10, 480), (30, 0.1, 3), (10, 0.7, 7), (6, 2.5, 15), (1, 0.01, 1)],
)
def test_steps_of_fractional_epochs(steps, epochs, total):
    assert total_steps(steps, epochs) == total


def test_only_the_last_epoch_is_shorter():
    stream = BatchSampler(100, 32, None, (8, 8), Augmentation(), 0, epochs=1.5)
    assert (stream.total, stream.next_steps) == (5, 3)
    assert [len(stream.epoch().index) for _ in range(3)] == [3, 2, 3], "and one more would be whole"


@pytest.mark.parametrize("steps", [None, 2, 5])
def test_prepared_epoch_is_the_next_one(steps):
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


def test_epoch_padded_with_its_last_step():
    drawn = order(augmentation=["flip"]).epoch()
    filled = drawn.filled(5)
    assert (filled.index[:3] == drawn.index).all() and (filled.flip[3:] == drawn.flip[2]).all()
    assert (len(filled.index), filled.top) == (5, None)
    assert len(drawn.filled(2).index) == 3

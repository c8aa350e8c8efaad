"""Which epochs are steady, in times and in energy."""

import pytest

from raybench.results.epoch import is_steady


@pytest.mark.parametrize(
    ("how", "steady"),
    [
        ({"warmup": 1}, [2, 3, 4, 5, 6]),
        ({"warmup": 0}, [1, 2, 3, 4, 5, 6]),
        ({"warmup": 1, "epochs": 5.5}, [2, 3, 4, 5]),
        ({"warmup": 1, "epochs": 6}, [2, 3, 4, 5, 6]),
        ({"warmup": 1, "gaps": (3,)}, [2, 3, 5, 6]),
        ({"warmup": 2, "gaps": (3,)}, [3, 6]),
        ({"warmup": 0, "gaps": (2, 4)}, [1, 2, 4, 6]),
    ],
)
def test_steady_epochs_follow_each_processs_warmup(how, steady):
    assert [number for number in range(1, 7) if is_steady(number, **how)] == steady

"""Prices of devices; those of lists are tested through `raybench report` in cli/test_trade_off.py."""

import pytest

from raybench.config.prices import Price
from raybench.core.cell import CellDevice


@pytest.mark.parametrize(
    ("device", "per_hour"),
    [
        (CellDevice("cuda", count=4), 2),
        (CellDevice("cuda", count=9, nodes=2), 8),
        (CellDevice("cpu", count=4, nodes=2), 4),
    ],
)
def test_instances_of_all_nodes_are_paid_as_a_whole(device, per_hour):
    assert Price(2, "shop", devices=8).of_all(device).per_hour == per_hour

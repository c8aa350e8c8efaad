"""Prices of devices; those of lists are tested through `raybench report` in cli/test_trade_off.py."""

import pytest

from raybench.config.prices import Price
from raybench.core.cell import CellDevice


@pytest.mark.parametrize(
    ("device", "priced", "per_hour"),
    [
        *((CellDevice(kind, count=4), 1, 8) for kind in ("cuda", "tpu")),
        *((CellDevice(kind, count=4), 1, 2) for kind in ("cpu", "xla_cpu")),
        (CellDevice("cuda", count=4), 8, 2),
        (CellDevice("cuda", count=9, nodes=2), 8, 8),
        (CellDevice("cpu", count=4, nodes=2), 8, 4),
    ],
)
def test_accelerators_machines_and_instances_are_paid_as_a_whole(device, priced, per_hour):
    assert Price(2, "shop", devices=priced).of_all(device).per_hour == per_hour

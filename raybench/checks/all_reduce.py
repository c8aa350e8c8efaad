"""The rate at which the ranks of a trial on several nodes sum 64 MiB: what their network gives, apart from training.

It is a check: it runs before the trials, in processes on the nodes and devices of theirs, so it is in no trial's time.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, cast

from raybench.core.cell import Cell
from raybench.core.job import Job
from raybench.core.rank import current_rank
from raybench.trial.opening import open_assigned

if TYPE_CHECKING:
    from raybench.devices.cpu import TorchDevice

NAME = "all_reduce"
VERSION = 1  # version of the measurement; raised when it would be measured differently

BYTES = 64 << 20
WARM_UP, CALLS = 2, 7


def subject(cell: Cell) -> dict[str, Any]:
    """The fields of a cell that determine the network and the devices."""
    tree = cell.to_json()
    return {"framework": tree["framework"], "engine": tree["engine"], "device": tree["device"]}


def describe(cell: Cell) -> str:
    """Description of a cell's check: `network: 4 devices on 2 nodes`."""
    return f"network: {cell.device.devices} devices on {cell.device.node_count} nodes"


def measure(job: Job) -> dict[str, Any]:
    """Time the sum of 64 MiB over all ranks.

    Returns:
        `seconds_of_sum`, the median; and `gb_per_s`, the bytes that each rank has to send and receive by the usual ring
        algorithm, 2·(n − 1)/n of its own, per second: "bus bandwidth" in nccl-tests
        (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
    """
    from raybench.engines.torch.distributed import ProcessGroup

    device, rank = cast("TorchDevice", open_assigned(job)), current_rank()
    group = ProcessGroup(rank, device.backend)
    seconds = [group.sum_seconds(BYTES, device) for _ in range(WARM_UP + CALLS)][WARM_UP:]
    rate = 2 * (rank.count - 1) / rank.count * BYTES / median(seconds)
    return {"bytes": BYTES, "seconds_of_sum": median(seconds), "gb_per_s": rate / 1e9}

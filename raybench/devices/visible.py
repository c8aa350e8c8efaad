"""Device names in a variable such as `CUDA_VISIBLE_DEVICES`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

UUIDS = ("GPU-", "MIG-")  # beginnings of names that may be abbreviated


def selected(setting: str, devices: Sequence[Collection[str]]) -> dict[int, str]:
    """Find the devices that a variable selects, in its order: the name in the variable by position of the device.

    A name is an index, or a UUID of which the beginning suffices if it is unique. The first name without a device ends
    the list (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html).
    """
    names = {name for device in devices for name in device}
    positions: dict[int, str] = {}
    for name in map(str.strip, setting.split(",")):
        full_names = [name] if name in names else []
        if not full_names and name.startswith(UUIDS):
            full_names = [full_name for full_name in names if full_name.startswith(name)]
        if len(full_names) != 1:
            break
        for position, device in enumerate(devices):
            if full_names[0] in device:
                positions.setdefault(position, name)
    return positions

"""Device names in a variable such as `CUDA_VISIBLE_DEVICES`."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def selected(setting: str, devices: Sequence[Collection[str]]) -> dict[int, str]:
    """Find the devices that a variable selects, in its order: the name in the variable by position of the device.

    A name is an index or a whole UUID. The first name without a device ends the list
    (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html).
    """
    names: dict[int, str] = {}
    for name in map(str.strip, setting.split(",")):
        positions = [position for position, device in enumerate(devices) if name in device]
        if not positions:
            break
        names |= {position: name for position in positions if position not in names}
    return names

"""Power limits of NVIDIA GPUs during a trial, set and read back through NVML.

A process of its own sets the limits and restores them when the pipe to it closes: at the end of the trial, or of the
process that supervises it, however that ends. If the process of its own is killed, its supervisor restores them.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from raybench.devices.nvidia import LIBRARY, handles

MILLIWATTS = 1000
TIMEOUT_S = 30


class PowerLimitError(Exception):
    """The limit cannot be set; the message says why, and what an administrator can do."""


def power_limit_problem(kind: str, watts: int, is_here: bool = True) -> str:
    """Return why devices of a kind, of this machine if `is_here`, cannot have a power limit; empty if they can."""
    if kind != "cuda":
        return f"power_limit needs an NVIDIA GPU, and {kind} is none"
    try:
        for gpu in _gpus(()).values() if is_here else ():
            _set(gpu, watts, dry=True)
    except PowerLimitError as error:
        return str(error)
    return ""


@contextmanager
def power_limited(watts: int | None, names: Sequence[str]) -> Iterator[None]:
    """Limit the power of GPUs, by their indices or UUIDs, and restore it afterwards.

    Raises:
        PowerLimitError: it cannot be set.
    """
    if not watts:
        yield
        return
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "raybench.devices.power_limit", str(watts), *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C does not end it
        text=True,
    )
    assert process.stdin and process.stdout
    before: dict[str, int] = {}
    try:
        answer = json.loads(process.stdout.readline() or '{"error": "the process that sets power limits has ended"}')
        if answer["error"]:
            raise PowerLimitError(answer["error"])
        before = answer["before"]
        yield
    finally:
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(TIMEOUT_S)
        process.stdout.close()
        if process.returncode and before:
            _restore((gpu, before[name]) for name, gpu in _gpus(list(before)).items())


def _gpus(names: Sequence[str]) -> dict[str, Any]:
    """Handles of GPUs by name; of all without names.

    Raises:
        PowerLimitError: NVML cannot be used.
    """
    try:
        nvml: Any = import_module(LIBRARY)
        nvml.nvmlInit()
        return handles(nvml, names)
    except Exception as error:  # no package, no driver, a lost GPU
        raise PowerLimitError(f"power_limit needs NVML: {error}") from None


def _set(gpu: Any, watts: int, dry: bool = False) -> int:
    """Set the limit of a GPU, or only try whether that is allowed; return the one before, in milliwatts.

    Raises:
        PowerLimitError: the GPU does not have such a limit, or this user may not set it.
    """
    nvml: Any = import_module(LIBRARY)
    try:
        before = int(nvml.nvmlDeviceGetPowerManagementLimit(gpu))
        least, most = nvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu)
        if not least <= watts * MILLIWATTS <= most:
            ends = f"{least / MILLIWATTS:g} to {most / MILLIWATTS:g} W"
            raise PowerLimitError(f"power_limit {watts} is not possible: this GPU takes {ends}")
        if before != watts * MILLIWATTS:
            nvml.nvmlDeviceSetPowerManagementLimit(gpu, before if dry else watts * MILLIWATTS)
        after = int(nvml.nvmlDeviceGetPowerManagementLimit(gpu))
    except nvml.NVMLError as error:
        command = f"`sudo nvidia-smi --power-limit={watts}`"
        raise PowerLimitError(
            f"power_limit {watts} was refused ({error}): run as an administrator, or let one run {command}, then this "
            "configuration runs"
        ) from None
    if not dry and after != watts * MILLIWATTS:
        raise PowerLimitError(f"power_limit {watts} was set, and the GPU has {after / MILLIWATTS:g} W")
    return before


def main(watts: int, names: Sequence[str]) -> None:
    """Set limits, say so, wait until the standard input closes, and restore them."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gpus: dict[str, Any] = {}
    before: dict[str, int] = {}
    error = ""
    try:
        gpus = _gpus(names)
        for name, gpu in gpus.items():
            before[name] = _set(gpu, watts)
    except PowerLimitError as problem:
        error = str(problem)
    with suppress(BrokenPipeError):
        sys.stdout.write(json.dumps({"error": error, "before": before}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    _restore((gpus[name], milliwatts) for name, milliwatts in before.items())


def _restore(limits: Iterable[tuple[Any, int]]) -> None:
    for gpu, milliwatts in limits:
        nvml: Any = import_module(LIBRARY)
        with suppress(nvml.NVMLError):
            nvml.nvmlDeviceSetPowerManagementLimit(gpu, milliwatts)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

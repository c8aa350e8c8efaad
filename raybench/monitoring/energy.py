"""Energy counters of a trial's accelerators, processors and memory, read from outside its process.

A counter is cumulative: a sample has the joules between two readings. NVIDIA's counters and RAPL (Intel's and AMD's
processors under Linux) are read directly; those of AMD's GPUs and of Apple's chips through the package Zeus.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from raybench.devices import KINDS, hosted
from raybench.monitoring.accelerators import Unavailable

GPU, CPU, DRAM = "gpu", "cpu", "dram"
"""What a counter measures, the first word of its name, such as `gpu 0`. Numbers of `cpu` and `dram` are sockets."""

ON_HOST = (CPU, DRAM)

POWERCAP = "sys/class/powercap"

MOST_WATTS = 1000.0
"""Maximum power of a socket or its memory; it limits the time in which a RAPL counter can wrap."""

INSTALL = "install raybench[energy]"

Joules = dict[str, float]
"""Joules by counter."""


class NoCounter(Unavailable):
    """The hardware has no counter, or none that is known; nothing that a user can change."""


class Source(Protocol):
    """Counters that are read together.

    Attributes:
        period_s: seconds between two updates of its counters.
        longest_pause_s: seconds within which it has to be read again.
    """

    period_s: float
    longest_pause_s: float

    def read(self) -> Joules:
        """The cumulative joules of each counter.

        Raises:
            Unavailable: a counter cannot be read; the message is the reason.
        """

    def close(self) -> None:
        """Release the driver."""


@dataclass
class _Zone:
    """A RAPL counter.

    Attributes:
        part: `CPU` or `DRAM`.
        socket: the socket's number.
        range_uj: the value after which it starts again at 0.
        last_uj, total_uj: its last value, and the microjoules since the first one.
    """

    folder: Path
    part: str
    socket: int
    range_uj: int
    last_uj: int
    total_uj: int = 0

    def read(self) -> int:
        """The microjoules since the first reading; the counter may have wrapped once since the last one."""
        value_uj = int((self.folder / "energy_uj").read_text())
        self.total_uj += value_uj - self.last_uj + (self.range_uj if value_uj < self.last_uj else 0)
        self.last_uj = value_uj
        return self.total_uj


class Rapl:
    """The RAPL counters of the sockets on which a trial runs, and of their memory if they have such a counter.

    A counter belongs to a whole socket and includes all its cores.

    Args:
        cores: the trial's cores.
        root: the root of the file system.

    Attributes:
        cores: all cores of these sockets; empty if the system does not report them.

    Raises:
        Unavailable: there are no counters, or they may not be read.
    """

    period_s = 0.001

    def __init__(self, cores: Sequence[int], root: Path = Path("/")) -> None:
        sockets = _sockets(root)
        used = {sockets[core] for core in cores if core in sockets}
        self.cores = sorted(core for core, socket in sockets.items() if socket in used)
        try:
            self._zones = [zone for zone in _zones(root / POWERCAP) if not used or zone.socket in used]
        except PermissionError as error:
            raise Unavailable(
                f"energy of the CPU: no permission to read {error.filename}; an administrator can allow it with "
                f"chmod a+r on that file"
            ) from None
        except (OSError, ValueError) as error:
            raise Unavailable(f"energy of the CPU: {error}") from None
        if not any(zone.part == CPU for zone in self._zones):
            raise NoCounter("energy of the CPU: this machine has no RAPL counters; virtual machines usually have none")
        self.longest_pause_s = min(zone.range_uj for zone in self._zones) / 1e6 / MOST_WATTS / 2

    def read(self) -> Joules:
        """The joules of each socket and its memory since the first reading."""
        joules: Joules = {}
        try:
            for zone in self._zones:
                name = f"{zone.part} {zone.socket}"
                joules[name] = joules.get(name, 0.0) + zone.read() / 1e6
        except (OSError, ValueError) as error:
            raise Unavailable(f"energy of the CPU: {error}") from None
        return joules

    def close(self) -> None:
        """Nothing to release."""


def _sockets(root: Path) -> dict[int, int]:
    """The socket of each core; empty if the system does not report them."""
    sockets: dict[int, int] = {}
    for file in root.glob("sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id"):
        with suppress(OSError, ValueError):
            sockets[int(file.parents[1].name.removeprefix("cpu"))] = int(file.read_text())
    return sockets


def _zones(powercap: Path) -> list[_Zone]:
    """The counters of all sockets and of their memory.

    Counters of parts of a socket, of the whole machine (`psys`) and copies of them (`intel-rapl-mmio`) are left out.
    """
    zones = []
    for package in sorted(powercap.glob("intel-rapl:*")):
        match = re.fullmatch(r"package-(\d+)(-die-\d+)?", _name(package)) if package.name.count(":") == 1 else None
        if match is None:
            continue
        parts = [(package, CPU)]
        parts += [(sub, DRAM) for sub in sorted(powercap.glob(f"{package.name}:*")) if _name(sub) == "dram"]
        for folder, part in parts:
            values = (int((folder / name).read_text()) for name in ("max_energy_range_uj", "energy_uj"))
            zones.append(_Zone(folder, part, int(match.group(1)), *values))
    return zones


def _name(zone: Path) -> str:
    return (zone / "name").read_text().strip()


class ZeusGpus:
    """The counters of AMD's GPUs.

    Zeus has them by the index of HIP, as a trial does; AMD's library has another order.

    Args:
        visible: the trial's GPUs; empty for all.

    Raises:
        Unavailable: no Zeus, no driver, a GPU without an accurate counter of its own, or GPUs whose index is not known.
    """

    period_s = 0.1
    longest_pause_s = float("inf")

    def __init__(self, visible: Sequence[str]) -> None:
        amd = _zeus("energy of the GPU", "zeus.device.gpu.amd")
        if "ROCR_VISIBLE_DEVICES" in os.environ:  # a trial counts those that it leaves, AMD's library all
            raise Unavailable(
                "energy of the GPU: with ROCR_VISIBLE_DEVICES it is not known which GPUs the trial uses; select them "
                "with HIP_VISIBLE_DEVICES"
            )
        if not all(name.isdecimal() for name in visible):
            raise Unavailable("energy of the GPU: list indices in HIP_VISIBLE_DEVICES, not UUIDs")
        if not amd.amdsmi_is_available():
            raise Unavailable("energy of the GPU: AMD's library amdsmi cannot be loaded, or finds no driver")
        try:
            gpus = {str(gpu.gpu_index): gpu for gpu in _amd_gpus(amd).gpus}
            self._gpus: dict[str, Any] = {name: gpus[name] for name in visible or gpus}
            accurate = all(gpu.supports_get_total_energy_consumption() for gpu in self._gpus.values())
            models = {gpu.get_name() for gpu in self._gpus.values()}
        except KeyError as error:
            raise Unavailable(f"energy of the GPU: Zeus finds no GPU with the index {error.args[0]}") from None
        except Exception as error:
            raise Unavailable(f"energy of the GPU: {error}") from None
        if any("MI250" in model for model in models):
            raise Unavailable("energy of the GPU: the two GPUs of an MI250 have one counter together")
        if not accurate:
            raise Unavailable("energy of the GPU: its counter is not accurate, according to Zeus")

    def read(self) -> Joules:
        """The joules of each GPU since its driver was loaded."""
        try:
            return {f"{GPU} {name}": gpu.get_total_energy_consumption() / 1000 for name, gpu in self._gpus.items()}
        except Exception as error:
            raise Unavailable(f"energy of the GPU: {error}") from None

    def close(self) -> None:
        """Nothing to release: the library stays open for the next trial."""


@cache
def _amd_gpus(amd: Any) -> Any:
    """All GPUs, which Zeus takes half a second to try; it closes AMD's library for all when they are deleted."""
    return amd.AMDGPUs()


class Apple:
    """The counters of an Apple chip: its cores, its memory and its GPU.

    Raises:
        Unavailable: no Zeus, or no such chip.
    """

    period_s = 0.1
    longest_pause_s = float("inf")

    def __init__(self) -> None:
        zeus = _zeus("energy of the Apple chip", "zeus.device")
        try:
            self._chip: Any = zeus.get_soc()
        except Exception as error:
            raise Unavailable(f"energy of the Apple chip: {error}") from None

    def read(self) -> Joules:
        """The joules of each part since the counters were opened."""
        try:
            parts = self._chip.get_total_energy_consumption()
        except Exception as error:
            raise Unavailable(f"energy of the Apple chip: {error}") from None
        found = {CPU: parts.cpu_total_mj, DRAM: parts.dram_mj, GPU: parts.gpu_mj}
        return {f"{part} 0": value / 1000 for part, value in found.items() if value is not None}

    def close(self) -> None:
        """Nothing to release."""


def _zeus(what: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise Unavailable(f"{what}: the package zeus is not installed; {INSTALL}") from None


class EnergyMeter:
    """All energy counters of a trial.

    Args:
        kind: the device kind.
        visible: the assigned accelerators, by the driver's names; empty for all.
        cores: the trial's cores.
        root: the root of the file system.

    Attributes:
        missing: the reasons why counters could not be read.
        no_counter: those of them that are a `NoCounter`.
        socket_cores: all cores of the sockets whose counters are read; empty if not known.
    """

    def __init__(self, kind: str, visible: Sequence[str], cores: Sequence[int], root: Path = Path("/")) -> None:
        self.missing: list[str] = []
        self.no_counter: list[str] = []
        self.socket_cores: list[int] = []
        self._sources: list[Source] = []
        self._last: dict[int, Joules] = {}
        self._open(kind, visible, cores, root)
        self.read()

    def _open(self, kind: str, visible: Sequence[str], cores: Sequence[int], root: Path) -> None:
        apple = sys.platform == "darwin"
        try:
            host = Apple() if apple else Rapl(cores, root)
            self._sources.append(host)
            self.socket_cores = host.cores if isinstance(host, Rapl) else []
        except Exception as error:
            self._miss(error)
        if hosted(kind) or apple:  # an Apple chip has its GPU on it
            return
        path = KINDS[kind].energy if kind in KINDS else ""
        if not path:
            self._miss(NoCounter(f"energy of the device: no counter is known for the device kind {kind}"))
            return
        module, name = path.split(":")
        try:
            self._sources.append(getattr(import_module(module), name)(visible))
        except Exception as error:
            self._miss(error)

    def _miss(self, error: Exception) -> None:
        """Keep the reason in an error; an unforeseen one must not end the other measurements."""
        reason = str(error) if isinstance(error, Unavailable) else f"energy: {type(error).__name__}: {error}"
        self.missing.append(reason)
        if isinstance(error, NoCounter):
            self.no_counter.append(reason)

    @property
    def period_s(self) -> float:
        """Seconds between two updates of the slowest counter."""
        return max((source.period_s for source in self._sources), default=0.0)

    @property
    def longest_pause_s(self) -> float:
        """Seconds within which the counters have to be read again."""
        return min((source.longest_pause_s for source in self._sources), default=float("inf"))

    def read(self) -> Joules:
        """The joules of each counter since the last call.

        Counters that fail or run backwards are not read again; `missing` has the reason.
        """
        used: Joules = {}
        for source in list(self._sources):
            try:
                values = source.read()
                last = self._last.get(id(source))
                delta = {name: values[name] - last[name] for name in last} if last is not None else {}
                if min(delta.values(), default=0.0) < 0:
                    raise Unavailable(f"energy: the counter {min(delta, key=lambda name: delta[name])} ran backwards")
            except Exception as error:
                self._miss(error)
                self._sources.remove(source)
                source.close()
            else:
                self._last[id(source)] = values
                used |= {name: round(joules, 6) for name, joules in delta.items()}
        return used

    def close(self) -> None:
        """Release the drivers."""
        for source in self._sources:
            source.close()


def parts_of(kind: str) -> Mapping[str, Sequence[str]]:
    """What the counters of a device kind add up to: the device's energy and, for an accelerator, the host's."""
    return {"device_j": ON_HOST} if hosted(kind) else {"device_j": (GPU,), "host_j": ON_HOST}

"""Energy counters of a trial's accelerators, processors and memory.

Counters are cumulative: those of NVIDIA's GPUs, and RAPL (Intel's and AMD's processors under Linux).
"""

from __future__ import annotations

import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from raybench.devices import KINDS, hosted
from raybench.devices.host import usable_cores

POWERCAP = "sys/class/powercap"

Joules = dict[str, float]  # joules by counter, named by a part (`gpu`, `cpu` or `dram`) and its number, such as `gpu 0`


class Unavailable(Exception):
    """Sensors or counters cannot be read; the message is the reason."""


class EnergySource(ABC):
    """Counters that are read together."""

    @abstractmethod
    def read(self) -> Joules:
        """The cumulative joules of each counter."""

    def close(self) -> None:  # noqa: B027 — most have nothing to release
        """Release the driver."""


class Rapl(EnergySource):
    """The RAPL counters of the sockets on which a trial runs, and of their memory if they have such a counter.

    A counter belongs to a whole socket and includes all its cores. It restarts at 0 after some minutes at full power.

    Args:
        cores: the trial's cores.
        root: the root of the file system.

    Attributes:
        cores: all cores of these sockets; empty if the system does not report them.
    """

    def __init__(self, cores: Sequence[int], root: Path = Path("/")) -> None:
        sockets = _sockets(root)
        used = {sockets[core] for core in cores if core in sockets}
        self.cores = sorted(core for core, socket in sockets.items() if socket in used)
        self._folders = _zones(root / POWERCAP, used)
        if not self._folders:
            raise Unavailable("this machine has no RAPL counters; virtual machines usually have none")
        self._ranges = {folder: int((folder / "max_energy_range_uj").read_text()) for folder in self._folders}
        self._last: dict[Path, int] = {}
        self._total = dict.fromkeys(self._folders, 0)

    def read(self) -> Joules:
        """The joules of each socket and its memory since the first reading."""
        joules: Joules = {}
        for folder, name in self._folders.items():
            try:
                value_uj = int((folder / "energy_uj").read_text())
            except PermissionError as error:
                raise Unavailable(
                    f"no permission to read {error.filename}; an administrator can allow it with chmod a+r on that file"
                ) from None
            used_uj = value_uj - self._last.get(folder, value_uj)
            self._total[folder] += used_uj if used_uj >= 0 else used_uj + self._ranges[folder]
            self._last[folder] = value_uj
            joules[name] = joules.get(name, 0.0) + self._total[folder] / 1e6
        return joules


def _sockets(root: Path) -> dict[int, int]:
    """The socket of each core; empty if the system does not report them."""
    sockets: dict[int, int] = {}
    for file in root.glob("sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id"):
        with suppress(OSError, ValueError):
            sockets[int(file.parents[1].name.removeprefix("cpu"))] = int(file.read_text())
    return sockets


def _zones(powercap: Path, sockets: set[int]) -> dict[Path, str]:
    """The folders of the counters of these sockets (of all if empty), and of their memory.

    Counters of parts of a socket, of the whole machine (`psys`) and copies of them (`intel-rapl-mmio`) are left out.
    """
    zones = {}
    for package in sorted(powercap.glob("intel-rapl:*")):
        match = re.fullmatch(r"package-(\d+)(-die-\d+)?", (package / "name").read_text().strip())
        if match and (not sockets or int(match[1]) in sockets):
            zones[package] = f"cpu {match[1]}"
            for part in powercap.glob(f"{package.name}:*"):
                if (part / "name").read_text().strip() == "dram":
                    zones[part] = f"dram {match[1]}"
    return zones


@cache
def energy_problem(kind: str) -> str:
    """Return why the energy of this machine's devices of a kind cannot be measured; empty if it can."""
    meter = EnergyMeter(kind, (), usable_cores())
    try:
        meter.device_joules()
    except Unavailable as error:
        return str(error)
    finally:
        meter.close()
    return ""


class EnergyMeter:
    """All energy counters of a trial.

    A source that fails is not read again.

    Args:
        kind: the device kind.
        visible: the assigned accelerators, by the driver's names; empty for all.
        cores: the trial's cores.
        root: the root of the file system.

    Attributes:
        missing: the reasons why counters could not be read.
        socket_cores: all cores of the sockets whose counters are read; empty if not known.
    """

    def __init__(self, kind: str, visible: Sequence[str], cores: Sequence[int], root: Path = Path("/")) -> None:
        self.missing: list[str] = []
        self._is_hosted = hosted(kind)
        self._sources: dict[str, EnergySource] = {}
        self.socket_cores: list[int] = []
        try:
            rapl = Rapl(cores, root)
            self._sources["energy of the CPU"], self.socket_cores = rapl, rapl.cores
        except Exception as error:
            self._miss("energy of the CPU", error)
        if not hosted(kind):
            device = "energy of the device"
            try:
                if kind not in KINDS or not KINDS[kind].energy:
                    raise Unavailable(f"no counter is known for the device kind {kind}")
                self._sources[device] = pkgutil.resolve_name(KINDS[kind].energy)(visible)
            except Exception as error:
                self._miss(device, error)

    def _miss(self, name: str, error: Exception) -> None:
        """Keep the reason in an error; an unforeseen one must not end the other measurements."""
        kind = "" if isinstance(error, Unavailable) else f"{type(error).__name__}: "
        self.missing.append(f"{name}: {kind}{error}")

    def read(self) -> Joules:
        """The cumulative joules of each counter."""
        joules: Joules = {}
        for name, source in list(self._sources.items()):
            try:
                joules |= source.read()
            except Exception as error:
                self._miss(name, error)
                self._sources.pop(name).close()
        return {name: round(value, 6) for name, value in joules.items()}

    def device_joules(self) -> float:
        """The cumulative joules of the device: its accelerators or, of a CPU, its sockets and their memory.

        Raises:
            Unavailable: they cannot be read.
        """
        of_device = [value for name, value in self.read().items() if name.startswith("gpu") != self._is_hosted]
        if not of_device:
            raise Unavailable("; ".join(dict.fromkeys(self.missing)) or "the device has no energy counter")
        return sum(of_device)

    def close(self) -> None:
        """Release the drivers."""
        for source in self._sources.values():
            source.close()

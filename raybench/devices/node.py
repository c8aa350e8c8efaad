"""One machine, as the plan sees it: what it has and what is installed, read without loading a framework."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from typing import Any, Self

from raybench.devices import BORROWED, Hardware, probe


@dataclass(frozen=True)
class Node:
    """A machine that trials can run on.

    `address` is what Ray calls it, empty for this machine; `packages` maps distributions to their versions.
    """

    name: str
    hardware: tuple[Hardware, ...]
    packages: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    address: str = ""

    def find(self, kind: str) -> list[Hardware]:
        """What it has of a kind; several entries where the models differ."""
        of = BORROWED.get(kind, kind)
        return [replace(entry, kind=kind) for entry in self.hardware if entry.kind == of]

    @property
    def cores(self) -> int:
        """CPU cores that trials may use."""
        return sum(entry.count for entry in self.find("cpu"))

    @property
    def memory_bytes(self) -> int:
        """The host's memory; 0 where it does not say."""
        return sum(entry.memory_bytes or 0 for entry in self.find("cpu"))

    def to_json(self) -> dict[str, Any]:
        """The node as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The node that `to_json` wrote."""
        return cls(**{**value, "hardware": tuple(_hardware(entry) for entry in value["hardware"])})


def _hardware(value: Mapping[str, Any]) -> Hardware:
    return Hardware(**{**value, "ids": tuple(value["ids"])})


def installed(distributions: Iterable[str]) -> dict[str, str]:
    """The versions of those distributions that are installed here."""
    found = {}
    for name in distributions:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def probe_node(address: str = "") -> Node:
    """This machine."""
    from raybench.engines import PACKAGES

    return Node(
        name=platform.node(),
        hardware=tuple(probe()),
        packages=installed(PACKAGES.values()),
        python=platform.python_version(),
        address=address,
    )

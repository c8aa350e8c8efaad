"""A machine as the planner sees it: its hardware and installed packages, read without loading a framework."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

from raybench import datasets
from raybench.devices import KINDS, Hardware, probe
from raybench.engines import FRAMEWORKS
from raybench.environments import RECIPES, Interpreter, built_names, environment_label, find
from raybench.errors import DataError

GIB = 1024**3


@dataclass(frozen=True)
class Node:
    """A machine that trials can run on.

    `address` is Ray's address of the node, empty for this machine. `packages` maps the distributions in raybench's own
    interpreter there to their versions. `environments` maps the key of each requested environment to its interpreter on
    the node. A node of a cluster also has `resources`, the custom resources that Ray offers there in addition to cores;
    `data_root`, the folder of its data sets; and `data`, the digest of each data set that is ready.
    """

    name: str
    hardware: tuple[Hardware, ...]
    packages: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    address: str = ""
    environments: Mapping[str, Interpreter] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    data_root: str = ""
    data: Mapping[str, str] = field(default_factory=dict)

    def find(self, kind: str) -> list[Hardware]:
        """The node's hardware of a kind; several entries if the models differ."""
        source = KINDS[kind].hardware or kind
        return [replace(entry, kind=kind) for entry in self.hardware if entry.kind == source]

    @property
    def cores(self) -> int:
        """CPU cores that trials may use."""
        return sum(entry.count for entry in self.find("cpu"))

    def interpreter(self, environment: str = "") -> Interpreter:
        """The interpreter of an environment by its key; empty means raybench's own."""
        if not environment:
            return Interpreter(version=self.python, packages=self.packages)
        untried = Interpreter(problem=f"{environment_label(environment)} was not inspected on {self.name}")
        return self.environments.get(environment, untried)


def probe_node(address: str = "", environments: Iterable[str] = ()) -> Node:
    """Describe this machine and its environments of these keys, and those that were built for a missing framework."""
    name = f"{platform.node()} ({address})" if address else platform.node()
    packages = {}
    for framework in FRAMEWORKS.values():
        with suppress(metadata.PackageNotFoundError):
            packages[framework.package] = metadata.version(framework.package)
    built = [key for key in built_names() if FRAMEWORKS[RECIPES[key].framework].package not in packages]
    keys = list(dict.fromkeys([*environments, *built]))
    with ThreadPoolExecutor(max(1, len(keys))) as pool:  # one on a cold disk takes seconds
        names = [framework.package for framework in FRAMEWORKS.values()]
        interpreters = dict(zip(keys, pool.map(lambda key: find(key, name, names), keys), strict=True))
    return Node(
        name=name,
        hardware=tuple(probe()),
        packages=packages,
        python=platform.python_version(),
        address=address,
        environments=interpreters,
        **(_data_here() if address else {}),
    )


def _data_here() -> dict[str, Any]:
    """The folder of the node's data sets, and the digests of usable ones."""
    root, digests = datasets.data_root(), {}
    for name in datasets.names():
        with suppress(DataError):
            digests[name] = datasets.get(name).status(root).digest
    return {"data_root": str(root), "data": {name: digest for name, digest in digests.items() if digest}}

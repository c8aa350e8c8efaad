"""A cell: everything that can change the result of a trial.

The JSON of a cell is stored in the files of attempts and executions, and in MLflow; all other code reads the fields. A
value that is missing in the JSON, or has a different type there, is `MISSING`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any, Self, get_type_hints

from raybench.core import identity
from raybench.core.secret_masking import masked
from raybench.core.settings import MISSING, Settings, is_of_type

# The versions that a comparison runs in one grid; the anchor is the first of a chain of changes.
BASE, NEW, ANCHOR = "base", "new", "anchor"
VERSION_AXIS = "version"  # the axis of the versions in that grid

FUNCTION, COMMAND = "function", "command"
"""The forms of a workload with a loop of the user: a training function, or a command."""


@dataclass(frozen=True)
class CellWorkload:
    """The workload of a cell: its name, and its version (built-in) or the digest of the user's files.

    Its form is `FUNCTION` or `COMMAND` if the loop is the user's own; a declared workload has none.
    """

    name: str = MISSING
    version: int | str | None = MISSING
    digest: str = MISSING
    form: str = MISSING


@dataclass(frozen=True)
class Examples:
    """Number of examples used of each split; None for all, if their number was unknown before the trial."""

    train: int | None = MISSING
    val: int | None = MISSING


@dataclass(frozen=True)
class CellData:
    """The data set of a cell."""

    name: str = MISSING
    digest: str | None = MISSING
    examples: Examples = Examples()


@dataclass(frozen=True)
class CellDevice:
    """The device of a cell.

    Attributes:
        count: number of accelerators or, for a CPU, of cores, on each node.
        replicas: parts of each batch with their own batch statistics.
        devices: number of devices on all nodes that share each batch, such as processes on a CPU, if there are several.
        nodes: number of nodes, if there are several.
        resources: Ray's custom resources that select its nodes, by name; another placement is another device.
        power_limit: of each GPU, in watts.
    """

    kind: str = MISSING
    model: str | None = MISSING
    count: int = MISSING
    replicas: int = MISSING
    threads: int = MISSING
    devices: int = MISSING
    nodes: int = MISSING
    resources: Mapping[str, float] = MISSING
    power_limit: int = MISSING

    @property
    def node_count(self) -> int:
        """The number of nodes; 1 if it is not known."""
        return self.nodes or 1

    @property
    def devices_per_node(self) -> int:
        """The number of devices on each node that share each batch."""
        return self.world_size // self.node_count

    @property
    def known_count(self) -> int:
        """The count; 1 if it is not known."""
        return self.count or 1

    @property
    def world_size(self) -> int:
        """The number of devices that share each batch; 1 if it is not known."""
        return self.devices or 1


@dataclass(frozen=True)
class CellEngine:
    """The training loop, and the framework's major.minor version.

    Attributes:
        libraries: major.minor versions of further libraries that the user's own loop imports, by module.
        environment: the Python environment, as the grid names it; a trial in raybench's own has none.
        lock: the digest of the names and versions of all that is installed in it.
    """

    name: str = MISSING
    framework_version: str | None = MISSING
    libraries: Mapping[str, str] = MISSING
    environment: str = MISSING
    lock: str = MISSING


@dataclass(frozen=True)
class ComparedVersion:
    """The version of a cell in a comparison, and the digest of all versions: if one changes, all run again."""

    version: str = MISSING
    pair: str = MISSING


UNKNOWN_SETTINGS = Settings.from_json({})  # settings without any known value


@dataclass(frozen=True)
class Cell:
    """Everything that can change the result of a trial.

    A cell that raybench planned has every value; a cell from a published source or a table has only the values given
    there. A cell without any known value is false.

    Attributes:
        warmup_epochs: number of first epochs that do not count as steady.
        stop_at_target: the target at which training stops, as plain values; None if it does not.
        budget: what the training may spend (`raybench.core.job.Budget`), as plain values; None without a limit.
        compared: its version, in a grid that compares two versions of the code or of an environment.
    """

    data: CellData = CellData()
    device: CellDevice = CellDevice()
    engine: CellEngine = CellEngine()
    framework: str = MISSING
    settings: Settings = UNKNOWN_SETTINGS
    warmup_epochs: int = MISSING
    workload: CellWorkload = CellWorkload()
    params: Mapping[str, Any] = MISSING
    seed: int = 0
    stop_at_target: Mapping[str, Any] | None = None
    budget: Mapping[str, Any] | None = None
    compared: ComparedVersion = ComparedVersion()

    def to_json(self) -> dict[str, Any]:
        """The cell as plain values, without missing values and defaults."""
        return _written(self)

    def without_secrets(self) -> Self:
        """The cell as it is stored; its id stays that of the real values."""
        return self if self.params is MISSING else replace(self, params=masked(self.params))

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Read a cell from JSON; what is not a field, or has the wrong type, is left out.

        `raybench.results.parsing.cell_in` looks for damage.
        """
        cell = cls(**_read(cls, tree))
        settings = tree.get("settings")
        if cell.engine.name is MISSING or cell.has_own_loop or not isinstance(settings, Mapping):
            return cell
        return replace(cell, settings=Settings.from_json(settings, is_complete=True))

    def __bool__(self) -> bool:
        """Return whether any value is known."""
        return self != UNKNOWN_CELL

    def identity(self) -> dict[str, Any]:
        """The values that identify it: without those of `AFTERWARDS` and, of an engine's settings, without defaults.

        So the cells of earlier results stay the same if a setting is added.
        """
        tree = {name: value for name, value in self.to_json().items() if name not in identity.AFTERWARDS}
        return tree if self.has_own_loop else {**tree, "settings": self.settings.changed().to_json()}

    @cached_property
    def cell_id(self) -> str:
        """The cell's id: a digest of its identity."""
        return identity.digest(self.identity())

    @property
    def has_own_loop(self) -> bool:
        """Whether the training loop is the user's, and not an engine's."""
        return self.workload.form is not MISSING

    @property
    def per_device_batch_size(self) -> Any:
        """Examples of each batch on each device; `MISSING` if the size of a batch is not a setting."""
        batch = self.settings.batch_size
        return batch // self.device.world_size if isinstance(batch, int) else MISSING

    @property
    def shown_name(self) -> str:
        """The display name of its workload, marked if its data are synthetic."""
        suffix = identity.SYNTHETIC if str(self.data.name).endswith(identity.SYNTHETIC) else ""
        return f"{self.workload.name or None}{suffix}"

    @cached_property
    def leaves(self) -> Mapping[str, Any]:
        """Every value by its dotted name in JSON, such as `settings.batch_size`."""
        return dict(identity.leaves(self.to_json()))


UNKNOWN_CELL = Cell()  # a cell without any known value

_NESTED = (CellWorkload, Examples, CellData, CellDevice, CellEngine, ComparedVersion)


@cache
def _fields(part: Any) -> Mapping[str, tuple[Any, Any]]:
    types = get_type_hints(part)
    return {entry.name: (types[entry.name], entry.default) for entry in fields(part)}


def _read(part: Any, tree: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for name, (declared, _) in _fields(part).items():
        value = tree.get(name, MISSING)
        if declared is Settings and isinstance(value, Mapping):
            values[name] = Settings.from_json(value)
        elif declared in _NESTED and isinstance(value, Mapping):
            values[name] = declared(**_read(declared, value))
        elif declared is not Settings and declared not in _NESTED and is_of_type(value, declared):
            values[name] = value
    return values


def _written(part: Any) -> dict[str, Any]:
    tree = {}
    for name, (declared, default) in _fields(part.__class__).items():
        value = getattr(part, name)
        if value is not default and value != default:
            nested = declared in _NESTED
            tree[name] = value.to_json() if declared is Settings else _written(value) if nested else value
    return tree

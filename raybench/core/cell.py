"""A cell: everything that can change the result of a trial.

The JSON of a cell is stored in journals, plans and MLflow; all other code reads the fields. A value that is missing in
the JSON, or has another type there, is `MISSING`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any, Self, get_type_hints

from raybench.core import identity
from raybench.core.settings import MISSING, Settings, is_of_type

PROCESS = "process"
"""Each trial in its own process: the default isolation."""


BASE, NEW = "base", "new"
"""The versions that a comparison runs in one grid."""

VERSION_AXIS = "version"
"""The axis of the versions in that grid."""

FUNCTION, COMMAND = "function", "command"
"""The forms of a workload with a loop of the user: a training function, or a command."""


@dataclass(frozen=True)
class CellWorkload:
    """The workload of a cell.

    It has a name, and its version (built-in) or the digest of the user's files.

    Attributes:
        form: `FUNCTION` or `COMMAND` if the loop is the user's own; a declared workload has none.
    """

    name: str = MISSING
    version: int | str | None = MISSING
    digest: str = MISSING
    form: str = MISSING


@dataclass(frozen=True)
class Examples:
    """Number of examples used of each split.

    None for all, if their number was unknown before the trial.
    """

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
        model: of the hardware, as detected.
        count: number of accelerators or, for a CPU, of cores.
        replicas: parts of each batch with their own batch statistics.
        replication: how replicas are made.
        devices: number of devices that the replicas are spread over.
    """

    kind: str = MISSING
    model: str | None = MISSING
    count: int = MISSING
    replicas: int = MISSING
    threads: int = MISSING
    replication: str = MISSING
    devices: int = MISSING


@dataclass(frozen=True)
class CellEngine:
    """The training loop and its version, and the framework's major.minor version.

    Attributes:
        libraries: major.minor versions of further libraries that the user's own loop imports, by module.
    """

    name: str = MISSING
    version: int | None = MISSING
    framework_version: str | None = MISSING
    libraries: Mapping[str, str] = MISSING


@dataclass(frozen=True)
class Role:
    """The purpose of a cell's trials; by default they are results of the grid.

    Attributes:
        smoke: for a smoke run, the values of the full cell that this one replaces.
        aa_of: for an A/A test, the cell that is run again under another name.
        compared: for a comparison of two versions of the code or of an environment, its `version` (`BASE` or `NEW`) and
            `pair`, a digest of both versions: if either changes, both run again.
    """

    smoke: Mapping[str, Any] | None = None
    aa_of: str | None = None
    compared: Mapping[str, Any] | None = None

    @property
    def is_aa_test(self) -> bool:
        """Return whether it repeats another cell of its grid."""
        return self.aa_of is not None

    @property
    def is_smoke(self) -> bool:
        """Return whether it was scaled down for a smoke run."""
        return self.smoke is not None

    @property
    def version(self) -> str | None:
        """`BASE` or `NEW` in a comparison of two versions, else None."""
        return self.compared.get("version") if self.compared else None

    @property
    def pair(self) -> str | None:
        """The digest of the two versions that are compared, else None."""
        return self.compared.get("pair") if self.compared else None


TRIAL = Role()
"""The role of ordinary cells, whose trials are results of the grid."""

UNKNOWN_SETTINGS = Settings.from_json({})
"""Settings without any known value."""


@dataclass(frozen=True)
class Cell:
    """Everything that can change the result of a trial.

    A cell that raybench planned has every value; a cell from a published source or a table has only the values given
    there. A cell without any known value is false.

    Attributes:
        schema: the version of the format of a cell (`raybench.core.identity.SCHEMA`).
        warmup_epochs: number of first epochs that do not count as steady.
        params: the user's own settings of a training function or a command.
        seed: the grid's seed.
        isolation: `inline` if trials share a process.
        further: the parts of its JSON that are no fields, or have another type, as a tree.
        source: the JSON that it was read from, whose order `to_json` keeps.
    """

    data: CellData = CellData()
    device: CellDevice = CellDevice()
    engine: CellEngine = CellEngine()
    framework: str = MISSING
    schema: int = MISSING
    settings: Settings = UNKNOWN_SETTINGS
    warmup_epochs: int = MISSING
    workload: CellWorkload = CellWorkload()
    params: Mapping[str, Any] = MISSING
    seed: int = 0
    isolation: str = PROCESS
    role: Role = TRIAL
    further: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """The cell as plain values, without missing values and defaults."""
        tree = _written(self)
        tree |= tree.pop("role", {})
        return _in_order_of(self.source, _merged(tree, self.further))

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Read a cell from JSON, which `to_json` gives back.

        `raybench.results.parsing.cell_in` looks for damage.
        """
        smoke, aa_of, compared = tree.get("smoke"), tree.get("aa_of"), tree.get("compared")
        role = Role(
            smoke if isinstance(smoke, Mapping) else None,
            aa_of if isinstance(aa_of, str) else None,
            compared if isinstance(compared, Mapping) else None,
        )
        values = {**_read(cls, tree), "role": role}
        return cls(**values, further=_rest(tree, cls(**values).to_json()), source=tree)

    def __bool__(self) -> bool:
        """Return whether any value is known."""
        return self._is_known

    @cached_property
    def _is_known(self) -> bool:
        return self != UNKNOWN_CELL

    @cached_property
    def cell_id(self) -> str:
        """The cell's id."""
        return identity.cell_id(self.to_json())

    @property
    def has_own_loop(self) -> bool:
        """Whether the training loop is the user's, and not an engine's."""
        return self.workload.form is not MISSING

    @property
    def shown_name(self) -> str:
        """The display name of its workload, marked if its data are synthetic."""
        suffix = identity.SYNTHETIC if str(self.data.name).endswith(identity.SYNTHETIC) else ""
        return f"{self.workload.name or None}{suffix}"

    @property
    def stop_at_target(self) -> Any:
        """The target at which training stops, as JSON; None if there is none."""
        return self.settings.further.get("stop_at_target")

    def leaves(self) -> dict[str, Any]:
        """Every value by its dotted name in JSON, such as `settings.batch_size`."""
        return dict(self._leaves)

    @cached_property
    def _leaves(self) -> dict[str, Any]:
        return dict(identity.leaves(self.to_json()))


UNKNOWN_CELL = Cell()
"""A cell without any known value."""

_NESTED = (CellWorkload, Examples, CellData, CellDevice, CellEngine, Role)


@cache
def _fields(part: Any) -> Mapping[str, tuple[Any, Any]]:
    """Type and default of each field that JSON may contain, by name."""
    types = get_type_hints(part)
    return {
        entry.name: (types[entry.name], entry.default)
        for entry in fields(part)
        if entry.name not in ("further", "source")
    }


def _read(part: Any, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a part from JSON."""
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
    """The fields of a part as JSON, without defaults."""
    tree = {}
    for name, (declared, default) in _fields(part.__class__).items():
        value = getattr(part, name)
        if value is not default and value != default:
            nested = declared is Settings or declared in _NESTED
            tree[name] = value.to_json() if declared is Settings else _written(value) if nested else value
    return tree


def _rest(tree: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a JSON tree that `written` does not have."""
    rest = {}
    for name, value in tree.items():
        other = written.get(name, MISSING)
        if other is MISSING or other != value:
            both = isinstance(value, Mapping) and isinstance(other, Mapping)
            rest[name] = _rest(value, other) if both else value
    return rest


def _merged(tree: dict[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON tree, completed at any depth from another."""
    for name, value in further.items():
        own = tree.setdefault(name, value)
        if own is not value and isinstance(own, dict) and isinstance(value, Mapping):
            _merged(own, value)
    return tree


def _in_order_of(model: Mapping[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """A JSON tree with its keys ordered as in another."""
    ordered = {name: tree[name] for name in model if name in tree} | tree
    for name, other in model.items():
        if isinstance(other, Mapping) and isinstance(ordered.get(name), dict):
            ordered[name] = _in_order_of(other, ordered[name])
    return ordered

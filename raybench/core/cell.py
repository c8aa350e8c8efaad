"""A cell: everything that can change the result of a trial, and nothing else.

The JSON of a cell stands in journals, plans and MLflow; everything else reads the fields. A value that the JSON does
not have, or has with another type, is `MISSING`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any, Self, get_type_hints

from raybench.core import identity
from raybench.core.settings import MISSING, Settings, is_of_type

PROCESS = "process"
"""Each trial in a process of its own: what every cell is taken to be that says nothing else."""


@dataclass(frozen=True)
class CellWorkload:
    """What is trained: a name, and the version of a shipped workload or the digest of the user's files."""

    name: str = MISSING
    version: int | str | None = MISSING
    digest: str = MISSING


@dataclass(frozen=True)
class Examples:
    """How many examples of each split are used; None for all of a number that nobody knew before the trial."""

    train: int | None = MISSING
    val: int | None = MISSING


@dataclass(frozen=True)
class CellData:
    """What it is trained on."""

    name: str = MISSING
    digest: str | None = MISSING
    examples: Examples = Examples()


@dataclass(frozen=True)
class CellDevice:
    """What it is trained with.

    Attributes:
        model: of the hardware, as it was detected.
        count: how many accelerators or, of a CPU, cores.
        replicas: parts of each batch that have batch statistics of their own.
        replication: how replicas are made.
        devices: over how many devices they are spread.
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
    """The training loop and its version, and the framework's major.minor."""

    name: str = MISSING
    version: int | None = MISSING
    framework_version: str | None = MISSING


@dataclass(frozen=True)
class Role:
    """What the trials of a cell are for; by default they are the grid's own.

    Attributes:
        smoke: for a smoke run: the values of the full cell that this one stands for.
        aa_of: for an A/A test: the cell that is run again under another name.
    """

    smoke: Mapping[str, Any] | None = None
    aa_of: str | None = None

    @property
    def is_aa_test(self) -> bool:
        """Whether it repeats another cell of its grid."""
        return self.aa_of is not None

    @property
    def is_smoke(self) -> bool:
        """Whether it was scaled down to see that its grid runs."""
        return self.smoke is not None


TRIAL = Role()
"""The role of most cells: their trials are what the grid is about."""

UNKNOWN_SETTINGS = Settings.from_json({})
"""Settings of which nothing is known."""


@dataclass(frozen=True)
class Cell:
    """Everything that can change the result of a trial.

    A cell that raybench planned has every value, and one from a published source or a table only what that tells. One
    of which nothing is known is false.

    Attributes:
        schema: the form of a cell (`raybench.core.identity.SCHEMA`).
        warmup_epochs: how many epochs at the beginning do not count as steady.
        seed: the grid's.
        isolation: `inline` if trials share a process.
        further: what its JSON has beyond the fields, or with another type, as a tree.
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
    seed: int = 0
    isolation: str = PROCESS
    role: Role = TRIAL
    further: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """The cell as plain values; what has its default, or is missing, is left out."""
        tree = _written(self)
        tree |= tree.pop("role", {})
        return _in_order_of(self.source, _merged(tree, self.further))

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """The cell with this JSON, which `to_json` gives back; `raybench.results.parsing.cell_in` looks for damage."""
        smoke, aa_of = tree.get("smoke"), tree.get("aa_of")
        role = Role(smoke if isinstance(smoke, Mapping) else None, aa_of if isinstance(aa_of, str) else None)
        values = {**_read(cls, tree), "role": role}
        return cls(**values, further=_rest(tree, cls(**values).to_json()), source=tree)

    def __bool__(self) -> bool:
        """Whether anything is known of it."""
        return self._is_known

    @cached_property
    def _is_known(self) -> bool:
        return bool(self.to_json())

    @property
    def cell_id(self) -> str:
        """Its identity."""
        return identity.cell_id(self.to_json())

    @property
    def shown_name(self) -> str:
        """What its workload is called beside its results: its name, and that its data are synthetic where they are."""
        suffix = identity.SYNTHETIC if str(self.data.name).endswith(identity.SYNTHETIC) else ""
        return f"{self.workload.name or None}{suffix}"

    @property
    def stop_at_target(self) -> Any:
        """The target at which training stops, as JSON; None if it does not stop at any."""
        return self.settings.further.get("stop_at_target")

    def leaves(self) -> dict[str, Any]:
        """Every value by its dotted name in JSON, such as `settings.batch_size`."""
        return dict(identity.leaves(self.to_json()))


UNKNOWN_CELL = Cell()
"""A cell of which nothing is known."""

_NESTED = (CellWorkload, Examples, CellData, CellDevice, CellEngine, Role)


@cache
def _fields(part: Any) -> Mapping[str, tuple[Any, Any]]:
    """The type and the default of each field that JSON may have, by name."""
    types = get_type_hints(part)
    return {
        entry.name: (types[entry.name], entry.default)
        for entry in fields(part)
        if entry.name not in ("further", "source")
    }


def _read(part: Any, tree: Mapping[str, Any]) -> dict[str, Any]:
    """The values in JSON of the fields of a part."""
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
    """The fields of a part as JSON, without those that have their default."""
    tree = {}
    for name, (declared, default) in _fields(part.__class__).items():
        value = getattr(part, name)
        if value is not default and value != default:
            nested = declared is Settings or declared in _NESTED
            tree[name] = value.to_json() if declared is Settings else _written(value) if nested else value
    return tree


def _rest(tree: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """What of a JSON tree is not in the one that is written for it."""
    rest = {}
    for name, value in tree.items():
        other = written.get(name, MISSING)
        if other is MISSING or other != value:
            both = isinstance(value, Mapping) and isinstance(other, Mapping)
            rest[name] = _rest(value, other) if both else value
    return rest


def _merged(tree: dict[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON tree with what only the other has, at any depth."""
    for name, value in further.items():
        own = tree.setdefault(name, value)
        if own is not value and isinstance(own, dict) and isinstance(value, Mapping):
            _merged(own, value)
    return tree


def _in_order_of(model: Mapping[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """A JSON tree with its names in the order of another, at any depth."""
    ordered = {name: tree[name] for name in model if name in tree} | tree
    for name, other in model.items():
        if isinstance(other, Mapping) and isinstance(ordered.get(name), dict):
            ordered[name] = _in_order_of(other, ordered[name])
    return ordered

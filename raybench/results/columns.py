"""Columns of tables: one declaration of a name, a type, a unit and a meaning, and of where else the value is shown.

Unknown values are missing values: NaN in a column of float64, <NA> in any other. They are never filled in with 0.
Seconds are wall time unless a column says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from functools import cached_property, partial
from itertools import count
from typing import Any, TypeVar

TEXT, WHOLE, NUMBER, YES_NO, TIME = "string", "Int64", "float64", "boolean", "datetime64[ms, UTC]"
"""The types of columns, as pandas names them."""

T = TypeVar("T")
_created = count()


class Column(cached_property[T]):
    """One column: as an attribute of a class of rows it is its value, computed once.

    Attributes:
        dtype, unit, meaning: its type, the unit of its numbers, if they have one, and a one-line description.
        of: its value in a row, or the path of that, such as `host.name`.
        leaf: dotted path of its value in a cell; empty if it is not part of a cell.
        mlflow: its metric in MLflow; empty if it has none.
        head: its heading in the table of configurations of a report, which shows the median over runs; empty if it is
            not shown there.
        drop: narrow terminals leave out columns from the highest number on.
        order: tables have their columns in the order of the declarations.
    """

    def __init__(
        self,
        dtype: str,
        unit: str,
        meaning: str,
        of: Callable[[Any], T] | str,
        *,
        name: str = "",
        leaf: str = "",
        mlflow: str = "",
        head: str = "",
        drop: int = 0,
    ) -> None:
        super().__init__(partial(at, path=of) if isinstance(of, str) else of)
        self._name, self.dtype, self.unit, self.meaning = name, dtype, unit, meaning
        self.leaf, self.mlflow, self.head, self.drop, self.order = leaf, mlflow, head, drop, next(_created)

    @property
    def name(self) -> str:
        """Its name; that of the attribute, unless a different one was declared."""
        return self._name or self.attrname or ""

    def value(self, row: Any) -> T:
        """Return its value in a row."""
        value: T = getattr(row, self.attrname) if self.attrname else self.func(row)
        return value


Of = Callable[[Any], Any] | str


def number(unit: str, meaning: str, of: Of, **declared: Any) -> Column[float | None]:
    """Declare a column of numbers; `declared` are further attributes of `Column`."""
    return Column(NUMBER, unit, meaning, of, **declared)


def whole(unit: str, meaning: str, of: Of, **declared: Any) -> Column[int | None]:
    """Declare a column of whole numbers."""
    return Column(WHOLE, unit, meaning, of, **declared)


def text(meaning: str, of: Of, **declared: Any) -> Column[str | None]:
    """Declare a column of texts."""
    return Column(TEXT, "", meaning, of, **declared)


def flag(meaning: str, of: Of, **declared: Any) -> Column[bool | None]:
    """Declare a column of yes and no."""
    return Column(YES_NO, "", meaning, of, **declared)


def stored(dtype: str, meaning: str, default: Any = None, unit: str = "", **declared: Any) -> Any:
    """Declare a field of a dataclass as a column."""
    return field(default=default, metadata={"column": Column(dtype, unit, meaning, "", **declared)})


def at(row: Any, path: str) -> Any:
    """Return the value at a path of a row, such as `host.name`; None if a part of it is missing or empty.

    The keys of a map may have dots.
    """
    if isinstance(row, Mapping):
        return None if row.get(path) == "" else row.get(path)
    name, _, rest = path.partition(".")
    value = getattr(row, name, None)
    return at(value, rest) if rest else None if value == "" else value


def columns_of(owner: type) -> Sequence[Column[Any]]:
    """Return the columns of a dataclass, its fields, attributes and those in tuples, in the order of declaration."""
    columns: list[Column[Any]] = []
    for entry in fields(owner):
        if column := entry.metadata.get("column"):
            column.attrname = entry.name
            columns.append(column)
    for value in vars(owner).values():
        columns += [entry for entry in (value if isinstance(value, tuple) else [value]) if isinstance(entry, Column)]
    return sorted(columns, key=lambda column: column.order)

"""The epochs of an attempt, kept as columns."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Self, overload

from raybench.results.epoch import EPOCH_FIELDS, QUANTITIES, UNITS, Epoch

_FIELDS = ("epoch", "t", *(entry.name for entry in EPOCH_FIELDS))
_MAPS = frozenset(entry.name for entry in EPOCH_FIELDS if entry.is_map)
_CODES = {"float | None": "d", "int | None": "q", "int": "q"}
_TYPES = {"epoch": "q"} | {entry.name: _CODES[entry.type] for entry in EPOCH_FIELDS if entry.type in _CODES}
"""Types of the arrays of fields that are numbers."""

_values_of = attrgetter(*_FIELDS)
_MISSING = dict(zip(_FIELDS, _values_of(Epoch(0)), strict=True))
_OF_TABLE = {q.column: (q.field, q.key) for q in QUANTITIES} | {"epoch": ("epoch", ""), "ended": ("t", "")}
"""Field and name in a map of what a column of the table of epochs has."""


class Epochs(Sequence[Epoch]):
    """The epochs of an attempt, in order: a column for each field of `Epoch`, and for each name in a map.

    A large grid has hundreds of thousands of epochs, and an object for each would take three times the memory.

    Args:
        rows: epochs, or objects with the same attributes; of several with one number, the last counts.
    """

    __slots__ = ("_added", "_columns", "_places")

    def __init__(self, rows: Iterable[Any] = ()) -> None:
        self._added, self._columns = list(rows), dict[str, Any]()
        self._places: Sequence[int] = range(0)

    @classmethod
    def of_columns(cls, columns: Mapping[str, Sequence[Any]]) -> Self:
        """Return epochs from columns by their names in the table of epochs; None is a missing value.

        Columns with a slash are metrics, or counts such as `units/tokens`; others that are not measured are left out.
        """
        epochs = cls()
        epochs._places = range(len(columns["epoch"]))
        for name, values in columns.items():
            of_slash = ("units", name.removeprefix(UNITS)) if name.startswith(UNITS) else ("metrics", name)
            field, key = of_slash if "/" in name else _OF_TABLE.get(name, ("", ""))
            if not field or values.count(None) == len(values):
                continue
            if key:
                epochs._columns.setdefault(field, {})[key] = _numbers(values)
            else:
                filled = [_MISSING[field] if value is None else value for value in values]
                epochs._columns[field] = _numbers(filled, _TYPES[field]) if field in _TYPES else filled
        return epochs

    def add(self, row: Any) -> None:
        """Add an epoch; it is kept as it is until the epochs are read."""
        self._added.append(row)

    def compact(self) -> None:
        """Make added epochs part of the columns."""
        if not self._added:
            return
        rows = {row.epoch: row for row in (*map(self._row, self._places), *self._added)}
        fields = zip(*(_values_of(rows[number]) for number in sorted(rows)), strict=True)
        self._added, self._columns, self._places = [], {}, range(len(rows))
        for name, values in zip(_FIELDS, fields, strict=True):
            if name in _MAPS and any(values):
                names = dict.fromkeys(chain.from_iterable(values))
                self._columns[name] = {key: _numbers([value.get(key) for value in values]) for key in names}
            elif name == "step_s" and any(values):
                self._columns[name] = [array("d", value) if value else () for value in values]
            elif values.count(_MISSING[name]) < len(values):
                self._columns[name] = _numbers(values, _TYPES[name]) if name in _TYPES else values

    def column(self, field: str, name: str = "", missing: Any = None) -> Sequence[Any]:
        """The values of a field of `Epoch`, or those of a name in a map.

        Args:
            missing: the value of an epoch that has none.
        """
        if self._added:  # a report asks for hundreds of thousands of columns
            self.compact()
        column = self._columns.get(field)
        column = column.get(name) if name and column else column
        if column is None:
            return [missing if name else _MISSING[field]] * len(self._places)
        is_complete = missing is None or type(column) is array
        if isinstance(self._places, range):
            column = column[self._places.start : self._places.stop : self._places.step]
        else:
            column = [column[place] for place in self._places]
        return column if is_complete else [missing if value is None else value for value in column]

    def names(self, field: str) -> list[str]:
        """The names in a map, in any epoch of the attempt."""
        self.compact()
        return list(self._columns.get(field, ()))

    @property
    def counted(self) -> list[str]:
        """What they count: `examples` if they are known, and units such as `tokens`."""
        return [*(["examples"] if any(self.column("examples")) else []), *self.names("units")]

    def counts(self, unit: str) -> Sequence[float]:
        """What each of them counted of one unit."""
        return self.column("examples") if unit == "examples" else self.column("units", unit, 0.0)

    def at(self, places: Iterable[int]) -> Epochs:
        """The epochs at some places, in the same columns."""
        self.compact()
        return self._part([self._places[place] for place in places])

    def with_metrics_divided(self, names: Collection[str], divisor: float) -> Epochs:
        """The same epochs with some metrics divided by a number."""
        part, metrics = self.at(range(len(self))), dict(self._columns.get("metrics", {}))
        for name in metrics.keys() & names:
            metrics[name] = _numbers([None if value is None else value / divisor for value in metrics[name]])
        part._columns = {**self._columns, "metrics": metrics}
        return part

    def _part(self, places: Sequence[int]) -> Epochs:
        part = Epochs()
        part._columns, part._places = self._columns, places
        return part

    def __len__(self) -> int:
        self.compact()
        return len(self._places)

    def __iter__(self) -> Iterator[Epoch]:
        self.compact()
        return map(self._row, self._places)

    @overload
    def __getitem__(self, place: int) -> Epoch: ...
    @overload
    def __getitem__(self, place: slice) -> Epochs: ...
    def __getitem__(self, place: int | slice) -> Epoch | Epochs:
        self.compact()
        return self._part(self._places[place]) if isinstance(place, slice) else self._row(self._places[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Epochs) and [*self] == [*other]

    def _row(self, place: int) -> Epoch:
        values = {name: column[place] for name, column in self._columns.items() if name not in _MAPS}
        for name in _MAPS & self._columns.keys():
            of_epoch = ((key, column[place]) for key, column in self._columns[name].items())
            values[name] = {key: value for key, value in of_epoch if value is not None}
        return Epoch(**values)


def _numbers(values: Sequence[Any], code: str = "d") -> Sequence[Any]:
    """Return numbers as an array, unless one is missing."""
    try:
        return array(code, values)
    except TypeError:
        return values

"""The epochs of an attempt as columns of numbers.

A large grid has millions of epochs, and an `Epoch` with its maps takes 2 KiB. In a table a number takes 8 bytes; an
`Epoch` is made when it is read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isnan, nan
from operator import attrgetter, lt
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from raybench.results.epoch import EPOCH_FIELDS, Epoch, Kind
from raybench.results.epoch_line import LARGEST_FLOAT, LARGEST_WHOLE, epoch_of_line, value_in

WIDEST = 256
"""Maximum number of columns, for a journal that has other metrics in each epoch; also of layouts that are shared."""

AT_ONCE = 1000
"""Maximum number of tables in a stack."""

BLOCK = 64
"""Maximum number of lines that wait to be put into columns."""

TIME_LENGTH = 24
"""Length of a time as raybench writes it."""

Column = tuple[str, str]
"""A field of `Epoch` and, if it is a map, a key in it; else an empty text."""

_KINDS = {each.name: each.kind for each in sorted(EPOCH_FIELDS, key=lambda each: not each.kind.is_map)}
"""Fields by name, those that are maps first."""

_ORDER = {name: place for place, name in enumerate(_KINDS)}
_WHOLE = (Kind.WHOLE, Kind.COUNT)
_SCALARS = (*_WHOLE, Kind.NUMBER)
_OTHER_NAMES = [name for name, kind in _KINDS.items() if not kind.is_map and kind not in _SCALARS]
_WHOLE_NAMES = {name for name, kind in _KINDS.items() if kind in _WHOLE}
_ABSENT: dict[str, Any] = {name: 0 for name, kind in _KINDS.items() if kind is Kind.COUNT} | dict.fromkeys(
    _OTHER_NAMES, ()
)
_FLOAT = {float}
_NO_TIME = bytes(TIME_LENGTH)


def _is_usual(value: Any, kind: Kind) -> bool:
    """Return whether a value is a number that its column can hold."""
    if kind in _WHOLE:
        return type(value) is int and -LARGEST_WHOLE <= value <= LARGEST_WHOLE
    return type(value) is float and -LARGEST_FLOAT < value < LARGEST_FLOAT


def _is_usual_time(t: str | None) -> bool:
    return t is not None and len(t) == TIME_LENGTH and t.isascii() and t[0] != "\0"


def _is_usual_map(value: Any, kind: Kind) -> bool:
    """Return whether a value is a map to at least one such number."""
    if type(value) is not dict or set(map(type, numbers := value.values())) != _FLOAT:
        return False
    # Any comparison with NaN is false, and a sum with NaN is NaN.
    if kind is Kind.SECONDS:
        return bool(min(numbers) >= 0.0 and sum(numbers) < LARGEST_FLOAT)
    return bool(sum(map(abs, numbers)) < LARGEST_FLOAT)


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that reads some attributes of a line."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda line: tuple(getattr(line, name) for name in names)


class _Layout:
    """The columns of a table; tables with the same columns share it.

    Attributes:
        columns: those of maps first.
        width: the number of columns.
        places: the place of each column.
        maps: the keys of each map, with their places.
        scalars: name, place and kind of each other column.
    """

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self.width = len(columns)
        self.places = {column: place for place, column in enumerate(columns)}
        self.maps: dict[str, list[tuple[str, int]]] = {}
        self.scalars: list[tuple[str, int, Kind]] = []
        for place, (name, key) in enumerate(columns):
            if _KINDS[name].is_map:
                self.maps.setdefault(name, []).append((key, place))
            else:
                self.scalars.append((name, place, _KINDS[name]))
        scalars = [name for name, _, _ in self.scalars]
        self._keys = [tuple(key for key, _ in pairs) for pairs in self.maps.values()]
        self._maps, self._scalars = _getter(list(self.maps)), _getter(scalars)
        absent = [name for name in _KINDS if name not in (*self.maps, *scalars, *_OTHER_NAMES)]
        self._absent, self._nothing = _getter(absent), (None,) * len(absent)

    def row(self, line: Any, is_first: bool) -> list[float] | None:
        """The numbers of a line by column.

        None if it has a number without a column.

        Args:
            line: see `raybench.results.epoch_line`.
            is_first: whether it is the first of its table, and has to have these columns in this order.
        """
        if any(value is not None and value != {} for value in self._absent(line)):
            return None
        row: list[float] = []
        for value, keys in zip(self._maps(line), self._keys, strict=True):
            if value is not None and tuple(value) == keys:
                row += value.values()
            elif is_first or (value and not value.keys() <= set(keys)):
                return None
            else:
                row += [(value or {}).get(key, nan) for key in keys]
        scalars = self._scalars(line)
        row += [nan if value is None else value for value in scalars] if None in scalars else scalars
        return row

    def rows(self, lines: Sequence[Any]) -> array[float] | None:
        """The numbers of lines that have all columns, in their order.

        None if one of them has other numbers.
        """
        maps = list(zip(*map(self._maps, lines), strict=True))
        if any(absent != self._nothing for absent in map(self._absent, lines)):
            return None
        for column, keys in zip(maps, self._keys, strict=True):
            if None in column or any(each != keys for each in map(tuple, column)):
                return None
        rows = zip(*(map(dict.values, column) for column in maps), map(self._scalars, lines), strict=True)
        try:
            return array("d", chain.from_iterable(chain.from_iterable(rows)))
        except TypeError:  # a number is None
            return None


_others_of = _getter(_OTHER_NAMES)
_NO_OTHERS = (None,) * len(_OTHER_NAMES)
_LAYOUTS: dict[tuple[Column, ...], _Layout] = {}


def _layout_of(columns: tuple[Column, ...]) -> _Layout:
    if columns not in _LAYOUTS:
        if len(_LAYOUTS) >= WIDEST:
            _LAYOUTS.clear()
        _LAYOUTS[columns] = _Layout(columns)
    return _LAYOUTS[columns]


class EpochTable:
    """The epochs of one attempt, in order.

    A value that is not a number, or not of the usual type and size, is kept beside the columns.

    Args:
        epochs: the first epochs.
    """

    __slots__ = ("_layout", "_lines", "_numbers", "_others", "_times", "_values")

    _latest_layout = _layout_of(())
    """The layout of the last epoch of any attempt: the next attempt is likely to have the same."""

    def __init__(self, epochs: Iterable[Epoch] = ()) -> None:
        self._layout = _layout_of(())
        self._numbers = array("q")
        self._values = array("d")  # row by row; NaN if an epoch lacks a number
        self._times = bytearray()
        self._others: dict[str, dict[int, Any]] = {}  # by field and number of the epoch
        self._lines: list[Any] = []  # that are not in the columns yet
        for epoch in epochs:
            self.put(epoch)

    def __len__(self) -> int:
        self.flush()
        return len(self._numbers)

    def __eq__(self, other: object) -> bool:
        return list(Epochs(self)) == list(Epochs(other)) if isinstance(other, EpochTable) else NotImplemented

    def copy(self) -> EpochTable:
        """A copy that later epochs do not change."""
        self.flush()
        table = EpochTable()
        table._layout = self._layout
        table._numbers, table._values, table._times = self._numbers[:], self._values[:], self._times[:]
        table._others = {name: dict(values) for name, values in self._others.items()}
        return table

    def put_line(self, line: Any) -> None:
        """Add the epoch of a line of a journal (`raybench.results.epoch_line`)."""
        self._lines.append(line)
        if len(self._lines) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Put the waiting lines into columns.

        Many at once take half the time.
        """
        if self._lines:
            lines, self._lines = self._lines, []
            if not self._put_lines(lines):
                for line in lines:
                    self._put_line(line)

    def _put_lines(self, lines: Sequence[Any]) -> bool:
        """Add the epochs of lines at once.

        Returns:
            False if they are not like each other, or not in order; nothing is added then.
        """
        layout = self._layout if self._numbers else EpochTable._latest_layout
        numbers, times = [line.epoch for line in lines], [line.t for line in lines]
        is_later = numbers[0] > (self._numbers[-1] if self._numbers else 0) and all(map(lt, numbers, numbers[1:]))
        if not is_later or not all(map(_is_usual_time, times)):
            return False
        rows = layout.rows(lines)
        if rows is None:
            return False
        self._layout = layout
        self._numbers.extend(numbers)
        self._values += rows
        self._times += "".join(times).encode()
        for line in lines:
            self._keep_others(line)
        return True

    def _put_line(self, line: Any) -> None:
        is_first = not self._numbers
        layout = EpochTable._latest_layout if is_first else self._layout
        row = layout.row(line, is_first)
        if row is None:
            self._put(epoch_of_line(line), {name for name in _KINDS if getattr(line, name) is not None})
            EpochTable._latest_layout = self._layout
        else:
            self._layout = layout
            self._insert(line.epoch, line.t, row)
            self._keep_others(line)

    def _keep_others(self, line: Any) -> None:
        if _others_of(line) != _NO_OTHERS:
            self._keep(line.epoch, {name: value_in(line, name, _KINDS[name]) for name in _OTHER_NAMES})

    def put(self, epoch: Epoch) -> None:
        """Add an epoch, in place of an earlier one with its number."""
        self.flush()
        self._put(epoch, {name for name in _KINDS if getattr(epoch, name) != _ABSENT.get(name)})

    def _put(self, epoch: Epoch, names: Collection[str]) -> None:
        """Add an epoch with the fields that are to be kept."""
        numbers: dict[Column, float] = {}
        others: dict[str, Any] = {}
        columns = set(self._layout.columns)
        for name in sorted(names, key=_ORDER.__getitem__):
            value, kind = getattr(epoch, name), _KINDS[name]
            if kind.is_map and _is_usual_map(value, kind):
                added = {(name, key): number for key, number in value.items()}
            elif kind in _SCALARS and _is_usual(value, kind):
                added = {(name, ""): value}
            else:
                added = {}
            if added and len(columns | added.keys()) <= WIDEST:
                numbers |= added
                columns |= added.keys()
            else:
                others[name] = value
        self._widen([column for column in numbers if column not in self._layout.places])
        row = [numbers.get(column, nan) for column in self._layout.columns]
        self._insert(epoch.epoch, epoch.t, row)
        self._keep(epoch.epoch, others)

    def _widen(self, new: Sequence[Column]) -> None:
        """Add columns, which the epochs so far lack."""
        if not new:
            return
        old = self._layout
        columns = tuple(sorted((*old.columns, *new), key=lambda column: _ORDER[column[0]]))
        self._layout = _layout_of(columns)
        places = [old.places.get(column) for column in columns]
        width, values = old.width, array("d")
        for row in range(len(self._numbers)):
            values.extend(nan if place is None else self._values[row * width + place] for place in places)
        self._values = values

    def _insert(self, number: int, t: str | None, row: list[float]) -> None:
        width, place = len(row), len(self._numbers)
        time = t.encode() if t is not None and _is_usual_time(t) else _NO_TIME
        if place and number <= self._numbers[-1]:
            place = bisect_left(self._numbers, number)
            if self._numbers[place] == number:
                del self._numbers[place]
                del self._values[place * width : (place + 1) * width]
                del self._times[place * TIME_LENGTH : (place + 1) * TIME_LENGTH]
                for values in self._others.values():
                    values.pop(number, None)
            self._numbers.insert(place, number)
            self._values[place * width : place * width] = array("d", row)
            self._times[place * TIME_LENGTH : place * TIME_LENGTH] = time
        else:
            self._numbers.append(number)
            self._values.extend(row)
            self._times += time
        if t is not None and time == _NO_TIME:
            self._keep(number, {"t": t})

    def _keep(self, number: int, others: Mapping[str, Any]) -> None:
        """Keep values of an epoch that are not in columns."""
        for name, value in others.items():
            if value is None or (isinstance(value, (Mapping, tuple)) and not value):
                continue
            if type(value) is tuple and set(map(type, value)) == _FLOAT:
                value = array("d", value)  # an eighth of the memory
            self._others.setdefault(name, {})[number] = value

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of all epochs, in order."""
        self.flush()
        return self._numbers

    def epoch(self, place: int) -> Epoch:
        """Make an epoch."""
        number, width = self._numbers[place], self._layout.width
        row = self._values[place * width : (place + 1) * width]
        values: dict[str, Any] = {
            name: {key: row[column] for key, column in columns if not isnan(row[column])}
            for name, columns in self._layout.maps.items()
        }
        for name, column, kind in self._layout.scalars:
            if not isnan(row[column]):
                values[name] = int(row[column]) if kind in _WHOLE else row[column]
        for name, by_number in self._others.items():
            if number in by_number:
                value = by_number[number]
                values[name] = tuple(value) if isinstance(value, array) else value
        return Epoch(number, values.pop("t", self.time(place)), **values)

    def time(self, place: int) -> str | None:
        """When an epoch ended."""
        time = self._times[place * TIME_LENGTH : (place + 1) * TIME_LENGTH]
        if time != _NO_TIME:
            return time.decode()
        return self._others.get("t", {}).get(self._numbers[place])

    def keys(self, name: str) -> list[str]:
        """The keys of a map in any epoch."""
        keys = [key for key, _ in self._layout.maps.get(name, ())]
        return [*dict.fromkeys([*keys, *(key for value in self._others.get(name, {}).values() for key in value)])]

    def last(self, name: str, key: str) -> float | None:
        """A number of a map in the last epoch; None if it is not known."""
        if not len(self):
            return None
        others, width = self._others.get(name), self._layout.width
        if others and self._numbers[-1] in others:
            number: float | None = others[self._numbers[-1]].get(key)
            return number
        place = self._layout.places.get((name, key))
        if place is None or isnan(number := self._values[place - width]):
            return None
        return number

    def column(self, name: str, key: str, missing: Any, places: Sequence[int]) -> list[Any]:
        """The numbers of some epochs (see `Epochs.column`)."""
        column, width = self._layout.places.get((name, key)), self._layout.width
        missing = _ABSENT.get(name, missing)
        values: list[Any]
        if column is None:
            values = [missing] * len(places)
        else:
            if isinstance(places, range) and places.step == 1:
                values = self._values[places.start * width + column : places.stop * width : width].tolist()
            else:
                values = [self._values[place * width + column] for place in places]
            if isnan(sum(values)):
                values = [missing if isnan(value) else value for value in values]
            if name in _WHOLE_NAMES:
                values = [value if value is missing else int(value) for value in values]
        others = self._others.get(name)
        if others:
            for position, place in enumerate(places):
                if self._numbers[place] in others:
                    other = others[self._numbers[place]]
                    values[position] = other.get(key, missing) if key else other
        return values


class EpochStack:
    """The epochs of several tables of the same shape, as arrays.

    Args:
        tables: the tables.
    """

    def __init__(self, tables: Sequence[EpochTable]) -> None:
        layout, count = tables[0]._layout, len(tables[0])
        values = np.frombuffer(b"".join(table._values for table in tables))
        self._places, self._values = layout.places, values.reshape(len(tables), count, layout.width)

    def column(self, name: str, key: str) -> NDArray[np.float64]:
        """A number of a map, tables × epochs; 0 if it is missing."""
        place = self._places.get((name, key))
        return np.zeros(self._values.shape[:2]) if place is None else np.nan_to_num(self._values[:, :, place])


def stacks(tables: Iterable[EpochTable], name: str) -> Iterator[tuple[list[int], EpochStack]]:
    """Yield stacks of tables, each with the positions of its tables.

    Args:
        tables: the tables; those without numbers are left out, and those with values of the field beside the columns.
        name: the field of `Epoch` that is to be read from the stacks.
    """
    groups: dict[tuple[_Layout, int], list[tuple[int, EpochTable]]] = {}
    for position, table in enumerate(tables):
        if len(table) and table._values and not table._others.get(name):
            groups.setdefault((table._layout, len(table)), []).append((position, table))
    for alike in groups.values():
        for start in range(0, len(alike), AT_ONCE):
            positions, members = zip(*alike[start : start + AT_ONCE], strict=True)
            yield list(positions), EpochStack(members)


class Epochs(Sequence[Epoch]):
    """Epochs of an attempt, in order.

    Each is made when it is read; the numbers of all can be read as columns.

    Args:
        table: the table that has them.
        places: their positions in the table; by default all.
    """

    __slots__ = ("_places", "_table")

    def __init__(self, table: EpochTable, places: Sequence[int] | None = None) -> None:
        self._table = table
        self._places = range(len(table)) if places is None else places

    @property
    def table(self) -> EpochTable:
        """The table that has them."""
        return self._table

    @property
    def places(self) -> Sequence[int]:
        """Their positions in the table."""
        return self._places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Epoch: ...

    @overload
    def __getitem__(self, place: slice) -> Epochs: ...

    def __getitem__(self, place: int | slice) -> Epoch | Epochs:
        if isinstance(place, slice):
            return Epochs(self._table, self._places[place])
        return self._table.epoch(self._places[place])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))

    @property
    def numbers(self) -> list[int]:
        """Their numbers."""
        return [self._table.numbers[place] for place in self._places]

    @property
    def times(self) -> list[str | None]:
        """When they ended, UTC, as in the journal."""
        return [self._table.time(place) for place in self._places]

    def keys(self, name: str) -> list[str]:
        """The keys of a map in any epoch of the attempt."""
        return self._table.keys(name)

    def where(self, is_chosen: Callable[[int], bool]) -> Epochs:
        """Those whose numbers are chosen."""
        return Epochs(self._table, [place for place in self._places if is_chosen(self._table.numbers[place])])

    def column(self, name: str, key: str = "", missing: Any = None) -> list[Any]:
        """One of their numbers each.

        Args:
            name: a field of `Epoch`.
            key: a key of the field, if that is a map.
            missing: the value for an epoch without that number; a count is then 0.
        """
        return self._table.column(name, key, missing, self._places)

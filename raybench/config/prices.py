"""Prices of devices from a CSV file, which replace those of a grid."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from raybench.core.cell import CellDevice
from raybench.core.labels import named_value
from raybench.core.origin import Origin
from raybench.core.text import format_value, names_text
from raybench.devices import hosted
from raybench.errors import FileError, Problem, UsageError, close, near_file, nearest
from raybench.results.grid_request import GridRequest
from raybench.results.run_table import Run

NAMES = ("device", "model", "kind", "gpu")
"""Columns with the name of a device: any of them may have its name in the grid, its model or its kind."""

COLUMNS = (*NAMES, "price_per_hour", "instance", "devices", "terms", "source", "date", "currency")


@dataclass(frozen=True)
class Price:
    """The price of an hour of a device or instance, and where it comes from: `lambda.ai, 2026-11-20`.

    Attributes:
        origin: `ASSUMED` if it is that of a kind of accelerators, of whatever model.
        devices: accelerators of the instance, which is paid as a whole.
    """

    per_hour: float
    source: str
    origin: Origin = Origin.SAID
    devices: int = 1

    def of_all(self, device: CellDevice) -> Price:
        """Return the price of all accelerators of a trial or, if it computes on the host, of all its machines."""
        count = 1 if hosted(str(device.kind)) else math.ceil(device.known_count / self.devices)
        return replace(self, per_hour=self.per_hour * count * device.node_count)


@dataclass(frozen=True)
class PriceList:
    """The prices of a file; without one, there are none.

    Attributes:
        prices: by the name of the device in the file: of one accelerator, and of instances.
        currency: of all of them; empty if the file does not say it.
    """

    path: Path = Path()
    prices: Mapping[str, Sequence[Price]] = field(default_factory=dict)
    currency: str = ""

    @classmethod
    def read(cls, path: Path, terms: str = "") -> Self:
        """Read a file.

        Of several rows on one device, instance and terms, the newest counts.

        Args:
            terms: such as `spot`: a device with such rows has no others. Without it, rows without terms count.
        """
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = csv.reader(file)
                head = [text.strip() for text in next(rows, [])]
                lines = [(rows.line_num, [text.strip() for text in line]) for line in rows]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"{path}: cannot be read: {reason}{near_file(path, Path())}") from None
        problems: list[Problem] = []

        def problem(line: int, column: str, message: str) -> None:
            place = head.index(column) + 1 if column in head else 1
            problems.append(Problem(str(path), line, place, column, message))

        for column in {*head} - {*COLUMNS}:
            problem(1, column, f"unknown column; {nearest(column, COLUMNS)}")
        if not problems and not ({*NAMES} & {*head} and "price_per_hour" in head):
            problem(1, "", "needs the columns device and price_per_hour")
        # The date and price by device, terms, and number of devices of the instance.
        rows_by: dict[tuple[str, str, int], tuple[str, Price]] = {}
        spelled: dict[str, str] = {}
        places: dict[tuple[str, ...], int] = {}
        currency: str | None = None
        for line, values in () if problems else lines:
            if not any(values):
                continue
            if len(values) != len(head):
                problem(line, "", f"{len(values)} values for {len(head)} columns")
                continue
            row = dict(zip(head, values, strict=True))
            name_column = next(filter(row.get, NAMES), next(filter(row.__contains__, NAMES)))
            name = row[name_column]
            try:
                price = float(row["price_per_hour"])
            except ValueError:
                price = math.nan
            devices, of_terms, date = row.get("devices") or "1", row.get("terms", "").casefold(), row.get("date", "")
            earlier = places.setdefault((name.casefold(), devices, of_terms, date), line)
            currency = row.get("currency", "") if currency is None else currency
            wrong = {}
            if not name or earlier < line:
                wrong[name_column] = f"{name} has a price on line {earlier}" if name else "missing"
            if not 0 <= price < math.inf:
                wrong["price_per_hour"] = f"{row['price_per_hour']!r} is not a price; write a number such as 2.49"
            if row.get("currency", "") != currency:
                wrong["currency"] = f"{row['currency'] or 'none'}, and {currency or 'none'} before; use one currency"
            if not devices.isdecimal() or not int(devices):
                wrong["devices"] = f"{devices!r} is not a number of devices of an instance; write one such as 8"
            for column, message in wrong.items():
                problem(line, column, message)
            if wrong:
                continue
            source = ", ".join(filter(None, (row.get("instance"), row.get("terms"), row.get("source"), date)))
            key = spelled.setdefault(name.casefold(), name), of_terms, int(devices)
            if key not in rows_by or date >= rows_by[key][0]:
                rows_by[key] = date, Price(price, source or path.name, devices=int(devices))
        if problems:
            raise FileError(problems)
        by_terms: dict[str, dict[str, list[Price]]] = {"": {}}
        for (name, of_terms, _), (_, newest) in rows_by.items():
            by_terms.setdefault(of_terms, {}).setdefault(name, []).append(newest)
        if terms and terms.casefold() not in by_terms:
            listed = [of_terms for of_terms in by_terms if of_terms]
            hint = nearest(terms, listed) if listed else "none has terms"
            raise UsageError(f"terms: {path} has no row with {terms}; {hint}")
        chosen = by_terms[""] | by_terms[terms.casefold()]
        return cls(path, {name: chosen[name] for name in spelled.values() if name in chosen}, currency or "")

    def price(self, name: str | None, device: CellDevice, of_grid: Price | None, currency: str) -> Price | None:
        """Return the price of a device by its name in the grid, else its model, else its kind.

        If the file has none, it is that of the grid, unless that is in a different currency.
        """
        for text in _names(name, device):
            if listed := self._of(text):
                is_kind = text == device.kind and not hosted(text)
                price = min((one.of_all(device) for one in listed), key=lambda one: one.per_hour)
                return replace(price, origin=Origin.ASSUMED) if is_kind else price
        return None if self.currency and self.currency != currency else of_grid

    def applied(self, request: GridRequest, attempts: Iterable[Run]) -> tuple[GridRequest, str, bool]:
        """Return a request with these prices, a note on those that match no device of it, and whether any does.

        A price may also have the name of what is compared, as a log tells no device: `h100` or `log h100`.
        """
        runs = {run.cell_id: run for run in attempts if run.cell}
        cells, devices = [], []
        for cell in request.cells:
            run = runs.get(cell.cell_id)
            name = run.profile if run and run.profile else cell.axes.get("device")
            device = run.cell.device if run else cell.content.device
            compared = [
                text for axis, value in cell.axes.items() for text in (named_value(axis, value), format_value(value))
            ]
            name = name or next((text for text in compared if self._of(text)), compared[-1] if compared else None)
            devices.append((name, device))
            per_hour = cell.price_per_hour
            of_grid = None if per_hour is None else Price(per_hour, cell.price_source, cell.price_origin)
            price = self.price(name, device, of_grid, request.currency)
            hourly, source, origin = (price.per_hour, price.source, price.origin) if price else (None, "", Origin.SAID)
            cells.append(replace(cell, price_per_hour=hourly, price_source=source, price_origin=origin))
        is_used = any(self._of(text) for named in devices for text in _names(*named))
        request = replace(request, cells=cells, currency=self.currency or request.currency)
        return request, self.unused(devices), is_used

    def unused(self, devices: Iterable[tuple[str | None, CellDevice]]) -> str:
        """Return a note on the prices that match none of the devices, each with its name; empty if all do."""
        names_here = [text for named in devices for text in _names(*named)]
        names = [name for name in self.prices if name.casefold() not in map(str.casefold, names_here)]
        if not names:
            return ""
        hint = next((hint for name in names if (hint := close(name, dict.fromkeys(names_here)))), "")
        hint = hint or f"here are {names_text(list(dict.fromkeys(names_here)), separator=', ')}"
        return f"Prices of {self.path.name} match no device here: {names_text(names, separator=', ')}; {hint}"

    def _of(self, text: str) -> Sequence[Price]:
        """Return the prices under a name."""
        return next((prices for listed, prices in self.prices.items() if listed.casefold() == text.casefold()), ())


def _names(name: str | None, device: CellDevice) -> list[str]:
    """Return what a file of prices may call a device, the most specific first."""
    return [text for text in (name, device.model, device.kind) if isinstance(text, str)]

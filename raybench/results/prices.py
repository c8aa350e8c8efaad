"""Prices of devices from a CSV file, which replace those of a grid."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Self

from raybench.core.cell import CellDevice
from raybench.core.settings import MISSING
from raybench.errors import FileError, Problem, UsageError, close, near_file, nearest
from raybench.results.attempt import Attempt
from raybench.results.grid_request import GridRequest

NAMES = ("device", "model", "kind")
"""Columns with the name of a device: any of them may have its name in the grid, its model or its kind."""

COLUMNS = (*NAMES, "price_per_hour", "source", "date", "currency")

SHOWN = 3
"""Maximum number of names in the note on unused prices."""


@dataclass(frozen=True)
class Price:
    """The price of an hour of a device, and where it comes from: `lambda.ai, 2026-11-20`."""

    per_hour: float
    source: str


@dataclass(frozen=True)
class PriceList:
    """The prices of a file.

    Attributes:
        path: the file.
        prices: by the name of the device in the file.
        currency: of all of them; empty if the file does not say it.
    """

    path: Path
    prices: Mapping[str, Price]
    currency: str = ""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            FileError: it is invalid; the message lists all problems, each with line and column.
            UsageError: it cannot be read.
        """
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                head, *lines = [[text.strip() for text in line] for line in csv.reader(file)] or [[]]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"{path}: cannot be read: {reason}{near_file(path, Path())}") from None
        problems = [
            Problem(str(path), 1, number, name, f"unknown column; {nearest(name, COLUMNS)}")
            for number, name in enumerate(head, 1)
            if name not in COLUMNS
        ]
        if not problems and not ({*NAMES} & {*head} and "price_per_hour" in head):
            problems.append(Problem(str(path), 1, 1, "", "needs the columns device and price_per_hour"))
        prices: dict[str, Price] = {}
        places: dict[str, int] = {}
        currency = ""
        for line, values in () if problems else enumerate(lines, 2):
            row = dict(zip(head, values, strict=False))
            if not any(values):
                continue
            name = next((row[column] for column in NAMES if row.get(column)), "")
            currency = currency or row.get("currency", "")
            if len(values) != len(head):
                message = f"{len(values)} values for {len(head)} columns"
                problems.append(Problem(str(path), line, 1, "", message))
                continue
            wrong = _wrong(row, name, currency)
            if name.casefold() in places:
                wrong[next(filter(row.get, NAMES))] = f"{name} has a price on line {places[name.casefold()]}"
            places.setdefault(name.casefold(), line)
            problems += [Problem(str(path), line, head.index(column) + 1, column, wrong[column]) for column in wrong]
            if not wrong:
                source = ", ".join(filter(None, (row.get("source"), row.get("date")))) or path.name
                prices[name] = Price(float(row["price_per_hour"]), source)
        if problems:
            raise FileError(problems)
        return cls(path, prices, currency)

    def find(self, name: str | None, device: CellDevice) -> tuple[str, Price] | None:
        """Return the line for a device: by its name in the grid, else its model, else its kind."""
        known = {each.casefold(): each for each in self.prices}
        for text in (name, device.model, device.kind):
            if isinstance(text, str) and (found := known.get(text.casefold())) is not None:
                return found, self.prices[found]
        return None

    def price(self, name: str | None, device: CellDevice, own: Price | None, currency: str) -> Price | None:
        """Return the price of a device.

        A price by model or kind is of one accelerator. Without a price in the file it is the grid's own, unless that is
        in a different currency.
        """
        if found := self.find(name, device):
            line, price = found
            is_each = device.kind != "cpu" and line.casefold() != (name or "").casefold()
            count = device.count if is_each and isinstance(device.count, int) and device.count is not MISSING else 1
            return replace(price, per_hour=price.per_hour * count)
        return None if self.currency and self.currency != currency else own

    def applied(self, request: GridRequest, attempts: Iterable[Attempt]) -> tuple[GridRequest, str]:
        """Return a request with these prices, and a note on those that match no device of it."""
        runs = {run.cell_id: run for run in attempts if run.cell}
        cells, devices = [], []
        for cell in request.cells:
            run = runs.get(cell.cell_id)
            name = run.profile if run and run.profile else cell.axes.get("device")
            devices.append((name, run.cell.device if run else cell.content.device))
            own = None if cell.price_per_hour is None else Price(cell.price_per_hour, cell.price_source)
            price = self.price(*devices[-1], own, request.currency)
            cells.append(
                replace(
                    cell,
                    price_per_hour=price.per_hour if price else None,
                    price_source=price.source if price else "",
                )
            )
        currency = self.currency or request.currency
        return replace(request, cells=cells, currency=currency), self.unused(devices)

    def unused(self, devices: Iterable[tuple[str | None, CellDevice]]) -> str:
        """Return a note on the prices that match none of the devices, each with its name; empty if all do."""
        listed = list(devices)
        used = {found[0] for each in listed if (found := self.find(*each))}
        names = [name for name in self.prices if name not in used]
        if not names:
            return ""
        known = [text for name, each in listed for text in (name, each.model, each.kind) if isinstance(text, str)]
        hint = next((hint for name in names if (hint := close(name, dict.fromkeys(known)))), "")
        more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
        text = f"Prices of {self.path.name} match no device here: {', '.join([*names[:SHOWN], *more])}"
        return f"{text}; {hint}" if hint else text


def _wrong(row: Mapping[str, str], name: str, currency: str) -> dict[str, str]:
    """Return what is wrong in a line, by column."""
    wrong = {}
    if not name:
        wrong[next(column for column in NAMES if column in row)] = "missing"
    try:
        price = float(row.get("price_per_hour", ""))
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        wrong["price_per_hour"] = f"{row.get('price_per_hour', '')!r} is not a price; write a number such as 2.49"
    if row.get("date"):
        try:
            date.fromisoformat(row["date"])
        except ValueError:
            wrong["date"] = f"{row['date']!r} is not a date; write it as 2026-11-20"
    if row.get("currency", currency) != currency:
        wrong["currency"] = f"{row['currency'] or 'none'}, and {currency} before; a file has one currency"
    return wrong

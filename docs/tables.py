"""The documentation's tables that are generated from declarations in the code. `python docs/tables.py` updates them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from raybench.analysis.diagnostics.finding import CAUTION, CAVEAT, kinds
from raybench.devices import KINDS

ROOT = Path(__file__).parent.parent


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(heads)
    lines = [f"| {' | '.join(cells)} |" for cells in (names, *rows)]
    return "\n".join((lines[0], "|---" * len(names) + "|", *lines[1:]))


def device_kinds() -> str:
    """The kinds of devices, with the frameworks that run on each."""
    rows = [
        (f"`{kind.name}`", kind.label, ", ".join(f"`{name}`" for name in kind.adapters), kind.status)
        for kind in KINDS.values()
    ]
    return table(("`kind:` of a device", "hardware", "frameworks", "status"), rows)


def caveats() -> str:
    """The findings that can turn a verdict."""
    rows = [(f"`{kind.code}`", kind.condition, kind.bias) for kind in kinds().values() if kind.severity == CAVEAT]
    return table(("finding", "reported if", "its time may be too long by"), rows)


def cautions() -> str:
    """The findings that a reader should know, without a magnitude."""
    rows = [(f"`{kind.code}`", kind.condition) for kind in kinds().values() if kind.severity == CAUTION]
    return table(("caution", "reported if"), rows)


TABLES: Mapping[str, Callable[[], str]] = {"device kinds": device_kinds, "caveats": caveats, "cautions": cautions}
"""The generator of each table, by its name in the comment above it: `<!-- table: NAME -->`."""

PAGES: Mapping[str, tuple[str, ...]] = {
    "README.md": ("device kinds",),
    "docs/devices.md": ("device kinds",),
    "docs/findings.md": ("caveats", "cautions"),
}
"""The tables of each page, by its path in the repository."""


def with_tables(page: str, names: Iterable[str]) -> str:
    """A page with its generated tables up to date.

    Raises:
        ValueError: the page lacks a table's opening or closing comment.
    """
    for name in names:
        before, opening, rest = page.partition(f"<!-- table: {name} -->\n")
        _, closing, after = rest.partition("<!-- end of table -->")
        if not opening or not closing:
            raise ValueError(f"no place for the table {name!r}")
        page = f"{before}{opening}{TABLES[name]()}\n{closing}{after}"
    return page


if __name__ == "__main__":
    for path, names in PAGES.items():
        (ROOT / path).write_text(with_tables((ROOT / path).read_text(), names))

"""Tables of the README that come from declarations in the code. `python docs/tables.py` writes them anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from raybench.analysis.diagnostics.finding import CAUTION, CAVEAT, kinds
from raybench.devices import KINDS

README = Path(__file__).parent.parent / "README.md"


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
"""By the name in a comment of the page, `<!-- table: NAME -->`, what makes the table below it."""


def with_tables(page: str) -> str:
    """A page with its tables as the code has them now."""
    for name, make in TABLES.items():
        before, opening, rest = page.partition(f"<!-- table: {name} -->\n")
        _, closing, after = rest.partition("<!-- end of table -->")
        page = f"{before}{opening}{make()}\n{closing}{after}"
    return page


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))

"""What else differs between two sides that are compared: software, machine, data, settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from raybench.core.text import format_value, names_text
from raybench.results.run_table import Run
from raybench.workloads.own_files import FILE


@dataclass(frozen=True)
class ChangedValue:
    """Something that differs between the two sides, such as `torch` or `driver`."""

    name: str
    base: tuple[str, ...]
    new: tuple[str, ...]

    def __str__(self) -> str:
        if self.name == "workload.digest":
            return "the files of the training code, or its command"
        if self.name.startswith(FILE):
            return f"{self.name} {'was edited' if self.base and self.new else 'is new' if self.new else 'is gone'}"
        return f"{self.name}: {' → '.join(names_text(side, separator=', ') or '–' for side in (self.base, self.new))}"


def changed_values(base: Iterable[Run], new: Iterable[Run]) -> Iterator[ChangedValue]:
    """Yield what differs between the runs of two sides, besides times and quality."""
    base, new = list(base), list(new)
    sides = [_values(runs) for runs in (base, new)]
    machines = [{run.machine_name for run in runs} for runs in (base, new)]
    has_ids = all(" " in name for name in set.union(*machines))
    if has_ids and sides[0].get("host.name") == sides[1].get("host.name"):
        for side, names in zip(sides, machines, strict=True):  # two machines of one name
            side["host.name"] = {f"{name} ({identity:.6})" for name, _, identity in (n.partition(" ") for n in names)}
    if any(name.startswith(FILE) and sides[0].get(name) != sides[1].get(name) for name in {**sides[0], **sides[1]}):
        for side in sides:
            side.pop("workload.digest", None)  # the files say more
    for name in {**sides[0], **sides[1]}:
        values = [side.get(name, set()) for side in sides]
        if values[0] != values[1]:
            yield ChangedValue(name, *(tuple(sorted(side)) for side in values))


def _values(runs: Sequence[Run]) -> dict[str, set[str]]:
    """Return what runs were made with: software, machine, fields of their cells."""
    values = dict[str, set[str]]()
    sources: list[Mapping[str, Any]] = []
    for run in runs:
        sources.append({f"host.{name}": run.host.get(name) for name in ("name", "kernel")})
    # Many runs of a configuration share these maps.
    for run in {(id(run.versions), id(run.hardware), id(run.runtime_conditions)): run for run in runs}.values():
        waiting = run.runtime_conditions.get("OMP_WAIT_POLICY")
        sources += [run.versions, {"driver": run.hardware.get("driver"), "OMP_WAIT_POLICY": waiting}]
    for cell in {id(run.cell): run.cell for run in runs}.values():
        pairs = cell.leaves.items()
        sources.append({name: value for name, value in pairs if name != "version" and not name.startswith("compared.")})
    for name, value in chain.from_iterable(source.items() for source in sources):
        if value not in (None, ""):
            values.setdefault(name, set()).add(format_value(value))
    return values

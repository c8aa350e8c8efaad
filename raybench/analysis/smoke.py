"""What a smoke run is to be read as: which cells ran, and what of each was cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raybench.analysis.sentences import Sentence, sentence, strong
from raybench.analysis.standing import Standing
from raybench.plan import short

_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "framework": ("framework",),
    "warmup_epochs": ("warmup_epochs",),
    "examples": ("data", "examples"),
    "kind": ("device", "kind"),
    "count": ("device", "count"),
    "replicas": ("device", "replicas"),
    "replication": ("device", "replication"),
    "cpus": ("device", "count"),
    "threads": ("device", "threads"),
}
"""Where a cell has what is not among its settings."""


def smoke_words(contents: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How the cells of a smoke run were cut, in a line: each value of the grid, and what stands for it here.

    Args:
        contents: of its cells; of a full grid there is nothing to say.
    """
    found: dict[str, dict[str, dict[str, None]]] = {"device": {}}
    for content in contents:
        cut = dict(content.get("smoke") or {})
        device = cut.pop("device", None)
        if "kind" in cut:
            found["device"].setdefault(str(device), {})[content["device"]["kind"]] = None
            cut = {name: value for name, value in cut.items() if name not in ("kind", "count")}
        for name, was in cut.items():
            found.setdefault(name, {}).setdefault(short(was), {})[short(_now(content, name))] = None
    changes = {name: [f"{was} is {' or '.join(now)}" for was, now in each.items()] for name, each in found.items()}
    if any(changes.values()):
        told = "; ".join(f"{name}: {', '.join(each)}" for name, each in changes.items() if each)
        yield f"cut to see that it runs: each value is met once, each cell is run once. {told}."


def _now(content: Mapping[str, Any], name: str) -> Any:
    """What a cell has of a setting."""
    found: Any = content
    for step in _ELSEWHERE.get(name, ("settings", name)):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def smoke_verdict(standing: Standing) -> list[list[Sentence]]:
    """What a smoke run comes to: how many of its cells ran through."""
    wanted = [cell for cell in standing.cells if cell.repeats]
    through = sum(bool(standing.completed(cell)) for cell in wanted)
    ran = f"{through} of {len(wanted)} cells ran from end to end."
    says = " Devices and jobs were cut: no time, ratio, price or accuracy here is a result of the grid."
    return [[sentence(strong("Smoke run: "), ran), sentence(says.strip())]]

"""The largest batch that fits: `batch_size: [64, largest]`.

Before a grid is planned, short trials of one epoch of two steps look for it in each configuration: powers of two, then
bisection to a sixteenth. They are a grid of their own, `NAME~largest`, whose times count nowhere, and which is not
repeated for the same hardware and settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raybench.config import GridSpec
from raybench.core.settings import LARGEST
from raybench.core.status import TrialStatus
from raybench.core.text import format_value
from raybench.errors import UsageError
from raybench.planning.expand import Point, expand, point_key
from raybench.planning.node import Node
from raybench.results.run_table import Run

FIRST = 32
MOST = 1 << 20
PART = 16
"""The batch is known to a part of this size."""

SHORT = {"epochs": 1, "steps_per_epoch": 2}

Fits = Callable[[int], bool]


def search(fits: Fits, most: int = MOST) -> int:
    """Return the largest batch that fits, to a sixteenth and at most `most`; 0 if not even 1 does."""
    good, bad = 0, most + 1
    size = min(FIRST, most)
    while good < size < bad:
        good, bad = (size, bad) if fits(size) else (good, size)
        size = min(2 * good, most) if bad > most else size // 2 if good == 0 else size
    while good and bad - good > max(1, good // PART):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def with_largest(
    spec: GridSpec,
    nodes: list[Node],
    probe: Callable[[GridSpec], Mapping[str, Run]],
    tell: Callable[[str], None],
    most: int = MOST,
) -> GridSpec:
    """Return a grid that knows the largest batch of each of its configurations that asks for it.

    Args:
        probe: runs a grid of one trial and returns its latest runs.
        tell: shows what is done.

    Raises:
        UsageError: the first trial ended otherwise than completed or out of memory.
    """
    points = [point for point in expand(spec, nodes) if point.get("batch_size") == LARGEST]
    applied = spec.read_workload().applied if points else ()
    sizes: dict[str, int] = {}
    for point in points:
        name = ", ".join(format_value(value) for axis, value in point.items() if axis != "batch_size")

        ends: list[TrialStatus | None] = []

        def fits(size: int, point: Point = point, name: str = name, ends: list[TrialStatus | None] = ends) -> bool:
            tell(f"Largest batch of {name}: trying {size}")
            run = next(iter(probe(_probe_grid(spec, point | {"batch_size": size}, {*applied})).values()), None)
            ends.append(TrialStatus.parse(run.status) if run else None)
            if ends[-1] not in (TrialStatus.COMPLETED, TrialStatus.OOM):
                reason = "it cannot run here" if run is None else (run.error or {}).get("message") or run.status
                problem = f"batch {size} of {name} did not end: {reason}"
                if TrialStatus.COMPLETED not in ends:  # else it may be larger than the data
                    raise UsageError(f"batch_size: looking for the largest: {problem}")
                tell(f"Largest batch: {problem}")
            return ends[-1] == TrialStatus.COMPLETED

        if any(node.find(spec.profile(point["device"]).kind) for node in nodes):
            sizes[point_key(point)] = search(fits, most)
            tell(f"Largest batch of {name}: {sizes[point_key(point)] or 'not even 1 fits'}")
    spec_with_sizes = spec.model_copy()
    spec_with_sizes._largest = sizes
    return spec_with_sizes


def _probe_grid(spec: GridSpec, point: Point, applied: set[str]) -> GridSpec:
    """Return the grid of one short trial of a point."""
    tree = spec.model_dump(exclude_unset=True, exclude={"exclude", "include", "target", "stop_at_target", "budget"})
    tree |= {name: value for name, value in SHORT.items() if name in applied}
    tree |= {"axes": {axis: [value] for axis, value in point.items()}, "repeats": 1, "baseline": {}}
    grid = GridSpec.model_validate(tree | {"name": "largest"}).model_copy(update={"name": f"{spec.name}~largest"})
    grid._source_text, grid._source_path, grid._document = spec.source_text, spec.source_path, spec._document
    return grid

"""Repeats over the machines of a model: a whole one on each in turn, so that configurations are compared within it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raybench.core.identity import trial_id
from raybench.core.text import plural
from raybench.planning.resolve import ResolvedCell


@dataclass(frozen=True)
class RepeatSpread:
    """The configurations that fit the same nodes, and what they run on.

    Attributes:
        places: the nodes of a trial, for each machine (or, of trials on several nodes, set of machines).
        groups: number of sets of configurations that have machines of their own.
        wanted: the fewest machines that the grid asks for.
    """

    cells: tuple[ResolvedCell, ...]
    places: tuple[tuple[str, ...], ...]
    groups: int
    wanted: int

    def nodes(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the identity of each trial, and the nodes on which it runs if they are there."""
        width = len(self.places) // self.groups
        numbers: dict[str, int] = {}
        for cell in self.cells:
            group = numbers.setdefault(cell.without_version, len(numbers)) % self.groups
            for repeat in range(cell.repeats):
                yield trial_id(cell.cell_id, repeat), self.places[group * width + repeat % width]

    def notes(self) -> Iterator[str]:
        """Yield what the number of machines means for the results."""
        fit = self.cells[0].fit
        assert fit
        machines = f"{plural(len(self.places), 'machine')} of {fit.hardware.model}"
        width = len(self.places) // self.groups
        if len(self.places) < self.wanted:
            yield f"{machines} instead of {self.wanted}; run the grid on others, too, and import their results"
        elif self.groups > 1 and width > 1:
            yield (
                f"{machines}: configurations run on {self.groups} sets of them, and intervals allow for that; with "
                f"`repeats: {{machines: {width}}}` all run on the same {width}, which takes longer and is more certain"
            )


def spreads(cells: Sequence[ResolvedCell], repeats: int, wanted: int) -> list[RepeatSpread]:
    """Return how the repeats of configurations are spread over nodes.

    Without a number of machines, all nodes are used: if there are more than repeats, in sets of as many as repeats.

    Args:
        repeats: the fewest of a configuration.
        wanted: the number of machines that the grid asks for; 0 if it does not.
    """
    by_nodes: dict[tuple[tuple[str, ...], int], list[ResolvedCell]] = {}
    for cell in cells:
        if cell.fit:
            by_nodes.setdefault((tuple(sorted(cell.fit.nodes)), cell.fit.node_count), []).append(cell)
    # Machines that more configurations can use come first, so that a smaller number of them is common to all.
    uses = Counter(name for (nodes, _), alike in by_nodes.items() for name in nodes for _ in alike)
    result = []
    for (nodes, count), alike in by_nodes.items():
        names = sorted(nodes, key=lambda name: (-uses[name], name))
        places = [tuple(names[first : first + count]) for first in range(0, len(names) - count + 1, count)]
        places = places[:wanted] if wanted else places
        most = min(repeats, max(cell.repeats for cell in alike))
        sets = len({cell.without_version for cell in alike})
        result.append(RepeatSpread(tuple(alike), tuple(places), max(1, min(len(places) // most, sets)), wanted))
    return result

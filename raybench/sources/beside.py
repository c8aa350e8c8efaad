"""What others have reported of a grid's workload, beside the grid's own times by the same rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from raybench.analysis.sections import Record
from raybench.analysis.standing import Standing
from raybench.identity import leaves
from raybench.sources.publications import RULES, SHIPPED, Publication, of_name

PROTOCOL = ("batch_size", "epochs", "steps_per_epoch")
"""Settings that a cell of the grid has to share with a source, where that tells them, for its time to stand beside."""


def beside(standing: Standing) -> list[Record]:
    """A record for each machine of each published source that trained the same workload, the fastest first.

    `mine` and `cell` are the time by the source's rule, median over runs, and the label of the grid's fastest cell that
    has the same batch, epochs and steps; both are missing where there is none, or where raybench has no such rule.
    """
    found = []
    for file in sorted(SHIPPED.iterdir(), key=lambda file: file.name):
        # Most sources are about something else, and need not be read as a whole.
        if file.name.endswith(".yaml") and f"workload: {standing.workload}\n" in file.read_text(encoding="utf-8"):
            name = file.name.removesuffix(".yaml")
            found += list(_of(standing, name, of_name(name)))
    return found


def _of(standing: Standing, name: str, source: Publication) -> Iterator[Record]:
    groups: dict[tuple[str, str], list[tuple[float, Mapping[str, Any]]]] = {}
    for record in source.records(name):
        seconds = record.known.get("reported_s")
        cell = dict(leaves(record.attempt.cell))
        version = str(cell.get("workload.version") or "")
        if seconds is not None and cell.get("workload.name") == standing.workload:
            model = str(cell.get("device.model") or record.attempt.profile)
            groups.setdefault((model, version), []).append((float(seconds), cell))
    for (model, version), told in sorted(groups.items(), key=lambda item: item[1][0][0]):
        mine = _mine(standing, source.rule, told[0][1]) if not version else None
        yield {
            "source": source.source,
            "machine": f"{model}, {version}" if version else model,
            "seconds": median(seconds for seconds, _ in told),
            "counts": source.counts,
            "rule": source.rule,
            "caveats": list(source.caveats),
            "mine": mine[0] if mine else None,
            "cell": mine[1] if mine else None,
        }


def _mine(standing: Standing, rule: str | None, theirs: Mapping[str, Any]) -> tuple[float, str] | None:
    """The grid's fastest cell by a rule, of those with the same protocol."""
    wanted = {key: theirs[key] for key in (f"settings.{name}" for name in PROTOCOL) if theirs.get(key) is not None}
    times = []
    for cell in standing.cells:
        runs = standing.completed(cell)
        same = runs and wanted.items() <= {key: v for key, v in leaves(runs[0].cell) if key in wanted}.items()
        found = [seconds for run in runs if rule and (seconds := RULES[rule](run)) is not None]
        if wanted and same and found and not cell.again:
            times.append((median(found), standing.label(cell)))
    return min(times, default=None)

"""Unite the results of several sources: results folders, journals, bundles and MLflow stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from raybench.core.secret_masking import redact
from raybench.datasets.paths import user_path
from raybench.errors import UsageError, nearest
from raybench.results.bundle import is_bundle, read_bundle
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, grids_in, has_journal
from raybench.results.union import EventUnion, GridEvents, events_of
from raybench.sources import mlflow_store
from raybench.sources.journal import of_history
from raybench.sources.result_tables import GridSource


def union_history(parts: Sequence[GridEvents]) -> GridHistory:
    """Return the history of several parts of one grid.

    Raises:
        UsageError: two parts have the same attempt with other content.
    """
    first, *others = parts
    union = EventUnion(first)
    for other in others:
        union.add(other)
    return union.history()


def load_union(parts: Sequence[GridEvents]) -> GridSource:
    """Load the parts of one grid as one.

    Raises:
        UsageError: two parts have the same attempt with other content.
    """
    return of_history(
        parts[0].grid, union_history(parts), tuple(problem for part in parts for problem in part.problems)
    )


def grids_of(source: str, grid: str | None = None, progress: mlflow_store.Progress | None = None) -> list[GridEvents]:
    """Return the grids of a results folder, a grid's folder, a journal, a bundle or an MLflow store.

    Args:
        source: the source.
        grid: read only this grid, if the source has it; by default all.
        progress: callback with the numbers of bytes fetched from a store and in total.

    Raises:
        UsageError: there is no such source, or its content is invalid.
        StoreError: the MLflow store cannot be reached or used.
    """
    path = user_path(source)
    if is_bundle(path):
        return [read_bundle(path).events]
    if mlflow_store.is_store(source) and not path.is_dir():
        store = mlflow_store.store_of(source, path)
        with mlflow_store.journals_of(store, grid, progress) as journals:
            return [events_of(each.path, f"{store}: {each.grid}", each.grid, each.problems) for each in journals]
    journals_by_name = {name: path / name / JOURNAL for name in grids_in(path)} if not has_journal(path) else {}
    if journals_by_name:
        chosen = [journals_by_name[grid]] if grid in journals_by_name else list(journals_by_name.values())
        return [events_of(journal, str(journal)) for journal in chosen]
    if has_journal(path):
        return [events_of(path / JOURNAL, str(path / JOURNAL))]
    if path.is_file():
        return [events_of(path, source)]
    kind = f"no {JOURNAL} in it, nor in a folder in it" if path.is_dir() else "there is no such file or folder"
    raise UsageError(f"{redact(source)}: {kind}")


def several_grids(source: str, names: Iterable[str]) -> UsageError:
    """The error for results of several grids of which none is named.

    Args:
        source: the origin of the results, redacted.
        names: of the grids.
    """
    names = sorted(names)
    return UsageError(f"{source}: results of {len(names)} grids; choose one with --grid: {', '.join(names)}")


def parts_of(grids: Sequence[Sequence[GridEvents]], grid: str | None, sources: Sequence[str]) -> list[GridEvents]:
    """Return the parts of one grid.

    Args:
        grids: the grids of each source.
        grid: the grid's name; None if the sources have only one in common.
        sources: the names of the sources.

    Raises:
        UsageError: the sources have several grids and none is named, or one of them does not have the grid.
    """
    names = [{each.grid for each in part} for part in grids]
    candidates = sorted(set.intersection(*names) or set.union(*names))
    if grid is None and len(candidates) > 1:
        origins = ", ".join(map(redact, sources))
        raise UsageError(
            f"{origins}: results of {len(candidates)} grids; choose one with --grid: {', '.join(candidates)}"
        )
    chosen = grid or candidates[0]
    for source, part in zip(sources, grids, strict=True):
        if chosen not in {each.grid for each in part}:
            own_names = sorted({each.grid for each in part})
            raise UsageError(f"{redact(source)}: no results of a grid {chosen}; {nearest(chosen, own_names)}")
    return [each for part in grids for each in part if each.grid == chosen]

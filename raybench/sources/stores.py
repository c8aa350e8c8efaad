"""An MLflow store as records."""

from __future__ import annotations

from raybench.analysis.tables import Record
from raybench.sources.journals import prices
from raybench.tracking.store import Store, is_server
from raybench.tracking.stored import record


def of_store(store: Store, grid: str | None) -> list[Record]:
    """Every trial that is a run of a store.

    Raises:
        StoreError: it cannot be reached, or is no store of MLflow.
    """
    if is_server(store.uri):
        from raybench.tracking.server import read
    else:
        from raybench.tracking.database import read
    runs, effective = read(store, grid)
    costs = {name: prices(told) for name, told in effective.items()}
    return [made for run in runs if (made := record(run, costs.get(run.experiment, {}))) is not None]

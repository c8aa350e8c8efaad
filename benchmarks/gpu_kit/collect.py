"""Results small enough to take home: collect.py RESULTS OUT writes OUT/trials.csv and OUT/results.tar.gz."""

import sys
import tarfile
from pathlib import Path

results, out = Path(sys.argv[1]), Path(sys.argv[2])
grids = sorted({path.parents[1] for path in results.glob("*/attempts/*")})
if not grids:
    raise SystemExit(0)
import pandas as pd  # noqa: E402

import raybench  # noqa: E402

tables = []
for grid in grids:
    to = results.parent / "collected" / grid.name
    to.mkdir(parents=True, exist_ok=True)
    try:
        found = raybench.load(results, grid=grid.name)
        tables.append(found.trials.assign(grid=grid.name))
        found.cells.to_csv(to / "cells.csv", index=False)
        raybench.export(grid.name, to / f"{grid.name}.zip", results=results)
        (to / "report.txt").write_text("\n\n".join(map(str, found.reports)))
        (to / "error.txt").unlink(missing_ok=True)
    except raybench.errors.RaybenchError as error:  # such as: no trial has ended yet
        (to / "error.txt").write_text(f"{type(error).__name__}: {error}")
        print(grid.name, error)
if tables:
    pd.concat(tables).dropna(axis=1, how="all").to_csv(out / "trials.csv", index=False)
with tarfile.open(out / "results.tar.gz", "w:gz") as tar:
    tar.add(results.parent / "collected", "results")
print("grids:", *(grid.name for grid in grids))

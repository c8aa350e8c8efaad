"""What a user's program may write: `mypy` checks it with the package, and nothing runs it."""

from pathlib import Path
from typing import assert_type

import raybench

results = raybench.run_grid("grid.yaml", where={"device": "cpu"}, set={"repeats": 3}, tracking=None)
assert_type(results, raybench.Results)
assert_type(raybench.load(Path("raybench-results"), attempts="all"), raybench.Results)
assert_type(raybench.report(results), Path)
assert_type(raybench.export("grid.yaml"), Path)
results.with_baseline(device="cpu").comparison["ratio"].max()
results.plot("speed").set_title("Speed")
raybench.run_grid("g.yaml", repeat=3)  # type: ignore[call-arg]

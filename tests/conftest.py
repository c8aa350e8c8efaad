"""What many tests need: real data where it is, and a results folder of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Tests are no place to phone home from.
os.environ.update(RAY_USAGE_STATS_ENABLED="0", MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real data sets; skips, with the reason, where there is none."""
    named = os.environ.get("RAYBENCH_DATA")
    if not named or not (Path(named) / "cifar-10-batches-bin").is_dir():
        pytest.skip("RAYBENCH_DATA names no folder with the real data sets")
    return Path(named)

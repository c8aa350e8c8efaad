"""`raybench report` of logs: whole runs, the mean against a target, and a choice of configurations."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests" / "sources" / "logs"


def test_rules_of_speedruns(raybench):
    """Whole runs decide, and the mean of a fixed length reaches the target; the numbers are those of SciPy."""
    from scipy import stats

    folder = str(LOGS / "modded_nanogpt")
    found = json.loads(raybench("report", folder, "--whole-runs", "--target", "mean val/loss<=3.28", "--json", "-").out)
    baseline, _ = found["configurations"]
    assert baseline["seconds"]["value"] == pytest.approx((84.604 * 84.677) ** 0.5, rel=1e-3)
    p = stats.ttest_1samp([3.2800, 3.2787], 3.28, alternative="less").pvalue
    means = found["sentences"]["means"]
    assert (
        f"the mean of 2 runs, 3.27935, reaches val/loss 3.28, but not significantly (one-sided p = {p:.2g})" in means[0]
    )
    assert "does not reach" in means[1], "3.2801"
    page = str(ROOT / "notebooks" / "published" / "claims" / "nanochat_run4.csv")
    said = raybench("report", page, "--target", "mean val/core>=0.256525").out
    cores = [0.25373, 0.2584, 0.25489, 0.2568, 0.25732, 0.26765, 0.25119]
    p = stats.ttest_1samp(cores, 0.256525, alternative="greater").pvalue
    assert f"but not significantly (one-sided p = {p:.2g})" in " ".join(said.split())


def test_where_metric_and_target_are_checked(raybench):
    folder = str(LOGS / "modded_nanogpt")
    assert "log baseline" not in raybench("report", folder, "--where", "log=this_record").out
    for option, text in (
        (("--where", "log=baselin"), "where: modded_nanogpt has no params.log baselin; did you mean baseline?"),
        (("--metric", "val/lss"), "metric: no run has val/lss; did you mean val/loss?"),
        (("--target", "val/loss"), "target: 'val/loss' is not like val/loss<=3.28"),
    ):
        said = raybench("report", folder, *option)
        assert said.status == 2 and text in said.err

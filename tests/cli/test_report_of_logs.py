"""`raybench report` of logs: whole runs, the mean against a target, and a choice of configurations."""

import csv
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
    means = found["means"]
    p = stats.ttest_1samp([3.2800, 3.2787], 3.28, alternative="less").pvalue
    assert (means[0]["mean"], means[0]["p"]) == (pytest.approx(3.27935), pytest.approx(p, rel=1e-3))
    assert [(each["is_reached"], each["is_shown"], each["alone"]) for each in means] == [
        (True, False, 2),
        (False, False, 1),
    ]
    (best,) = found["sentences"]["best"]
    assert best.startswith("log baseline: the mean of 2 runs"), "the faster one misses the target"
    text = f"3.27935, reaches val/loss 3.28, but not significantly (p = {p:.2g}), 2 of 2 alone"
    assert text in best and "does not reach" in found["sentences"]["means"][0]


def test_the_rule_of_the_mean_has_the_level_that_is_said(raybench):
    from scipy import stats

    path = str(ROOT / "notebooks" / "published" / "claims" / "modded_81.csv")
    with Path(path).open() as file:
        rows = list(csv.DictReader(file))
    losses = [float(row["val/loss"]) for row in rows if row["params.version"] == "before"]
    p = stats.ttest_1samp(losses, 3.28, alternative="less").pvalue
    for level, is_shown in (("", True), (" at 0.3%", False), (" at 5%", True)):
        said = json.loads(raybench("report", path, "--target", f"mean val/loss<=3.28{level}", "--json", "-").out)
        before = said["means"][0]
        assert (before["p"], before["is_shown"]) == (pytest.approx(p, rel=1e-3), is_shown)
        assert said["sentences"]["means"][-1].endswith(f"at {level[4:] or '1%'}.")
        assert said["sentences"]["best"][0].startswith("Faster: version record: the mean of 10 runs"), "no restarts"
    chain = raybench("report", "--chain", path, "--target", "mean val/loss<=3.28 at 0.3%").out
    assert "Not shown to reach the target by their mean: before." in chain
    assert "3.4% faster" in chain


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

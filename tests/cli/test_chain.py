"""`raybench report --chain`: each version against the one before, and the last against the first."""

import csv
import json
import math
from statistics import fmean

import numpy as np
import pytest
from support import ROOT

LOSSY = (("a", 100, 3.0), ("b", 80, 3.0), ("c", 60, 3.5), ("d", 60, 4.0))
CLAIMS = ROOT / "notebooks" / "published" / "claims"


def runs(path, sides):
    """Write the times of runs by version, with the place of each in the chain."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["params.version", "order", "time_s", "val/loss"])
        table.writerows([version, *row] for version, rows in sides for row in rows)


def test_sources_and_the_column_order_are_the_same_chain(raybench, tmp_path):
    random = np.random.default_rng(0)
    means = enumerate({"a": 100, "b": 80, "c": 80, "d": 90}.items())
    sides = [(name, [(place, s * random.normal(1, 0.01), 3) for _ in range(4)]) for place, (name, s) in means]
    runs(tmp_path / "all.csv", [sides[place] for place in (2, 0, 3, 1)])
    for side in sides:
        runs(tmp_path / f"{side[0]}.csv", [side])
    (one,) = json.loads(raybench("report", "--chain", "all.csv", "--json", "-").out)["chains"]
    (several,) = json.loads(raybench("report", "--chain", *(f"{n}.csv" for n in "abcd"), "--json", "-").out)["chains"]
    for chain in (one, several):
        assert [(step["before"], step["after"], step["verdict"]) for step in chain["steps"]] == [
            ("a", "b", "better"),
            ("b", "c", "not distinguishable from noise"),
            ("c", "d", "worse"),
        ]
    first, last = (fmean(math.log(s) for _, s, _ in rows) for _, rows in (sides[0], sides[3]))
    for own, other in zip([*one["steps"], one["whole"]], [*several["steps"], several["whole"]], strict=True):
        assert own["change"]["value"] == pytest.approx(other["change"]["value"])
    whole, (pair,) = (
        one["whole"]["change"],
        json.loads(raybench("report", "--chain", "a.csv", "d.csv", "--json", "-").out)["chains"][0]["steps"],
    )
    assert whole["value"] == pytest.approx(math.exp(first - last)) == pytest.approx(pair["change"]["value"])
    said = raybench("report", "--chain", "all.csv", "--html", "chain.html")
    assert "1 of 3 steps is shown to be slower: d." in said.out and "1 of 3 steps is shown to be faster." in said.out
    assert "allows for choosing among 4 versions" in said.out
    page = (tmp_path / "chain.html").read_text()
    assert "<svg" in page and "1 of 3 steps is shown to be slower" in page


def test_a_faster_step_that_learns_less_is_said(raybench, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    noise = (0.99, 1.0, 1.01)
    sides = [(name, [(at, s * n, loss * n**0.01) for n in noise]) for at, (name, s, loss) in enumerate(LOSSY)]
    runs(tmp_path / "all.csv", sides)
    said = raybench("report", "--chain", "all.csv").out
    assert "1 of 3 steps is shown to be faster, but worse in val/loss: c." in said
    assert "1 of 3 steps is not distinguishable from noise in speed: d." in " ".join(said.split())
    assert "1 of 3 steps is shown to be worse in val/loss: d." in " ".join(said.split())
    assert "val/loss, change" in said, "a narrow terminal has the quality, too"


def test_one_run_of_a_side_gives_no_interval(raybench):
    out = raybench("report", "--chain", str(CLAIMS / "nanochat_records.csv")).out
    assert "3 of 3 steps are without an interval, as a side has one run: run 2; run 3; run 4." in out


def test_wrong_use(raybench, tmp_path):
    (tmp_path / "odd.csv").write_text("params.version,thing/x\na,1\na,2\nb,3\nb,4\n")
    for arguments, message in [
        (("all.csv", "--baseline", "version=a"), "remove --baseline"),
        ((str(CLAIMS / "nanochat_run4.csv"),), "there are no two versions"),
        (("odd.csv",), "say --lower-is-better thing/x"),
    ]:
        said = raybench("report", "--chain", *arguments)
        assert said.status == 2 and message in said.err
    assert "better: b" not in raybench("report", "--chain", "odd.csv", "--lower-is-better", "thing/x").out

"""The page of judged claims: what it says, computed again from the CSVs without raybench's statistics."""

import csv
import html
import importlib.util
import math
import re
import sys
from itertools import pairwise
from statistics import fmean, stdev

import pytest
from support import ROOT

FOLDER = ROOT / "notebooks" / "published" / "claims"

spec = importlib.util.spec_from_file_location("claims", ROOT / "docs" / "claims.py")
claims = sys.modules["claims"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(claims)

SECTIONS = dict(section.split("\n", 1) for section in (ROOT / "docs" / "claims.md").read_text().split("## ")[1:])


def test_page_is_what_the_script_writes():
    assert (ROOT / "docs" / "claims.md").read_text() == claims.page()


def sides(name, column):
    """The values of each side, the older one first; of MLPerf's runs those of their last evaluations."""
    rows = {row["trial"]: row for row in csv.DictReader((FOLDER / f"{name}.csv").open())}
    axis = next(axis for axis in ("params.version", "params.submission", "device") if axis in next(iter(rows.values())))
    values = {}
    for row in rows.values():
        values.setdefault(row[axis], []).append(float(row[column]))
    return list(values.values())


def section(name):
    return SECTIONS[next(claim.title for claim in claims.CLAIMS if claim.name == name)]


TIMES = {f"modded_{number}": "time_s" for number in (76, 78, 80, 81, 84)}
TIMES |= {f"mlperf_{name}": "elapsed_s" for name in ("mi355x", "mi325x", "405b")}


@pytest.mark.parametrize(("name", "column"), TIMES.items())
def test_ratios_and_times_are_those_of_geometric_means(name, column):
    before, after = (math.exp(fmean(map(math.log, values))) for values in sides(name, column))
    text = section(name)
    ratio = before / after
    found = re.search(r"([\d.]+)% faster than|([\d.]+)x as fast as", text)
    if found[1]:
        assert float(found[1]) == pytest.approx(100 * (ratio - 1), abs=0.051)
    else:
        assert float(found[2]) == pytest.approx(ratio, abs=0.051 if "." in found[2] and len(found[2]) == 3 else 0.0051)
    shown = re.search(r"([\d.]+) (s per run|min, reached)", text)
    assert float(shown[1]) * (60 if shown[2].startswith("min") else 1) == pytest.approx(after, rel=0.005)


@pytest.mark.parametrize("name", ["golf_1514", "golf_1769", "modded_81"])
def test_differences_of_quality_are_those_of_welch(name):
    column = "val/bpb" if name.startswith("golf") else "val/loss"
    before, after = sides(name, column)
    difference = fmean(after) - fmean(before)
    text = section(name).replace("−", "-")
    begin = text.index("%" if name.startswith("modded") else ";")
    shown = re.search(rf"{column} ([-+]?)([\d.]+)( lower)?", text[begin:])
    assert (-1 if shown[1] == "-" or shown[3] else 1) * float(shown[2]) == pytest.approx(difference, abs=0.00011)
    error = math.sqrt(stdev(before) ** 2 / len(before) + stdev(after) ** 2 / len(after))
    assert ("not distinguishable from equal" in text) == (abs(difference) < 2.3 * error), "all far from the limit"


def test_nanochat_reaches_its_target_in_four_of_seven_runs():
    rows = list(csv.DictReader((FOLDER / "nanochat_run4.csv").open()))
    cores, text = [float(row["val/core"]) for row in rows], section("nanochat_run4")
    reached = sum(core >= 0.256525 for core in cores)
    assert f"{reached} of {len(cores)} runs reached it" in text
    assert f"expected {2.02 * len(cores) / reached:.3g} h" in text, "each miss costs a whole run"
    assert f"{fmean(cores):.5f}" in text and 0 < fmean(cores) - 0.256525 < stdev(cores) / math.sqrt(len(cores))


def test_steps_of_the_chain_are_those_of_welch():
    from scipy.stats import t

    records = {}
    for row in csv.DictReader((FOLDER / "golf_records.csv").open()):
        records.setdefault(int(row["order"]), []).append(float(row["val/bpb"]))
    values = [records[place] for place in sorted(records)]
    shown = 0
    for before, after in pairwise(values):
        parts = [stdev(side) ** 2 / len(side) for side in (before, after)]
        df = sum(parts) ** 2 / sum(p**2 / (len(side) - 1) for p, side in zip(parts, (before, after), strict=True))
        half = t.ppf(0.975, min(df, 2 * min(map(len, (before, after))) - 2)) * math.sqrt(sum(parts))
        shown += fmean(after) + half < fmean(before)
    text = section("golf_records")
    assert (
        f"{shown} of 19 steps are shown to be better" in text
        and f"{19 - shown} of 19 steps are not distinguishable" in text
    )
    assert f"val/bpb {fmean(values[0]) - fmean(values[-1]):.2g} lower than #1019" in text


@pytest.mark.parametrize("name", [*(name for name in TIMES if name.startswith("modded")), "nanochat_run4"])
def test_means_and_their_p_are_those_of_scipy(name):
    from scipy.stats import ttest_1samp

    rows, text = list(csv.DictReader((FOLDER / f"{name}.csv").open())), section(name)
    column, bound, side = ("val/core", 0.256525, "greater") if name == "nanochat_run4" else ("val/loss", 3.28, "less")
    values = {}
    for row in rows:
        values.setdefault(row.get("params.version"), []).append(float(row[column]))
    for own in values.values():
        p = ttest_1samp(own, bound, alternative=side).pvalue
        shown = "" if p < 0.01 else ", but not significantly"
        assert f"the mean of {len(own)} runs, {fmean(own):.6g}, reaches {column} {bound:g}{shown} (p = {p:.2g})" in text


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim.name)
def test_figures_are_those_of_the_runs(claim):
    drawn, path = claims.figure(claim), claims.IMAGES / f"{claim.name}.svg"
    assert path.exists() == (drawn is not None) == (f"claims/{claim.name}.svg" in section(claim.name))
    if drawn:
        texts = {text.get_text() for panel in drawn.axes for text in (*panel.texts, *panel.get_yticklabels())}
        assert texts <= {html.unescape(text) for text in re.findall("<text[^>]*>([^<]*)</text>", path.read_text())}

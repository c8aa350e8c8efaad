"""Published comparisons: each ratio follows from the numbers of its source."""

import csv
import json

import pytest
from support import ROOT

NOTEBOOKS = ROOT / "notebooks"
CLAIMS = {row["claim"]: row for row in csv.DictReader((NOTEBOOKS / "published" / "claims.csv").open())}


@pytest.fixture(scope="module")
def computed():
    """What the notebook computes."""
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(NOTEBOOKS)
        for cell in json.loads((NOTEBOOKS / "published.ipynb").read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
    return names["computed"]


@pytest.mark.parametrize("claim", CLAIMS)
def test_ratio_follows_from_the_data(computed, claim):
    if claim == "tutorial_text":
        assert claim not in computed, "its data were not published"
    else:
        text = CLAIMS[claim]["value"]
        decimals = len(text.partition(".")[2])
        assert round(computed[claim], decimals) == float(text)


def test_every_computed_ratio_is_listed(computed):
    assert computed.keys() <= CLAIMS.keys()


def test_every_claim_has_its_source():
    assert all(row["source"] and row["comment"] for row in CLAIMS.values())

"""`raybench compare`: a grid before and after a change."""

import json

import pytest
from support.machines import results_of


@pytest.fixture
def compare(raybench, tmp_path):
    """Compares the results before a change with those after it, which are slower."""
    results_of(tmp_path / "before")
    results_of(tmp_path / "after", slower=1.6, torch="2.14.0")
    return lambda *arguments: raybench("compare", *(arguments if "before" in arguments else ("before", *arguments)))


def test_slower_version_does_not_pass(compare):
    said = compare("after")
    assert said.status == 4
    assert said.lines[0].startswith("Discard: ") and "slower (" in said.lines[0]
    assert "torch: 2.13.0+cpu → 2.14.0" in said.out


def test_request_that_cannot_be_read_is_said(compare, tmp_path):
    for file in (tmp_path / "before").glob("*/executions/*.json"):
        file.write_text(file.read_text().replace('"repeats": ', '"repeats": -'))
    said = compare("before", "after")
    assert "Caution: The grid has damaged files: 1 request of it cannot be read" in said.out.replace("\n", " "), (
        said.out
    )


def test_as_json(compare, tmp_path):
    compare("after", "--max-slowdown", "100%", "--json", "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["limits"]["slowdown"] == 1.0
    assert {change["verdict"] for change in written["changes"]} <= {"within the limit", "undecided"}
    assert (written["version"], written["decision"] == "discard") == (2, False)
    assert [each["name"] for each in written["differences"]] == ["torch"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("after", "--max-slowdown", "5x"), "is not a percentage; write, for example, 5%"),
        (("after", "--max-slowdown", "-1"), "is not a percentage; write, for example, 5%"),
        (("after", "--max-slowdown", "nan"), "is not a percentage; write, for example, 5%"),
        (("gone",), "gone"),
        (("after", "--until", "3%"), "--until has no effect without --interleave"),
    ],
)
def test_wrong_use(compare, arguments, message):
    said = compare(*arguments)
    assert said.status == 2 and message in said.err

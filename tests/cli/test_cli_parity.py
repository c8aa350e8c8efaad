"""`raybench parity`: one comparison as a person runs it, and how it says what it found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.frameworks import interpreter

from raybench.checks import run_parity as run
from raybench.checks.parity_comparison import ParityRow
from raybench.checks.run_parity import Parity, ParityPair

GOOD = ParityPair("tensorflow", (ParityRow("parameters", 0, 0.0, "75,114"), ParityRow("outputs", 5.2e-8, 1e-4)))
BAD = ParityPair(
    "torch_xla",
    (ParityRow("outputs", 0.021, 1e-4), ParityRow("layers", None, 0.0, "layer 3 with weights: 2.1 against 7")),
)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Has the command find this, and tells what it asked for."""

    def find(*pairs: ParityPair, missing: dict[str, str] | None = None) -> list[Any]:
        asked: list[Any] = []

        def answer(workload: str, wanted: Any, environments: Any, batch_size: int, tell: Any, model: Any) -> Parity:
            asked.extend([workload, wanted, environments, batch_size, model])
            return Parity(workload, batch_size, "torch", pairs, missing or {})

        monkeypatch.setattr(run, "run_parity", answer)
        return asked

    return find


@pytest.mark.slow
@pytest.mark.tensorflow
def test_two_frameworks_in_processes_of_their_own(raybench: Callable[..., Any]) -> None:
    interpreter("tensorflow")
    said = raybench("parity", "digits_cnn", "--frameworks", "torch,tensorflow", "--batch-size", 16, "--json")
    assert said.status == 0, said
    result = json.loads(said.out)
    assert (result["workload"], result["reference"], result["batch_size"]) == ("digits_cnn", "torch", 16)
    assert [pair["framework"] for pair in result["pairs"]] == ["tensorflow"]
    assert result["pairs"][0]["lines"][0]["note"] == "75,114"
    assert all(line["same"] for line in result["pairs"][0]["lines"])
    assert said.err.splitlines() == ["digits_cnn: torch (1 of 2)", "digits_cnn: tensorflow (2 of 2)"]


def test_a_table_for_each_pair_and_status_1_where_one_differs(raybench: Callable[..., Any], found: Any) -> None:
    asked = found(GOOD, BAD)
    environments = ["--environment", "torch_xla=xla", "--environment", "tensorflow=~/tf"]
    said = raybench("parity", "digits_cnn", *environments, "--model", "side=32", "--model", "deep=true")
    assert asked == ["digits_cnn", [], {"torch_xla": "xla", "tensorflow": "~/tf"}, 128, {"side": 32, "deep": True}]
    assert said.status == 1
    rows = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "digits_cnn: tensorflow against torch, batches of 128: same" in rows
    assert "outputs 5.2e-08 0.0001 same" in rows
    assert "digits_cnn: torch_xla against torch, batches of 128: different" in rows
    assert "outputs 0.021 0.0001 differs" in rows
    assert "layers – 0 differs layer 3 with weights: 2.1 against 7" in rows


def test_what_was_left_out_is_said(raybench: Callable[..., Any], found: Any) -> None:
    found(GOOD, missing={"torch_xla": "environment xla is not built; run `raybench env create xla`"})
    said = raybench("parity", "digits_cnn")
    assert said.status == 0
    assert said.err == "torch_xla was not compared: environment xla is not built; run `raybench env create xla`\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digts_cnn"], "unknown workload 'digts_cnn'; did you mean digits_cnn?"),
        (["digits_cnn", "--frameworks", "torch"], "parity needs at least two frameworks"),
        (["digits_cnn", "--frameworks", "torch,tenserflow"], "did you mean tensorflow?"),
        (["digits_cnn", "--environment", "xla"], "--environment xla: use FRAMEWORK=NAME"),
        (["digits_cnn", "--model", "side"], "--model side: use NAME=VALUE, such as --model side=32"),
        (
            ["digits_cnn", "--model", "side=32"],
            "model.side: not an option of digits_cnn's model; the model has no options",
        ),
        (["resunet", "--model", "side=[", "--frameworks", "torch,tensorflow"], "--model side=…"),
        (
            ["resunet", "--model", "side=32.5", "--frameworks", "torch,tensorflow"],
            "32.5 is not allowed; use an integer",
        ),
        (["digits_cnn", "--batch-size", "4"], "4 is not in the range x>=16"),
        ([], "Missing argument 'WORKLOAD'"),
    ],
)
def test_wrong_use(raybench: Callable[..., Any], arguments: list[str], message: str) -> None:
    said = raybench("parity", *arguments)
    assert (said.status, said.out) == (2, "")
    assert message in said.err

"""`raybench parity`: one comparison as a person runs it, and how it says what it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.frameworks import interpreter


@pytest.mark.slow
@pytest.mark.tensorflow
def test_two_frameworks_in_processes_of_their_own(raybench: Callable[..., Any]) -> None:
    interpreter("tensorflow")
    said = raybench("parity", "digits_cnn", "--frameworks", "torch,tensorflow", "--batch-size", 16)
    assert said.status == 0, said
    assert said.lines[0] == "digits_cnn: tensorflow against torch, batches of 16: same"
    assert "75,114" in said.lines[3] and all(" same" in line for line in said.lines[3:9]), said.out
    assert said.err.splitlines() == ["digits_cnn: torch (1 of 2)", "digits_cnn: tensorflow (2 of 2)"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digts_cnn"], "unknown workload 'digts_cnn'; did you mean digits_cnn?"),
        (["digits_cnn", "--frameworks", "torch"], "parity needs at least two frameworks"),
        (["digits_cnn", "--frameworks", "torch,tenserflow"], "did you mean tensorflow?"),
        (["digits_cnn", "--batch-size", "4"], "4 is not in the range x>=16"),
        ([], "Missing argument 'WORKLOAD'"),
    ],
)
def test_wrong_use(raybench: Callable[..., Any], arguments: list[str], message: str) -> None:
    said = raybench("parity", *arguments)
    assert (said.status, said.out) == (2, "")
    assert message in said.err

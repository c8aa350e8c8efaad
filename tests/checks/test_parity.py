"""Parity through the real engines: the same where models are the same, and plainly not where they are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import WORKLOADS
from support.frameworks import call

from raybench.checks import run_parity as parity
from raybench.checks.run_parity import Parity, ParityPair, run_parity
from raybench.core.job import Job
from raybench.errors import ExecutionError, UsageError

HERE = WORKLOADS
tensorflow = pytest.mark.tensorflow
OTHERS = [pytest.param("tensorflow", marks=tensorflow), pytest.param("torch_xla", marks=pytest.mark.xla)]
LINES = [
    "parameters",
    "outputs",
    "first loss",
    "first 10 losses",
    "updates of 10 steps",
    "outputs after 10 steps",
]


class Warm:
    """What `ForkServer` does, by processes forked from warm ones that many tests share."""

    def __init__(self, framework: str, python: str) -> None:
        self._framework = framework

    def run(self, job: Job) -> Iterator[dict[str, Any]]:
        yield from call(self._framework, "parity_side:made", job=job.to_json())

    def close(self) -> None:
        """They end with the tests."""


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Parity]:
    monkeypatch.setattr(parity, "ForkServer", Warm)
    return run_parity


def differing(pair: ParityPair) -> set[str]:
    return {line.what for line in pair.lines if not line.same}


@pytest.fixture
def changed(compared: Callable[..., Parity], tmp_path: Path) -> Callable[..., ParityPair]:
    """torch against TensorFlow, with one line of the person's file another."""

    def run(line: str = "", instead: str = "") -> ParityPair:
        text = (HERE / "two_models.py").read_text()
        assert line in text
        (tmp_path / "mine.py").write_text(text.replace(line, instead))
        return compared(f"{tmp_path}/mine.py:small", ["torch", "tensorflow"], batch_size=16).pairs[0]

    return run


@pytest.mark.slow
@pytest.mark.xla
def test_small_model_is_the_same_in_xla(compared: Callable[..., Parity]) -> None:
    found = compared(f"{HERE}/two_models.py:small", ["torch", "torch_xla"], batch_size=16)
    assert [line.what for line in found.pairs[0].lines] == LINES
    assert found.same, found.pairs[0].lines


@pytest.mark.exhaustive
@pytest.mark.parametrize("framework", OTHERS)
def test_digits_cnn_is_the_same_job(framework: str, compared: Callable[..., Parity]) -> None:
    found = compared("digits_cnn", ["torch", framework], batch_size=32)
    assert (found.reference, [pair.framework for pair in found.pairs]) == ("torch", [framework])
    assert [line.what for line in found.pairs[0].lines] == LINES
    assert found.same, found.pairs[0].lines


SMALL_GPT = """
from raybench.workloads import get

small = get("gpt").with_options({"layers": 2, "width": 32, "heads": 2, "context": 24})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework", [OTHERS[0], pytest.param("torch_xla", marks=[pytest.mark.xla, pytest.mark.exhaustive])]
)
def test_gpt_is_the_same_job(
    framework: str, compared: Callable[..., Parity], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(parity, "STEPS", 3)
    (tmp_path / "mine.py").write_text(SMALL_GPT)
    found = compared(f"{tmp_path}/mine.py:small", ["torch", framework], batch_size=16)
    assert found.same, found.pairs[0].lines


@pytest.mark.exhaustive
@pytest.mark.parametrize("framework", OTHERS)
@pytest.mark.parametrize("workload", ["davidnet", "katnoria_cnn", "mnist_cnn"])
def test_published_workloads_on_real_data(
    workload: str, framework: str, compared: Callable[..., Parity], monkeypatch: pytest.MonkeyPatch, real_data: Path
) -> None:
    monkeypatch.setattr(parity, "STEPS", 3)
    found = compared(workload, ["torch", framework], batch_size=16)
    assert found.same, found.pairs[0].lines


@pytest.mark.slow
@tensorflow
def test_users_models_are_the_same_for_small_batches(changed: Callable[..., ParityPair]) -> None:
    """A batch norm of 16 numbers: torch's running variance is 16/15 of Keras's, and that is no difference."""
    pair = changed()
    assert pair.same, pair.lines


DROP = "(),\n            layers.Drop"


@pytest.mark.slow
@tensorflow
@pytest.mark.parametrize(
    ("line", "instead", "differ"),
    [
        ("return 2 * tf.nn", "return 3 * tf.nn", {"first loss", "updates of 10 steps"}),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                ("MOMENTUM = 0.9", "MOMENTUM = 0.99", {"outputs after 10 steps"}),
                ("EPSILON = 1e-3", "EPSILON = 1e-5", {"outputs"}),
                ("PAD = (0, 1, 0, 1)", "PAD = (1, 0, 1, 0)", {"outputs", "first loss"}),
                (f"layers.ReLU{DROP}", f"layers.ELU{DROP}", {"outputs", "first loss"}),
            )
        ),
    ],
)
def test_models_that_are_not_the_same(
    changed: Callable[..., ParityPair], line: str, instead: str, differ: set[str]
) -> None:
    pair = changed(line, instead)
    assert differ <= differing(pair)
    if line.startswith("MOMENTUM"):
        assert differing(pair) == differ, "only the running statistics depend on it"


@pytest.mark.slow
@tensorflow
@pytest.mark.parametrize(
    "wrong",
    [
        {"nesterov": False},
        *(pytest.param(wrong, marks=pytest.mark.exhaustive) for wrong in ({"momentum": 0.0}, {"weight_decay": 0.0})),
    ],
)
def test_engines_that_do_not_take_the_same_steps(
    wrong: dict[str, Any], compared: Callable[..., Parity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at a hundredth of the rate another rule for a step is seen."""

    def run(self: Warm, job: Job) -> Iterator[dict[str, Any]]:
        if job.cell.framework == "tensorflow":
            job = replace(job, cell=replace(job.cell, settings=replace(job.cell.settings, **wrong)))
        yield from call(job.cell.framework, "parity_side:made", job=job.to_json())

    monkeypatch.setattr(Warm, "run", run)
    pair = compared("digits_cnn", ["torch", "tensorflow"], batch_size=32).pairs[0]
    assert "updates of 10 steps" in differing(pair), pair.lines


@pytest.mark.slow
@tensorflow
def test_layers_without_a_partner_are_named(changed: Callable[..., ParityPair]) -> None:
    pair = changed("HEAD_HAS_BIAS = True", "HEAD_HAS_BIAS = False")
    parameters, layers = pair.lines
    assert (parameters.difference, parameters.note, parameters.same) == (10, "2,262 and 2,252", False)
    assert (layers.what, layers.same) == ("layers", False)
    assert "9 (weight 10×20, bias 10) against dense_1 (weight 10×20)" in layers.note


@pytest.mark.slow
@tensorflow
def test_error_of_a_users_model_has_its_line(changed: Callable[..., ParityPair], tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match=rf"^tensorflow: ZeroDivisionError: .*{tmp_path}/mine.py:30"):
        changed("    import keras\n", "    import keras\n    1 / 0\n")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["torch", "tensorflw"], "unknown framework 'tensorflw'; did you mean tensorflow"),
        (["torch"], "parity needs at least two frameworks, not only torch"),
    ],
)
def test_wrong_use(wanted: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_parity("digits_cnn", wanted)


def test_workload_with_one_model(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text('from raybench import Workload\nmine = Workload(model=list, dataset="digits")')
    with pytest.raises(UsageError, match="mine has no tensorflow model; use torch"):
        run_parity(f"{tmp_path}/mine.py:mine", ["torch", "tensorflow"])

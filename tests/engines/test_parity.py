"""Parity of the engines: one model in two frameworks is the same training job, and a different one is plainly not."""

import pytest
from support import WORKLOADS
from support.frameworks import call_on
from support.parity import differences, differing

TENSORFLOW = pytest.param("tensorflow", marks=pytest.mark.tensorflow)
XLA = pytest.param("torch_xla", marks=pytest.mark.xla)
SMALL_GPT = """
from raybench.workloads import get

small = get("gpt").with_options({"layers": 2, "width": 32, "heads": 2, "context": 24})
"""


@pytest.fixture
def compared(tmp_path):
    """The differences of a framework from torch, of a workload."""

    def run(workload, other, root="", wrong=None, **options):
        for framework, settings in (("torch", {}), (other, wrong or {})):
            kind = "xla_cpu" if framework == "torch_xla" else "cpu"
            given = {"folder": str(tmp_path), "root": str(root), **options, **settings}
            call_on(kind, framework, "parity_side:train", workload=workload, name=framework, **given)
        return differences(tmp_path, "torch", other)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("framework", [TENSORFLOW, XLA])
def test_small_model_is_the_same(framework, compared):
    """Also batch norms of 16 numbers: torch's running variance is 16/15 of Keras's, and that is no difference."""
    found = compared(f"{WORKLOADS}/two_models.py:small", framework)
    assert differing(found) == set(), found


@pytest.mark.exhaustive
@pytest.mark.parametrize("framework", [TENSORFLOW, XLA])
def test_digits_cnn_is_the_same(framework, compared):
    found = compared("digits_cnn", framework, batch_size=32)
    assert differing(found, updates=1e-3) == set(), found


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework", [TENSORFLOW, pytest.param(*XLA.values, marks=[*XLA.marks, pytest.mark.exhaustive])]
)
def test_gpt_is_the_same(framework, compared, tmp_path):
    (tmp_path / "mine.py").write_text(SMALL_GPT)
    found = compared(f"{tmp_path}/mine.py:small", framework, steps=3)
    assert differing(found) == set(), found


@pytest.mark.exhaustive
@pytest.mark.parametrize("framework", [TENSORFLOW, XLA])
@pytest.mark.parametrize("workload", ["davidnet", "katnoria_cnn", "mnist_cnn"])
def test_published_workloads_on_real_data(workload, framework, compared, real_data):
    found = compared(workload, framework, root=real_data, steps=3)
    assert differing(found) == set(), found


@pytest.mark.slow
@pytest.mark.tensorflow
def test_models_that_are_not_the_same(compared, tmp_path):
    text = (WORKLOADS / "two_models.py").read_text()
    assert "return 2 * tf.nn" in text
    (tmp_path / "mine.py").write_text(text.replace("return 2 * tf.nn", "return 3 * tf.nn"))
    assert {"first loss", "updates"} <= differing(compared(f"{tmp_path}/mine.py:small", "tensorflow"))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_engines_that_do_not_take_the_same_steps(compared):
    """Also at a hundredth of the rate another rule for a step is seen."""
    found = compared("digits_cnn", "tensorflow", wrong={"nesterov": False}, batch_size=32)
    assert "updates" in differing(found, updates=1e-3), found

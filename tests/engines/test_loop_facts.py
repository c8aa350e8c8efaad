"""The framework of a training function, by what its files import."""

import sys

import pytest

from raybench.engines.loop_facts import loaded_framework, recognize


@pytest.mark.parametrize(
    ("imported", "framework"),
    [
        ({"numpy", "sklearn"}, "none"),
        ({"transformers", "numpy"}, "torch"),
        ({"lightning"}, "torch"),
        ({"keras"}, "tensorflow"),
        ({"keras", "torch"}, "torch"),
        ({"keras", "jax"}, "jax"),
        ({"torch", "torch_xla"}, "torch_xla"),
        ({"jax", "tensorflow"}, "jax"),
    ],
)
def test_by_imports(imported, framework):
    assert recognize(imported) == framework


def test_tensorflow_wins_over_loaded_jax(monkeypatch):
    monkeypatch.setattr(sys, "modules", {"tensorflow": None, "keras": None, "jax": None})
    assert loaded_framework() == "tensorflow"
    monkeypatch.setattr(sys, "modules", {"jax": None})
    assert loaded_framework() == "jax"

"""A recipe and raybench's extra of the same name are one."""

import tomllib
from pathlib import Path

import pytest

from raybench import environments
from raybench.environments import RECIPES, python_of, recipe_for
from raybench.errors import UsageError

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "tiny"])
def test_a_recipe_is_the_extra_of_its_name_and_what_trials_need(name, monkeypatch):
    monkeypatch.undo()
    recipe = RECIPES[name]
    assert list(recipe.extra) == PYPROJECT["optional-dependencies"][name]
    assert recipe.requirements == recipe.extra + environments.recipes.TRIALS
    assert set(environments.recipes.TRIALS) <= set(PYPROJECT["dependencies"])


def test_an_unknown_one_has_a_nearest_name():
    with pytest.raises(UsageError, match="unknown environment 'xlaa'; did you mean xla\\?"):
        python_of("xlaa")
    with pytest.raises(UsageError, match="unknown environment 'q'; use one of xla, tpu, torch_tpu, tensorflow"):
        python_of("q")


@pytest.mark.parametrize(
    ("framework", "kind", "name"),
    [
        ("torch_xla", "tpu", "tpu"),
        ("torch_xla", "xla_cpu", "xla"),
        ("torch_tpu", "tpu", "torch_tpu"),
        ("tensorflow", "tpu", "tensorflow"),
    ],
)
def test_which_recipe_brings_a_framework(framework, kind, name):
    assert recipe_for(framework, kind).name == name
    assert recipe_for("torch", kind) is None

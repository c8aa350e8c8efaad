"""Environments: the interpreters that trials run in, where that is not the one raybench runs in.

An environment needs a framework and NumPy, and neither Ray nor raybench: a trial's process brings its own copy.
"""

from __future__ import annotations

from raybench.environments.built import Built, environments_root, look, python_of
from raybench.environments.recipes import RECIPES, Recipe, recipe_for

__all__ = ["RECIPES", "Built", "Recipe", "environments_root", "look", "python_of", "recipe_for"]

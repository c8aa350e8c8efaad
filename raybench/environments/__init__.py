"""Environments: the interpreters that trials run in, where that is not the one raybench runs in.

An environment needs a framework and NumPy, and neither Ray nor raybench: a trial's process brings its own copy.
"""

from __future__ import annotations

from raybench.environments.interpreter import NEEDED, Interpreter, find
from raybench.environments.keys import called, is_path, key_of, runtime_env_of
from raybench.environments.recipes import RECIPES, Recipe, recipe_for
from raybench.environments.status import Built, built_names, environments_root, look, python_of
from raybench.environments.subprocess_python import clean_environ, put_raybench

__all__ = [
    "NEEDED",
    "RECIPES",
    "Built",
    "Interpreter",
    "Recipe",
    "built_names",
    "called",
    "clean_environ",
    "environments_root",
    "find",
    "is_path",
    "key_of",
    "look",
    "put_raybench",
    "python_of",
    "recipe_for",
    "runtime_env_of",
]

"""Python environments of trials that do not run in raybench's own.

An environment needs a framework and NumPy, and neither Ray nor raybench: a trial's process brings its own copy of
raybench.
"""

from __future__ import annotations

from raybench.environments.build import BuiltEnvironment, built_names, environment_status, environments_root, python_of
from raybench.environments.interpreter import (
    NEEDED,
    Interpreter,
    clean_environ,
    environment_label,
    find,
    is_path,
    key_of,
    link_package,
    own_environ,
)
from raybench.environments.recipes import RECIPES, Recipe, recipe_for

__all__ = [
    "NEEDED",
    "RECIPES",
    "BuiltEnvironment",
    "Interpreter",
    "Recipe",
    "built_names",
    "clean_environ",
    "environment_label",
    "environment_status",
    "environments_root",
    "find",
    "is_path",
    "key_of",
    "link_package",
    "own_environ",
    "python_of",
    "recipe_for",
]

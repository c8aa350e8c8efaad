"""Python environments of trials that do not run in raybench's own.

An environment needs a framework and NumPy, and neither Ray nor raybench: a trial's process brings its own copy of
raybench.
"""

from raybench.environments.interpreter import NEEDED as NEEDED
from raybench.environments.interpreter import Interpreter as Interpreter
from raybench.environments.interpreter import environment_label as environment_label
from raybench.environments.interpreter import find as find
from raybench.environments.interpreter import is_path as is_path
from raybench.environments.interpreter import key_of as key_of
from raybench.environments.interpreter import link_package as link_package
from raybench.environments.interpreter import own_environ as own_environ
from raybench.environments.recipes import RECIPES as RECIPES
from raybench.environments.recipes import EnvironmentRecipe as EnvironmentRecipe
from raybench.environments.recipes import built_names as built_names
from raybench.environments.recipes import clean_environ as clean_environ
from raybench.environments.recipes import environments_root as environments_root
from raybench.environments.recipes import python_of as python_of
from raybench.environments.recipes import recipe_for as recipe_for

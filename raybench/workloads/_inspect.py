"""Private program of `inspection.py`: imports a user's file and writes what the plan needs to know about it.

It runs in a process of its own, also in environments without raybench's dependencies: only the standard library and
raybench itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def main(file: str, name: str, raybench: str, answer_file: str, parent: str) -> None:
    """Write the answers about a name and all workloads in a file, as JSON.

    Args:
        file: the absolute path.
        name: the name of a training function or a workload in it.
        raybench: a folder with this package alone; an environment has none, or a different version.
        answer_file: where the answer goes; standard output belongs to the user's code.
        parent: the process id of the process that asks.
    """
    sys.argv = [file]
    sys.path[0] = raybench  # it was the folder of this program
    from raybench.core.process_guard import die_with_parent

    die_with_parent()  # before the imports, which take seconds on a busy machine
    if os.getppid() != int(parent):  # it was killed before that
        return
    import json
    from types import CodeType

    from raybench.workloads.base import Workload
    from raybench.workloads.own_files import import_file, is_installed

    executed: dict[str, None] = {}

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "exec" and isinstance(arguments[0], CodeType):
            executed[arguments[0].co_filename] = None

    sys.addaudithook(note)  # also sees modules that are loaded by path and not in sys.modules
    answer: dict[str, Any]
    try:
        module = import_file(Path(file))
        workloads = [key for key, value in vars(module).items() if isinstance(value, Workload)]
        answer = {"answers": {key: _describe(module, key) for key in [*workloads, name]}}
    except BaseException as error:
        answer = {"problem": _problem(error, file), "missing": getattr(error, "name", None) or ""}
    names = {str(getattr(module, "__file__", "")): name for name, module in [*sys.modules.items()]}
    answer["modules"] = {
        path: names.get(path) or Path(path).stem
        for path in [*executed]
        # A compiler executes modules that it generates, and deletes their files.
        if path.endswith(".py") and Path(path).is_file()
        if not path.startswith(raybench) and not is_installed(Path(path))
    }
    Path(answer_file).write_text(json.dumps(answer))


def _describe(module: ModuleType, name: str) -> dict[str, Any]:
    from raybench.workloads.base import Workload

    value = getattr(module, name, None)
    if isinstance(value, Workload):
        return {"workload": value.describe()}
    if callable(value) and not isinstance(value, type):
        return {"function": _function(value, name)}
    public = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    names = [key for key, value in public.items() if isinstance(value, Workload) or _takes_trial(value, module)]
    return {"names": names, "type": "" if value is None else type(value).__name__}


def _takes_trial(value: Any, module: ModuleType) -> bool:
    from inspect import isfunction, signature

    is_own = isfunction(value) and value.__module__ == module.__name__
    return is_own and next(iter(signature(value).parameters), "") == "trial"


def _function(function: Any, name: str) -> dict[str, Any]:
    """The parameters of a training function, and what is wrong with it."""
    import inspect

    code = getattr(inspect.unwrap(function), "__code__", None)
    line = code.co_firstlineno if code else 1
    example = f"write def {name}(trial, *, batch_size: int, …)"
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError:  # an annotation of a name that is imported for a type checker only
        signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        return {"line": line, "problems": [f"the first parameter of {name} is the trial: {example}"]}
    problems, described = [], {}
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            problems.append(f"{stars}{parameter.name} hides the parameters from the plan: {example}")
        elif parameter.name in ("device", "seed"):
            problems.append(f"{parameter.name} is not a parameter: use trial.{parameter.name}")
        has_plain_default = parameter.default is not parameter.empty and _is_plain(parameter.default)
        of_default = type(parameter.default).__name__ if has_plain_default and parameter.default is not None else ""
        described[parameter.name] = {
            "type": _type_name(parameter.annotation) or of_default,
            "required": parameter.default is parameter.empty,
            "default": parameter.default if has_plain_default else None,
            "is_plain": has_plain_default,
        }
    return {"line": line, "problems": problems, "parameters": described}


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or type(value) in (bool, int, str) or (type(value) is float and value - value == 0)


def _type_name(annotation: object) -> str:
    """The name of a plain type, alone or with None; empty for any other."""
    from typing import get_args

    kinds = [kind for kind in get_args(annotation) or [annotation] if kind not in (None, type(None))]
    plain = len(kinds) == 1 and kinds[0] in (int, float, bool, str)
    return str(getattr(kinds[0], "__name__", "")) if plain else ""


def _problem(error: BaseException, file: str) -> str:
    """One line about an error of the import, with the place in the user's own files."""
    from traceback import walk_tb

    if isinstance(error, SyntaxError):
        return f"{error.filename or file}:{error.lineno or 1}: {error.msg}"
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    folder = str(Path(file).parent)
    user_frames = [place for place in frames if place[0].startswith(folder) and "site-packages" not in place[0]]
    path, line = user_frames[-1] if user_frames else (file, 1)
    if isinstance(error, SystemExit):
        return f"{path}:{line}: ends the process when the file is imported; put it under `if __name__ == '__main__':`"
    return f"{path}:{line}: {': '.join([type(error).__name__, *str(error).strip().splitlines()[:1]])}"


if __name__ == "__main__":
    main(*sys.argv[1:])

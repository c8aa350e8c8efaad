"""Check a grid's parameters against those of the user's own training function or command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path as Folder
from typing import Any

from raybench.config.command import Command
from raybench.config.command_parameters import Given, wrong_command
from raybench.config.grid import GridSpec
from raybench.config.yaml_document import Path
from raybench.core.settings import PARAM, SETTINGS
from raybench.errors import WorkloadError, close
from raybench.workloads import WorkloadInfo, read_workload
from raybench.workloads.parameters import PASSED

APPLIED = frozenset(
    {
        "epochs",
        "steps_per_epoch",
        "framework",
        "threads",
        "cpus",
        "warmup_epochs",
        "timeout",
        "checkpoint_every",
        "memory_limit",
    }
)
"""Settings that raybench itself applies to a training function."""

ARITHMETIC = ("fp32", "tf32")
"""Values of `precision` that raybench itself applies; another has to be a parameter of the function."""

REFUSED = {
    "replicas": "the batch is divided by a loop of raybench; give the device a count",
    "replication": "the batch is divided by a loop of raybench",
    "examples": "the function loads its own data; give it a parameter for their number, under params",
}


def wrong_parameters(spec: GridSpec, base: Folder) -> Iterator[tuple[Path, str]]:
    """What does not fit the workload's parameters, with its path.

    Args:
        spec: the grid.
        base: the folder of its file.
    """
    try:
        info = spec.read_workload(base)
    except (WorkloadError, OSError) as error:
        if isinstance(spec.workload, Command) and isinstance(error, WorkloadError):
            yield ("workload", "command") if error.field == "workload" else (error.field,), str(error)
        return  # otherwise an error of its own
    given = list(_given(spec))
    if isinstance(spec.workload, Command):
        yield from wrong_command(spec, spec.workload, info, given)
        return
    if not info.is_function:
        for path, name, _ in given:
            if name.startswith(PARAM):
                yield path, f"params are of a training function of your own; {info.name} has its options under `model`"
        return
    misplaced = set()
    for path, name, value in given:
        problem = _misplaced(info, name)
        on_axis = path[0] == "axes"
        if problem and not (on_axis and name in misplaced):
            yield path[:2] if on_axis else path, problem
            misplaced.add(name)
        elif not problem and (problem := _unsuitable(info, name, value)):
            yield path, problem
    has_value = {_parameter(name) for _, name, _ in given} | {"framework", "threads"}
    for name, parameter in info.parameters.items():
        if name not in has_value and parameter.required:
            key = f"{name}: …" if name in PASSED else f"params: {{{name}: …}}"
            message = f"{info.file}:{info.function_line}: {name} has no default, and the grid no value; add `{key}`"
            yield ("workload",), message


def without_params(data: Mapping[str, Any], path: Path, base: Folder) -> str | None:
    """The message for an unknown key that is a parameter of the grid's training function; None if it is none.

    Args:
        data: the grid file's data, which may have any errors.
        path: the key's path.
        base: the folder of the file.
    """
    *parents, name = path
    if not isinstance(data.get("workload"), str):
        return None
    if parents and parents[0] not in ("axes", "baseline", "include", "exclude", "overrides"):
        return None
    try:
        info = read_workload(data["workload"], base)
    except (WorkloadError, OSError, ValueError):
        return None
    if name not in info.parameters:
        return None
    change = f"params.{name}" if parents and parents[-1] != "set" else f"params: {{{name}: …}}"
    return f"{name} is a parameter of {info.name} ({info.file}:{info.function_line}); write {change}"


def _parameter(name: str) -> str:
    """The parameter of the function that a key of the grid stands for."""
    return name.removeprefix(PARAM)


def _unsuitable(info: WorkloadInfo, name: str, value: Any) -> str | None:
    """Why a value of a parameter or setting does not fit, or None."""
    parameter = info.parameters.get(_parameter(name))
    if parameter is not None:
        return parameter.problem(value)
    return _no_parameter(info, name) if name == "precision" and value not in ARITHMETIC else None


def _misplaced(info: WorkloadInfo, name: str) -> str | None:
    """Why a key of the grid is nothing for the function, whatever its value; None if it is."""
    parameter = info.parameters.get(_parameter(name))
    if name.startswith(PARAM):
        if parameter is None:
            return _no_parameter(info, _parameter(name))
        if _parameter(name) in PASSED:
            return f"{_parameter(name)} is a setting of raybench; write it without params"
        return None
    if name in APPLIED or name == "precision" or (name in PASSED and parameter is not None):
        return None
    if name in REFUSED:
        return f"not for a training function: {REFUSED[name]}"
    if parameter is not None:
        return f"{info.name} gets {name} from params; write params: {{{name}: …}}, on an axis params.{name}"
    return _no_parameter(info, name)


def _no_parameter(info: WorkloadInfo, name: str) -> str:
    hint = close(name, info.parameters) or f"it has {', '.join(info.parameters) or 'none'}"
    return f"{info.name} ({info.file}:{info.function_line}) has no parameter {name[:60]}; {hint}"


def _given(spec: GridSpec) -> Iterator[Given]:
    """Every setting and parameter that the grid sets, with its path and its value."""
    yield from _of_map((), {name: getattr(spec, name) for name in spec.model_fields_set & SETTINGS.keys()})
    yield from _of_params(("params",), spec.params)
    for name, values in spec.axes.items():
        if name != "device":
            for index, value in enumerate(values):
                yield ("axes", name, index), name, value
    for index, entry in enumerate(spec.include):
        yield from _of_map(("include", index), {name: value for name, value in entry.items() if name != "device"})
    for index, rule in enumerate(spec.overrides):
        at, names = ("overrides", index, "set"), rule.set.model_fields_set & SETTINGS.keys()
        yield from _of_map(at, {name: getattr(rule.set, name) for name in names})
        yield from _of_params((*at, "params"), rule.set.params)
    for name, profile in spec.devices.items():
        names = profile.model_fields_set & SETTINGS.keys()
        yield from _of_map(("devices", name), {key: getattr(profile, key) for key in names})


def _of_map(path: Path, values: Mapping[str, Any]) -> Iterator[Given]:
    for name, value in values.items():
        yield (*path, name), name, value


def _of_params(path: Path, values: Mapping[str, Any]) -> Iterator[Given]:
    for name, value in values.items():
        yield (*path, name), f"{PARAM}{name}", value

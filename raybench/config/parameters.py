"""Check a grid's settings and parameters against its training function or command."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path as Folder
from typing import Any

from raybench.config.command import GridCommand
from raybench.config.grid import GridSpec
from raybench.config.yaml_document import KeyPath
from raybench.core.settings import PARAM
from raybench.errors import WorkloadError, close
from raybench.workloads import read_workload
from raybench.workloads.command import ARGS, SPECIAL, formatted_placeholders, placeholders
from raybench.workloads.info import NEEDS_TRIAL, OF_ENGINES_ONLY
from raybench.workloads.parameters import PASSED, with_other_batch_size

GridFault = tuple[KeyPath, str]  # a problem and the path of its value


def wrong_parameters(spec: GridSpec, base: Folder) -> Iterator[GridFault]:
    """Yield the problems of a grid with the parameters of its workload."""
    try:
        info = spec.read_workload(base)
    except (WorkloadError, OSError) as error:
        if isinstance(spec.workload, GridCommand) and isinstance(error, WorkloadError):
            yield ("workload", "command") if error.field == "workload" else (error.field,), str(error)
        return  # otherwise the plan reports it
    asked = {("metric",): spec.metric, ("target", "metric"): spec.target.metric if spec.target else None}
    for at, metric in asked.items():
        if metric and (problem := info.unknown_metric(metric)):
            yield at, problem
    given = list(spec.given())
    wrong_names: list[GridFault] = []
    if isinstance(spec.workload, GridCommand):
        yield from _wrong_command(spec, spec.workload, "epochs" in info.applied)
        names = with_other_batch_size(name.removeprefix(PARAM) for _, name, _ in given if name not in OF_ENGINES_ONLY)
        wrong_names = list(_wrong_names(spec.workload, names))
        yield from wrong_names
    reported: set[str] = set()
    for path, name, value in given:
        if name in reported:
            continue
        problem = info.misplaced(name) or (None if wrong_names else info.unused(name))
        if problem:
            reported.add(name)
            yield path[:2] if path[0] == "axes" else path, problem
        elif problem := info.unsuitable(name, value):
            yield path, problem
    has_value = with_other_batch_size(name.removeprefix(PARAM) for _, name, _ in given) | {"framework", "threads"}
    for name, parameter in info.parameters.items():
        if name not in has_value and parameter.required:
            key = f"{name}: …" if name in PASSED else f"params: {{{name}: …}}"
            message = f"{info.place}: {name} has no default and no value in the grid; add `{key}`"
            yield ("workload",), message


def without_params(data: Mapping[str, Any], path: KeyPath, base: Folder) -> str | None:
    """The message for an unknown key that is a parameter of the grid's training function or command, or None."""
    *parents, name = path
    workload = data.get("workload")
    if parents and parents[0] not in ("axes", "baseline", "include", "exclude", "overrides"):
        return None
    change = f"params.{name}" if parents and parents[-1] != "set" else f"params: {{{name}: …}}"
    if isinstance(workload, Mapping):
        is_used = name not in SPECIAL and name in [*placeholders(str(workload.get("command")))]
        return f"{name} is a name in the command, not a setting of raybench; write {change}" if is_used else None
    try:
        info = read_workload(workload, base) if isinstance(workload, str) else None
    except (WorkloadError, OSError, ValueError):
        return None
    if info is None or name not in info.parameters:
        return None
    return f"{name} is a parameter of {info.name} ({info.place}); write {change}"


def _wrong_command(spec: GridSpec, written: GridCommand, reports: bool) -> Iterator[GridFault]:
    """Keys of the grid that do not suit its command, whatever the names in it."""
    if reports:
        for name in ("epoch", "begin", "time", "work", "metrics"):
            if getattr(written, name):
                yield ("workload", name), f"the script reports to raybench.current_trial(); remove {name}"
    elif spec.stop_at_target:
        yield ("stop_at_target",), NEEDS_TRIAL


def _wrong_names(written: GridCommand, given: Collection[str]) -> Iterator[GridFault]:
    """Names in braces that stand for nothing; `given` are those of the settings and parameters of the grid."""
    texts: list[tuple[KeyPath, str]] = [(("workload", "command", at), text) for at, text in enumerate(written.command)]
    texts += [(("workload", "env", name), text) for name, text in written.env.items()]
    texts += [(("workload", "smoke", at), text) for at, text in enumerate(written.smoke or ())]
    texts += [(("workload", "work", unit), text) for unit, text in written.work.items()]
    names = sorted({*given, *SPECIAL})
    for path, text in texts:
        for name in formatted_placeholders(text):
            if name in names:
                yield path, f"{{{name}}} has a format, which is not supported; write {{{name}}}"
        for name in dict.fromkeys(placeholders(text)):
            if name == ARGS and (text != f"{{{ARGS}}}" or path[1] in ("env", "work")):
                yield path, f"{{{ARGS}}} stands for several arguments; write it as an argument of its own"
            elif name not in names and name in PASSED:
                yield path, f"the grid has no value for {{{name}}}; add `{name}: …`"
            elif name not in names:
                near = get_close_matches(name[:100], [*PASSED], 1, cutoff=0.75)
                remedy = f"make it an axis, add `params: {{{name}: …}}`, or write {{{{{name}}}}} for braces"
                yield path, f"unknown name {{{name}}}; {close(name, [*names, *near]) or remedy}"

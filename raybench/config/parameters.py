"""Check a grid's settings and parameters against its training function or command."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path as Folder
from typing import Any

from raybench.config.command import Command
from raybench.config.grid import GridSpec
from raybench.config.yaml_document import Path
from raybench.core.settings import PARAM
from raybench.errors import WorkloadError, close
from raybench.workloads import WorkloadInfo, read_workload
from raybench.workloads.command import ARGS, BY_TRIAL, SPECIAL, formatted_placeholders, placeholders
from raybench.workloads.parameters import PASSED

Finding = tuple[Path, str]
"""A problem and the path of its value."""

SUPERVISION = frozenset(
    {"framework", "environment", "count", "nodes", "threads", "cpus", "warmup_epochs", "timeout", "memory_limit"}
)
"""Settings that raybench itself applies to the process of any training."""

BY_LOOP = BY_TRIAL | {"checkpoint_every"}
"""Settings that raybench itself applies to a loop that reports its epochs to a `Trial`."""

ARITHMETIC = ("fp32", "tf32")
"""Values of `precision` that raybench itself applies; any other has to be a parameter of the function."""

REFUSED = {
    "model": "write params: {model: …}, on an axis params.model",
    "replicas": "only raybench's own loop divides a batch; set count",
    "examples": "it loads its own data; give it a parameter for their number under params",
}
"""Settings that only raybench's own loops have."""

_NEEDS_TRIAL = "needs raybench.current_trial() in the script of the command"


def wrong_parameters(spec: GridSpec, base: Folder) -> Iterator[Finding]:
    """Yield the problems of a grid with the parameters of its workload."""
    try:
        info = spec.read_workload(base)
    except (WorkloadError, OSError) as error:
        if isinstance(spec.workload, Command) and isinstance(error, WorkloadError):
            yield ("workload", "command") if error.field == "workload" else (error.field,), str(error)
        return  # otherwise the plan reports it
    asked = {("metric",): spec.metric, ("target", "metric"): spec.target.metric if spec.target else None}
    for at, metric in asked.items():
        if metric and (problem := _unknown_metric(metric, info)):
            yield at, problem
    given = list(spec.given())
    wrong_names: list[Finding] = []
    if isinstance(spec.workload, Command):
        yield from _wrong_command(spec, spec.workload, info)
        names = with_other_batch_size(name.removeprefix(PARAM) for _, name, _ in given if name not in REFUSED)
        wrong_names = list(_wrong_names(spec.workload, names))
        yield from wrong_names
    reported: set[str] = set()
    for path, name, value in given:
        if name in reported:
            continue
        problem = _misplaced(info, name) or (None if wrong_names else _unused(info, name))
        if problem:
            reported.add(name)
            yield path[:2] if path[0] == "axes" else path, problem
        elif problem := _unsuitable(info, name, value):
            yield path, problem
    has_value = with_other_batch_size(name.removeprefix(PARAM) for _, name, _ in given) | {"framework", "threads"}
    for name, parameter in info.parameters.items():
        if name not in has_value and parameter.required:
            key = f"{name}: …" if name in PASSED else f"params: {{{name}: …}}"
            message = f"{info.file}:{info.function_line}: {name} has no default and no value in the grid; add `{key}`"
            yield ("workload",), message


def without_params(data: Mapping[str, Any], path: Path, base: Folder) -> str | None:
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
    return f"{name} is a parameter of {info.name} ({info.file}:{info.function_line}); write {change}"


def used_settings(command: Any, resolved: Mapping[str, Any]) -> list[str]:
    """The settings and parameters of a cell that its command uses, as axes are called."""
    used = with_other_batch_size(command.names) | (BY_TRIAL if command.reports else frozenset[str]())
    return [
        name
        for name in resolved
        if (name in PASSED or name.startswith(PARAM)) and (command.takes_all or name.removeprefix(PARAM) in used)
    ]


def with_other_batch_size(names: Iterable[str]) -> frozenset[str]:
    """The names, with both sizes of a batch if one is there: each follows from the other."""
    given, sizes = frozenset(names), frozenset({"batch_size", "per_device_batch_size"})
    return given if sizes.isdisjoint(given) else given | sizes


def _unknown_metric(metric: str, info: WorkloadInfo) -> str | None:
    """The message if the workload has no metric of this name; None if it has, or if this is unknown."""
    command = info.command
    names = (*info.metric_names, "loss") if info.metric_names else ()
    known = command.metric_names if command else [f"{split}/{name}" for split in ("val", "train") for name in names]
    hint = close(metric.replace("test/", "val/"), known)
    if not known or metric in known or (command and not hint):  # its output may have it without a pattern
        return None
    hint = hint or f"use one of {', '.join(known)}"
    return f"{info.name} has no metric {metric[:60]!r}; {hint}"


def _wrong_command(spec: GridSpec, written: Command, info: WorkloadInfo) -> Iterator[Finding]:
    """Keys of the grid that do not suit its command, whatever the names in it."""
    command = info.command
    assert command
    if command.reports:
        for name in ("epoch", "begin", "time", "work", "metrics"):
            if getattr(written, name):
                yield ("workload", name), f"the script reports to raybench.current_trial(); remove {name}"
    elif spec.stop_at_target:
        yield ("stop_at_target",), _NEEDS_TRIAL


def _wrong_names(written: Command, given: Collection[str]) -> Iterator[Finding]:
    """Names in braces that stand for nothing; `given` are those of the settings and parameters of the grid."""
    texts: list[tuple[Path, str]] = [(("workload", "command", at), text) for at, text in enumerate(written.command)]
    texts += [(("workload", "env", name), text) for name, text in written.env.items()]
    texts += [(("workload", "smoke", at), text) for at, text in enumerate(written.smoke or ())]
    texts += [(("workload", "work", unit), text) for unit, text in written.work.items()]
    known = sorted({*given, *SPECIAL})
    for path, text in texts:
        for name in formatted_placeholders(text):
            if name in known:
                yield path, f"{{{name}}} has a format, which is not supported; write {{{name}}}"
        for name in dict.fromkeys(placeholders(text)):
            if name == ARGS and (text != f"{{{ARGS}}}" or path[1] in ("env", "work")):
                yield path, f"{{{ARGS}}} stands for several arguments; write it as an argument of its own"
            elif name not in known and name in PASSED:
                yield path, f"the grid has no value for {{{name}}}; add `{name}: …`"
            elif name not in known:
                near = get_close_matches(name[:100], [*PASSED], 1, cutoff=0.75)
                other = f"make it an axis, add `params: {{{name}: …}}`, or write {{{{{name}}}}} for braces"
                yield path, f"unknown name {{{name}}}; {close(name, [*known, *near]) or other}"


def _misplaced(info: WorkloadInfo, name: str) -> str | None:
    """The problem of a key that the workload cannot have; None if it can."""
    plain = name.removeprefix(PARAM)
    if not info.own_loop:
        message = f"params are for your own training function; the options of {info.name} are under `model`"
        return message if plain != name else None
    if plain == name and name in REFUSED:
        return f"not for a {info.own_loop}: {REFUSED[name]}"
    if name == "checkpoint_every" and info.command and not info.command.reports:
        return _NEEDS_TRIAL
    if plain != name and plain in PASSED and (info.command or plain in info.parameters):
        return f"{plain} is a setting of raybench; write it without params"
    is_reserved = plain != name and info.command and plain in SPECIAL
    return f"{plain} is reserved by raybench; use a different name" if is_reserved else None


def _unused(info: WorkloadInfo, name: str) -> str | None:
    """The problem of a key that neither the workload nor raybench uses; None if one does."""
    plain, command = name.removeprefix(PARAM), info.command
    by_raybench = SUPERVISION | BY_LOOP if not command or command.reports else SUPERVISION
    if not info.own_loop or name in by_raybench or plain in with_other_batch_size(info.parameters):
        return None
    if command is None:
        return None if name == "precision" else _no_parameter(info, plain)
    if plain in with_other_batch_size(command.names) or command.takes_all:
        return None
    return f"the command does not use it; write {{{plain}}} in it, or {{{ARGS}}} for --{plain}=… and all others"


def _unsuitable(info: WorkloadInfo, name: str, value: Any) -> str | None:
    """The problem of a value with its parameter of a training function, or None."""
    parameter = info.parameters.get(name.removeprefix(PARAM))
    if parameter is not None:
        return parameter.problem(value)
    wrong = info.is_function and name == "precision" and value not in ARITHMETIC
    return _no_parameter(info, name) if wrong else None


def _no_parameter(info: WorkloadInfo, name: str) -> str:
    hint = close(name, info.parameters) or f"it has {', '.join(info.parameters) or 'none'}"
    return f"{info.name} ({info.file}:{info.function_line}) has no parameter {name[:60]}; {hint}"

"""Check a grid's settings and parameters against the names in its command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from raybench.config.command import Command
from raybench.config.grid import GridSpec
from raybench.config.yaml_document import Path
from raybench.core.settings import PARAM, SETTINGS
from raybench.errors import close
from raybench.workloads import WorkloadInfo
from raybench.workloads.command import ARGS, BY_TRIAL, EPOCH, SPECIAL, formatted_placeholders, placeholders
from raybench.workloads.parameters import PASSED

APPLIED = frozenset({"framework", "threads", "cpus", "warmup_epochs", "timeout", "memory_limit"})
"""Settings that raybench itself applies to a command."""

_TRIAL = "which a command needs raybench.current_trial() for"

REFUSED = {
    "replicas": "the batch is divided by a loop of raybench; give the device a count, and use {count}",
    "replication": "the batch is divided by a loop of raybench",
    "examples": "the command loads its own data; give it a parameter for their number, under params",
}

Given = tuple[Path, str, Any]


def wrong_command(
    spec: GridSpec, written: Command, info: WorkloadInfo, given: Sequence[Given]
) -> Iterator[tuple[Path, str]]:
    """Yield the problems of a grid with its command, each with its path.

    Args:
        spec: the grid.
        written: its workload.
        info: the same, looked up.
        given: every setting and parameter that the grid sets: path, name and value.
    """
    command = info.command
    assert command
    given_names = {name.removeprefix(PARAM) for _, name, _ in given if name not in REFUSED}
    wrong_names = [
        (path, problem) for path, text in _texts(written) for problem in _wrong_names(path, text, given_names)
    ]
    yield from wrong_names
    misplaced = set()
    for path, name, _ in given:
        if name not in misplaced and (problem := _misplaced(info, name) or _unused(info, name, bool(wrong_names))):
            misplaced.add(name)
            yield path[:2] if path[0] == "axes" else path, problem
    if command.reports and (command.metrics or command.json_lines):
        name = "metrics" if command.metrics else "json_lines"
        yield ("workload", name), f"its script reports by raybench.current_trial(); remove {name}"
    if not command.reports and spec.stop_at_target:
        yield ("stop_at_target",), f"ends the training at an epoch, {_TRIAL}"
    if command.counts_epochs and not command.reports:
        message = "the first epoch of a command includes its start; set it to 1 or more"
        yield from ((path, message) for path, name, value in given if name == "warmup_epochs" and value == 0)


def _texts(written: Command) -> Iterator[tuple[Path, str]]:
    for index, text in enumerate(written.command):
        yield ("workload", "command", index), text
    for name, text in written.env.items():
        yield ("workload", "env", name), text
    for index, text in enumerate(written.smoke or ()):
        yield ("workload", "smoke", index), text


def _wrong_names(path: Path, text: str, given: set[str]) -> Iterator[str]:
    """Problems of the names in braces in one text."""
    known = sorted({*given, *SPECIAL})
    names = list(placeholders(text))
    for name in formatted_placeholders(text):
        if name in known:
            yield f"{{{name}}} has a format, which is not supported; write {{{name}}}"
    for name in dict.fromkeys(names):
        if name in known:
            if name == ARGS and (text != f"{{{ARGS}}}" or path[1] == "env"):
                yield f"{{{ARGS}}} stands for several arguments; write it as an argument of its own"
        elif name in PASSED:
            yield f"the grid has no value for {{{name}}}; add `{name}: …`"
        else:
            near = get_close_matches(name[:100], [*PASSED], 1, cutoff=0.75)
            hint = close(name, [*known, *near]) or f"add `params: {{{name}: …}}`, or write {{{{{name}}}}} for braces"
            yield f"unknown name {{{name}}}; {hint}"


def _misplaced(info: WorkloadInfo, name: str) -> str | None:
    """The problem of a key of the grid that a command cannot have; None if it can."""
    command = info.command
    assert command
    plain = name.removeprefix(PARAM)
    if plain != name and (plain in PASSED or plain in SPECIAL):
        other = "a setting of raybench; write it without params" if plain in SETTINGS else "a name of raybench"
        return f"{plain} is {other}"
    if plain == name:
        if name in APPLIED or (command.reports and name in BY_TRIAL):
            return None
        if name == "checkpoint_every":
            return None if command.reports else f"saves the state of the training, {_TRIAL}"
        if name in REFUSED:
            return f"not for a command: {REFUSED[name]}"
        if name not in PASSED:
            return f"a command gets {name} from params; write params: {{{name}: …}}, on an axis params.{name}"
    return None


def _unused(info: WorkloadInfo, name: str, may_be_misspelt: bool) -> str | None:
    """The message for a key of the grid that the command does not use; None if it does."""
    command, plain = info.command, name.removeprefix(PARAM)
    assert command
    by_raybench = {*APPLIED, "checkpoint_every", *(BY_TRIAL if command.reports else ())}
    if plain in command.names or command.takes_all or may_be_misspelt or name in by_raybench:
        return None
    return f"the command does not use it; write {{{plain}}} in it, or {{{ARGS}}} for --{plain}=… and all others"


def unknown_output(info: WorkloadInfo, metric: str) -> str | None:
    """The message if a command prints no metric of the target's name; None if it does, or if this is unknown."""
    command = info.command
    assert command
    names = command.metric_names
    if command.reports or command.json_lines is True or metric in names:
        return None
    if not names:
        return f"{info.name} has no metrics; add a pattern, such as `metrics: {{{EPOCH}: …, {metric[:60]}: …}}`"
    hint = close(metric, names) or f"use one of {', '.join(names)}"
    return f"{info.name} has no metric {metric[:60]!r}; {hint}"


def used_settings(command: Any, resolved: Mapping[str, Any]) -> list[str]:
    """The settings and parameters of a cell that its command uses, as axes are called."""
    by_trial = BY_TRIAL if command.reports else frozenset[str]()
    return [
        name
        for name in resolved
        if (name in PASSED or name.startswith(PARAM))
        and (command.takes_all or name.removeprefix(PARAM) in command.names or name in by_trial)
    ]

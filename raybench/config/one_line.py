"""A grid from one command line: `python train.py --batch-size '{16,64}'`, whose braces are axes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from math import isfinite
from pathlib import PurePath
from typing import Any

import yaml

from raybench.config.load import wrong_settings
from raybench.config.yaml_document import KeyPath, scalar
from raybench.core.options import PlanOptions
from raybench.core.settings import PARAM, SETTINGS
from raybench.devices import KINDS
from raybench.errors import UsageError
from raybench.workloads.command import SPECIAL, text_of
from raybench.workloads.parameters import PASSED

VS = "--vs"  # between two commands that are compared
MAX_NAME_CHARS = 80  # of a grid that is named after its commands
MAX_RANGE = 1_000  # values of a range such as {1..8}

_BRACES = re.compile(r"\{([^{}\s\"':,]+(?:,[^{}\s\"':,]*)+|-?\d+\.\.-?\d+)\}")
"""Braces with alternatives, such as {16,64} or {1..4}; JSON, with its quotes or colons, is none."""

EXPLANATION = """\
# A name in braces in the command is the value of the axis below. `epoch` is a regular expression of the line that ends
# an epoch; without it, lines with a number that grows are, or else whole runs are timed. `metrics` are regular
# expressions whose group is the value, and `work: {examples: 60000}` is what an epoch or a run contains.
"""

COUNT_OPTIONS = ("nproc_per_node", "num_processes")
"""Options of torchrun and accelerate with the number of processes, one for each device."""

SECONDS = "seconds"  # the metric of --time

OPTIONS: Mapping[KeyPath, str] = {
    (): "COMMAND",
    ("name",): "--name",
    ("axes", "device"): "--device",
    ("baseline",): "--baseline",
    ("flops_per_token",): "--flops-per-token",
    ("repeats",): "--repeats",
    ("repeats", "until"): "--until",
    ("target",): "--target",
    ("budget",): "--budget",
    ("workload", "epoch"): "--epoch",
    ("workload", "begin"): "--begin",
    ("workload", "metrics", SECONDS): "--time",
    ("workload", "metrics"): "--metric",
    ("workload", "work"): "--work",
}
"""The part of the command line that sets a part of the grid."""

_OTHER_BRACES = re.compile(r"\{([A-Za-z_][\w.]*)\}")
_TARGET = re.compile(r"(.+?)\s*(>=|<=)\s*(.+)")
_FLAG = re.compile(r"^(?:-{1,2}([A-Za-z_][\w.\-]*?)=?|([A-Za-z_][\w.\-]*)=)$")
_RUNNERS = re.compile(r"^(python[\d.]*|torchrun|accelerate|uv|env|bash|sh|launch|run|-.*)$")


def grid_of(
    words: Sequence[str],
    options: PlanOptions | None = None,
    *,
    name: str | None = None,
    epoch: str | None = None,
    begin: str | None = None,
    time: str | None = None,
    target: str | None = None,
    budget: str | None = None,
    metrics: Iterable[str] = (),
    work: Iterable[str] = (),
    flops_per_token: str | None = None,
    devices: Iterable[str] = (),
    baseline: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the fields of the grid that a command with braces stands for."""
    axes: dict[str, list[Any]] = {"device": list(devices)} if devices else {}
    command = []
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""

        def axis(match: re.Match[str], word: str = word, before: str = before, number: int = number) -> str:
            values = _alternatives(match[1])
            key = _key(_name(word[: match.start()] or before, number), values, axes)
            axes[key] = values
            return f"{{{key.removeprefix(PARAM)}}}"

        command.append(_BRACES.sub(axis, _OTHER_BRACES.sub(_kept, word)))
    own_name = "_".join([_grid_name(words), *(key.removeprefix(PARAM) for key in axes)])[:MAX_NAME_CHARS]
    grid: dict[str, Any] = {"name": name or own_name, "workload": {"command": command}}
    patterns = dict(_pair(text, "--metric", "val/loss='val loss ([\\d.]+)'") for text in metrics)
    patterns |= {SECONDS: time} if time else {}
    given = {"epoch": epoch, "begin": begin, "metrics": patterns, "time": time and SECONDS}
    grid["workload"] |= {name: value for name, value in given.items() if value}
    if target:
        if not (bound := _TARGET.fullmatch(target)):
            raise UsageError(f"--target {target}: use METRIC>=VALUE or METRIC<=VALUE, such as --target 'val/loss<=0.5'")
        grid["target"] = {"metric": bound[1], "at_least" if bound[2] == ">=" else "at_most": _value(bound[3])}
    if budget:
        grid["budget"] = {"energy" if budget.endswith(("J", "Wh")) else "time": budget}
    if amounts := dict(_pair(text, "--work", "examples=60000") for text in work):
        grid["workload"]["work"] = amounts
    if flops_per_token:
        grid["flops_per_token"] = flops_per_token
    if axes:
        grid["axes"] = axes
    options = options or PlanOptions()
    repeats, until = options.repeats, options.until
    grid["repeats"] = ({"until": until} | ({"at_most": repeats} if repeats else {})) if until else repeats or 3
    pairs = [_pair(text, "--baseline", "batch_size=16") for text in baseline]
    if pairs:
        keys = {"device": "device"} | {key.removeprefix(PARAM): key for key in axes}
        named = [(key.lstrip("-").replace("-", "_"), _value(value)) for key, value in pairs]
        grid["baseline"] = {keys.get(key, f"{PARAM}{key}"): value for key, value in named}
    return grid


def commands_of(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the commands that `--vs` separates, each under what distinguishes it; one command under any name."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word == VS:
            commands.append([])
        else:
            commands[-1].append(word)
    common = sum(1 for _ in takewhile(lambda column: len({*column}) == 1, zip(*commands, strict=False)))
    parts = [command[common:] for command in commands]
    named = {
        shlex.join(part): command for part, command in zip(parts if all(parts) else commands, commands, strict=True)
    }
    if not all(commands) or len(named) < len(commands):
        raise UsageError(f"{VS} separates two commands that differ: raybench run -- python a.py {VS} python b.py")
    return named


def as_yaml(grid: Mapping[str, Any]) -> str:
    """Return a grid as the text of a grid file."""
    text = yaml.safe_dump(dict(grid), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    return f"{EXPLANATION}{text}"


def _kept(match: re.Match[str]) -> str:
    """Return a name in braces: what every trial has a value for is filled in, others are the program's own braces."""
    return match[0] if match[1] in SPECIAL else f"{{{match[0]}}}"


def _alternatives(text: str) -> list[Any]:
    """Return the values of {16,64} or {1..4}."""
    first, dots, last = text.partition("..")
    if dots and "," not in text:
        start, end = int(first), int(last)
        if abs(end - start) >= MAX_RANGE:
            raise UsageError(f"{{{text}}}: has more than {MAX_RANGE:,} values; use fewer")
        return list(range(start, end + (1 if end >= start else -1), 1 if end >= start else -1))
    values = [_value(part) for part in text.split(",")]
    if len({repr(value) for value in values}) < len(values):
        raise UsageError(f"{{{text}}}: a value appears twice; write each once")
    return values


def _value(text: str) -> Any:
    """Return a number, true or false, if the command gets the same text or, as for 1e-3, the same number; else text."""
    value = scalar(text)
    is_power = isinstance(value, float) and isfinite(value) and "e" in text.lower()
    return value if is_power or (isinstance(value, (bool, int, float)) and text_of(value) == text) else text


def _name(before: str, number: int) -> str:
    """Return the name of an axis from the text before its braces: `--data.batch-size`, `lr=`; else its position."""
    if not (flag := _FLAG.match(before)):
        return f"argument_{number}"
    return re.sub(r"(?<=[a-z])(?=[A-Z])|\W", "_", (flag[1] or flag[2]).split(".")[-1]).lower()


def expanded_braces(words: Sequence[str]) -> str | None:
    """Return the braces that the shell seems to have expanded, as they should be written; None if nothing looks so."""
    for number, word in enumerate(words):
        after = words[number + 1 :] if word.startswith("--") else ()
        values = list(takewhile(lambda text: re.fullmatch(r"\w+|[\d.e+-]+", text), after))
        if len(values) > 1 and len(set(map(_is_number, values))) == 1:
            return f"{word} '{{{','.join(values)}}}'"
    options = [word.partition("=") for word in words if "=" in word]
    for (name, _, first), (following, _, second) in pairwise(options):
        if name == following and first != second:
            return f"{name}='{{{first},{second}}}'"
    return None


def _is_number(text: str) -> bool:
    return isinstance(_value(text), (int, float))


def _key(name: str, values: Sequence[Any], axes: Mapping[str, Any]) -> str:
    """Return an axis's key: `device`, `count`, a setting of raybench that the values fit, or a parameter."""
    if name == "device" and name not in axes and KINDS.keys() >= set(values):
        return name
    if name in COUNT_OPTIONS and "count" not in axes and all(isinstance(value, int) for value in values):
        return "count"
    is_setting = name in PASSED and not any(wrong_settings({name: value}) for value in values if name in SETTINGS)
    parameter = name if name not in PASSED | set(SPECIAL) else f"{name}_option"
    key = name if is_setting else f"{PARAM}{parameter}"
    number = 2
    while key in axes:
        key = f"{PARAM}{parameter}_{number}"
        number += 1
    return key


def _grid_name(words: Sequence[str]) -> str:
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    modules = [after for word, after in pairwise(words) if word in ("-m", "--module")]
    programs = [word for word in words if not _RUNNERS.match(PurePath(word).name)]
    best = [*scripts, *modules, *programs, *words][0]
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", PurePath(best).name.removesuffix(".py").removesuffix(".sh")).strip("_.-")
    return name or "run"


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UsageError(f"{option} {text}: use NAME=VALUE, such as {option} {example}")
    return name.strip(), value

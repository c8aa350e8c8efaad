"""Plain error messages for the author of a grid file, from those of pydantic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from raybench.config.augmentation import Crop, Cutout
from raybench.config.command import Command
from raybench.config.grid import CellSettings, DeviceProfile, GridSpec, Override, Target
from raybench.config.setting_types import Settings
from raybench.config.values import Examples, Exponential, PiecewiseLinear
from raybench.config.yaml_document import Path
from raybench.devices import KINDS

_SHORT_FOR = {"lr": "learning_rate", "wd": "weight_decay", "bs": "batch_size", "dtype": "precision"}
_MISSING = {
    "name": "add a name, such as `name: my_grid`",
    "workload": "add the workload to train, such as `workload: digits_cnn`",
    "command": "add the program and its arguments, such as `command: python train.py {args}`",
    "metric": "add a metric, such as `metric: val/accuracy`",
    "when": "add the cells that it applies to, such as `when: {device: cuda}`",
    "set": "add the settings, such as `set: {precision: bf16}`",
    "points": "add points [epoch, factor], such as `points: [[0, 0], [5, 1], [24, 0]]`",
    "decay_steps": "add the number of steps, such as `decay_steps: 2000`",
    "match": "add the parameters, such as `match: '*.bias'`",
    "every": "add the number of steps, such as `every: 5`",
    "decay": "add the fraction of the slow weights that is kept, such as `decay: 0.5`",
}

_MAP = "a map (name: value)"
_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "string_too_short": "text",
    "list_type": "a list",
    "dict_type": _MAP,
    "model_type": _MAP,
    "too_short": "at least one value",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:.10g}",
}
"""The allowed value, by pydantic's name of the error."""

_CREDENTIALS = re.compile(r"://[^\s'\"]*@")
_SHOWN = 8


def flow(value: Any) -> str:
    """A value as YAML writes it on one line; long texts, lists and maps are cut, as aliases may make them enormous."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case dict():
            pairs = [f"{flow(key)}: {flow(item)}" for key, item in islice(value.items(), _SHOWN)]
            return "{" + ", ".join(pairs) + (", …}" if len(value) > _SHOWN else "}")
        case list():
            return "[" + ", ".join(map(flow, value[:_SHOWN])) + (", …]" if len(value) > _SHOWN else "]")
        case str():
            return cut(value if value.isprintable() else repr(value))
    return repr(value)


def cut(text: str) -> str:
    """At most 60 characters of a text, without the credentials of a URI."""
    text = _CREDENTIALS.sub("://…@", text)
    return text if len(text) <= 60 else f"{text[:59]}…"


def given(value: Any) -> str:
    """The value in the file, as text that the user can find there."""
    match value:
        case str():
            return f"the text {cut(repr(value))}"
        case dict():
            return f"the map {cut(flow(value))}"
        case list():
            return f"the list {cut(flow(value))}"
    return cut(flow(value))


def nearest(name: str, choices: Iterable[str]) -> str:
    """The hint `; did you mean batch_size?`; empty if no choice is similar."""
    matches = get_close_matches(name[:100], list(choices), n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def path_of(loc: tuple[str | int, ...], data: Any, missing: bool) -> Path:
    """An error's place in the data: pydantic's, without the names of the alternatives it tried."""
    path: list[str | int] = []
    for part in loc:
        if (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        ):
            path.append(part)
            data = data[part]  # type: ignore[index]
    return (*path, loc[-1]) if missing else tuple(path)


def message_of(kind: str, path: Path, value: Any, context: Mapping[str, Any], fallback: str) -> str:
    """The message for one of pydantic's errors.

    Args:
        kind: pydantic's name for it.
        path: where it is.
        value: the value in the file.
        context: pydantic's context of the error.
        fallback: pydantic's own message.
    """
    match kind:
        case "extra_forbidden":
            return _unknown(path)
        case "missing" if path[-1] == "kind":
            return f"missing; use one of {', '.join(KINDS)}"
        case "missing":
            return f"missing; {_MISSING[str(path[-1])]}"
        case "literal_error":
            choices = re.findall(r"'([^']*)'|(True|False)", context["expected"])
            return _no_choice([text or boolean.lower() for text, boolean in choices], value)
        case "expected":
            expected = fallback
        case _ if kind in _EXPECTED:
            expected = _EXPECTED[kind].format(**context)
        case _:
            return fallback
    if kind == "list_type" and isinstance(value, dict):
        expected += " whose entries begin with '- '"
    problem = "there is no value" if value is None else f"{given(value)} is not allowed"
    return f"{problem}; use {expected}{_example(path) if expected == _MAP else ''}"


def _example(path: Path) -> str:
    """An example of a field at the top of a grid file; empty for any other."""
    field = GridSpec.model_fields.get(str(path[0])) if len(path) == 1 else None
    return f", such as {flow(field.examples[0])}" if field and field.examples else ""


MEANT = {
    "pytorch": "torch",
    "tf": "tensorflow",
    "keras": "tensorflow",
    "xla": "torch_xla",
    "torchtpu": "torch_tpu",
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "amp": "fp16",
    "mixed_float16": "fp16",
    "mixed_bfloat16": "bf16",
    "bfloat16": "bf16",
}
"""Common other names of values, in lower case; those of device kinds are declared with the kinds."""


def device_alias(name: str) -> str | None:
    """The device kind for another name of it; difflib would match gpu with tpu."""
    return next((kind.name for kind in KINDS.values() if name.lower() in kind.aliases), None)


def _no_choice(choices: list[str], value: Any) -> str:
    if not isinstance(value, str):
        return f"{given(value)} is not allowed; use one of {', '.join(choices)}"
    lowered = value.lower()
    choice = lowered if lowered in choices else MEANT.get(lowered) or device_alias(lowered)
    hint = f"; did you mean {choice}?" if choice in choices else nearest(lowered, choices)
    return f"{cut(repr(value))} is not one of {', '.join(choices)}{hint}"


def _unknown(path: Path) -> str:
    *parents, name = path
    keys = known_keys(tuple(parents))
    key = str(name)
    if key == "device" and not parents:
        return "not a setting; list the devices as an axis: `axes: {device: [cpu, cuda]}`"
    if key in ("dataset", "data") and not parents:
        return "not a setting; the workload determines the data set, see `raybench data`"
    if key in ("gpus", "num_gpus", "accelerators"):
        return "not a setting; set the count of a device: `devices: {gpu: {kind: cuda, count: 2}}`"
    if key in _SHORT_FOR and _SHORT_FOR[key] in keys:
        return f"unknown setting; did you mean {_SHORT_FOR[key]}?"
    if parents and key in GridSpec.model_fields:
        return "not allowed here; move it to the top level of the file"
    if not parents and key in DeviceProfile.model_fields:
        return "not allowed here; move it to a device under `devices`"
    hint = nearest(key, keys)
    label = "unknown setting" if len(keys) > 10 else "unknown name"
    if hint:
        return f"{label}{hint}"
    return (
        f"{label}; `raybench plan --schema` lists them all"
        if len(keys) > 12
        else f"{label}; use one of {', '.join(keys)}"
    )


def known_keys(path: Path) -> list[str]:
    """The keys that are allowed in a map at this path."""
    match path:
        case ():
            return list(GridSpec.model_fields)
        case ("devices", _):
            return list(DeviceProfile.model_fields)
        case ("workload",):
            return list(Command.model_fields)
        case ("target",):
            return list(Target.model_fields)
        case ("overrides", int()):
            return list(Override.model_fields)
        case ("overrides", int(), "set"):
            return list(CellSettings.model_fields)
        case ("axes",) | ("baseline",) | ("include" | "exclude", int()) | ("overrides", int(), "when"):
            return ["device", *Settings.model_fields]
    names = [step for step in path if isinstance(step, str)]
    maps: dict[str, tuple[Any, ...]] = {
        "schedule": (PiecewiseLinear, Exponential),
        "augmentation": (Crop, Cutout),
        "examples": (Examples,),
    }
    return list(dict.fromkeys(key for model in maps.get(names[-1], ()) for key in model.__annotations__))

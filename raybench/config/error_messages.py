"""What pydantic finds wrong, in words for the person who wrote the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from raybench.config.augmentation import Crop, Cutout, Flip, Shift
from raybench.config.grid import CellSettings, DeviceProfile, GridSpec, Override, Target
from raybench.config.optimization import ParameterGroup, SlowWeights
from raybench.config.setting_types import Settings
from raybench.config.values import Examples, Exponential, PiecewiseLinear
from raybench.config.yaml_document import Path
from raybench.devices import KINDS

_SHORT_FOR = {"lr": "learning_rate", "wd": "weight_decay", "bs": "batch_size", "dtype": "precision"}
_MISSING = {
    "name": "give the grid a name, such as `name: my_grid`",
    "workload": "say what is trained, such as `workload: digits_cnn`",
    "metric": "say which metric, such as `metric: val/accuracy`",
    "when": "say for which cells, such as `when: {device: cuda}`",
    "set": "say what holds there, such as `set: {precision: bf16}`",
    "points": "give points [epoch, factor], such as `points: [[0, 0], [5, 1], [24, 0]]`",
    "decay_steps": "say after how many steps, such as `decay_steps: 2000`",
    "match": "say which parameters, such as `match: '*.bias'`",
    "every": "say after how many steps, such as `every: 5`",
    "decay": "say how much of the slow weights stays, such as `decay: 0.5`",
}

_MAP = "a map (name: value)"
_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
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
"""What belongs in the place of a value, by pydantic's name of the error."""

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
    """What a person gave, named so that it can be found again."""
    match value:
        case None:
            return "nothing"
        case str():
            return f"the text {cut(repr(value))}"
        case dict():
            return f"the map {cut(flow(value))}"
        case list():
            return f"the list {cut(flow(value))}"
    return cut(flow(value))


def nearest(name: str, choices: Iterable[str]) -> str:
    """`; did you mean batch_size?` where there is something near, else nothing."""
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
    """One of pydantic's errors in plain words.

    Args:
        kind: pydantic's name for it.
        path: where it is.
        value: what was given.
        context: pydantic's context of the error.
        fallback: pydantic's own words.
    """
    match kind:
        case "extra_forbidden":
            return _unknown(path)
        case "missing" if path[-1] == "kind":
            return f"missing; say what it is: one of {', '.join(KINDS)}"
        case "missing":
            return f"missing; {_MISSING[str(path[-1])]}"
        case "literal_error":
            return _no_choice(re.findall(r"'([^']*)'", context["expected"]), value)
        case "wanted":
            expected = fallback
        case _ if kind in _EXPECTED:
            expected = _EXPECTED[kind].format(**context)
        case _:
            return fallback
    if kind == "list_type" and isinstance(value, dict):
        expected += " (each entry begins with '- ')"
    return f"wanted {expected}{_example(path) if expected == _MAP else ''}, not {given(value)}"


def _example(path: Path) -> str:
    """An example of a field at the top of a grid file; empty for any other."""
    field = GridSpec.model_fields.get(str(path[0])) if len(path) == 1 else None
    return f", such as {flow(field.examples[0])}" if field and field.examples else ""


MEANT = {
    "pytorch": "torch",
    "tf": "tensorflow",
    "keras": "tensorflow",
    "xla": "torch_xla",
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "amp": "fp16",
    "mixed_float16": "fp16",
    "mixed_bfloat16": "bf16",
    "bfloat16": "bf16",
}
"""What people write, in lower case, and what it is called here; those of device kinds are declared with them."""


def device_alias(name: str) -> str | None:
    """The device kind that is meant by another name for it; to difflib, gpu is nearly tpu."""
    return next((kind.name for kind in KINDS.values() if name.lower() in kind.aliases), None)


def _no_choice(choices: list[str], value: Any) -> str:
    if not isinstance(value, str):
        return f"wanted one of {', '.join(choices)}, not {given(value)}"
    lowered = value.lower()
    choice = lowered if lowered in choices else MEANT.get(lowered) or device_alias(lowered)
    hint = f"; did you mean {choice}?" if choice in choices else nearest(lowered, choices)
    return f"{cut(repr(value))} is not one of {', '.join(choices)}{hint}"


def _unknown(path: Path) -> str:
    *parents, name = path
    keys = known_keys(tuple(parents))
    key = str(name)
    if key == "device" and not parents:
        return "devices are chosen on an axis: write axes: {device: [cpu, cuda]}"
    if key in ("dataset", "data") and not parents:
        return "the data set belongs to the workload; `raybench data list` lists them"
    if key in ("gpus", "num_gpus", "accelerators"):
        return "accelerators belong to a device: write devices: {gpu: {kind: cuda, count: 2}}"
    if key in _SHORT_FOR and _SHORT_FOR[key] in keys:
        return f"unknown setting; did you mean {_SHORT_FOR[key]}?"
    if parents and key in GridSpec.model_fields:
        return "cannot stand here; it belongs at the top level of the file"
    hint = nearest(key, keys)
    if not hint and not parents and key in DeviceProfile.model_fields:
        return "cannot stand here; it belongs to a device, under devices"
    label = "unknown setting" if len(keys) > 10 else "unknown name"
    if hint:
        return f"{label}{hint}"
    return f"{label}; `raybench schema` lists them all" if len(keys) > 12 else f"{label}; known here: {', '.join(keys)}"


def known_keys(path: Path) -> list[str]:
    """The keys a map at this path may have."""
    match path:
        case ():
            return list(GridSpec.model_fields)
        case ("devices", _):
            return list(DeviceProfile.model_fields)
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
        "augmentation": (Crop, Flip, Cutout),
        "test_time_augmentation": (Shift,),
        "parameter_groups": (ParameterGroup,),
        "lookahead": (SlowWeights,),
        "examples": (Examples,),
    }
    return list(dict.fromkeys(key for model in maps.get(names[-1], ()) for key in model.__annotations__))

"""The user's own command in a grid file."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Tag, WithJsonSchema, WrapValidator, model_validator

from raybench.config import values as v
from raybench.config.setting_types import Strict
from raybench.workloads import command as c
from raybench.workloads.command import EPOCH


def _text(value: Any) -> Any:
    """A word as text: YAML reads 8 and true as values."""
    if isinstance(value, dict) and len(value) == 1 and None in value.values():
        name = next(iter(value))
        raise v.complaint(f'YAML reads {{{name}}} as a map; write it in quotes, "{{{name}}}"')
    return c.text_of(value) if isinstance(value, (bool, int, float)) else value


def _split(value: Any, handler: Any) -> Any:
    """Split a text into words as a shell does, without running one."""
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise v.complaint(f"cannot be split into words: {str(error).lower()}; write a list") from None
    if isinstance(value, list):
        value = [_text(word) for word in value]
    words = handler(value)
    if not words:
        raise v.complaint("there is no program; write it first, such as `command: python train.py {args}`")
    return words


_TEXTS = {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1}
Words = Annotated[
    list[str], WrapValidator(_split), WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, _TEXTS]})
]


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise v.complaint(f"not a regular expression: {error}") from None
    if groups == 0:
        raise v.complaint(rf"has no group for the value; put it in parentheses, such as {_example(text)}")
    return text


def _example(text: str) -> str:
    number = re.search(r"(\\d|\[\\d\.\])[+*]?(\\\.\\d[+*]?)?", text)
    if number:
        return f"{text[: number.start()]}({number[0]}){text[number.end() :]}"
    return f"{text[:40]}([\\d.]+)"


def _metric_name(name: str) -> str:
    if name != EPOCH and "/" not in name.strip("/"):
        raise v.complaint(f"name the data of {name[:60]!r}, such as train/{name[:60]} or val/{name[:60]}")
    return name


def _variable(value: Any, handler: Any) -> Any:
    return handler(_text(value))


MetricName = Annotated[str, AfterValidator(_metric_name)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Variable = Annotated[str, WrapValidator(_variable), WithJsonSchema({"type": ["string", "number", "boolean"]})]


class Command(Strict):
    """A command of your own: a script, torchrun, or a program in any language."""

    command: Words = Field(
        description="The program and its arguments, as a list or one text that is split into words. No shell runs. "
        "{batch_size} stands for the value of a setting or parameter; {args} for --name=value of all that the command "
        "does not name, {settings_file} for a JSON file with all; {count}, {seed}, {device}, {threads}, {framework}, "
        "{data_dir} and {output_dir} for those of the trial.",
        examples=[
            "python train.py {args}",
            ["torchrun", "--nproc-per-node={count}", "train.py", "--bs={batch_size}", "{args}"],
        ],
    )
    env: dict[v.Text, Variable] = Field(
        default_factory=dict, description="Environment variables.", examples=[{"WD": "{weight_decay}"}]
    )
    metrics: dict[MetricName, Pattern] = Field(
        default_factory=dict,
        description="Regular expressions for lines of the output, whose first group is the value. A line that matches "
        "`epoch` ends an epoch.",
        examples=[{"epoch": r"^epoch (\d+)", "val/accuracy": r"acc=([\d.]+)"}],
    )
    json_lines: bool | dict[MetricName, v.Text] = Field(
        default=False,
        description="Instead of `metrics`, for a program that prints JSON objects, one per line: the key of each "
        "metric. `epoch` ends an epoch. true: each key is the name of its metric.",
        examples=[{"epoch": "epoch", "val/accuracy": "accuracy"}, True],
    )
    smoke: list[Variable] | None = Field(
        default=None,
        description="Arguments that `--smoke` adds to the command, to make it short.",
        examples=[["--limit=64"]],
    )

    @model_validator(mode="after")
    def _one_kind_of_metrics(self) -> Command:
        if self.metrics and self.json_lines:
            raise v.complaint("has metrics and json_lines; remove one")
        return self

    def plain(self) -> c.Command:
        """The command as plain values."""
        return c.Command(tuple(self.command), self.env, self.metrics, self.json_lines)


def _kind(value: Any) -> str | None:
    if isinstance(value, (dict, Command)):
        return "<command>"
    return "<reference>" if isinstance(value, str) else None


Workload = Annotated[
    Annotated[str, Field(min_length=1), Tag("<reference>")] | Annotated[Command, Tag("<command>")],
    v.alternatives(_kind, "a workload's name, file.py:name, or a map with a `command`"),
]

"""The user's own command in a grid file."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Tag, WithJsonSchema

from raybench.config import values as v
from raybench.config.setting_types import Strict
from raybench.workloads import command as c


def _text(value: Any) -> Any:
    """A word as text: YAML reads 8 and true as values."""
    if isinstance(value, dict) and len(value) == 1 and None in value.values():
        name = next(iter(value))
        raise v.complaint(f'YAML reads {{{name}}} as a map; write it in quotes, "{{{name}}}"')
    return c.text_of(value) if isinstance(value, (bool, int, float)) else value


def _split(value: Any) -> Any:
    """Split a text into words as a shell does, without running one."""
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise v.complaint(f"cannot be split into words: {str(error).lower()}; write a list") from None
    if value == []:
        raise v.complaint("there is no program; write it first, such as `command: python train.py {args}`")
    return value


def _line(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise v.complaint(f"not a regular expression: {reason}") from None
    return text


def _pattern(text: str) -> str:
    if re.compile(_line(text)).groups == 0:
        raise v.complaint(rf"has no group for the value; put it in parentheses, such as {_example(text)}")
    return text


def _work(text: str) -> str:
    return text if c.arithmetic(text) is not None else _pattern(text)


def _arithmetic(text: str) -> str:
    if c.arithmetic(text) is None:
        raise v.complaint("use a number, or numbers and names in braces with + - * / ( )")
    return text


def _example(text: str) -> str:
    number = re.search(r"(\\d|\[\\d\.\])[+*]?(\\\.\\d[+*]?)?", text)
    if number:
        return f"{text[: number.start()]}({number[0]}){text[number.end() :]}"
    return f"{text[:40]}([\\d.]+)"


LinePattern = Annotated[str, AfterValidator(_line)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Word = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Arithmetic = Annotated[Word, AfterValidator(_arithmetic)]
Work = Annotated[Word, AfterValidator(_work)]
_TEXTS = {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1}
Words = Annotated[
    list[Word], BeforeValidator(_split), WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, _TEXTS]})
]


class GridCommand(Strict):
    """A command of your own: a script, torchrun, or a program in any language."""

    command: Words = Field(
        description="The program and its arguments, as a list or one text that is split into words. No shell runs. "
        "{batch_size} stands for the value of a setting or parameter, {args} for --name=value of all that the command "
        "does not name, {settings_file} for a JSON file with all. {count}, {seed}, {device}, {threads}, {framework}, "
        "{data_dir} and {output_dir} are values of the trial.",
        examples=[
            "python train.py {args}",
            ["torchrun", "--nproc-per-node={count}", "train.py", "--bs={batch_size}", "{args}"],
        ],
    )
    env: dict[v.Text, Word] = Field(
        default_factory=dict, description="Environment variables.", examples=[{"WD": "{weight_decay}"}]
    )
    epoch: LinePattern | None = Field(
        default=None,
        description="A regular expression for the line of the output that ends an epoch. Its first group may be a "
        "number: lines with the same one end one epoch. By default, lines with a number that grows are found in the "
        "first run.",
        examples=[r"^epoch (\d+)", "^Test set:"],
    )
    begin: LinePattern | None = Field(
        default=None,
        description="A regular expression for the line with which the training begins: the time before it is start-up. "
        "If it matches again, the time from the end of an epoch to it does not count; without `epoch`, each such line "
        "begins one.",
        examples=["^start training", r"^Epoch (\d+)/"],
    )
    time: v.Text | None = Field(
        default=None,
        description="The name under `metrics` of the seconds of an epoch or, without `epoch`, of the training, by the "
        "program's own clock. By default, the times at which its lines arrive count.",
        examples=["fit_s"],
    )
    work: dict[v.Text, Work] = Field(
        default_factory=dict,
        description="The work of an epoch in examples, steps, tokens or any other unit. It is an expression of numbers "
        "and names in braces with + - * / ( ), or a regular expression for a line of the output, whose first group is "
        "the number. Needed if an axis changes the work of an epoch.",
        examples=[{"examples": "{batch_size} * 10"}, {"tokens": r"([\d]+) tokens"}],
    )
    metrics: dict[v.Text, Pattern] = Field(
        default_factory=dict,
        description="Regular expressions for lines of the output, whose first group is the value.",
        examples=[{"val/accuracy": r"acc=([\d.]+)"}],
    )
    smoke: list[Word] | None = Field(
        default=None,
        description="Arguments that `--smoke` adds to the command, to make it short.",
        examples=[["--limit=64"]],
    )

    def plain(self) -> c.Command:
        """The command as plain values."""
        marks = {name: pattern for name in c.MARKS if (pattern := getattr(self, name))}
        return c.Command(tuple(self.command), self.env, marks | self.metrics, self.time or "", self.work)


def _kind(value: Any) -> str | None:
    if isinstance(value, (dict, GridCommand)):
        return "<command>"
    return "<reference>" if isinstance(value, str) else None


GridWorkload = Annotated[
    Annotated[str, Field(min_length=1), Tag("<reference>")] | Annotated[GridCommand, Tag("<command>")],
    v.alternatives(_kind, "a workload's name, file.py:name, or a map with a `command`"),
]

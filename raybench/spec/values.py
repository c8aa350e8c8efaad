"""The kinds of value a grid file holds, each with the words for what it wants.

Every value is plain data once validated (numbers, text, lists, dicts), so that a value on an axis, a fixed one and one
in a rule compare equal when they mean the same.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from itertools import pairwise
from typing import Annotated, Any, Literal, NotRequired

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    with_config,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from raybench.environments import RECIPES, is_path
from raybench.errors import nearest

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def complaint(message: str) -> PydanticCustomError:
    """An error whose message is shown as it is."""
    return PydanticCustomError("complaint", "{message}", {"message": message})


def wanted_here(words: str) -> PydanticCustomError:
    """An error shown as "wanted {words}, not …"."""
    return PydanticCustomError("wanted", "{words}", {"words": words})


def wanted(words: str) -> WrapValidator:
    """Says of whatever is wrong with a value what belongs there: "wanted {words}, not …"."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise wanted_here(words) from None

    return WrapValidator(check)


def one_of(meant: Callable[[Any], str | None], words: str) -> BeforeValidator:
    """Says what belongs there where a value is none of the alternatives; else one of them is meant, and judges."""

    def check(value: Any) -> Any:
        if meant(value) is None:
            raise wanted_here(words)
        return value

    return BeforeValidator(check)


NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"

Framework = Literal["torch", "torch_xla", "tensorflow"]
Kind = Literal["cpu", "cuda", "mps", "tpu", "xla_cpu"]
Replication = Literal["grouped", "devices", "spmd"]
Study = Literal["full", "factored"]

Bool = Annotated[bool, wanted("true or false")]
Text = Annotated[str, Field(min_length=1), wanted("text")]
Name = Annotated[
    str,
    Field(pattern=NAME, max_length=100),
    wanted("a name of letters, digits, '_', '-' and '.', at most 100, a letter or digit first"),
]
Device = Annotated[str, Field(min_length=1), wanted("the name of a device")]
Count = Annotated[int, Field(ge=1), wanted("a whole number of at least 1")]
Whole = Annotated[int, Field(ge=0), wanted("a whole number of at least 0")]
# What every framework and NumPy take.
Seed = Annotated[int, Field(ge=0, le=2**32 - 1), wanted("a whole number from 0 to 4294967295")]
CountOrNull = Annotated[
    Annotated[int, Field(ge=1), wanted("a whole number of at least 1, or null")] | None,
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}),
]
Number = Annotated[float, wanted("a number")]
Positive = Annotated[float, Field(gt=0), wanted("a number above 0")]
# 10 and 10.0 are the same; what is whole is written so.
Epochs = Annotated[Positive, AfterValidator(lambda epochs: int(epochs) if epochs.is_integer() else epochs)]
NotNegative = Annotated[float, Field(ge=0), wanted("a number of at least 0")]
Fraction = Annotated[float, Field(ge=0, lt=1), wanted("a number of at least 0 and below 1")]
Betas = Annotated[
    list[Annotated[float, Field(ge=0, lt=1)]],
    Field(min_length=2, max_length=2),
    wanted("two numbers [beta1, beta2], each at least 0 and below 1"),
]


ModelOptions = Annotated[
    dict[str, bool | int | float | str],
    wanted("a map of the model's options, such as {recurrent_dropout: 0.2}"),
]


def _one_word(value: Any) -> Any:
    if isinstance(value, dict):
        raise complaint(
            "wanted a name (sgd, adam or adamw), not a map; learning_rate, momentum and so on stand beside it"
        )
    return value


Optimizer = Annotated[Literal["sgd", "adam", "adamw"], BeforeValidator(_one_word)]

# Environment --------------------------------------------------------------------------------------------------------


def _environment_meant(value: Any) -> str | None:
    if isinstance(value, dict):
        return "<runtime_env>"
    return "<name>" if isinstance(value, str) else None


def _built_or_path(text: str) -> str:
    if text not in RECIPES and not is_path(text):
        raise complaint(
            f"unknown environment {text[:60]!r}; {nearest(text, RECIPES)} (a path has a slash, such as ./venv)"
        )
    return text


Environment = Annotated[
    Annotated[
        str,
        Field(min_length=1),
        AfterValidator(_built_or_path),
        WithJsonSchema({"anyOf": [{"enum": list(RECIPES)}, {"type": "string", "pattern": r"/|^[~.]"}]}),
        Tag("<name>"),
    ]
    | Annotated[
        dict[str, Any],
        Field(min_length=1),
        wanted("a Ray runtime_env with at least one entry, such as {env_vars: {NAME: text}}"),
        Tag("<runtime_env>"),
    ],
    Discriminator(_environment_meant),
    one_of(
        _environment_meant,
        f"a built environment ({', '.join(RECIPES)}), the path of a Python or of a virtual environment, or a map: "
        "a Ray runtime_env",
    ),
]

# Schedule -----------------------------------------------------------------------------------------------------------

Point = Annotated[
    list[Annotated[float, Field(ge=0)]],
    Field(min_length=2, max_length=2),
    wanted("a point [epoch, factor], both at least 0"),
]


def _from_zero_on(points: list[list[float]]) -> list[list[float]]:
    epochs = [epoch for epoch, _ in points]
    if len(points) < 2:
        raise complaint("a piecewise-linear schedule needs at least two points [epoch, factor]")
    if epochs[0] != 0:
        raise complaint(f"the first point must be at epoch 0, not {epochs[0]:g}")
    for before, after in pairwise(epochs):
        if after <= before:
            raise complaint(f"the epochs of the points must rise, and {after:g} follows {before:g}")
    return points


@with_config(STRICT)
class PiecewiseLinear(TypedDict):
    """Straight lines between points, per step."""

    name: Annotated[
        Literal["piecewise_linear"], Field(description="Which schedule this is.", examples=["piecewise_linear"])
    ]
    points: Annotated[
        list[Point],
        AfterValidator(_from_zero_on),
        Field(
            description="[epoch, factor] from epoch 0 on; factors multiply learning_rate, the last one stays.",
            examples=[[[0, 0], [5, 1], [24, 0]]],
            json_schema_extra={"minItems": 2},
        ),
    ]
    stretch: NotRequired[
        Annotated[
            Bool,
            Field(
                description="Move the last point to the last epoch, the others in proportion.",
                examples=[True, False],
            ),
        ]
    ]


@with_config(STRICT)
class Exponential(TypedDict):
    """factor = floor + exp(-step / decay_steps), per step."""

    name: Annotated[Literal["exponential"], Field(description="Which schedule this is.", examples=["exponential"])]
    decay_steps: Annotated[
        Positive, Field(description="Steps after which the decaying part has fallen to 37 %.", examples=[2000])
    ]
    floor: NotRequired[
        Annotated[NotNegative, Field(description="What is added to the decaying part.", examples=[0.01])]
    ]


def _schedule_meant(value: Any) -> str | None:
    if isinstance(value, dict):
        near = get_close_matches(str(value.get("name"))[:100], ("piecewise_linear", "exponential"), n=1)
        return f"<{near[0]}>" if near else None
    return "<constant>" if value == "constant" else None


Schedule = Annotated[
    Annotated[Literal["constant"], Tag("<constant>")]
    | Annotated[PiecewiseLinear, Tag("<piecewise_linear>")]
    | Annotated[Exponential, Tag("<exponential>")],
    Discriminator(_schedule_meant),
    one_of(
        _schedule_meant,
        "constant, {name: piecewise_linear, points: [[epoch, factor], …]} or {name: exponential, decay_steps: …}",
    ),
]

# Examples -----------------------------------------------------------------------------------------------------------


@with_config(STRICT)
class Examples(TypedDict):
    """How many examples of each split are used: the first ones."""

    train: NotRequired[Annotated[Count, Field(description="How many examples to train on.", examples=[5000])]]
    val: NotRequired[Annotated[Count, Field(description="How many examples to judge by.", examples=[1000])]]

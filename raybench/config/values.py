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
    GetJsonSchemaHandler,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    with_config,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError
from typing_extensions import TypedDict

from raybench.devices import KINDS
from raybench.environments import RECIPES, is_path
from raybench.errors import nearest

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def complaint(message: str) -> PydanticCustomError:
    """An error whose message is shown as it is."""
    return PydanticCustomError("complaint", message)


def expected(words: str) -> WrapValidator:
    """Report each error of a value as "… is not allowed; use {words}", if the type's own errors are less clear."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("expected", words) from None

    return WrapValidator(check)


def alternatives(tag: Callable[[Any], str | None], words: str) -> Discriminator:
    """Choose the type of a union by its tag; report a value without one as "… is not allowed; use {words}"."""
    return Discriminator(tag, "expected", words)


NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"

Framework = Literal["torch", "torch_xla", "torch_tpu", "tensorflow", "jax", "none"]
Replication = Literal["grouped", "devices", "spmd"]

Text = Annotated[str, Field(min_length=1)]
Name = Annotated[
    str,
    Field(pattern=NAME, max_length=100),
    expected("a name of letters, digits, '_', '-' and '.', at most 100, a letter or digit first"),
]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
# What every framework and NumPy take.
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Positive = Annotated[float, Field(gt=0)]
# 10 and 10.0 are the same; what is whole is written so.
Epochs = Annotated[Positive, AfterValidator(lambda epochs: int(epochs) if epochs.is_integer() else epochs)]
NotNegative = Annotated[float, Field(ge=0)]
Betas = Annotated[
    list[Annotated[float, Field(ge=0, lt=1)]],
    Field(min_length=2, max_length=2),
    expected("two numbers [beta1, beta2], each at least 0 and below 1"),
]


ModelOptions = Annotated[
    dict[str, bool | int | float | str],
    expected("a map of the model's options, such as {recurrent_dropout: 0.2}"),
]


Param = Annotated[bool | int | float | str, expected("a number, a text, true or false")]
"""A value of a parameter of the user's own training function."""

Params = dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$"), expected("the name of a parameter")], Param]


def _one_word(value: Any) -> Any:
    if isinstance(value, dict):
        raise complaint(
            "a map is not allowed; use sgd, adam or adamw, and set learning_rate, momentum and so on separately"
        )
    return value


CompileMode = Literal[False, True, "default", "reduce-overhead", "max-autotune"]

Optimizer = Annotated[Literal["sgd", "adam", "adamw"], BeforeValidator(_one_word)]

# Kind of device -----------------------------------------------------------------------------------------------------


class _Kinds:
    """JSON Schema of a device kind: the names in the registry."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"enum": list(KINDS), "type": "string"}


def _known_kind(value: Any) -> Any:
    if value not in list(KINDS):  # a list compares anything, also what cannot be hashed
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, KINDS))})
    return value


Kind = Annotated[str, BeforeValidator(_known_kind), _Kinds()]
"""The name of a kind in `raybench.devices.KINDS`."""

# Environment --------------------------------------------------------------------------------------------------------


def _built_or_path(text: str) -> str:
    if text not in RECIPES and not is_path(text):
        raise complaint(
            f"unknown environment {text[:60]!r}; {nearest(text, RECIPES)} (a path has a slash, such as ./venv)"
        )
    return text


Environment = Annotated[
    str,
    expected(f"a built environment ({', '.join(RECIPES)}), or the path of a Python or of a virtual environment"),
    Field(min_length=1),
    AfterValidator(_built_or_path),
    WithJsonSchema({"anyOf": [{"enum": list(RECIPES)}, {"type": "string", "pattern": r"/|^[~.]"}]}),
]

# Schedule -----------------------------------------------------------------------------------------------------------

Point = Annotated[
    list[Annotated[float, Field(ge=0)]],
    Field(min_length=2, max_length=2),
    expected("a point [epoch, factor], both at least 0"),
]


def _from_zero_on(points: list[list[float]]) -> list[list[float]]:
    epochs = [epoch for epoch, _ in points]
    if len(points) < 2:
        raise complaint("a piecewise-linear schedule needs at least two points [epoch, factor]")
    if epochs[0] != 0:
        raise complaint(f"the first point must be at epoch 0, not {epochs[0]:g}")
    for before, after in pairwise(epochs):
        if after <= before:
            raise complaint(f"the epochs of the points must increase, but {after:g} follows {before:g}")
    return points


@with_config(STRICT)
class PiecewiseLinear(TypedDict):
    """Straight lines between points, per step."""

    name: Annotated[
        Literal["piecewise_linear"], Field(description="Name of the schedule.", examples=["piecewise_linear"])
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
            bool,
            Field(
                description="Move the last point to the last epoch, the others in proportion.",
                examples=[True, False],
            ),
        ]
    ]


@with_config(STRICT)
class Exponential(TypedDict):
    """factor = floor + exp(-step / decay_steps), per step."""

    name: Annotated[Literal["exponential"], Field(description="Name of the schedule.", examples=["exponential"])]
    decay_steps: Annotated[
        Positive, Field(description="Steps after which the decaying part has fallen to 37 %.", examples=[2000])
    ]
    floor: NotRequired[Annotated[NotNegative, Field(description="Value added to the decaying part.", examples=[0.01])]]


def _schedule_meant(value: Any) -> str | None:
    if isinstance(value, dict):
        matches = get_close_matches(str(value.get("name"))[:100], ("piecewise_linear", "exponential"), n=1)
        return f"<{matches[0]}>" if matches else None
    return "<constant>" if value == "constant" else None


Schedule = Annotated[
    Annotated[Literal["constant"], Tag("<constant>")]
    | Annotated[PiecewiseLinear, Tag("<piecewise_linear>")]
    | Annotated[Exponential, Tag("<exponential>")],
    alternatives(
        _schedule_meant,
        "constant, {name: piecewise_linear, points: [[epoch, factor], …]} or {name: exponential, decay_steps: …}",
    ),
]

# Examples -----------------------------------------------------------------------------------------------------------


@with_config(STRICT)
class Examples(TypedDict):
    """Number of examples used of each split, from its beginning."""

    train: NotRequired[Annotated[Count, Field(description="Number of training examples.", examples=[5000])]]
    val: NotRequired[Annotated[Count, Field(description="Number of validation examples.", examples=[1000])]]

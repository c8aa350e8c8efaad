"""The kinds of value in a grid file, each with the words for what is allowed.

Every value is plain data once validated (numbers, text, lists, dicts), so that a value on an axis, a fixed one and one
in a rule compare equal when they mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, NotRequired

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    with_config,
)
from pydantic_core import PydanticCustomError, PydanticKnownError
from typing_extensions import TypedDict

from raybench.devices import KINDS
from raybench.environments import RECIPES, is_path
from raybench.errors import UsageError, nearest

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


Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
LeastRepeats = Annotated[int, Field(ge=3)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # what every framework and NumPy take
Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100),
    expected("a name of letters, digits, '_', '-' and '.', at most 100, a letter or digit first"),
]

VERDICT, BEST = "verdict", "best"
UntilValue = Annotated[
    str,
    Field(pattern=r"^(verdict|best|([1-9][0-9]?(\.[0-9]+)?|0\.[0-9]?[1-9])%)$"),
    expected("a percentage such as 5%, verdict or best"),
]
"""When a comparison needs no more repeats."""

Percentage = Annotated[str, Field(pattern=r"^\d+(\.\d+)?%$"), expected("a percentage such as 1%")]

Param = Annotated[bool | int | float | str, expected("a number, a text, true or false")]
"""A value of a parameter of the user's own training function or command."""

Params = dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$"), expected("the name of a parameter")], Param]


def _known_kind(value: Any) -> Any:
    if value not in list(KINDS):  # a list compares anything, also what cannot be hashed
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, KINDS))})
    return value


KindName = Annotated[str, BeforeValidator(_known_kind)]  # the name of a kind in `raybench.devices.KINDS`


def _built_or_path(text: str) -> str:
    if text not in RECIPES and not is_path(text):
        hint = f"{nearest(text, RECIPES)} (a path has a slash, such as ./venv)"
        raise complaint(f"unknown environment {text[:60]!r}; {hint}")
    return text


Environment = Annotated[
    str,
    expected(f"a built environment ({', '.join(RECIPES)}), or the path of a Python or of a virtual environment"),
    AfterValidator(_built_or_path),
]

# The values of settings ---------------------------------------------------------------------------------------------


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


SchedulePoint = Annotated[
    list[NotNegative], Field(min_length=2, max_length=2), expected("a point [epoch, factor], both at least 0")
]


@with_config(STRICT)
class PiecewiseLinear(TypedDict):
    """Straight lines between points, per step, from epoch 0 on; the last factor stays.

    `stretch` moves the last point to the last epoch, and the others in proportion.
    """

    name: Literal["piecewise_linear"]
    points: Annotated[list[SchedulePoint], AfterValidator(_from_zero_on)]
    stretch: NotRequired[bool]


@with_config(STRICT)
class Exponential(TypedDict):
    """factor = floor + exp(-step / decay_steps), per step."""

    name: Literal["exponential"]
    decay_steps: Positive
    floor: NotRequired[NotNegative]


@with_config(STRICT)
class Cosine(TypedDict):
    """A straight line from 0 to 1 over the share `warmup_ratio` of all steps, then half a cosine down to `floor`."""

    name: Literal["cosine"]
    warmup_ratio: NotRequired[Annotated[float, Field(ge=0, lt=1)]]
    floor: NotRequired[Annotated[float, Field(ge=0, le=1)]]


def _form_of_schedule(value: Any) -> str | None:
    names = ("piecewise_linear", "exponential", "cosine")
    name = value.get("name") if isinstance(value, dict) else None
    return "<constant>" if value == "constant" else f"<{name}>" if name in names else None


def _each_once(items: list[Any]) -> list[Any]:
    kinds = [item if isinstance(item, str) else next(iter(item)) for item in items]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise complaint(f"{kind} appears more than once; keep one")
    return items


AugmentationValue = Annotated[
    Literal["crop", "flip", "cutout"]
    | Annotated[dict[Literal["crop", "cutout"], Count], Field(min_length=1, max_length=1)],
    expected("crop, flip, cutout, {crop: pixels} or {cutout: pixels}"),
]


def _amount_in(units: Mapping[str, float]) -> AfterValidator:
    """Convert a text with units, such as 1h30m, to a number."""

    def convert(value: float | str) -> float:
        parts = re.findall(r"([\d.]+) ?([A-Za-z]+)", value) if isinstance(value, str) else [(value, "")]
        return sum(float(number) * (units[unit] if unit else 1.0) for number, unit in parts)

    return AfterValidator(convert)


_DURATION = re.compile(r"^(?=.*[1-9])(?=.*[hms]$)([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$")
# Stricter than ByteSize, which ignores what follows a size and takes the G of 2G for 10^9.
_SIZE = re.compile(r"^(?=.*[1-9])[0-9]{1,9}(\.[0-9]{1,9})? ?[KMGT]i?B$")
_BYTES = TypeAdapter(ByteSize)

Duration = Annotated[
    Positive | Annotated[str, Field(pattern=_DURATION)],
    _amount_in({"h": 3600.0, "m": 60.0, "s": 1.0}),
    expected("seconds above 0, or a text such as 90s, 30m, 2h or 1h30m"),
]


def seconds_of(text: str, name: str) -> float:
    """Convert a duration that an option has.

    Raises:
        UsageError: it is not a duration.
    """
    try:
        return float(TypeAdapter(Duration).validate_python(text))
    except ValidationError:
        raise UsageError(f"{name} {text}: use seconds above 0, or a text such as 90s, 30m, 2h or 1h30m") from None


_MONEY = re.compile(r"\D{0,3}?\s*(\d+(?:\.\d+)?)\s*[A-Za-z€£]{0,3}")


def money_of(text: str, name: str) -> float:
    """Convert a sum of money that an option has, such as `$20`; its currency is that of the prices.

    Raises:
        UsageError: it is not an amount above 0.
    """
    if (amount := _MONEY.fullmatch(text.strip())) and float(amount[1]):
        return float(amount[1])
    raise UsageError(f"{name} {text}: use an amount above 0, such as 20")


_JOULES = {"J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6}
_AMOUNT = re.compile(rf"^(?=.*[1-9])[0-9]{{1,9}}(\.[0-9]{{1,9}})? ?({'|'.join(_JOULES)})$")

Energy = Annotated[
    Positive | Annotated[str, Field(pattern=_AMOUNT)],
    _amount_in(_JOULES),
    expected("joules above 0, or a text such as 500J, 50kJ, 1.5MJ, 20Wh or 1kWh"),
]

SETTING_TYPES: dict[str, Any] = {
    # 10 and 10.0 are the same; a whole number is written as one.
    "epochs": Annotated[Positive, AfterValidator(lambda epochs: int(epochs) if epochs.is_integer() else epochs)],
    "environment": Environment,
    "model": Annotated[
        dict[str, bool | int | float | str], expected("a map of the model's options, such as {recurrent_dropout: 0.2}")
    ],
    "betas": Annotated[
        list[Annotated[float, Field(ge=0, lt=1)]],
        Field(min_length=2, max_length=2),
        expected("two numbers [beta1, beta2], each at least 0 and below 1"),
    ],
    "compile": Literal[False, True, "default", "reduce-overhead", "max-autotune"],
    "schedule": Annotated[
        Annotated[Literal["constant"], Tag("<constant>")]
        | Annotated[PiecewiseLinear, Tag("<piecewise_linear>")]
        | Annotated[Exponential, Tag("<exponential>")]
        | Annotated[Cosine, Tag("<cosine>")],
        alternatives(
            _form_of_schedule,
            "constant, {name: piecewise_linear, points: [[epoch, factor], …]}, {name: exponential, decay_steps: …} or "
            "{name: cosine}",
        ),
    ],
    "augmentation": Annotated[list[AugmentationValue], AfterValidator(_each_once)],
    "examples": dict[Literal["train", "val"], Count],
    "timeout": Duration,
    "memory_limit": Annotated[
        Count | Annotated[str, Field(pattern=_SIZE)],
        AfterValidator(lambda size: int(_BYTES.validate_python(size))),
        expected("bytes above 0, or a text such as 512MiB, 2GiB or 1.5GB"),
    ],
}
"""The types of the settings whose values need a validation of their own."""

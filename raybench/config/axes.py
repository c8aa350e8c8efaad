"""Maps from settings and `device` to values: the axes, the conditions of rules, single points.

They are made from the declared settings, so that a new setting can at once be an axis and stand in a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, get_origin

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    GetPydanticSchema,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    with_config,
)
from typing_extensions import TypedDict

from raybench.config import values as v
from raybench.config.setting_types import value_type
from raybench.core.settings import SETTINGS

# For editors; the loader says which value stands twice, with its line.
_DISTINCT = Field(json_schema_extra={"uniqueItems": True})


def axis_of(value: Any) -> Any:
    """The type of an axis: a list of at least one value of this type."""
    return Annotated[list[value], Field(min_length=1)]


def _device_axis(value: Any) -> str | None:
    return "<list>" if isinstance(value, list) else "<word>" if value == "available" else None


DeviceAxis = Annotated[
    Annotated[Literal["available"], Tag("<word>")]
    | Annotated[list[v.Text], Field(min_length=1), _DISTINCT, Tag("<list>")],
    v.alternatives(_device_axis, "a list of devices, such as [cpu], or the word available"),
]


def one_or_several(value: Any, is_list: bool) -> Any:
    """The type of a condition: one value or a list of values; validated, always a list.

    Args:
        value: the type of one value.
        is_list: one value is itself a list; then only a list of lists is several of them.
    """

    def meant(raw: Any) -> str:
        several = isinstance(raw, list) and (not is_list or (raw and all(isinstance(item, list) for item in raw)))
        return "<several>" if several else "<one>"

    alone: Callable[[Any], list[Any]] = lambda one: [one]  # noqa: E731
    return Annotated[
        Annotated[value, AfterValidator(alone), Tag("<one>")] | Annotated[axis_of(value), Tag("<several>")],
        Discriminator(meant),
    ]


def _map_of(title: str, doc: str, device: Any, convert: Callable[[Any, bool], Any], several: bool = False) -> Any:
    """A map with the settings and `device` as keys, none of them required.

    Args:
        title: the map's name in the JSON Schema.
        doc: its description there.
        device: the type of what `device` holds.
        convert: from a setting's type, and whether one value of it is a list, to the type of what its key holds.
        several: a key holds a list of values.
    """

    def about(description: str | None, examples: list[Any]) -> Any:
        return Field(description=description, examples=[examples] if several else examples)

    fields = {"device": Annotated[device, about("A name from `devices`, or a kind of device.", ["cpu", "cuda"])]}
    for name, declared in SETTINGS.items():
        examples = list(declared.examples)
        kind = value_type(name)
        is_list = get_origin(getattr(kind, "__origin__", kind)) is list
        fields[name] = Annotated[convert(kind, is_list), about(declared.description, examples)]
    map_type = TypedDict(title, fields, total=False)  # type: ignore[misc]
    map_type.__doc__ = doc
    return with_config(v.STRICT)(map_type)


def _as_written(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Keeps the order in which the axes were written: it is the order of the cells."""
    valid = handler(value)
    return {name: valid[name] for name in value}


def _plain(kind: Any) -> GetPydanticSchema:
    return GetPydanticSchema(lambda _source, handler: handler(kind))


_Axes = _map_of(
    "Axes",
    "Every setting that varies, with its values: the grid is their product.",
    DeviceAxis,
    lambda kind, _: Annotated[axis_of(kind), _DISTINCT],
    several=True,
)
_Condition = _map_of(
    "Condition",
    "A cell is meant when each axis named here has the value, or one of the values.",
    one_or_several(v.Text, False),
    one_or_several,
)
_Entry = _map_of("Entry", "One value for each axis or setting named.", v.Text, lambda kind, _: kind)

Axes = Annotated[dict[str, Any], _plain(_Axes), WrapValidator(_as_written)]
Condition = Annotated[dict[str, list[Any]], _plain(_Condition)]
Entry = Annotated[dict[str, Any], _plain(_Entry)]

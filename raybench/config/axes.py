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
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    with_config,
)
from typing_extensions import TypedDict

from raybench.config import values as v
from raybench.config.setting_types import value_type
from raybench.core.settings import PARAM, SETTINGS

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


def _with_params(kind: Any) -> WrapValidator:
    """Accept keys such as `params.hidden` too, whose values have this type; keep the order in which keys were written.

    The order of the axes is the order of the cells.
    """
    params = TypeAdapter(dict[str, kind], config=v.STRICT)

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        own = {name: item for name, item in value.items() if is_param(name)} if isinstance(value, dict) else {}
        if not own:
            return _ordered(handler(value), value)
        valid = params.validate_python(own) | handler({name: item for name, item in value.items() if name not in own})
        return _ordered(valid, value)

    return WrapValidator(validate)


def _ordered(valid: Any, written: Any) -> Any:
    return {name: valid[name] for name in written}


def is_param(name: object) -> bool:
    """Return whether a key is a parameter of the user's own training function, such as `params.hidden`."""
    return isinstance(name, str) and name.removeprefix(PARAM).isidentifier() and name.startswith(PARAM)


def _plain(kind: Any, param: Any) -> GetPydanticSchema:
    """The schema of a map of settings, in an editor also with keys such as `params.hidden`."""

    def json_schema(core: Any, handler: Any) -> Any:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        schema["patternProperties"] = {r"^params\.[A-Za-z_]\w*$": TypeAdapter(param).json_schema()}
        return reference

    return GetPydanticSchema(
        get_pydantic_core_schema=lambda _source, handler: handler(kind),
        get_pydantic_json_schema=json_schema,
    )


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

_ParamAxis, _ParamCondition = axis_of(v.Param), one_or_several(v.Param, False)
Axes = Annotated[dict[str, Any], _plain(_Axes, _ParamAxis), _with_params(_ParamAxis)]
Condition = Annotated[dict[str, list[Any]], _plain(_Condition, _ParamCondition), _with_params(_ParamCondition)]
Entry = Annotated[dict[str, Any], _plain(_Entry, v.Param), _with_params(v.Param)]

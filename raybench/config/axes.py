"""Maps from settings, parameters and `device` to values: the axes, the conditions of rules, single points."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_origin

from pydantic import BeforeValidator, Field, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator, with_config
from typing_extensions import TypedDict

from raybench.config import values as v
from raybench.config.setting_types import value_type
from raybench.core.settings import PARAM, SETTINGS


def _axis(kind: Any) -> Any:
    return Annotated[list[kind], Field(min_length=1)]


DEVICE_AXIS: Any = Annotated[
    Literal["available"] | _axis(v.Text), v.expected("a list of devices, such as [cpu], or the word available")
]


def _one_or_several(kind: Any) -> Any:
    """One value or a list of values; validated, always a list."""
    is_list = get_origin(getattr(kind, "__origin__", kind)) is list

    def several(raw: Any) -> Any:
        # If one value is itself a list, only a list of lists is several of them.
        are_several = isinstance(raw, list) and (not is_list or (raw and all(isinstance(item, list) for item in raw)))
        return raw if are_several else [raw]

    return Annotated[_axis(kind), BeforeValidator(several)]


def _map_of(convert: Callable[[Any], Any], device: Any = None) -> WrapValidator:
    """A map with settings, `device` and parameters such as `params.hidden` as keys, in the order of the file."""
    fields = {"device": device or convert(v.Text)} | {name: convert(value_type(name)) for name in SETTINGS}
    map_type: Any = TypedDict("Settings", fields, total=False)  # type: ignore[misc]
    settings = TypeAdapter(with_config(v.STRICT)(map_type))
    params_type: Any = dict[str, convert(v.Param)]  # type: ignore[misc]
    params: TypeAdapter[Any] = TypeAdapter(params_type, config=v.STRICT)

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        handler(value)
        names = [name for name in value if re.fullmatch(rf"{re.escape(PARAM)}[A-Za-z_]\w*", name)]
        rest = {name: item for name, item in value.items() if name not in names}
        valid = params.validate_python({name: value[name] for name in names}) | settings.validate_python(rest)
        return {name: valid[name] for name in value}

    return WrapValidator(validate)


Axes = Annotated[dict[str, Any], _map_of(_axis, DEVICE_AXIS)]
Condition = Annotated[dict[str, Any], Field(min_length=1), _map_of(_one_or_several)]
Entry = Annotated[dict[str, Any], _map_of(lambda kind: kind)]

"""The settings that a grid file may fix or vary: those of `raybench.core.settings`, validated by Pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    field_validator,
)

from raybench.config import augmentation as a
from raybench.config import quantities as q
from raybench.config import values as v
from raybench.core.settings import SETTINGS, Setting

NULLABLE = frozenset(name for name, one in SETTINGS.items() if one.nullable)
"""The settings for which null is a value."""


class Strict(BaseModel):
    """Says no to unknown keys, to values of another type and to keys without a value."""

    model_config = ConfigDict(**v.STRICT, frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _something(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `epochs:` without a value; None in a model means that the setting is not set."""
        if value is None and info.field_name not in NULLABLE:
            raise v.complaint("there is no value; set one or remove the line")
        return value


_OWN_TYPES = {
    "epochs": v.Epochs,
    "model": v.ModelOptions,
    "optimizer": v.Optimizer,
    "betas": v.Betas,
    "compile": v.CompileMode,
    "schedule": v.Schedule,
    "augmentation": a.Augmentations,
    "examples": v.Examples,
    "timeout": q.Duration,
    "memory_limit": q.Size,
}
"""The types of the settings whose values need a validation of their own."""


def value_type(name: str) -> Any:
    """The Pydantic type of one value of a setting in a grid file."""
    return _OWN_TYPES[name] if name in _OWN_TYPES else _plain_type(SETTINGS[name])


def _plain_type(setting: Setting) -> Any:
    """The type of a name, a number within limits, or a boolean."""
    (kind,) = setting.types
    if kind is bool:
        return bool
    if kind in (int, float):
        number: Any = Annotated[kind, Field(**setting.limits)]
        return _or_null(number) if setting.nullable else number
    return kind


def _or_null(kind: Any) -> Any:
    """A type whose values may also be null, which the schema has to say: elsewhere None is no value."""
    schema = {"anyOf": [TypeAdapter(kind).json_schema(), {"type": "null"}]}
    return Annotated[kind | None, WithJsonSchema(schema)]


if TYPE_CHECKING:

    class Settings(Strict):
        """The settings of a grid file. None: not set; `model_fields_set` has the names of those that are."""

else:
    Settings = create_model(
        "Settings",
        __base__=Strict,
        __doc__="How a model is trained. None: not set; `model_fields_set` has the names of those that are.",
        __module__=__name__,
        **{
            name: (
                value_type(name) if one.nullable else value_type(name) | None,
                Field(default=None, description=one.description, examples=list(one.examples)),
            )
            for name, one in SETTINGS.items()
        },
    )

"""The settings that a grid file may fix or vary: those of `raybench.core.settings`, validated by Pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, create_model, field_validator

from raybench.config import values as v
from raybench.core.settings import SETTINGS


class Strict(BaseModel):
    """Rejects unknown keys, values of a different type, and keys without a value."""

    model_config = ConfigDict(**v.STRICT, frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _something(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `epochs:` without a value; None in a model means that the setting is not set."""
        setting = SETTINGS.get(str(info.field_name))
        if value is None and not (setting and setting.nullable):
            raise v.complaint("there is no value; set one or remove the line")
        return value


def value_type(name: str) -> Any:
    """The Pydantic type of one value of a setting in a grid file."""
    setting = SETTINGS[name]
    (kind,) = setting.types if name not in v.SETTING_TYPES else (v.SETTING_TYPES[name],)
    if name not in v.SETTING_TYPES and kind in (int, float):
        kind = Annotated[kind, Field(gt=setting.gt, ge=setting.ge, lt=setting.lt)]
    return kind | None if setting.nullable else kind


if TYPE_CHECKING:

    class Settings(Strict):
        """The settings of a grid file. None: not set; `model_fields_set` has the names of those that are."""

        environment: str | None = None

else:
    Settings = create_model(
        "Settings",
        __base__=Strict,
        __doc__="How a model is trained. None: not set; `model_fields_set` has the names of those that are.",
        __module__=__name__,
        **{
            name: (
                value_type(name) | None,
                Field(default=None, description=one.description, examples=list(one.examples)),
            )
            for name, one in SETTINGS.items()
        },
    )

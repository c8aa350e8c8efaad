"""JSON Schema of a grid file, for completion in an editor."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from raybench.config.grid import GridSpec


class _Schema(GenerateJsonSchema):
    """Remove null, which means "not set" in the models and is not written in a grid file."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a grid file, with a description and examples on every field.

    What it cannot say (a value in `exclude` that is on no axis, an unknown device) only `load_grid` finds.
    """
    schema = GridSpec.model_json_schema(mode="validation", schema_generator=_Schema)
    return {"$schema": _Schema.schema_dialect, **schema, "title": "raybench grid"}

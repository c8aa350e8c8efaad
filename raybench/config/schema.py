"""JSON Schema of a grid file, for completion in an editor; and the page of its settings, for people."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from raybench.config.error_messages import flow
from raybench.config.grid import GridSpec
from raybench.core.settings import SETTINGS, Effect, Setting


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


_PAGE = """# Settings

Every setting of a grid file. It may be fixed at the top level, varied under `axes`, and set by `include` and
`overrides`; a workload's recipe may have other defaults. The last column says what a setting has an effect on, as
comparisons, estimates and checks take it. This page is made from the declarations in `raybench/core/settings.py`:
`pytest tests/config --snapshot-update` writes it.

| setting | such as | default | frameworks | meaning | affects |
|---|---|---|---|---|---|
"""


def settings_page() -> str:
    """The documentation of all settings, `docs/settings.md`."""
    return _PAGE + "".join(map(_row, SETTINGS.values()))


def _row(setting: Setting) -> str:
    default = "null" if setting.nullable else "–" if setting.default is None else f"`{_flow(setting.default)}`"
    engines = ", ".join(sorted(setting.engines)) if setting.engines else "all"
    ignored = f"; ignored by {', '.join(sorted(setting.ignored_by))}" if setting.ignored_by else ""
    examples = ", ".join(f"`{_flow(example)}`" for example in setting.examples)
    affects = ", ".join(effect.value.replace("_", " ") for effect in Effect if effect in setting.affects) or "–"
    cells = (f"`{setting.name}`", examples, default, engines + ignored, setting.description, affects)
    return f"| {' | '.join(cells)} |\n"


def _flow(value: Any) -> str:
    return flow(list(value) if isinstance(value, tuple) else value)

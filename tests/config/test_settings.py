"""The settings of grid files are those that are declared, and the page on them is up to date."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from raybench.config import Settings
from raybench.config.schema import settings_page
from raybench.config.setting_types import value_type
from raybench.core.settings import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_each_declared_setting_may_stand_in_a_grid_file():
    assert list(Settings.model_fields) == list(SETTINGS)
    for name, one in SETTINGS.items():
        for example in one.examples:
            assert Settings.model_validate({name: example}).model_fields_set == {name}


@pytest.mark.parametrize(
    ("name", "bad", "words"),
    [
        ("batch_size", 0, "greater than or equal to 1"),
        ("profile_steps", -1, "greater than or equal to 0"),
        ("learning_rate", 0.0, "greater than 0"),
        ("weight_decay", -1.0, "greater than or equal to 0"),
        ("momentum", 1.0, "less than 1"),
        ("compile", "perhaps", "valid boolean"),
        ("steps_per_epoch", 0, "greater than or equal to 1"),
    ],
)
def test_limits_follow_from_the_declaration(name, bad, words):
    with pytest.raises(ValidationError, match=words):
        TypeAdapter(value_type(name)).validate_python(bad)


def test_the_page_of_settings(request):
    if request.config.option.update_snapshots:
        PAGE.write_text(settings_page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == settings_page(), "pytest tests/config --snapshot-update writes it"

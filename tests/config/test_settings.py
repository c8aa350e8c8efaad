"""The settings of grid files are those that are declared."""

import pytest
from pydantic import TypeAdapter, ValidationError

from raybench.config import Settings
from raybench.config.setting_types import value_type
from raybench.core.settings import SETTINGS


def test_each_declared_setting_may_stand_in_a_grid_file():
    assert list(Settings.model_fields) == list(SETTINGS)
    for name, one in SETTINGS.items():
        for example in one.examples:
            assert Settings.model_validate({name: example}).model_fields_set == {name}


@pytest.mark.parametrize(
    ("name", "bad", "words"),
    [
        ("batch_size", 0, "greater than or equal to 1"),
        ("learning_rate", 0.0, "greater than 0"),
        ("weight_decay", -1.0, "greater than or equal to 0"),
        ("momentum", 1.0, "less than 1"),
        ("nesterov", "perhaps", "valid boolean"),
        ("compile", "perhaps", "should be False, True, 'default', 'reduce-overhead' or 'max-autotune'"),
        ("steps_per_epoch", 0, "greater than or equal to 1"),
    ],
)
def test_limits_follow_from_the_declaration(name, bad, words):
    with pytest.raises(ValidationError, match=words):
        TypeAdapter(value_type(name)).validate_python(bad)

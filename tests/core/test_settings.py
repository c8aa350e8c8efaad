import json
import subprocess
import sys

import pytest

from raybench.core.job import Recipe
from raybench.core.labels import axis_label
from raybench.core.settings import MISSING, SETTINGS, TRAINING, Settings, is_of_type

OTHER = {
    "epochs": 9.9,
    "batch_size": 64,
    "learning_rate": 1,
    "weight_decay": 5e-4,
    "model": {"dropout": 0.2},
    "optimizer": "adamw",
    "momentum": 0,
    "nesterov": False,
    "betas": [0.5, 0.9],
    "eps": 1e-6,
    "decay": "decoupled",
    "decay_rule": "sum_over_replicas",
    "label_smoothing": 0.1,
    "schedule": {"name": "exponential", "decay_steps": 100},
    "gradient_accumulation": 2,
    "gradient_clipping": 1,
    "precision": "bf16",
    "channels_last": True,
    "compile": True,
    "input": "host",
    "augmentation": ["crop", {"cutout": 4}],
    "evaluation_batch_size": 100,
    "steps_per_epoch": 7,
}
"""For each setting a value that is not its default."""


def through_json(settings):
    return Settings.from_json(json.loads(json.dumps(settings.to_json())))


@pytest.mark.parametrize("name", TRAINING)
def test_settings_survive_a_cell_and_change_it(name):
    optimizer = next(iter(TRAINING[name].optimizers), "sgd")
    plain, changed = ({"optimizer": optimizer}, {"optimizer": optimizer, name: OTHER[name]})
    one, other = Settings.of(plain), Settings.of(changed)
    assert through_json(other) == other != one and through_json(one) == one
    assert getattr(Recipe.from_json(other.to_json()), name) == getattr(other, name) != getattr(one, name)


def test_every_value_is_of_the_declared_type():
    for given in ({}, OTHER, OTHER | {"optimizer": "sgd"}):
        settings = Settings.of(given)
        for name, one in TRAINING.items():
            assert is_of_type(getattr(settings, name), one.type), name


def test_compile_true_is_the_default_mode():
    assert Settings.of({"compile": True}) == Settings.of({"compile": "default"})
    modes = [Settings.of({"compile": mode}) for mode in (False, "default", "reduce-overhead", "max-autotune")]
    assert len({str(mode.to_json()) for mode in modes}) == 4
    assert [through_json(mode).compile for mode in modes] == [False, "default", "reduce-overhead", "max-autotune"]


def test_settings_of_another_optimizer_make_no_difference():
    assert Settings.of({"optimizer": "adam", "momentum": 0.5}) == Settings.of({"optimizer": "adam"})
    assert Settings.of({"betas": [0.5, 0.6]}) == Settings.of({})
    assert "betas" not in Settings.of(OTHER | {"optimizer": "sgd"}).optimizer_settings


def test_defaults_that_depend_on_the_optimizer():
    assert (Settings().learning_rate, Settings().decay) == (0.1, "coupled")
    assert (Settings(optimizer="adamw").learning_rate, Settings(optimizer="adamw").decay) == (1e-3, "decoupled")


def test_missing_and_mistyped_values():
    settings = Settings.from_json({"batch_size": "many", "compile": 1, "optimizer": {"name": "sgd"}, "epochs": 3})
    assert settings.batch_size is MISSING and settings.compile is MISSING and settings.momentum is MISSING
    assert (settings.epochs, settings.optimizer, settings.channels_last) == (3, "sgd", MISSING)
    assert not MISSING and settings.to_json() == {"epochs": 3, "optimizer": {"name": "sgd"}}
    assert Settings.from_json({}).to_json() == {}


def test_each_setting_is_described_with_an_example():
    for one in SETTINGS.values():
        assert one.description.endswith(".") and one.examples and one.label
    assert [axis_label(name) for name in ("batch_size", "label_smoothing", "my_axis")] == [
        "batch",
        "label smoothing",
        "my axis",
    ]


def test_a_trial_reads_its_settings_without_pydantic():
    code = "import sys; import raybench.core.job; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0

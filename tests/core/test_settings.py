import json
from dataclasses import make_dataclass

import pytest

from raybench.core import settings
from raybench.core.cell import Cell, CellEngine
from raybench.core.job import Recipe
from raybench.core.labels import axis_label
from raybench.core.settings import MISSING, SETTINGS, TRAINING, Settings, is_of_type, setting

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


FLAG = setting(False, "For adam: a flag.", optimizers=("adam", "adamw"))
More = make_dataclass("More", [("flag", bool, FLAG)], bases=(Settings,), frozen=True)


ADAM = {"optimizer": "adam"}


@pytest.mark.parametrize("given", [{}, ADAM, OTHER, OTHER | ADAM], ids=len)
def test_a_new_setting_keeps_the_cells_of_earlier_results(monkeypatch, given):
    engine = CellEngine("torch")
    cell = Cell(engine=engine, settings=Settings.of(given))
    earlier, written = cell.cell_id, json.loads(json.dumps(cell.to_json()))
    monkeypatch.setattr(settings, "TRAINING", {**TRAINING, "flag": settings._declared(More)["flag"]})
    monkeypatch.setattr("raybench.core.cell.Settings", More)
    now = Cell(engine=engine, settings=More.of(given))
    assert now.cell_id == earlier
    assert Cell.from_json(written).settings == now.settings
    changed = Cell(engine=engine, settings=More.of(given | ADAM | {"flag": True}))
    assert changed.cell_id != Cell(engine=engine, settings=More.of(given | ADAM)).cell_id


def test_defaults_never_change():
    """The identity of a cell leaves them out."""
    plain = (
        "epochs=10 batch_size=128 weight_decay=0.0 model={} momentum=0.9 nesterov=True betas=(0.9, 0.999) eps=1e-08 "
    )
    plain += "decay_rule='mean' label_smoothing=0.0 schedule='constant' gradient_clipping=None gradient_accumulation=1 "
    plain += "precision='fp32' channels_last=False compile=False input='device' augmentation=() "
    plain += "evaluation_batch_size=None steps_per_epoch=None"
    by_optimizer = {"sgd": (0.1, "coupled"), "adam": (1e-3, "coupled"), "adamw": (1e-3, "decoupled")}
    for optimizer, (rate, decay) in by_optimizer.items():
        text = repr(Settings(optimizer=optimizer)).replace(", ", " ")
        for value in (*plain.replace(", ", " ").split(), f"learning_rate={rate!r}", f"decay={decay!r}"):
            assert value in text, f"{value}: give a setting with another default another name"


def test_each_setting_is_described_with_an_example():
    for one in SETTINGS.values():
        assert one.description.endswith(".") and one.examples and one.label
    assert [axis_label(name) for name in ("batch_size", "label_smoothing", "my_axis")] == [
        "batch",
        "label smoothing",
        "my axis",
    ]

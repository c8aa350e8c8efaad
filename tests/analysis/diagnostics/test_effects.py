"""Settings without effect, and training functions that do something else than the grid says."""

import pytest

from raybench.analysis.diagnostics.diagnose import diagnose_all
from raybench.core import events
from raybench.results.attempt import attempts

SGD = {"class": "SGD", "lr": 0.1, "weight_decay": 0.0}


def made(runs):
    """Attempts of (settings, repeat, fields of all epochs, and those of one by its number)."""
    told = []
    for number, (settings, repeat, fields) in enumerate(runs):
        settings = dict(settings)
        tree = {
            "workload": {"name": "train", "digest": "sha256:1", "form": settings.pop("form", "function")},
            "device": {"kind": settings.pop("kind", "cpu")},
            "params": settings.pop("params", {}),
            "framework": "torch",
            "settings": {"optimizer": {"learning_rate": settings.pop("learning_rate", 0.1)}, **settings},
        }
        if tree["workload"]["form"] is None:
            del tree["workload"]["form"]
        trial = f"c{sorted(map(repr, [s for s, _, _ in runs])).index(repr(runs[number][0]))}-r{repeat}"
        told.append(events.trial_started(trial, 1, cell=tree, seed=repeat))
        for epoch in (1, 2):
            shared = {name: value for name, value in fields.items() if isinstance(name, str)}
            of_epoch = {"epoch": epoch, "ledger": {"train": 1.0}, **shared, **fields.get(epoch, {})}
            told.append(events.epoch_ended(trial, 1, **of_epoch))
        told.append(events.trial_ended(trial, 1, "completed"))
    return attempts(told).values()


def codes(runs, axes):
    found = diagnose_all(made(runs), axes=axes)
    return [sorted(finding.code for finding in each) for each in found.values()]


def says(runs, axes, code):
    (first, *_) = diagnose_all(made(runs), axes=axes).values()
    return next(finding.says for finding in first if finding.code == code)


def metrics(number):
    return {"metrics": {"train/loss": number, "val/loss": number + 0.25, "val/accuracy": 0.5}}


DECAYS = [({"weight_decay": 0.0}, 0), ({"weight_decay": 0.01}, 0)]


def test_an_axis_that_does_not_reach_the_optimizer():
    runs = [(*each, {**metrics(index), "optimizers": [SGD]}) for index, each in enumerate(DECAYS)]
    assert codes(runs, ["weight_decay"]) == [["optimizer_unchanged"]] * 2
    expected = "its optimizer has the same learning rate and weight decay with `weight_decay` 0 and 0.01"
    assert says(runs, ["weight_decay"], "optimizer_unchanged") == expected
    runs[1][2]["optimizers"] = [SGD | {"weight_decay": 0.01}]
    assert codes(runs, ["weight_decay"]) == [[], []]


def test_an_optimizer_that_is_not_known_is_no_finding():
    assert codes([(*each, metrics(index)) for index, each in enumerate(DECAYS)], ["weight_decay"]) == [[], []]


@pytest.mark.parametrize("form", ["function", None])
def test_an_axis_without_effect_on_any_metric(form):
    runs = [({**settings, "form": form}, repeat, metrics(1.5)) for settings, repeat in DECAYS]
    assert codes(runs, ["weight_decay"]) == [["no_effect"]] * 2
    runs[1][2]["metrics"] = runs[1][2]["metrics"] | {"train/loss": 1.5 + 1e-15}
    assert codes(runs, ["weight_decay"]) == [[], []]


def test_a_param_without_effect():
    runs = [({"params": {"hidden": hidden}}, 0, metrics(1.5)) for hidden in (4, 8)]
    assert codes(runs, ["params.hidden"]) == [["no_effect"]] * 2
    assert "`hidden` 4 and 8" in says(runs, ["params.hidden"], "no_effect")


def test_an_axis_that_changes_only_the_speed_may_have_no_effect():
    assert codes([({"compile": value}, 0, metrics(1.5)) for value in (False, True)], ["compile"]) == [[], []]


def test_an_accuracy_alone_may_be_the_same_by_chance():
    fields = {"metrics": {"val/accuracy": 0.1}}
    assert codes([(*each, fields) for each in DECAYS], ["weight_decay"]) == [[], []]


def test_cells_that_differ_in_two_settings_are_not_compared():
    runs = [
        ({"weight_decay": 0.0, "batch_size": 2}, 0, metrics(1)),
        ({"weight_decay": 0.1, "batch_size": 4}, 0, metrics(1)),
    ]
    assert codes(runs, ["weight_decay", "batch_size"]) == [[], []]


def test_repeats_that_do_not_depend_on_the_seed():
    runs = [({"weight_decay": 0.0}, repeat, metrics(1.5)) for repeat in range(3)]
    assert codes(runs, []) == [["seed_unused"]] * 3
    runs[2] = (*runs[2][:2], metrics(1.75))
    assert codes(runs, []) == [[], [], []]


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({"steps": 10, "examples": 80}, []),
        ({"steps": 10, "examples": 77}, []),  # the last batch is smaller
        ({"steps": 20, "optimizer_steps": 10, "examples": 80}, []),  # accumulated gradients
        ({"steps": 20, "examples": 80}, ["other_batch_size"]),
        ({"steps": 10, "optimizer_steps": 5, "examples": 80}, ["other_batch_size"]),
        ({"steps": 100, "optimizer_steps": 98, "examples": 800}, []),  # two steps were left out
        ({1: {"steps": 10, "optimizer_steps": 6}, 2: {"steps": 10}, "examples": 80}, []),
        ({1: {"steps": 10, "optimizer_steps": 5}, 2: {"steps": 5}, "examples": 80}, ["other_batch_size"]),
        ({"examples": 80}, []),
        ({"steps": 10}, []),
    ],
)
def test_another_number_of_examples_per_step_than_the_grid_says(counts, found):
    assert codes([({"batch_size": 8}, 0, counts)], []) == [found]


def test_another_batch_size_says_both():
    runs = [({"batch_size": 8}, 0, {"steps": 20, "examples": 80})]
    assert says(runs, [], "other_batch_size") == "a step of its optimizer had 4 examples, and `batch_size` is 8"


@pytest.mark.parametrize(("kind", "peak", "found"), [("cuda", 0, True), ("cuda", 5, False), ("cpu", 0, False)])
def test_an_accelerator_without_memory(kind, peak, found):
    assert codes([({"kind": kind}, 0, {"memory_peak_bytes": peak})], []) == [["accelerator_unused"] if found else []]

from pathlib import Path

import pytest

import raybench
from raybench.analysis.grid_request import planned_cells
from raybench.analysis.grid_results import GridResults
from raybench.config import load_grid
from raybench.core import events
from raybench.devices import Hardware
from raybench.environments import Interpreter
from raybench.planning.node import Node
from raybench.planning.plan import make_plan
from raybench.reporting.reference_results import reported_numbers
from raybench.reporting.tables import NOTHING, published
from raybench.results.attempt import attempts, latest

GRIDS = sorted((Path(__file__).parents[2] / "grids").glob("*.yaml"))
PUBLISHED = raybench.published()
PACKAGES = {"torch": "2.13.0", "tensorflow": "2.21.0", "torch_xla": "2.9.0", "numpy": "2.3"}
EVERYTHING = Node(
    "everything",
    tuple(Hardware(kind, kind.upper(), 8, 64 << 30, ids=tuple("01234567")) for kind in ("cpu", "cuda", "tpu")),
    PACKAGES,
    "3.11.7",
    environments={name: Interpreter(version="3.11.7", packages=PACKAGES) for name in ("tpu", "xla")},
)

SEEDS = {
    "cifar_cpu": {"katnoria_cnn"},
    "cifar_replicas": {"davidnet", "davidnet_tpu"},
    "cifar_three_frameworks": {"katnoria_cnn"},
    "cifar_tpu_vs_gpu": {"davidnet", "davidnet_tpu"},
    "imdb_cnn": {"imdb_cnn"},
    "imdb_cpu_vs_gpu": {"imdb_lstm"},
    "katnoria_three_runtimes": {"katnoria_cnn"},
    "machines": set(),
    "mnist": {"mnist_cnn"},
    "mnist_tpu_vs_gpu": {"mnist_cnn"},
    "quickstart": set(),
    "resnet63_cpu_vs_gpu": {"resnet63"},
    "resunet_gpu_vs_tpu": {"resunet_v1"},
}
"""Whose results each shipped grid is about."""

SAME_PROTOCOL = {
    "cifar_replicas": {"davidnet": 79},
    "cifar_tpu_vs_gpu": {"davidnet": 79, "last_val_accuracy": 0.9408, "tutorial_throughput": 39868},
    "imdb_cnn": {"keras_epoch": 10},
    "imdb_cpu_vs_gpu": {"keras_epoch": 119},
    "katnoria_three_runtimes": {"katnoria_cnn": 32, "last_val_accuracy": 0.6961, "best_val_accuracy": 0.7046},
    "mnist_tpu_vs_gpu": {"best_val_accuracy": 0.9942},
    "resnet63_cpu_vs_gpu": {"resnet63": 0.1780},
    "resunet_gpu_vs_tpu": {"resunet": 145.6},
}
"""For each grid that repeats what was published: a rule, and the best that was published by it."""


def told(path, root):
    """A report of a grid whose trials all took two seconds an epoch, on a machine that has everything."""
    plan = make_plan(load_grid(path), [EVERYTHING], root)
    found = []
    for trial in plan.trials:
        content = trial.cell.content
        steps = content.settings.steps_per_epoch
        steps = steps or (content.data.examples.train or 64) // content.settings.batch_size
        found.append(events.trial_started(trial.trial_id, 1, cell=content.to_json(), profile=trial.cell.profile))
        found += [
            events.epoch_ended(
                trial.trial_id,
                1,
                epoch=number,
                steps=steps,
                examples=steps * content.settings.batch_size,
                ledger={"train": 2.0, "evaluate": 0.5},
                metrics={"val/accuracy": 0.5 + number / 100},
            )
            for number in range(1, int(content.settings.epochs) + 1)
        ]
        account = {"data": 1.0, "train": 2.0 * content.settings.epochs}
        found.append(events.trial_ended(trial.trial_id, 1, "completed", ledger=account, wall=100.0))
    return GridResults(plan.spec.name, plan.workload.name, planned_cells(plan), latest(attempts(found).values()), {})


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_each_grid_shows_what_was_published_of_its_seed_by_its_rule(path, tmp_path):
    results = told(path, tmp_path)
    found = reported_numbers(results)
    assert {one["source"] for one in found} == {PUBLISHED[name].source for name in SEEDS[path.stem]}
    section = published(results, found)
    assert (section is None) == (not found)
    for one in found:
        shown = {column.key: text for column, text in section.cells(one)}
        if one["reported"] is None:
            assert (shown["reported"], one["unit"]) == (NOTHING, "out of memory")
        else:
            assert float(shown["reported"]) == pytest.approx(one["reported"], rel=1e-3)
        assert one["caveats"] and all(caveat in section.says for caveat in one["caveats"])
    for rule, best in SAME_PROTOCOL.get(path.stem, {}).items():
        same = [one for one in found if one["rule"] == rule and one["mine"] is not None]
        assert same, f"nothing stands beside {rule}"
        assert best in [pytest.approx(one["reported"], abs=5e-5) for one in same]


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_gpus_train_in_the_published_precision(path, tmp_path):
    """A time of another precision says nothing beside the published one."""
    plan = make_plan(load_grid(path), [EVERYTHING], tmp_path)
    for cell in (trial.cell.content for trial in plan.trials):
        runs = PUBLISHED[plan.workload.name].runs if plan.workload.name in PUBLISHED else []
        of_gpus = [
            run.settings for run in runs if PUBLISHED[plan.workload.name].machines[run.machine]["device_kind"] == "cuda"
        ]
        named = [settings for settings in of_gpus if "precision" in settings]
        if cell.device.kind == "cuda" and named:
            asked = {name: named[0].get(name, True) for name in ("precision", "master_weights")}
            assert {name: getattr(cell.settings, name) for name in asked} == asked


def test_one_number_by_each_rule(tmp_path):
    def of(name):
        path = next(path for path in GRIDS if path.stem == name)
        return {(one["machine"], one["rule"]): one for one in reported_numbers(told(path, tmp_path))}

    katnoria = of("katnoria_three_runtimes")
    assert katnoria["GTX 1080 Ti", "katnoria_cnn"]["mine"] == 62.5, "25 epochs, validation inside"
    assert katnoria["GTX 1080 Ti", "last_val_accuracy"]["mine"] == 0.75
    assert [one["reported"] for one in katnoria.values()] == [32, 86, 136, 0.7046, 0.6961]
    assert {one["mine"] for one in of("cifar_cpu").values()} == {None}, "another batch"
    gtx = of("resnet63_cpu_vs_gpu")["GTX 1080", "resnet63"]
    assert (round(gtx["reported"], 4), gtx["unit"], gtx["mine"]) == (0.1780, "s a call", 2.0)
    unet = of("resunet_gpu_vs_tpu")
    assert "b16" in unet["P100, 17,500 images, batch 16", "resunet"]["cell"].split()
    assert unet["P100, 17,500 images, batch 256", None]["unit"] == "out of memory"
    assert unet["P100, one epoch, batch 128", "resunet"]["mine"] == 2.0
    tutorial = of("cifar_tpu_vs_gpu")
    throughput = tutorial["TPUv2-8, batch 512", "tutorial_throughput"]
    assert throughput["mine"] == 24_832.0, "of the same batch: 97 steps in 2 s"
    assert throughput["origin"] == "derived: from the log of its notebook"
    assert tutorial["V100, batch 512", "davidnet"]["mine"] == 49.0, "the data, and 24 epochs without evaluation"
    assert tutorial["V100, the last of the ladder", "davidnet"]["mine"] is None, "another network"


def test_nobody_has_reported_of_a_workload_of_ones_own():
    assert reported_numbers(GridResults("x", "my_workload", [], {}, {})) == []
    assert reported_numbers(GridResults("x", "davidnet", [], {}, {}))[0]["mine"] is None

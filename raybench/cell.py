"""From what a person wrote to a cell: settings resolved, defaults filled in, everything that can change a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raybench.identity import SCHEMA

DEFAULTS: Mapping[str, Any] = {
    "epochs": 10,
    "batch_size": 128,
    "weight_decay": 0.0,
    "optimizer": "sgd",
    "momentum": 0.9,
    "nesterov": True,
    "betas": [0.9, 0.999],
    "eps": 1e-8,
    "schedule": "constant",
    "precision": "fp32",
    "compile": False,
    "input": "device",
    "augmentation": [],
    "steps_per_epoch": None,
    "replicas": 1,
    "warmup_epochs": 1,
}
"""What holds where neither the grid, nor the device's profile, nor the workload says anything."""

LEARNING_RATES = {"sgd": 0.1, "adam": 1e-3, "adamw": 1e-3}
DECAYS = {"sgd": "coupled", "adam": "coupled", "adamw": "decoupled"}
AUGMENTATION_SIZES = {"crop": 4, "cutout": 8}

PROCESS = "process"
"""Each trial in a process of its own: what every cell is taken to be that says nothing else."""

LATER: Mapping[str, Any] = {
    "channels_last": False,
    "evaluation_batch_size": None,
    "decay_rule": "mean",
    "steps_per_execution": 1,
    "model": {},
    "sections": False,
    "label_smoothing": 0.0,
    "lookahead": False,
    "master_weights": True,
    "parameter_groups": [],
    "test_time_augmentation": [],
}
"""Settings that came after the first form of a cell: in it only where they differ from this."""


def settings_of(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The `settings` of a cell from resolved settings (`DEFAULTS` filled in), in the one form a digest needs.

    Numbers that are written in several ways become one (`1` and `1.0` for a rate), the optimiser's own settings stand
    inside it, and what it does not use is left out.
    """
    name = resolved["optimizer"]
    momentum = float(resolved["momentum"])
    optimizer: dict[str, Any] = {
        "name": name,
        "learning_rate": float(resolved.get("learning_rate") or LEARNING_RATES[name]),
    }
    if name == "sgd":
        optimizer |= {"momentum": momentum, "nesterov": resolved["nesterov"] and momentum > 0}
    else:
        optimizer |= {"betas": [float(beta) for beta in resolved["betas"]], "eps": float(resolved["eps"])}
    settings: dict[str, Any] = {
        "augmentation": [_augmentation(item) for item in resolved["augmentation"]],
        "batch_size": resolved["batch_size"],
        "compile": resolved["compile"],
        "decay": resolved.get("decay") or DECAYS[name],
        "epochs": resolved["epochs"],
        "input": resolved["input"],
        "optimizer": optimizer,
        "precision": resolved["precision"],
        "schedule": _schedule(resolved["schedule"]),
        "steps_per_epoch": resolved["steps_per_epoch"],
        "weight_decay": float(resolved["weight_decay"]),
    }
    later = {key: resolved.get(key, default) for key, default in LATER.items()}
    later["label_smoothing"] = float(later["label_smoothing"])
    later["parameter_groups"] = [_group(group) for group in later["parameter_groups"]]
    if later["lookahead"]:
        slow = later["lookahead"]
        later["lookahead"] = {"every": slow["every"]} | {key: float(slow.get(key, 0.0)) for key in ("decay", "power")}
    return settings | {key: value for key, value in later.items() if value != LATER[key]}


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    factors = {key: float(group.get(key, 1.0)) for key in ("rate_factor", "decay_factor")}
    return {"match": group["match"], **factors, **({"epochs": group["epochs"]} if "epochs" in group else {})}


def _augmentation(item: Any) -> Any:
    if isinstance(item, Mapping):
        return "flip" if item == {"flip": "random"} else dict(item)
    return {item: AUGMENTATION_SIZES[item]} if item in AUGMENTATION_SIZES else item


def _schedule(setting: Any) -> Any:
    if isinstance(setting, str):
        return setting
    if setting["name"] == "piecewise_linear":
        points = [[float(place), float(factor)] for place, factor in setting["points"]]
        return {"name": setting["name"], "points": points, "stretch": setting.get("stretch", False)}
    floor = float(setting.get("floor", 0.0))
    return {"name": setting["name"], "decay_steps": float(setting["decay_steps"]), "floor": floor}


def make_cell(
    *,
    workload: Mapping[str, Any],
    data: Mapping[str, Any],
    device: Mapping[str, Any],
    engine: Mapping[str, Any],
    resolved: Mapping[str, Any],
    seed: int = 0,
    target: Mapping[str, Any] | None = None,
    isolation: str = PROCESS,
    smoke: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A cell: what `raybench.identity.cell_id` digests.

    Args:
        workload: name and version, or name and digest of a person's own file.
        data: name, digest and the examples of each split.
        device: kind, model, count, replicas and threads; and, where replicas are several, how they are made.
        engine: name, version and the framework's major.minor.
        resolved: every setting.
        seed: the grid's seed; in the cell only where it is not 0.
        target: where training stops at the target, that target.
        isolation: `inline` where trials share a process: only then in the cell, so that such times mix with no others.
        smoke: of a cell that was cut: what it stands for.
    """
    settings = settings_of(resolved)
    if target is not None:
        settings["stop_at_target"] = dict(target)
    cell: dict[str, Any] = {
        "data": dict(data),
        "device": dict(device),
        "engine": dict(engine),
        "framework": resolved["framework"],
        "schema": SCHEMA,
        "settings": settings,
        "warmup_epochs": resolved["warmup_epochs"],
        "workload": dict(workload),
    }
    if seed:
        cell["seed"] = seed
    if isolation != PROCESS:
        cell["isolation"] = isolation
    return cell | ({"smoke": dict(smoke)} if smoke is not None else {})

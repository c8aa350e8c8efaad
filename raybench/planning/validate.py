"""Validation of a grid against its workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raybench.config import GridSpec
from raybench.errors import nearest
from raybench.workloads import WorkloadInfo
from raybench.workloads.parameters import Parameter


def check_training(spec: GridSpec, info: WorkloadInfo, resolved: Mapping[str, Any]) -> None:
    """Check that a cell's settings suit its workload."""
    if resolved.get("label_smoothing") and info.own_loss:
        raise spec.error("label_smoothing", f"needs cross-entropy, but {info.name} has its own loss; remove it")
    schedule = resolved.get("schedule")
    is_relative = isinstance(schedule, Mapping) and (schedule.get("stretch") or schedule["name"] == "cosine")
    if spec.budget and not resolved.get("epochs") and is_relative:
        message = "the schedule of the learning rate stretches over all epochs, whose number a budget leaves open"
        raise spec.error("budget", f"{message}; add `epochs`, or `schedule: constant`")
    # An accuracy of the user's own may be in percent.
    target = spec.target.plain() if spec.target and "accuracy" in info.metric_names else None
    if target and target.in_percent:
        bound = max(target.at_least or 0, target.at_most or 0)
        message = f"{bound:g} is not allowed for accuracy; use a fraction from 0 to 1, such as {bound / 100:g}"
        raise spec.error("target", message)


def model_options(spec: GridSpec, info: WorkloadInfo, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The model options set by a grid that differ from the defaults, each of its default's type."""
    options = {}
    for name, value in chosen.items():
        default = info.options.get(name)
        option = Parameter(type(default).__name__, default=default)
        if name not in info.options:
            hint = nearest(name, info.options) if info.options else "the model has no options"
            problem: str | None = f"not an option of {info.name}'s model; {hint}"
        else:
            problem = option.problem(value)
        if problem:
            raise spec.error(f"model.{name}", problem)
        if value != default:
            options[name] = option.converted(value)
    return options

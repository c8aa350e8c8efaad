"""Optimisers with one definition of weight decay, applied to every trainable tensor.

λ is in the mean-loss convention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch


@dataclass(frozen=True)
class Group:
    """Parameters with their own rate and decay.

    Attributes:
        parameters: trained parameters.
        rate, decay: factors on the learning rate and on λ.
        epochs: number of epochs in which they are trained; None for all.
    """

    parameters: Sequence[torch.nn.Parameter]
    rate: float = 1.0
    decay: float = 1.0
    epochs: int | None = None


def groups_of(model: torch.nn.Module, declared: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Assign a model's trained parameters to the cell's `parameter_groups`.

    Parameters that match none are in no group.

    Raises:
        ValueError: a group is empty: no trained parameter has such a name, or earlier groups have all of them.
    """
    unmatched = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    names, groups = ", ".join(unmatched), []
    for group in declared:
        matched = [name for name in unmatched if fnmatchcase(name, group["match"])]
        if not matched:
            raise ValueError(f"parameter_groups: {group['match']!r} matches none of {names[:500]}")
        parameters = [unmatched.pop(name) for name in matched]
        groups.append(Group(parameters, group["rate_factor"], group["decay_factor"], group.get("epochs")))
    return groups


def trained_to_the_end(model: torch.nn.Module, groups: Sequence[Group]) -> list[torch.nn.Parameter]:
    """Parameters that the last step updates.

    All trained parameters, if each is in a group that ends earlier.
    """
    ending = {parameter for group in groups if group.epochs for parameter in group.parameters}
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [parameter for parameter in trainable if parameter not in ending] or trainable


def end_groups(groups: Sequence[Group], epoch: int, freeze: bool) -> list[torch.nn.Parameter]:
    """Parameters whose training ended before this epoch; `freeze` disables their gradients."""
    finished = [p for group in groups if group.epochs and epoch > group.epochs for p in group.parameters]
    for parameter in finished if freeze else ():
        parameter.requires_grad_(False)
        parameter.grad = None
    return finished


class SGDW(torch.optim.SGD):
    """SGD with decoupled decay: w ← w − rate·λ·w, then the gradient step."""

    def __init__(self, params: Iterable[dict[str, Any]], *, lr: float, **options: Any) -> None:
        super().__init__(params, lr=lr, **options)
        for group in self.param_groups:
            group["decoupled"], group["weight_decay"] = group["weight_decay"], 0.0

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Decay the weights, then take the step."""
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            if group["decoupled"] and moving:
                torch._foreach_mul_(moving, 1.0 - group["lr"] * group["decoupled"])
        return super().step(closure)


def build_optimizer(
    params: Iterable[torch.nn.Parameter],
    settings: Mapping[str, Any],
    weight_decay: float,
    decay: str,
    fused: bool | None = None,
    groups: Sequence[Group] = (),
) -> torch.optim.Optimizer:
    """Build the optimiser of a cell.

    Coupled decay adds λ·w to the gradient before momentum or moments; decoupled decay shrinks the weights by rate·λ
    separately from the update. torch's SGD and Adam couple, its AdamW decouples; `adam` and `adamw` differ in nothing
    else. `fused` selects torch's single kernel; None leaves the choice to torch. Parameters in none of the `groups`
    have the factors 1.

    Raises:
        LookupError: an unknown optimiser.
    """
    name, rate = settings["name"], settings["learning_rate"]
    grouped = {parameter for group in groups for parameter in group.parameters}
    default_group = Group([parameter for parameter in params if parameter.requires_grad and parameter not in grouped])
    param_groups: list[dict[str, Any]] = [
        {"params": list(group.parameters), "lr": rate * group.rate, "weight_decay": weight_decay * group.decay}
        for group in (default_group, *groups)
        if group.parameters
    ]
    coupled = decay == "coupled"
    if name == "sgd":
        momentum = {"momentum": settings["momentum"], "nesterov": settings["nesterov"], "fused": fused}
        return (torch.optim.SGD if coupled else SGDW)(param_groups, lr=rate, **momentum)
    if name in ("adam", "adamw"):
        moments = {"betas": tuple(settings["betas"]), "eps": settings["eps"], "fused": fused}
        return (torch.optim.Adam if coupled else torch.optim.AdamW)(param_groups, lr=rate, **moments)
    raise LookupError(f"unknown optimizer {name!r}")

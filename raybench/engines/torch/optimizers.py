"""Optimisers, with the one definition of weight decay: λ in the mean-loss convention, on every trainable tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch


@dataclass(frozen=True)
class Group:
    """Parameters that have a rate and a decay of their own.

    Attributes:
        parameters: those that are trained.
        rate, decay: factors on the learning rate and on λ.
        epochs: for how many epochs they are trained; None for as many as there are.
    """

    parameters: Sequence[torch.nn.Parameter]
    rate: float = 1.0
    decay: float = 1.0
    epochs: int | None = None


def groups_of(model: torch.nn.Module, declared: Sequence[Mapping[str, Any]]) -> list[Group]:
    """The trained parameters of a model in the groups of a cell's `parameter_groups`; what none matches is in none.

    Raises:
        ValueError: nothing is left for a group: no trained parameter has such a name, or earlier groups have all.
    """
    left = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    names, found = ", ".join(left), []
    for group in declared:
        own = [name for name in left if fnmatchcase(name, group["match"])]
        if not own:
            raise ValueError(f"parameter_groups: {group['match']!r} matches none of {names[:500]}")
        parameters = [left.pop(name) for name in own]
        found.append(Group(parameters, group["rate_factor"], group["decay_factor"], group.get("epochs")))
    return found


def trained_to_the_end(model: torch.nn.Module, groups: Sequence[Group]) -> list[torch.nn.Parameter]:
    """The parameters that a last step changes; all that are trained where each is in a group that ends."""
    ending = {parameter for group in groups if group.epochs for parameter in group.parameters}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [parameter for parameter in trained if parameter not in ending] or trained


def end_groups(groups: Sequence[Group], epoch: int, freeze: bool) -> list[torch.nn.Parameter]:
    """The parameters whose epochs of training are over when this one begins; with `freeze` they get no gradient."""
    over = [p for group in groups if group.epochs and epoch > group.epochs for p in group.parameters]
    for parameter in over if freeze else ():
        parameter.requires_grad_(False)
        parameter.grad = None
    return over


class SGDW(torch.optim.SGD):
    """SGD whose decay stands beside the update: w ← w − rate·λ·w, then the step of the gradient alone."""

    def __init__(self, params: Iterable[dict[str, Any]], *, lr: float, **rest: Any) -> None:
        super().__init__(params, lr=lr, **rest)
        for group in self.param_groups:
            group["decoupled"], group["weight_decay"] = group["weight_decay"], 0.0

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Shrink the weights, then take the step."""
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
    """The optimiser of a cell.

    Coupled decay adds λ·w to the gradient before momentum or moments; decoupled shrinks the weights beside the
    update by rate·λ. torch's SGD and Adam couple, its AdamW decouples; `adam` and `adamw` differ in nothing else.
    `fused` asks for torch's single kernel; None leaves the choice to torch. What is in none of the `groups` has the
    factors 1.

    Raises:
        LookupError: an unknown optimiser.
    """
    name, rate = settings["name"], settings["learning_rate"]
    taken = {parameter for group in groups for parameter in group.parameters}
    rest = Group([parameter for parameter in params if parameter.requires_grad and parameter not in taken])
    trained: list[dict[str, Any]] = [
        {"params": list(group.parameters), "lr": rate * group.rate, "weight_decay": weight_decay * group.decay}
        for group in (rest, *groups)
        if group.parameters
    ]
    coupled = decay == "coupled"
    if name == "sgd":
        momentum = {"momentum": settings["momentum"], "nesterov": settings["nesterov"], "fused": fused}
        return (torch.optim.SGD if coupled else SGDW)(trained, lr=rate, **momentum)
    if name in ("adam", "adamw"):
        moments = {"betas": tuple(settings["betas"]), "eps": settings["eps"], "fused": fused}
        return (torch.optim.Adam if coupled else torch.optim.AdamW)(trained, lr=rate, **moments)
    raise LookupError(f"unknown optimizer {name!r}")

"""Weights between frameworks: arrays in torch's names and layouts, paired layer by layer.

Everything here is a dictionary from `layer.role` to an array, in the order in which a model defines its layers:
`weight` and `bias` as torch lays them out (convolutions [out, in, height, width], dense layers [out, in]), and a batch
norm's `running_mean` and `running_var`. Each framework's `inspection` module reads and writes this form. What a layer
is called is its framework's affair: layers are paired by their names where both models use the same ones (branches have
no order of their own), else by their order, and have to agree in roles and shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from raybench.datasets.base import Array

Weights = Mapping[str, Array]

STATISTICS = ("running_mean", "running_var")
"""The roles that training gathers and no optimiser touches."""


class Mismatch(ValueError):
    """Two models are not made of the same layers; the message names the first pair that differs."""


def role(name: str) -> str:
    """What `layer.role` is within its layer."""
    return name.rpartition(".")[2]


def under(prefix: str, arrays: Weights) -> dict[str, Array]:
    """The arrays called `prefix/…`, without the prefix."""
    return {name.removeprefix(f"{prefix}/"): array for name, array in arrays.items() if name.startswith(f"{prefix}/")}


def by_layer(weights: Weights) -> dict[str, dict[str, Array]]:
    """The arrays of each layer by role, layers in order."""
    layers: dict[str, dict[str, Array]] = {}
    for name, array in weights.items():
        layer, _, its_role = name.rpartition(".")
        layers.setdefault(layer, {})[its_role] = array
    return layers


def renamed(weights: Weights, like: Weights) -> dict[str, Array]:
    """The weights under the names of another model, in its order.

    Args:
        weights: of one model.
        like: of the other: names and shapes count, values do not.

    Raises:
        Mismatch: the models are not made of the same layers.
    """
    here, there = by_layer(weights), by_layer(like)
    found: dict[str, Array] = {}
    pairs = zip(there, there, strict=True) if set(here) == set(there) else zip_longest(here, there)
    for number, (one, other) in enumerate(pairs, 1):
        if one is None or other is None:
            more = f"{one} {_shapes(here[one])}" if one is not None else f"{other} {_shapes(there[other])}"
            raise Mismatch(f"{len(here)} layers with weights against {len(there)}: no partner for {more}")
        if {key: array.shape for key, array in here[one].items()} != {
            key: array.shape for key, array in there[other].items()
        }:
            raise Mismatch(
                f"layer {number} with weights: {one} {_shapes(here[one])} against {other} {_shapes(there[other])}"
            )
        found |= {f"{other}.{key}" if other else key: here[one][key] for key in there[other]}
    return found


def _shapes(layer: Mapping[str, Array]) -> str:
    return "(" + ", ".join(f"{key} {'×'.join(map(str, array.shape))}" for key, array in layer.items()) + ")"

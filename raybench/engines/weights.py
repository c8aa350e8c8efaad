"""Weights between frameworks: arrays in torch's names and layouts, paired layer by layer.

Everything here is a dictionary from `layer.role` to an array, in the order in which a model defines its layers:
`weight` and `bias` in torch's layout (convolutions [out, in, height, width], dense layers [out, in]), and a batch
norm's `running_mean` and `running_var`. Each framework's `inspection` module reads and writes this form. Layer names
are specific to a framework: layers are paired by name if both models use the same names (branches have no order of
their own), else by order, and must agree in roles and shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from raybench.datasets.splits import Array

Weights = Mapping[str, Array]

STATISTICS = ("running_mean", "running_var")
"""Roles of running statistics, which no optimizer updates."""


class Mismatch(ValueError):
    """Two models have different layers; the message names the first pair that differs."""


def role(name: str) -> str:
    """The role in a `layer.role` name."""
    return name.rpartition(".")[2]


def under(prefix: str, arrays: Weights) -> dict[str, Array]:
    """The arrays named `prefix/…`, without the prefix."""
    return {name.removeprefix(f"{prefix}/"): array for name, array in arrays.items() if name.startswith(f"{prefix}/")}


def by_layer(weights: Weights) -> dict[str, dict[str, Array]]:
    """The arrays of each layer by role, in the order of the layers."""
    layers: dict[str, dict[str, Array]] = {}
    for name, array in weights.items():
        layer, _, its_role = name.rpartition(".")
        layers.setdefault(layer, {})[its_role] = array
    return layers


def renamed(weights: Weights, target: Weights) -> dict[str, Array]:
    """Rename weights to the names of `target`, of which only names and shapes are used, in its order.

    Raises:
        Mismatch: the models have different layers.
    """
    layers, targets = by_layer(weights), by_layer(target)
    result: dict[str, Array] = {}
    pairs = zip(targets, targets, strict=True) if set(layers) == set(targets) else zip_longest(layers, targets)
    for number, (name, peer) in enumerate(pairs, 1):
        if name is None or peer is None:
            unmatched = f"{name} {_shapes(layers[name])}" if name is not None else f"{peer} {_shapes(targets[peer])}"
            raise Mismatch(f"{len(layers)} layers with weights against {len(targets)}: no partner for {unmatched}")
        if {key: array.shape for key, array in layers[name].items()} != {
            key: array.shape for key, array in targets[peer].items()
        }:
            raise Mismatch(
                f"layer {number} with weights: {name} {_shapes(layers[name])} against {peer} {_shapes(targets[peer])}"
            )
        result |= {f"{peer}.{key}" if peer else key: layers[name][key] for key in targets[peer]}
    return result


def _shapes(layer: Mapping[str, Array]) -> str:
    return "(" + ", ".join(f"{key} {'×'.join(map(str, array.shape))}" for key, array in layer.items()) + ")"

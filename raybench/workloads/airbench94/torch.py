"""airbench94 in PyTorch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn

from raybench.workloads.davidnet.torch import Scale

KERNEL = 2
"""Height and width of the whitening layer's patches."""

PICTURES = 5000
"""Number of training images from which its weights are computed."""

EPSILON = 5e-4
"""Term added to the variance along each direction.

It prevents the amplification of a direction with almost no variance."""


def convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """3×3 convolution without bias; the first outputs are initial copies of the inputs.

    The other filters have torch's default initialisation.
    """
    layer = nn.Conv2d(inputs, outputs, 3, padding="same", bias=False)
    with torch.no_grad():
        nn.init.dirac_(layer.weight[:inputs])
    return layer


def norm(width: int) -> nn.BatchNorm2d:
    """A batch norm with a constant scale of 1.

    Its running statistics keep 0.6 of their values at each step.
    """
    layer = nn.BatchNorm2d(width, eps=1e-12, momentum=0.4)
    layer.weight.requires_grad_(False)
    return layer


class Group(nn.Sequential):
    """Two convolutions, each with batch norm and GELU; 2×2 pooling after the first."""

    def __init__(self, inputs: int, outputs: int) -> None:
        layers = {
            "conv1": convolution(inputs, outputs),
            "pool": nn.MaxPool2d(2),
            "norm1": norm(outputs),
            "gelu1": nn.GELU(),
            "conv2": convolution(outputs, outputs),
            "norm2": norm(outputs),
            "gelu2": nn.GELU(),
        }
        super().__init__(OrderedDict(layers))


def build() -> nn.Module:
    """Build the network: [N, 3, 32, 32] to logits [N, 10].

    1,972,792 parameters, of which 1,971,352 are trained. The weights of the whitening layer are frozen, and must be
    computed from images (`whiten`).
    """
    width = 2 * 3 * KERNEL * KERNEL
    whitening = nn.Conv2d(3, width, KERNEL)
    whitening.weight.requires_grad_(False)
    whitening.bias = nn.Parameter(torch.zeros(width))
    layers = {
        "whitening": whitening,
        "gelu": nn.GELU(),
        "group1": Group(width, 64),
        "group2": Group(64, 256),
        "group3": Group(256, 256),
        "pool": nn.MaxPool2d(3),
        "flat": nn.Flatten(),
        "head": nn.Linear(256, 10, bias=False),
        "scale": Scale(1 / 9),
    }
    return nn.Sequential(OrderedDict(layers))


def whiten(model: nn.Sequential, examples: Callable[[int], tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Set the first layer to whiten the first training images.

    Its outputs then have unit variance and no covariance. Its filters are the eigenvectors of the covariance of all 2×2
    patches, each divided by the root of its eigenvalue, the largest first; then their negatives. Means are assumed to
    be 0, as in normalised images.
    """
    pictures, _ = examples(PICTURES)
    products, count = torch.zeros(()), 0
    for chunk in torch.split(pictures, 500):
        patches = nn.functional.unfold(chunk, KERNEL).transpose(1, 2).flatten(0, 1)  # [patches, 3·2·2]
        products, count = products.to(patches) + patches.T @ patches, count + len(patches)
    values, vectors = torch.linalg.eigh((products / count).double().cpu())  # ascending; one eigenvector per column
    filters = (vectors / (values + EPSILON).sqrt()).T.flip(0).reshape(-1, 3, KERNEL, KERNEL)
    model.get_parameter("whitening.weight").copy_(torch.cat([filters, -filters]))

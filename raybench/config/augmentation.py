"""What a grid file may say of pictures: how they are changed in training, and which views of them are evaluated."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Tag, with_config
from typing_extensions import TypedDict

from raybench.config.values import STRICT, Count, alternatives, complaint


@with_config(STRICT)
class Crop(TypedDict):
    """A random crop of the picture padded on each side."""

    crop: Annotated[Count, Field(description="Pixels of reflected padding on each side.", examples=[4])]


@with_config(STRICT)
class Flip(TypedDict):
    """Which pictures are mirrored."""

    flip: Annotated[
        Literal["random", "alternating"],
        Field(
            description="random: each by chance, every time anew; alternating: each by chance in the first pass over "
            "the training set, and from then on the other way round in every pass.",
            examples=["alternating"],
        ),
    ]


@with_config(STRICT)
class Cutout(TypedDict):
    """A random square set to 0."""

    cutout: Annotated[Count, Field(description="Side of the square in pixels.", examples=[8])]


@with_config(STRICT)
class Shift(TypedDict):
    """Two more views of a picture, with its border reflected."""

    shift: Annotated[
        Count,
        Field(description="Pixels by which one view is moved up and left, the other down and right.", examples=[1]),
    ]


def _augmentation_meant(value: Any) -> str | None:
    if isinstance(value, dict):
        return {("crop",): "<crop>", ("flip",): "<flip>", ("cutout",): "<cutout>"}.get(tuple(value))
    return "<word>" if isinstance(value, str) else None


def _view_meant(value: Any) -> str | None:
    if isinstance(value, dict):
        return "<shift>" if tuple(value) == ("shift",) else None
    return "<word>" if isinstance(value, str) else None


Augmentation = Annotated[
    Annotated[Literal["crop", "flip", "cutout"], Tag("<word>")]
    | Annotated[Crop, Tag("<crop>")]
    | Annotated[Flip, Tag("<flip>")]
    | Annotated[Cutout, Tag("<cutout>")],
    alternatives(_augmentation_meant, "crop, flip, cutout, {crop: pixels}, {flip: alternating} or {cutout: pixels}"),
]

View = Annotated[
    Annotated[Literal["flip"], Tag("<word>")] | Annotated[Shift, Tag("<shift>")],
    alternatives(_view_meant, "flip or {shift: pixels}"),
]


def _each_once(items: list[Any]) -> list[Any]:
    kinds = [item if isinstance(item, str) else next(iter(item)) for item in items]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise complaint(f"{kind} appears more than once; keep one")
    return items


Augmentations = Annotated[list[Augmentation], AfterValidator(_each_once)]
Views = Annotated[list[View], AfterValidator(_each_once)]

"""The augmentations of images that a grid file may request."""

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
class Cutout(TypedDict):
    """A random square set to 0."""

    cutout: Annotated[Count, Field(description="Side of the square in pixels.", examples=[8])]


def _augmentation_meant(value: Any) -> str | None:
    if isinstance(value, dict):
        return {("crop",): "<crop>", ("cutout",): "<cutout>"}.get(tuple(value))
    return "<word>" if isinstance(value, str) else None


Augmentation = Annotated[
    Annotated[Literal["crop", "flip", "cutout"], Tag("<word>")]
    | Annotated[Crop, Tag("<crop>")]
    | Annotated[Cutout, Tag("<cutout>")],
    alternatives(_augmentation_meant, "crop, flip, cutout, {crop: pixels} or {cutout: pixels}"),
]


def _each_once(items: list[Any]) -> list[Any]:
    kinds = [item if isinstance(item, str) else next(iter(item)) for item in items]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise complaint(f"{kind} appears more than once; keep one")
    return items


Augmentations = Annotated[list[Augmentation], AfterValidator(_each_once)]

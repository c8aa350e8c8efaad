"""What a grid file may say of how weights move beyond the optimiser's own rule: parameter groups and lookahead."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, Tag, with_config
from typing_extensions import TypedDict

from raybench.config.values import STRICT, Count, Fraction, NotNegative, Positive, Text, alternatives


@with_config(STRICT)
class ParameterGroup(TypedDict):
    """Parameters of the model that are trained in another way than the rest."""

    match: Annotated[
        Text,
        Field(
            description="Which: a pattern for their names, with * for anything, ? for one character and [] for one of "
            "several; the first group that matches has a parameter.",
            examples=["*.bias"],
        ),
    ]
    rate_factor: NotRequired[Annotated[Positive, Field(description="Multiplies learning_rate.", examples=[64.0])]]
    decay_factor: NotRequired[Annotated[NotNegative, Field(description="Multiplies weight_decay.", examples=[0.0])]]
    epochs: NotRequired[
        Annotated[Count, Field(description="They are trained for so many epochs, and then stay.", examples=[3])]
    ]


ParameterGroups = list[ParameterGroup]


@with_config(STRICT)
class SlowWeights(TypedDict):
    """Slow weights that follow the trained ones, and to which these go back."""

    every: Annotated[Count, Field(description="Steps from one time to the next.", examples=[5])]
    decay: Annotated[
        Fraction,
        Field(description="The share of the slow weights that stays each time, at the end of the run.", examples=[0.5]),
    ]
    power: NotRequired[
        Annotated[
            NotNegative,
            Field(description="That share grows with this power of the part of the run that is over.", examples=[3.0]),
        ]
    ]


def _lookahead_meant(value: Any) -> str | None:
    if isinstance(value, dict):
        return "<slow>"
    return "<off>" if value is False else None


Lookahead = Annotated[
    Annotated[Literal[False], Tag("<off>")] | Annotated[SlowWeights, Tag("<slow>")],
    alternatives(_lookahead_meant, "false, or a map such as {every: 5, decay: 0.5}"),
]

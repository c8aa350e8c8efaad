"""Base class of facts: typed results that templates render as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """A single result, rendered by a report as one sentence.

    Subclasses hold the numbers and which case applies. The English text is the macro of the same name in
    `raybench/reporting/templates/`.
    """

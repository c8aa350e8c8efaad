"""The base of all facts: what the numbers of a grid show, typed, for a template to put into words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """One thing that the results show: what a report says in one sentence.

    A subclass has the numbers, and the decision which case applies. Its English is the macro of the same name in
    `raybench/reporting/templates/`.
    """

"""The lines of a command's output that count its work: the clock of a program that one does not know."""

from __future__ import annotations

from dataclasses import dataclass

from raybench.core.text import format_value


@dataclass(frozen=True)
class OutputClock:
    """Lines with a number that grows with the work of a program.

    Attributes:
        pattern: a regular expression, whose first group is the number; empty if a program has none.
        shown: a line as people read it, with `N` for the number: `step N | loss …`.
        label: what it counts, such as `step`; empty if the program does not say.
        step: by how much it grows in an epoch.
        are_passes: whether it counts passes over the data, of which parts are the same work with every batch size.
        begins: whether a line begins an epoch, and does not end one.
    """

    pattern: str = ""
    shown: str = ""
    label: str = ""
    step: float = 1.0
    are_passes: bool = False
    begins: bool = False

    @property
    def unit(self) -> str:
        """An epoch in words: `epoch`, `step` or `10 steps`."""
        if self.are_passes and self.step == 1:
            return "epoch"
        noun = "round" if self.pattern and self.label.lower().startswith("train") else self.label or "count"
        if self.step == 1 and noun != "%":
            return noun
        return f"{format_value(self.step)} {noun if noun == '%' else noun.removesuffix('s') + 's'}"

    def sentence(self) -> str:
        """What an epoch is, in words."""
        if not self.pattern:
            return "no line of the output counts the work, so times are of whole runs, with their start-up"
        plural = self.label if self.label in ("%", "") or self.label.endswith("s") else f"{self.label}s"
        amount = f", {format_value(self.step)} {plural or 'counts'} each" if self.step != 1 else ""
        return f"epochs are the lines `{self.shown}`{amount}"


OF_TRAINING = OutputClock(label="training", shown="training")
"""The clock of a table with the time of training of each run, and that of all of it."""

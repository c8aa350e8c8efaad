"""Where a step of training goes: data, forward, loss, backward, step, of runs that timed them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from raybench.analysis import rules
from raybench.analysis.results import Attempt
from raybench.trial.ledger import STEP_SECTIONS

NOTE = (
    "by sections: the device was waited for at every section of a step. That makes a step slower, so that the times of "
    "such runs are in no ratio."
)

MILLI = 1e-3


def step_sections(runs: Sequence[Attempt]) -> dict[str, float]:
    """Milliseconds of a step in each section: the median over steady epochs, and of that the median over runs.

    Empty where none of the runs has told.
    """
    told = [found for run in runs if (found := _of_run(run))]
    names = [name for name in STEP_SECTIONS if told and all(name in found for found in told)]
    return {name: median(found[name] for found in told) for name in names}


def _of_run(run: Attempt) -> Mapping[str, float]:
    epochs = [epoch for epoch in rules.steady_epochs(run) if epoch.sections and epoch.steps]
    names = [name for name in STEP_SECTIONS if epochs and all(name in epoch.sections for epoch in epochs)]
    return {name: median(epoch.sections[name] / epoch.steps / MILLI for epoch in epochs) for name in names}

"""Imported runs in words: what differs here, and how the runs here compare with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from raybench.analysis.answer import Criterion
from raybench.analysis.changed_values import ChangedValue
from raybench.analysis.reproduction import imported_runs, reproduction
from raybench.core.code_state import DIRTY
from raybench.core.text import join_words, names_text, plural
from raybench.reporting.words.quality import quality_words
from raybench.reporting.words.ratios import ratio_words
from raybench.results.history import GridHistory
from raybench.results.run_table import Run

if TYPE_CHECKING:
    from raybench.planning.plan import Plan


def before(plan: Plan, history: GridHistory) -> Iterator[str]:
    """Yield what was imported of a grid that has not run here, and what differs."""
    planned = [Run(cell=cell.content) for cell in plan.cells if not cell.skip]
    folder = plan.workload.folder or str(plan.spec.source_path.parent if plan.spec.source_path else ".")
    if done := imported_runs(history, planned, folder):
        commit = f", commit {done.commit.replace(DIRTY, ' with uncommitted changes')}" if done.commit else ""
        yield f"Imported: {plural(done.runs, 'run')}{_of(done.hosts)}{commit}. {_different(done.differences)}"


def _of(hosts: tuple[str, ...]) -> str:
    return f" of {join_words(hosts)}" if hosts else ""


def after(history: GridHistory) -> Iterator[str]:
    """Yield how the runs here compare with the imported ones."""
    if here := reproduction(history):
        imported = f"the {plural(here.imported, 'imported run')}{_of(here.hosts)}"
        facts = [ratio_words(here.speed, Criterion.FASTEST, "these")] if here.speed else []
        facts += [quality_words(here.quality, here.metric, "" if facts else "these")] if here.quality else []
        runs = f"{plural(here.here, 'run')} here against {imported}, in {plural(here.configurations, 'configuration')}"
        yield f"{runs}: {', '.join(facts) or 'nothing to compare'}. {_different(here.differences)}"


def _different(differences: tuple[ChangedValue, ...]) -> str:
    changed = names_text([str(difference) for difference in differences])
    return f"Different here: {changed}." if differences else "Hardware, versions and code are the same here."

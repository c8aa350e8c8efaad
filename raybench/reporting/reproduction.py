"""Imported runs in words: what differs here, and how the runs here compare with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from raybench.analysis.answer import Criterion
from raybench.analysis.changed_values import ChangedValue
from raybench.analysis.reproduction import imported_runs, reproduction
from raybench.core.code_state import DIRTY
from raybench.core.text import join_words, names_text, plural
from raybench.reporting.words import quality_words, ratio_words
from raybench.results.history import GridHistory
from raybench.results.run_table import Run

if TYPE_CHECKING:
    from raybench.planning.plan import Plan


def before(plan: Plan, history: GridHistory) -> Iterator[str]:
    """Yield what was imported of a grid that has not run here, and what differs."""
    planned = [Run(cell=cell.content) for cell in plan.cells if not cell.skip]
    folder = plan.workload.folder or str(plan.spec.source_path.parent if plan.spec.source_path else ".")
    if found := imported_runs(history, planned, folder):
        commit = f", commit {found.commit.replace(DIRTY, ' with uncommitted changes')}" if found.commit else ""
        yield f"Imported: {plural(found.runs, 'run')}{_of(found.hosts)}{commit}. {_different(found.differences)}"


def _of(hosts: tuple[str, ...]) -> str:
    return f" of {join_words(hosts)}" if hosts else ""


def after(history: GridHistory) -> Iterator[str]:
    """Yield how the runs here compare with the imported ones."""
    if found := reproduction(history):
        other = f"the {plural(found.imported, 'imported run')}{_of(found.hosts)}"
        facts = [ratio_words(found.speed, Criterion.FASTEST, "these")] if found.speed else []
        facts += [quality_words(found.quality, found.metric, "" if facts else "these")] if found.quality else []
        runs = f"{plural(found.here, 'run')} here against {other}, in {plural(found.configurations, 'configuration')}"
        yield f"{runs}: {', '.join(facts) or 'nothing to compare'}. {_different(found.differences)}"


def _different(differences: tuple[ChangedValue, ...]) -> str:
    listed = names_text([str(each) for each in differences])
    return f"Different here: {listed}." if differences else "Hardware, versions and code are the same here."

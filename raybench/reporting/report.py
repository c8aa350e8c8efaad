"""The report of a grid: its answer, machines, versions and grid file, and all of it as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from raybench.analysis.answer import Answer
from raybench.core.cell import CellDevice
from raybench.core.code_state import DIRTY
from raybench.core.status import TrialStatus
from raybench.core.text import plural, printable_json
from raybench.devices import hardware_text
from raybench.reporting.method import method, source_line
from raybench.reporting.words.best import best_texts, verdict
from raybench.reporting.words.effects import scaling_sentences
from raybench.reporting.words.goodput import goodput_sentences
from raybench.reporting.words.status import (
    caution_text,
    certainty_sentences,
    failure_sentences,
    mean_sentences,
    status_sentences,
    trust_sentence,
)
from raybench.results.executions import Execution
from raybench.results.run_table import Run
from raybench.workloads.own_files import FILE

VERSION = 1  # version of the format of `as_json`; it is raised if a field changes its meaning, not for new fields


CONTEXT = ("made", "dates", "grid_file", "machines", "versions", "clocks", "method", "provenance")
"""Attributes of a report that its JSON has besides the answer."""

FRAMEWORK = ("framework", "engine.framework_version")  # the fields of a cell with its framework


@dataclass(frozen=True)
class Report:
    """A grid's report. Properties are computed at their first use, since a terminal shows only the answer.

    Attributes:
        answer: the answer.
        runs: all that were counted for it.
        made: the time of the report, UTC.
        grid_file: the text of the grid file; empty if unknown.
        executions: that made the runs.
        sources: the names of the files that the runs are from.
    """

    answer: Answer
    runs: Sequence[Run] = ()
    made: str = ""
    grid_file: str = ""
    executions: Sequence[Execution] = ()
    sources: Sequence[str] = ()

    @cached_property
    def _completed(self) -> list[Run]:
        return [run for run in self.runs if run.status == TrialStatus.COMPLETED]

    @cached_property
    def dates(self) -> list[str]:
        """The days (UTC) on which the first and the last of its runs began; empty if they are not known."""
        days = sorted({run.started[:10] for run in self.runs if run.started})
        return list(dict.fromkeys([*days[:1], *days[-1:]]))

    @cached_property
    def machines(self) -> list[str]:
        """A line for each kind of device on each host, with its number of runs."""
        on_hosts = (run for run in self.runs if run.host and run.cell.device != CellDevice())
        return [f"{machine}: {plural(count, 'run')}" for machine, count in Counter(map(_machine, on_hosts)).items()]

    @cached_property
    def versions(self) -> dict[str, list[str]]:
        """Versions by program, the most frequent first."""
        versions: dict[str, Counter[str]] = {}
        for run in self.runs:
            for name, version in run.versions.items():
                if isinstance(version, (str, int, float)) and not name.startswith(FILE):
                    versions.setdefault(str(name), Counter())[str(version)] += 1
        return {name: [version for version, _ in counts.most_common()] for name, counts in sorted(versions.items())}

    @property
    def clocks(self) -> list[str]:
        """What timed the epochs of its runs, as in `Run.clock`."""
        return sorted({run.clock or "trial" for run in self._completed if run.host})

    @property
    def method(self) -> str:
        """How it was measured and compared, a paragraph."""
        return method(self.answer, self._completed, self.dates, self.versions)

    @cached_property
    def provenance(self) -> dict[str, list[str]]:
        """Where its results come from, as far as it is known: sources with digests, machines, versions, command."""
        leaves = (run.cell.leaves for run in self._completed)
        programs = [execution.made_with for execution in self.executions]
        commits, commands = ([str(program.get(name) or "") for program in programs] for name in ("commit", "command"))
        commits += self.versions.get("commit", [])
        by_kind: dict[str, Iterable[object]] = {
            "sources": map(source_line, self.sources),
            "machines": self.machines,
            "dates (UTC)": [" to ".join(self.dates)],
            "driver": (run.hardware.get("driver") for run in self._completed),
            "framework": (" ".join(str(values[name]) for name in FRAMEWORK if name in values) for values in leaves),
            "versions": [f"{name} {', '.join(numbers)}" for name, numbers in self.versions.items() if name != "commit"],
            "commit": (commit.replace(DIRTY, " with uncommitted changes") for commit in commits),
            "command": [*commands, *(run.command for run in self._completed)],
        }
        texts_of = {name: [str(text) for text in dict.fromkeys(texts) if text] for name, texts in by_kind.items()}
        return {name: texts for name, texts in texts_of.items() if texts}


def _machine(run: Run) -> str:
    device = run.cell.device
    threads = run.runtime_conditions.get("threads", device.threads or None)
    parts = [hardware_text(device) or device.kind, plural(threads, "thread") if isinstance(threads, int) else ""]
    parts += [run.cell.framework, f"linked by {link}" if (link := run.runtime_conditions.get("link")) else ""]
    name = str(run.host.get("name") or "")
    return ": ".join(filter(None, (name, ", ".join(filter(None, parts)))))


def as_json(report: Report) -> str:
    """Return the report as JSON for programs.

    - `version`: of this format, 1
    - the fields of `raybench.analysis.answer.Answer`, with those of its configurations, effects and trust; intervals
      are `low` and `high` (95%), ratios above 1 are better, accuracies are fractions, indices refer to
      `configurations`; learning curves are left out
    - `sentences`: the same in words: `verdict`, `status`, `best`, `certainty`, `scaling`, `goodput`, `trust`,
      `cautions` and `failures`
    - `made` and `dates` (UTC), `machines`, `versions`, `clocks`, `method`, `provenance`, `grid_file`
    """
    answer = report.answer
    sentences = {
        "verdict": verdict(answer),
        "status": status_sentences(answer),
        "best": [str(text) for text in best_texts(answer)],
        "certainty": certainty_sentences(answer),
        "means": mean_sentences(answer),
        "scaling": list(scaling_sentences(answer)),
        "goodput": goodput_sentences(answer),
        "trust": trust_sentence(answer),
        "cautions": [caution_text(caution) for caution in answer.trust.cautions],
        "failures": failure_sentences(answer),
    }
    context = {name: getattr(report, name) for name in CONTEXT}
    return json_text({"version": VERSION, **_plain(answer), "sentences": sentences, **context})


def json_text(data: Any) -> str:
    """Return data classes and values as JSON."""
    return printable_json(json.dumps(_plain(data), indent=1, default=str, ensure_ascii=False)) + "\n"


def _plain(value: Any) -> Any:
    """Return a value as plain data; numbers that JSON does not have are null."""
    if is_dataclass(value):
        names = (entry.name for entry in fields(value) if entry.name != "curve")
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return None if isinstance(value, float) and not math.isfinite(value) else value

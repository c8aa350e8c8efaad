"""A command whose epochs are lines of its output.

Lines are stamped when they are read. What is an epoch is decided when the run ends; while it runs, it is looked at now
and then, for its budget and for the display.
"""

from __future__ import annotations

import math
import re
import time
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from raybench.core import events
from raybench.core.events import Event
from raybench.core.ledger import NANO, Ledger
from raybench.core.memory import peak_resident
from raybench.core.status import TrialStatus
from raybench.devices import hosted
from raybench.output.epochs import Course, Output, Printed, State
from raybench.output.transcript import Transcript, number_of
from raybench.results.output_clock import OutputClock
from raybench.training.epoch_record import finite
from raybench.trial.command_run import CommandRun, End, values_of, wrong_use
from raybench.trial.journal import joules_reader
from raybench.trial.program import Program, children_cpu_s
from raybench.workloads.command import EPOCH, MARKS, arithmetic

BUDGET_GRACE, STARTUP_GRACE_S = 0.1, 60.0
"""The part of its budget that a command may take longer, until an epoch ends; seconds more until its clock is known."""

METRICS_GRACE_S = 5.0  # seconds in which a command may print metrics of its last epoch after the line of this

LOOK_S, LOOK_PART, SHOW_S, SHOW_PART = 0.2, 0.01, 2.0, 0.02
"""Fewest seconds between two looks at the output, and the part of the time that they take; the same for the display."""

MAX_QUOTED, PREFIX = 100, 3
"""Characters of a quoted line, and letters in which words agree that are taken for the same: acc and accuracy."""


TOGETHER = """the lines of all {count} epochs arrived together, so that no time of an epoch is known: let the program \
write its output after each line (fflush() in awk and C, $| = 1 in Perl, `stdbuf -oL` before a program that uses C's \
stdio)"""

_ESCAPES = re.compile(r"\\.|\(\?P?<?\w*>?")


class PrintedRun(CommandRun):
    """A command whose epochs are lines of its output."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._transcript, self._course, self._clock = Transcript({}), Course([]), OutputClock()
        self._work: dict[str, float] = {}
        self._events: list[Event] = []
        self._seconds = dict.fromkeys(State, 0.0)
        self._cpu: list[tuple[int, float]] = []
        self._children_s = children_cpu_s()
        self._begin_ns = self._read_ns = self._look_ns = self._show_ns = self._until_ns = 0
        self._is_new = False
        self._limit_s = (self._job.budget.seconds if self._job.budget else None) or math.inf
        self._due_ns = 0.0 if self._job.budget else math.inf
        self._read_joules = joules_reader(self._job)
        self._began_j: float | None = None

    def _start(self, values: Mapping[str, Any] | None = None) -> Program:
        values = values or values_of(self._job, self._command, self._channel)
        amounts = {unit: arithmetic(text, values) for unit, text in self._command.work.items()}
        self._work = {unit: amount for unit, amount in amounts.items() if amount is not None}
        patterns = {unit: text for unit, text in self._command.work.items() if unit not in self._work}
        self._transcript = Transcript({**self._command.metrics, **patterns})
        program = super()._start(values)
        self._begin_ns = time.perf_counter_ns()
        self._cpu.append((self._begin_ns, 0.0))
        return program

    def _take(self, stream: int, chunk: bytes, at_ns: int) -> None:
        self._is_new |= self._transcript.add(stream, chunk, at_ns)
        self._read_ns = at_ns if chunk else self._read_ns

    def _look(self) -> None:
        now, program = time.perf_counter_ns(), self._program
        if program and program.code is None and ((self._is_new and now >= self._look_ns) or now >= self._due_ns):
            self._is_new = False
            self._note_cpu(program, now)
            earlier = len(self._events)
            self._decide(now)
            # Fewer epochs than before: what an epoch is has changed, often for this moment alone.
            if len(self._events) >= max(1, earlier) and now >= self._show_ns:
                self._send({**self._events[-1], "event": events.EPOCH_SEEN})
                self._show_ns = now + max(round(SHOW_S / NANO), round(SHOW_PART * (now - self._begin_ns)))
            self._look_ns = now + max(round(LOOK_S / NANO), round((time.perf_counter_ns() - now) / LOOK_PART))
            if now >= self._due_ns:
                self._until_ns = now
                raise End(TrialStatus.COMPLETED)

    def _decide(self, until_ns: int, is_over: bool = False) -> None:
        """Decide what the program has done until a moment: its clock, its epochs and its sections.

        Args:
            is_over: whether it has ended by itself.
        """
        given = self._job.output_clock
        output = Output(self._transcript, OutputClock(**given) if given else None, until_ns if is_over else 0)
        course = self._course = output.course(self._begin_ns, until_ns, is_over)
        self._clock, self._events, at_ns = output.clock, [], [self._started_ns]
        ledger, limit_s, spent_ns = Ledger(self._started_ns, lambda: at_ns[0]), self._limit_s, 0
        steps: list[tuple[int, int, Any]] = [(at, 1, state) for at, state in course.moments]
        steps += [(epoch.end, 0, epoch) for epoch in course.epochs]
        for step_ns, _, step in sorted(steps, key=lambda step: step[:2]):
            at_ns[0] = min(max(at_ns[0], step_ns), until_ns)
            if isinstance(step, State):
                ledger.enter(step)
            elif not spent_ns:
                self._add_epoch(ledger, step)
                spent_ns = at_ns[0] if ledger.seconds(State.TRAINING) >= limit_s else 0
        at_ns[0] = until_ns
        if self._job.budget and not is_over:
            self._due_ns = self._due(ledger.seconds(State.TRAINING), spent_ns, until_ns)
            if until_ns >= self._due_ns and not spent_ns:
                self._add_epoch(ledger, Printed(until_ns, {}), partial=True)
        ledger.move(round(ledger.epoch()[State.TRAINING] / NANO), State.TRAINING, State.OTHER)
        self._seconds = {state: ledger.seconds(state) for state in State}

    def _due(self, trained_s: float, spent_ns: int, now: int) -> float:
        """When the program has to end for its budget: after the epoch that has spent it or, much later, within one."""
        course, most_s = self._course, (1 + BUDGET_GRACE) * self._limit_s
        if spent_ns:
            return now if course.epochs[-1].end > spent_ns else spent_ns + METRICS_GRACE_S / NANO
        is_run = self._job.output_clock is not None and not self._job.output_clock["pattern"]
        if not course.moments or (course.is_whole and not is_run):  # its clock has not begun
            return self._begin_ns + (most_s + STARTUP_GRACE_S) / NANO
        if self._read_joules and self._job.budget and self._job.budget.joules:
            joules = self._read_joules()
            self._began_j = joules if self._began_j is None else self._began_j
            return now + (LOOK_S / NANO if joules - self._began_j < self._job.budget.joules else 0)
        is_training = course.moments[-1][1] is State.TRAINING
        return now + max(0.0, most_s - trained_s) / NANO if is_training else math.inf

    def _add_epoch(self, ledger: Ledger, epoch: Printed, **fields: Any) -> None:
        """Add the event of an epoch that ends now; what follows is the next one."""
        metrics, sections, number = dict(epoch.metrics), ledger.epoch(), len(self._events) + 1
        begin_ns = epoch.end - round((sections[State.TRAINING] + sections[State.EVALUATION]) / NANO)
        if (own_s := metrics.pop(self._command.time, math.nan)) >= 0:
            shift = round((sections[State.TRAINING] - own_s) / NANO)
            ledger.move(shift, State.TRAINING, State.OTHER)
            ledger.move(-shift, State.OTHER, State.TRAINING)
            sections[State.TRAINING] = own_s
        work = self._work | {unit: metrics.pop(unit) for unit in self._command.work if unit in metrics}
        counted: dict[str, Any] = {name: int(work[name]) for name in ("steps", "examples") if name in work}
        units = {name: amount for name, amount in work.items() if name not in counted or list(work) == ["steps"]}
        counted |= {"units": units} if units else {}
        counted |= {"epochs_in_read": epoch.together} if epoch.together > 1 else {}
        cpu_s = self._cpu_until(epoch.end) - self._cpu_until(begin_ns)
        wall_s = time.time() - (time.perf_counter_ns() - epoch.end) * NANO
        finite_metrics, diverged = finite(metrics, self._warnings.append)
        event = events.epoch_ended(
            self._job.trial,
            self._job.attempt,
            epoch=number,
            ledger={s: sections[s] for s in (State.TRAINING, State.EVALUATION) if sections[s] or s == State.TRAINING},
            **({"cpu_s": round(cpu_s, 6)} if cpu_s > 0 else {}),
            **(fields or counted),
            metrics=finite_metrics,
        )
        self._events.append({**event, "t": events.time_text(datetime.fromtimestamp(wall_s, UTC))})
        ledger.begin_epoch()
        if diverged:
            self._until_ns, message = epoch.end, f"{diverged} in epoch {number}"
            raise End(TrialStatus.DIVERGED, {"type": "Diverged", "message": message})

    def _note_cpu(self, program: Program, now: int) -> None:
        """Note the processor time of the program and its descendants until now."""
        children_s = math.nan
        while children_s != (children_s := children_cpu_s()):  # again if the program was waited for meanwhile
            running_s = program.cpu_s()
        self._cpu.append((now, max(self._cpu[-1][1], children_s - self._children_s + running_s)))

    def _cpu_until(self, at_ns: int) -> float:
        """Processor seconds until a moment between two notes."""
        index = min(max(1, bisect_left(self._cpu, (at_ns, 0.0))), len(self._cpu) - 1)
        (begin, low), (end, high) = self._cpu[index - 1], self._cpu[index]
        return low + (high - low) * min(1.0, max(0, at_ns - begin) / max(1, end - begin))

    def _check(self, program: Program) -> None:
        self._until_ns = max(program.ended_ns, self._read_ns)  # what it printed last may be read after its end
        self._note_cpu(program, self._until_ns)
        command, target = self._command, self._job.target.metric if self._job.target else ""
        for name, kind in self._transcript.matched.items():
            for text in map(kind.text, range(0 if name in MARKS else len(kind.at))):
                if math.isnan(number_of(text)) and text.lower() != "nan":
                    raise wrong_use(f"{name}: {text!r:.60} is not a number, in the line {kind.before[0]!r:.200}")
        self._decide(self._until_ns, is_over=True)
        course, count, requested = self._course, len(self._course.epochs), self._job.cell.settings.epochs
        printed = {name for epoch in course.epochs for name in epoch.metrics}
        printed |= {name for name, kind in self._transcript.matched.items() if kind.at}
        for name in (EPOCH, command.time, target):
            if name in (*command.metrics, target) and name and name not in printed:
                raise wrong_use(self._unmatched(name))
        for number, epoch in enumerate(course.epochs, 1):
            if command.time and command.time not in epoch.metrics:
                raise wrong_use(f"epoch {number} has no {command.time}, the metric of `time`")
            for name in {command.time, *command.work} & epoch.metrics.keys():
                if not math.isfinite(epoch.metrics[name]):
                    raise wrong_use(f"{name} is {epoch.metrics[name]} in epoch {number}, and not an amount")
        if count > 1 and course.epochs[-1].together == count:
            self._warnings.append(TOGETHER.format(count=count))
        is_listed = EPOCH in command.metrics or (self._clock.are_passes and self._clock.step == 1)
        if is_listed and requested and not course.is_whole and count not in (requested, math.ceil(requested)):
            self._warnings.append(f"epochs in the output: {count}; the grid says epochs: {requested:g}")

    def _unmatched(self, name: str) -> str:
        """The message if no line has a metric, with the line that has most of the words of its pattern and name."""
        pattern = self._command.metrics.get(name, self._command.work.get(name, ""))
        what = f"matches {name}: {pattern}" if pattern else f"has {name}; add its pattern, `metrics: {{{name}: …}}`"
        words, lines = _words(f"{_ESCAPES.sub(' ', pattern)} {name}"), [kind.text(0) for kind in self._transcript.kinds]
        nearest = max(lines, key=lambda line: len(words & _words(line)), default="")
        hint = f"; the nearest is {nearest[:MAX_QUOTED]!r}" if words & _words(nearest) else ""
        return f"no line of the output {what}{hint}"

    def evidence(self) -> dict[str, Any]:
        """The command as it was started, its clock, the first line of each metric, and patterns without a match."""
        clock = self._command.clock
        if clock != "program":
            clock = "run" if self._course.is_whole or not self._course.epochs else "output"
        matched = {name: kind.before[0] for name, kind in self._transcript.matched.items() if kind.at}
        recognized = {slot.name: kind.text(0) for kind in self._transcript.kinds for slot in kind.slots or ()}
        metrics = {name for event in self._events for name in event["metrics"]}
        measured = [kind for kind in self._transcript.kinds if kind.slots] + [*self._transcript.matched.values()]
        first_ns = min((kind.at[0] for kind in measured if kind.at), default=0)
        matched = {name: line for name, line in recognized.items() if name in metrics} | matched
        return {
            **super().evidence(),
            "clock": clock,
            "output_clock": None if EPOCH in self._command.metrics else asdict(self._clock),
            "holds_evaluation": self._course.holds_evaluation,
            "first_metric_s": (first_ns - self._begin_ns) * NANO if first_ns else None,
            "matched": {name: line[:MAX_QUOTED] for name, line in matched.items()},
            "unmatched": [self._unmatched(name) for name, kind in self._transcript.matched.items() if not kind.at],
        }

    def close(self) -> None:
        """Kill the program if it runs; send the epochs, the last one with the memory of the largest process."""
        super().close()
        if self._program and not self._until_ns:  # it failed
            with suppress(End):
                self._decide(max(self._program.ended_ns, self._read_ns))
        device, events_ = self._job.cell.device, self._events
        if events_ and hosted(device.kind) and self._job.own_process:  # which has no other children
            events_[-1]["memory_peak_bytes"] = peak_resident(of_children=True)
        self._warnings[:] = dict.fromkeys(self._warnings)  # of several looks
        for event in events_:
            self._send(event)

    def sections(self, wall_s: float) -> dict[str, float]:
        """Seconds of each section that was measured; what the others leave is `other`."""
        hidden = {State.OTHER, *(() if self._seconds[State.EVALUATION] else (State.EVALUATION,))}
        sections = {str(state): round(self._seconds[state], 6) for state in State if state not in hidden}
        return sections | {"other": round(wall_s - sum(sections.values()), 6)}


def _words(text: str) -> set[str]:
    return {word[:PREFIX].lower() for word in re.findall(rf"[^\W\d_]{{{PREFIX},}}", text)}

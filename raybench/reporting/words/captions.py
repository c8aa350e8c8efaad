"""How to read the table of configurations: references, runs, machines, peaks, hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from raybench.analysis.answer import Answer, Configuration
from raybench.core.identity import is_smoke
from raybench.core.labels import configuration_label, named_value
from raybench.core.repeats import percent
from raybench.core.text import flops_text, join_words, names_text, plural
from raybench.reporting.layout import NOTHING
from raybench.reporting.words.numbers import money_text, number
from raybench.reporting.words.rows import best_with, is_reached
from raybench.results.run_table import Run
from raybench.results.utilization import COUNTED

PROBES = {"product": "matrix product"}  # words for operations by which a peak was measured; others are words already
MEMORY = Run.memory_gib.name, Run.memory_used.name  # the columns of runs with the peak memory and its share


def table_caption(answer: Answer, heads: Collection[str] | None = None) -> str:
    """How to read the table of configurations, of which these columns are shown; None: all."""
    if is_smoke(answer.grid):
        return ""
    intervals = any(row.ratio and row.ratio.has_interval for row in answer.configurations)
    most = max((row.rank or 0 for row in answer.configurations), default=0)  # within a workload
    several = len({machine.name for machine in answer.machine_speeds}) > 1
    over = "for these machines alone " if answer.these_machines else "over machines " if several else ""
    chosen = f", which allow for choosing the best of {most}" if most > 2 else ""
    where = machines_text(answer)
    parts = [
        reference_text(answer) if _has(heads, "speed") else "",
        f"{runs_text(answer) or plural(answer.status.completed, 'run')} {where}" if where else runs_text(answer),
        f"95% intervals {over}in parentheses{chosen}" if intervals else "",
        peaks_text(answer) if _has(heads, "MFU") else "",
    ]
    text = "; ".join(filter(None, parts))
    first = f"{text[:1].upper()}{text[1:]}." if text else ""
    target = "Times to the target begin with the first epoch and include restarts after misses."
    problems = dict.fromkeys(row.mfu_problem for row in answer.configurations if row.mfu_problem)
    sentences = [first, answer.clock, target if is_reached(answer.configurations) and _has(heads, "to ") else ""]
    return " ".join(filter(None, [*sentences, *(f"MFU is left out: {problem}." for problem in problems)]))


def _has(heads: Collection[str] | None, part: str) -> bool:
    """Return whether a shown column has this in its name."""
    return heads is None or any(part in head for head in heads)


def hardware_text(answer: Answer) -> str:
    """The hardware of each device with its price and where this comes from: `AMD EPYC, 2 cores, $0.10/h (Hetzner)`."""
    groups: dict[str, list[str]] = {}  # to the parts of labels that all with this hardware share
    for row in answer.configurations:
        price = "" if row.price_per_hour is None else f"{money_text(row.price_per_hour, answer.currency)} per hour"
        price = price.replace("free per hour", "free")
        price += f" ({row.price_source})" if price and row.price_source else ""
        if text := ", ".join(filter(None, (row.hardware, price))):
            parts = row.label.split(", ")
            groups[text] = [part for part in groups.get(text, parts) if part in parts]
    names = {text: ", ".join(parts) if len(groups) > 1 else "" for text, parts in groups.items()}
    return "; ".join(f"{name}: {text}" if name not in ("", text) else text for text, name in names.items())


def peaks_text(answer: Answer) -> str:
    """The peaks that MFU refers to, and how the FLOPs are known unless they were counted."""
    bases = [(row.axes.get("device", ""), row.mfu.basis) for row in answer.configurations if row.mfu]
    of_device = "{} " if len(answer.axes.get("device", ())) > 1 else ""
    peaks = dict.fromkeys(
        f"{of_device.format(device)}{flops_text(basis.peak)} ({basis.precision} {PROBES.get(basis.probe, basis.probe)})"
        for device, basis in bases
    )
    text = f"MFU of the measured peak, {names_text(list(peaks))}" if peaks else ""
    sources = dict.fromkeys(basis.source for _, basis in bases if basis.source != COUNTED)
    return f"{text}; FLOPs: {join_words(list(sources))}" if sources else text


def reference_text(answer: Answer) -> str:
    """What the ratios of the table of configurations are relative to."""
    references = [row for row in answer.configurations if row.is_reference]
    if not references or not any(row.ratio for row in answer.configurations):
        return ""
    if len(references) == 1:
        return f"speed is relative to {references[0].label}{best_with(answer, references[0].index)}"
    if answer.compared:
        return f"speed is relative to the best with {configuration_label(references[0].axes, [answer.compared])}"
    values = join_words([named_value(axis, value) for axis, value in answer.baseline.items() if axis in answer.axes])
    return f"speed is relative to the same configuration with {values}" if values else ""


def runs_text(answer: Answer) -> str:
    """The number of runs if it is the same everywhere: 3 runs each; else empty."""
    counts = {(row.completed, row.planned) for row in answer.configurations if not row.skip}
    completed, planned = counts.pop() if len(counts) == 1 else (0, 1)
    end = " each" if len(answer.configurations) > 1 else ""
    return f"{plural(completed, 'run')}{end}" if completed == planned else ""


def machines_text(answer: Answer) -> str:
    """The number of machines, by device if there are several, and what intervals are over; empty if unknown."""
    devices = Counter(machine.device for machine in answer.machine_speeds)
    count = len({machine.name for machine in answer.machine_speeds})
    if count < 2:
        return "on 1 machine" if count else ""
    parts = f" ({', '.join(f'{device} {size}' for device, size in devices.items())})" if len(devices) > 1 else ""
    return f"on {count} machines{parts}"


def memory_text(row: Configuration) -> str:
    """The peak memory of a device and its share of what that has: 71 GiB, 51%."""
    gib, share = (row.medians.get(name) for name in MEMORY)
    return NOTHING if gib is None else f"{number(gib, 2)} GiB" + (f", {percent(share)}" if share else "")

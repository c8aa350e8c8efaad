"""The parts of a run: how much of it is training, and when compilation pays."""

from __future__ import annotations

from raybench.analysis.answer import Answer, Configuration
from raybench.core.settings import short_name
from raybench.core.text import format_value
from raybench.reporting.layout import NOTHING
from raybench.reporting.words.numbers import seconds_text
from raybench.reporting.words.rows import name_of

PARTS = {
    "train": "training",
    "input_wait": "waiting for input",
    "start": "loading",
    "compile": "compilation",
    "evaluate": "evaluation",
    "other": "other",
}
"""Parts of a run, by name."""

PART_OF = dict.fromkeys(("setup", "startup", "data", "build"), "start")
PART_OF |= {"compile_evaluate": "compile", "checkpoint": "other"}
"""The part that shows a section of a run that has none of its own."""


def run_parts(row: Configuration) -> dict[str, float]:
    """The seconds of each part of a run."""
    parts = dict.fromkeys(PARTS, 0.0)
    for section, seconds in row.run_parts_s.items():
        name = PART_OF.get(section, section)
        parts[name if name in parts else "other"] += seconds
    return parts


def goodput_text(row: Configuration) -> str:
    """The share of training in a run, and those of the other parts: training 91%: loading 4%, evaluation 5%."""
    parts = run_parts(row)
    total = sum(parts.values())
    if not total or not parts["train"]:
        return NOTHING
    shares = {PARTS[name]: 100 * seconds / total for name, seconds in parts.items()}
    train = shares.pop("training")
    largest_first = sorted(shares.items(), key=lambda entry: -entry[1])
    texts = [f"{name} {share:.0f}%" for name, share in largest_first if share >= 0.5]
    return f"training {train:.0f}%" + (f": {', '.join(texts)}" if texts else "")


def goodput_sentences(answer: Answer) -> list[str]:
    """The parts of a run of each configuration, and after which time of training compilation pays."""
    texts = [f"{row.label or answer.workload}: {goodput_text(row)}." for row in answer.configurations]
    return [*compilation_sentences(answer), *(text for text in texts if NOTHING not in text)]


def compilation_sentences(answer: Answer) -> list[str]:
    """After how much training compilation has saved the time that it takes, by pairs that differ in it alone.

    With a speed-up s and c more seconds of compilation, T seconds without it take c + T/s with it: T = c·s/(s − 1).
    """
    axis = next((axis for axis in answer.axes if short_name(axis) == "compile"), "")
    if not axis:
        return []
    pairs: dict[str, dict[bool, Configuration]] = {}
    for row in answer.configurations:
        coordinates = [(name, format_value(value)) for name, value in row.axes.items() if name != axis]
        is_compiled = row.axes.get(axis) not in (None, False, "false", "none", "no", 0)
        pairs.setdefault(str(sorted(coordinates)), {}).setdefault(is_compiled, row)
    sentences = []
    for pair in pairs.values():
        compiled, plain = pair.get(True), pair.get(False)
        if not (compiled and plain and compiled.seconds and plain.seconds and compiled.run_parts_s):
            continue
        more = run_parts(compiled)["compile"] - run_parts(plain)["compile"]
        compiled_s, plain_s = compiled.seconds.value, plain.seconds.value
        name = f"Compilation ({seconds_text(more)} more than {name_of(answer, plain.index)})"
        if more > 0 and compiled_s < plain_s:
            after = seconds_text(more * plain_s / (plain_s - compiled_s))
            sentences.append(f"{name} pays after {after} of training: {compiled.label}.")
        elif more > 0:
            sentences.append(f"{name} does not pay: {compiled.label} is not faster.")
    return sentences

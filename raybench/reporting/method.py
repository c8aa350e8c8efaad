"""How a grid was measured and compared, as a paragraph with its own numbers, and where its results come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import median

from raybench.analysis.answer import Answer
from raybench.core.labels import axis_label
from raybench.core.repeats import percent
from raybench.core.secret_masking import redact
from raybench.core.text import join_words, names_text, plural
from raybench.reporting.words.captions import machines_text, reference_text
from raybench.reporting.words.numbers import budget_text, seconds_text
from raybench.reporting.words.quality import target_text
from raybench.results.folder import ATTEMPTS, CHECKS, event_files, execution_files
from raybench.results.run_table import OF_A_TABLE, Run

CLOCKS = {
    "trial": "of training and waiting for input, without compilation and evaluation, with synchronized devices",
    "output": "from line to line of the output, with evaluation; devices are not synchronized",
    "program": "as the program prints it",
    "": "as the source gives it",
}
"""What an epoch's time is, by what timed it (`Run.clock`)."""

WHOLE = {"run": "The time of a run is that of the whole command, with its start", OF_A_TABLE: "Times are of whole runs"}


def method(answer: Answer, runs: Sequence[Run], dates: Sequence[str], versions: Mapping[str, Sequence[str]]) -> str:
    """Return the paragraph on the method of a grid."""
    sentences = (*_what_ran(answer, dates, versions), *_times(answer, runs), *_comparison(answer))
    return " ".join(f"{text}." for text in sentences)


def _what_ran(answer: Answer, dates: Sequence[str], versions: Mapping[str, Sequence[str]]) -> Iterator[str]:
    size = (
        f"{plural(answer.status.completed, 'completed run')} of {plural(len(answer.configurations), 'configuration')}"
    )
    axes = f" ({join_words(list(map(axis_label, answer.axes)))})" if answer.axes else ""
    hardware = dict.fromkeys(row.hardware for row in answer.configurations if row.hardware)
    on = f", on {join_words([*hardware])}" if hardware else ""
    when = f", {' to '.join(dates)} (UTC)" if dates else ""
    programs = [f"{name} {join_words(list(versions[name]))}" for name in SOFTWARE if name in versions]
    software = f", with {join_words(programs)}" if programs else ""
    yield f"{answer.workload}: {size}{axes} {machines_text(answer)}".rstrip() + on + when + software


def _times(answer: Answer, runs: Iterable[Run]) -> Iterator[str]:
    timed = [run for run in runs if run.epochs_s]
    clocks = sorted({run.clock or ("trial" if run.run else "") for run in timed})
    if not timed:
        yield "No times are known"
        return
    yield from (WHOLE[clock] for clock in clocks if clock in WHOLE)
    if epochs := [run for run in timed if not run.is_whole]:
        counts = sorted({len(run.timed_s) for run in epochs})
        warmups = {run.cell.warmup_epochs for run in epochs if isinstance(run.cell.warmup_epochs, int)}
        after = f" after {plural(warmups.pop(), 'epoch')} of warm-up" if len(warmups) == 1 and counts[-1] > 1 else ""
        many = plural(counts[0], "epoch") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} epochs"
        what = "mean" if any(caution.code == "changing_speed" for caution in answer.trust.cautions) else "median"
        kinds = "; ".join(CLOCKS[clock] for clock in clocks if clock in CLOCKS)
        yield f"The time of a run is the {what} of {many}{after}" + (f": {kinds}" if kinds else "")
    yield f"A run took {seconds_text(median(run.epochs_s or 0.0 for run in timed))} of training (median)"


def _comparison(answer: Answer) -> Iterator[str]:
    ratios = [row.ratio for row in answer.configurations if row.ratio]
    if ratios:
        reference = reference_text(answer).removeprefix("speed is ")
        yield "Speeds are ratios of geometric means over runs" + (f", {reference}" if reference else "")
    differences = [row.quality_difference for row in answer.configurations if row.quality_difference]
    ends = [ratio.paired for ratio in ratios if ratio.has_interval]
    ends += [difference.paired for difference in differences if difference.has_interval]
    if ends:
        paired = sum(ends)
        pairs = "repeat by repeat" if paired == len(ends) else "partly repeat by repeat" if paired else ""
        most = max((row.rank or 0 for row in answer.configurations), default=0)
        pooled = f"with a variance pooled over configurations, corrected for choosing the best of {most} (Bonferroni)"
        test = pooled if most > 2 else "" if pairs else "by Welch's test"
        over = "over machines" if any(ratio.machines > 2 for ratio in ratios) else ""
        yield ", ".join(filter(None, ("Intervals are at 95%", over, pairs, test)))
    elif ratios:
        yield "There are no intervals"
    if answer.target and answer.target.mean_level:
        level = percent(answer.target.mean_level)
        yield f"The mean of the runs has to reach {target_text(answer.target)}, by a one-sided test at {level}"
    elif answer.target:
        goal = target_text(answer.target)
        yield f"The time to {goal} is training time until the end of the first epoch that reaches it, with restarts"
    if answer.budget:
        yield f"Each run may spend {budget_text(answer.budget, answer.currency)}, and the quality decides"
    cautions = [caution.text for caution in answer.trust.cautions]
    yield f"Cautions: {names_text(cautions)}" if cautions else "There are no cautions about the measurement"


SOFTWARE = ("raybench", "torch", "torch_xla", "tensorflow", "jax", "python")  # what of the versions a paragraph names


def source_line(source: str) -> str:
    """Return the name of a source with the digest of its content; of a store, its URI."""
    path = Path(source)
    if not path.exists():
        return redact(source)
    if path.is_file():
        return f"{path.name}, sha256:{sha256(path.read_bytes()).hexdigest()[:16]}"
    digest, parts = sha256(), [*event_files(path, ATTEMPTS), *event_files(path, CHECKS), *execution_files(path)]
    for file in parts or sorted(file for file in path.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0".encode() + file.read_bytes())
    return f"{path.name}, sha256:{digest.hexdigest()[:16]}"

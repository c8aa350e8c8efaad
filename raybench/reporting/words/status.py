"""What ran and how it ended, what else would be needed, and how far to trust the answer."""

from __future__ import annotations

from raybench.analysis.answer import Answer, Caution, Configuration, Ending, TargetMean, TrustLevel
from raybench.core.identity import is_smoke
from raybench.core.repeats import percent
from raybench.core.status import TrialStatus
from raybench.core.text import join_words, names_text, plural
from raybench.reporting.words.numbers import money_text, seconds_text
from raybench.reporting.words.quality import metric_name, target_text
from raybench.reporting.words.rows import is_reached, name_of

STATUSES = {"oom": "out of memory", "timeout": "timed out", "killed": "stopped", "unfinished": "not finished"}
"""Words for the ends of runs; the others are words already."""

MOST_REPEATS = 100
"""Most further repeats whose costs are worth a sentence."""

SMOKE_RUN = "Smoke run: it shows what runs, in miniature on this CPU. Its numbers are not results, and are not shown."


def running_sentence(answer: Answer, now: str, may_end_earlier: bool, write_s: float) -> str:
    """How far a running grid is.

    Args:
        now: the time of the report, as in `Report.made`.
        may_end_earlier: whether not all planned trials have to run.
        write_s: how long it took to write the page before; 0 if there was none.
    """
    most = "at most " if may_end_earlier else ""
    count = f"{answer.status.completed:,} of {most}{plural(answer.status.planned, 'trial')}"
    cost = f", which took {seconds_text(write_s)} the last time" if write_s else ""
    return f"Running: {count} so far; the answer comes at the end. Written at {now[11:19]} UTC{cost}."


def status_sentences(answer: Answer, running: str = "") -> list[str]:
    """Sentences before the answer: smoke run, generated data, running, stopped or incomplete grid."""
    status, sentences = answer.status, [SMOKE_RUN] if is_smoke(answer.grid) else []
    sentences += [f"Part of the grid: {status.part}."] if status.part else []
    if running:
        sentences.append(running)
    elif status.completed < status.planned:
        ends = ", ".join(_ending_text(answer, name, count) for name, count in status.endings.items() if count)
        counts = f"{status.completed:,} of {plural(status.planned, 'run')} completed" + (f"; {ends}" if ends else "")
        # After a failure, the end of the output says what to do.
        goes_on = status.is_stopped and not status.endings.get(TrialStatus.FAILED)
        again = " Run the same command again to continue." if status.is_own else ""
        sentences.append(f"Not finished: {counts}.{again}" if goes_on else f"Incomplete: {counts}.")
    sentences += [text if text.endswith("?") else f"{text}." for text in status.repeats]
    if running or is_smoke(answer.grid):
        pass  # the target may be reached later
    elif answer.means and not any(mean.is_reached for mean in answer.means):
        sentences.append(f"No mean reaches {target_text(answer.target)}." if answer.target else "")
    elif answer.target and not answer.means and status.completed and not is_reached(answer.configurations):
        sentences.append(f"No run reached {target_text(answer.target)}.")
    if answer.synthetic_data:
        quality = f": {metric_name(answer.metric)} means nothing" if answer.metric else ""
        sentences.append(f"Generated data replaces {answer.synthetic_data}{quality}.")
    return sentences


def _ending_text(answer: Answer, status: str, runs: int) -> str:
    """How many runs ended so and, if it may be due to their configuration, of which: 1 diverged (tpu)."""
    rows = answer.configurations
    concerned = [row.label for row in rows if any(ending.status == status for ending in row.endings)]
    is_theirs = status in (TrialStatus.DIVERGED, TrialStatus.OOM, TrialStatus.TIMEOUT, TrialStatus.FAILED)
    names = f" ({names_text(concerned)})" if is_theirs and len(concerned) < len(rows) else ""
    return f"{runs:,} {STATUSES.get(status, status)}{names}"


def outcome_text(row: Configuration) -> str:
    """Why a configuration has no time: skipped, out of memory, not run."""
    if row.skip:
        return "skipped"
    return ", ".join(STATUSES.get(ending.status, ending.status) for ending in row.endings) or "no time"


def failure_sentences(answer: Answer, only_skips: bool = False) -> list[str]:
    """Why runs did not complete or cannot run: a sentence for each reason with the configurations concerned."""
    reasons: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for row in answer.configurations:
        for ending in [Ending("skipped", 0, row.skip)] if row.skip else () if only_skips else row.endings:
            if ending.message and ending.status not in ("not run", "unfinished"):
                reasons.setdefault((ending.status, ending.message), []).append((row.label, ending.runs))
    sentences = []
    for (status, message), places in reasons.items():
        runs = sum(count for _, count in places)
        head = STATUSES.get(status, status).capitalize() + (f" ({plural(runs, 'run')})" if runs else "")
        reason = f": {message.rstrip('.')}" if message != STATUSES.get(status) else ""
        sentences.append(f"{head}: {names_text([label for label, _ in places])}{reason}.")
    return sentences


def certainty_sentences(answer: Answer) -> list[str]:
    """What more repeats would cost and bring, if the best is open."""
    more = answer.more_repeats
    if more is None or not answer.status.is_own:
        return []
    ranks = sorted(answer.configurations[index].rank or 0 for index in more.configurations)
    labels = [name_of(answer, index) for index in more.configurations]
    which = f"which of {join_words(labels)} is faster"
    if len(ranks) > 2:
        which = f"which of {names_text(labels)} is fastest"
        if ranks == [*range(1, len(ranks) + 1)]:  # the answer has listed them
            which = f"which of the {'first ' * (len(ranks) < len(answer.ranking))}{len(ranks)} is fastest"
    costs = [plural(more.trials, "trial")]
    costs += [seconds_text(more.total_s)] if more.total_s else []
    costs += [money_text(more.total_price, answer.currency)] if more.total_price else []
    rest = "; the rest is decided" if more.is_rest_decided else ""
    repeats = f"About {plural(more.repeats, 'more repeat')} ({', '.join(costs)})"
    if more.repeats > MOST_REPEATS:
        return [f"More than {MOST_REPEATS} more repeats would be needed to decide {which}{rest}."]
    return [f"{repeats} would decide {which}{rest}."]


def mean_sentences(answer: Answer) -> list[str]:
    """Whether the means reach the target of those that are not the best, whose sentence says it; and the rule."""
    if not answer.means:
        return []
    named = {best.configuration for best in answer.best}
    unnamed = [mean for mean in answer.means if mean.configuration not in named]
    level = percent(answer.target.mean_level or 0) if answer.target else ""
    rule = f"Rule: the mean of runs of fixed length has to reach the target, by a one-sided test at {level}."
    return [*(f"{name_of(answer, mean.configuration)}: {mean_text(answer, mean)}." for mean in unnamed), rule]


def mean_text(answer: Answer, mean: TargetMean) -> str:
    """Whether a mean reaches the target, with the p of a one-sided t-test, and how many runs reach it alone."""
    target, is_share = target_text(answer.target), answer.target is not None and answer.target.is_accuracy
    value = f"{100 * mean.mean:.4g}%" if is_share else f"{mean.mean:.6g}"
    text = f"reaches {target}" if mean.is_reached else f"does not reach {target}"
    text += ", but not significantly" if mean.is_reached and not mean.is_shown else ""
    p = "" if mean.p is None else f" (p = {mean.p:.2g})"
    if mean.runs < 2:
        return f"one run, {value}, {text}"
    return f"the mean of {mean.runs} runs, {value}, {text}{p}, {mean.alone} of {mean.runs} alone"


def trust_sentence(answer: Answer) -> str:
    """The line of trust; the cautions follow it."""
    cautions, what = answer.trust.cautions, "how large a difference is, but not which is best"
    if not cautions:
        is_sure = answer.status.completed and not any(best.words for best in answer.best) and not is_smoke(answer.grid)
        return "No cautions about the measurement." if is_sure else ""
    if len(answer.configurations) == 1 or answer.decision or not answer.best:
        what = "these numbers"
    elif answer.trust.level == TrustLevel.DOUBTFUL:
        what = "which configuration is best"
    return f"{plural(len(cautions), 'caution')} that could change {what}:"


def caution_text(caution: Caution) -> str:
    """A caution or a note: what happened, how many runs it concerns, and what to do."""
    # A name, such as v100x8 or memory_limit, stays as it is.
    text = caution.text[:1].upper() + caution.text[1:] if caution.text.split(" ")[0].isalpha() else caution.text
    facts = [f"{caution.runs:,} of {plural(caution.of_runs, 'run')}"] if caution.runs else []
    if caution.too_long:
        share = float(f"{100 * caution.too_long:.1g}")
        times = f"{share:.0f}% too long" if share < 95 else f"{1 + caution.too_long:.0f}x as long or more"
        facts.append(f"{'the worst ' if caution.runs > 1 else ''}perhaps {times}")
    text += f" ({'; '.join(facts)})." if facts else "."
    remedy = caution.remedy.rstrip(".")
    return f"{text} {remedy[:1].upper() + remedy[1:]}." if remedy else text

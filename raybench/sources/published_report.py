"""The report of a published result: what follows from what its source reported, by its own rule and by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from raybench.analysis.reaching import goal
from raybench.analysis.sections import Column, Section
from raybench.analysis.sentences import Sentence, Span, code, digits, listed, name, plain, sentence, strong
from raybench.analysis.sides import differences, named
from raybench.analysis.tables import cell_columns
from raybench.analysis.target import NEVER, Try, expected
from raybench.plan import short
from raybench.sources.publications import Claim, Publication
from raybench.sources.published_pairs import (
    CPU,
    OTHER_RULES,
    RATE,
    SECONDS,
    Compared,
    Told,
    by_other_rules,
    pairs_of,
    told_by,
)
from raybench.trial import events
from raybench.trial.job import Target

VERSION = 1
"""Of the form of `as_json`."""

_ACCURACIES = ("last_val_accuracy", "best_val_accuracy")
_SETTINGS = ("batch_size", "weight_decay", "precision", "compile", "input", "train_examples")


@dataclass(frozen=True)
class PublishedReport:
    """What a published result comes to.

    Attributes:
        name: what it is called among the published results.
        publication: the source: what it is, its protocol, what it counts, and what to keep in mind.
        verdict: paragraphs of sentences, each with what matters most first.
        sections: tables of what it reported, and of what that gives by other rules.
    """

    name: str
    publication: Publication
    verdict: Sequence[Sequence[Sentence]]
    sections: Sequence[Section]


def published_report(called: str, publication: Publication) -> PublishedReport:
    """The report of a source.

    Args:
        called: what it is called among the published results.
        publication: the source.
    """
    told = told_by(called, publication)
    pairs = list(pairs_of(told, publication))
    open_claims = [claim for claim in publication.claims if all(pair.claim is not claim for pair in pairs)]
    verdict = [_paragraph(pair, publication) for pair in pairs]
    verdict += [[each] for each in (_target(one) for one in told) if each]
    verdict += [[_unproven(claim, publication)] for claim in open_claims]
    verdict += [] if pairs else _alone(told, publication)
    sections = [_reported(told, publication), _every_rule(pairs, publication)]
    return PublishedReport(called, publication, verdict, [each for each in sections if each.records])


def as_json(report: PublishedReport) -> dict[str, Any]:
    """The report as plain data: `v`, 1; what the source says of itself; `verdict`, sentences; `sections`; `caveats`."""
    of = report.publication
    return {
        "v": VERSION,
        "published": report.name,
        "source": of.source,
        "workload": of.workload,
        "protocol": of.protocol,
        "counts": of.counts,
        "rule": of.rule,
        "verdict": [plain(each) for paragraph in report.verdict for each in paragraph],
        "sections": {
            section.name: {"title": section.title, "says": section.says, "records": list(section.records)}
            for section in report.sections
        },
        "claims": [claim.model_dump() for claim in of.claims],
        "caveats": list(of.caveats),
    }


def _paragraph(pair: Compared, publication: Publication) -> list[Sentence]:
    other, baseline, found = pair.other, pair.baseline, pair.found
    what: tuple[str | Span, ...] = (" trains ", code(other.workload), " ") if other.workload else (" is ",)
    ends = f" (95 %: {digits(found.low, 4)} to {digits(found.high, 4)})" if found.low and found.high else ""
    said = [
        sentence(
            name(other.model), *what, strong(f"{pair.ratio} × as fast"), " as ", name(baseline.model),
            f", {_behind(pair, publication)}{ends}.",
        )
    ]  # fmt: skip
    if pair.claim:
        said.append(sentence(f"The source says {short(pair.claim.ratio)} × ({pair.claim.what})."))
    apart = differences(baseline.cell, other.cell, ())
    if apart:
        said.append(sentence(f"They also differ in {listed(apart)}."))
    prices = [side.first("total_price") for side in (other, baseline)]
    if all(prices):
        said.append(
            sentence(
                f"The run costs {prices[1]:.2f} on ", name(baseline.model), ", ",
                strong(f"{digits(prices[1] / prices[0])} × as much"),
                f" as the {prices[0]:.2f} on ", name(other.model), ".",
            )
        )  # fmt: skip
    ratios = by_other_rules(pair, publication.rule)
    others = [f"{digits(ratios[rule])} × {words}" for rule, words in OTHER_RULES.items() if rule in ratios]
    if others:
        said.append(sentence(f"By other rules the same runs give {listed(others)}."))
    clock = f"{publication.rule}{CPU}"
    if clock in ratios:
        said.append(
            sentence(
                f"Processor time would say {digits(ratios[clock])} × and is not the headline: it adds up the time of "
                "all cores, and leaves out waiting for a device."
            )
        )
    return said


def _behind(pair: Compared, publication: Publication) -> str:
    """How many runs are behind a ratio, and what they took."""
    sides = (pair.other, pair.baseline)
    counts = [len(side.seconds(pair.measure, publication.rule)) for side in sides]
    if min(counts) > 1:
        each = f"{counts[0]} runs each" if counts[0] == counts[1] else f"{counts[0]} runs against {counts[1]}"
        return f"by the source's own rule, {each}"
    values = [_number(side, pair.measure) + (f" ({side.label})" if side.label else "") for side in sides]
    one = "run" if all(side.first("runs") == 1 for side in sides) else "number"
    return f"{values[0]} against {values[1]}, one {one} each: no interval"


def _number(side: Told, measure: str) -> str:
    """What a source reported of a side, with its unit."""
    values = [each[measure] for each in side.known if each.get(measure)]
    if measure == RATE:
        return f"{digits(fmean(values), 4)} examples/s"
    return f"{short(float(values[0])) if len(values) == 1 else digits(fmean(values), 4)} s"


def _target(told: Told) -> Sentence | None:
    """What a success takes where some runs miss their target; None where the source does not tell."""
    runs, hits, seconds = (told.first(column) for column in ("runs", "target_runs", "time_to_target_s"))
    if not runs or not seconds or hits is None or runs == 1:
        return None
    target = Target(*(told.first(f"target_{part}") for part in ("metric", "at_least", "at_most")))
    found = expected([Try(seconds)] * hits + [Try(seconds, NEVER)] * (runs - hits))
    assert found is not None
    head = (f"{hits} of {runs} runs on ", name(told.model), f" reach {goal(target)}")
    share = f" (95 %: {100 * found.share_low:.0f} to {100 * found.share_high:.0f} %)"
    if found.seconds is None or found.low is None or found.high is None or hits == runs:
        return sentence(*head, f"{share}, in {digits(seconds)} s.")
    return sentence(
        *head, f"{share}, in {digits(seconds)} s: with a run again after each miss a success takes ",
        strong(f"{digits(found.seconds, 4)} s"),
        f" on average (95 %: {digits(found.low)} to {digits(found.high)} s, for that share alone).",
    )  # fmt: skip


def _unproven(claim: Claim, publication: Publication) -> Sentence:
    """A claim that does not follow from anything that the source reports."""
    models = [publication.machines[each].get("device_model", each) for each in (claim.machine, claim.over)]
    return sentence(
        "The source says that ", name(str(models[0])), " is ", strong(f"{short(claim.ratio)} × as fast"), " as ",
        name(str(models[1])), f" ({claim.what}); it reports no numbers from which that would follow.",
    )  # fmt: skip


def _alone(told: Sequence[Told], publication: Publication) -> list[list[Sentence]]:
    """What each machine took where nothing is compared, and what each learned where no time is told."""
    timed = [each for each in told if each.seconds(SECONDS, publication.rule)]
    said = []
    for each in timed:
        runs, share = each.first("runs"), next(filter(None, map(each.first, _ACCURACIES)), None)
        accuracy = f", with an accuracy of {100 * share:.2f} %" if share else ""
        what = each.label or each.workload
        mean = f", the mean of {runs} runs" if runs and runs > 1 else ""
        took = strong(_number(each, SECONDS))
        said.append(sentence("On ", name(each.model), f" {what or 'it'} took ", took, mean, accuracy, "."))
    if said:
        return [said]
    shares = [(each, share) for each in told for share in map(each.first, _ACCURACIES) if share]
    if not shares:
        return []
    words = [sentence(f"{100 * share:.2f} % on ", name(each.model)) for each, share in shares]
    joined = [span for number, each in enumerate(words) for span in ((" and " if number else ""), *each)]
    return [[sentence("The source reports no time. Accuracy was ", *joined, ".")]]


def _reported(told: Sequence[Told], publication: Publication) -> Section:
    """What the source reports: a row for each cell on each machine."""
    columns = [cell_columns(each.cell) for each in told]
    varied = [axis for axis in _SETTINGS if len({repr(each.get(axis)) for each in columns}) > 1]
    records = []
    for each, cell in zip(told, columns, strict=True):
        seconds = [known[SECONDS] for known in each.known if SECONDS in known]
        settings = [named(axis, cell[axis]) for axis in varied if cell.get(axis) is not None]
        status = each.attempts[0].status if not each.first("status") else each.first("status")
        records.append(
            {
                "machine": each.model,
                "run": ", ".join(filter(None, (each.label, *settings))) or None,
                "runs": len(seconds) if len(seconds) > 1 else each.first("runs"),
                "seconds": fmean(seconds) if seconds else None,
                "least_most": (min(seconds), max(seconds)) if len(seconds) > 1 else None,
                "rate": each.first(RATE),
                "accuracy": next(filter(None, map(each.first, _ACCURACIES)), None),
                "price": each.first("total_price"),
                "status": None if status == events.COMPLETED else status,
            }
        )
    return Section(
        "reported",
        "What the source reports",
        publication.counts,
        (
            Column("machine", "machine", right=False),
            Column("run", "what", right=False),
            Column("runs", "runs"),
            Column("seconds", "s", lambda value: short(float(f"{value:.4g}")) if value < 1000 else f"{value:,.0f}"),
            Column("least_most", "least–most", lambda ends: f"{digits(ends[0], 4)}–{digits(ends[1], 4)}"),
            Column("rate", "examples/s", digits),
            Column("accuracy", "accuracy", lambda value: f"{value:.4f}"),
            Column("price", "price", lambda value: f"{value:.2f}"),
            Column("status", "status", right=False),
        ),
        records,
    )


def _every_rule(pairs: Sequence[Compared], publication: Publication) -> Section:
    """How many times as fast by each rule that the source's numbers allow; no rows where they allow no other."""
    found = [(pair, by_other_rules(pair, publication.rule)) for pair in pairs]
    clock = f"{publication.rule}{CPU}"
    words = {**OTHER_RULES, clock: "processor time of the calls that the source counts; not the headline"}
    rules = [rule for rule in words if any(rule in ratios for _, ratios in found)]
    records: list[dict[str, Any]] = []
    if rules:
        own = {str(number): pair.found.ratio for number, (pair, _) in enumerate(found)}
        records.append({"rule": publication.rule, "counts": "as the source counts", **own})
    for rule in rules:
        ratios = {str(number): each.get(rule) for number, (_, each) in enumerate(found)}
        records.append({"rule": rule, "counts": words[rule], **ratios})
    heads = [f"{pair.other.model} over {pair.baseline.model}" for pair, _ in found]
    return Section(
        "rules",
        "The same runs by every rule",
        "How many times as fast, by what is counted. One table of numbers, several verdicts: the rule makes the ratio.",
        (
            Column("counts", "counted", right=False),
            *(Column(str(number), head, lambda ratio: f"{ratio:.2f} ×") for number, head in enumerate(heads)),
        ),
        records,
    )

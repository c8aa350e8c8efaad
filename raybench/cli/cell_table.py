"""Cells and trials of a plan as text: the table of `raybench plan`, headlines and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raybench.core.labels import configuration_label
from raybench.core.secret_masking import masked
from raybench.core.status import TrialStatus
from raybench.core.text import join_words, plural
from raybench.devices import hardware_text
from raybench.planning.plan import plan_warnings
from raybench.reporting.layout import LABEL, NOTHING, TEXT, Column
from raybench.reporting.words.numbers import budget_text, money_text, seconds_text
from raybench.results.run_table import latest, price_of

if TYPE_CHECKING:
    from raybench.planning.estimate import Estimator
    from raybench.planning.plan import Plan, WorkItem
    from raybench.planning.resolve import ResolvedCell
    from raybench.results.run_table import Run

TO_RUN = "to run"

WORDS = {TrialStatus.COMPLETED: "done", TrialStatus.OOM: "out of memory", TrialStatus.TIMEOUT: "timed out"}
"""Statuses of trials as words; the others are words already."""


def size_text(plan: Plan) -> str:
    """The size of a grid: `4 configurations x 3 repeats = 12 trials`, or `… x 4 to 10 repeats = 16 to 40 trials`."""
    rule, repeats = plan.spec.rule, {cell.repeats for cell in plan.cells}
    least = "up to " if len(repeats) > 1 else f"{rule.at_least} to " if rule else ""
    most = plural(rule.at_most if rule else max(repeats), "repeat")
    return f"{plural(len(plan.cells), 'configuration')} x {least}{most} = {trials_text(plan)}"


def trials_text(plan: Plan) -> str:
    """The number of trials of a grid; the least and the largest if it follows from the results."""
    least, most = sum(_repeats(plan, cell) for cell in plan.cells), len(plan.trials)
    return f"{least:,} to {plural(most, 'trial')}" if least < most else plural(most, "trial")


def _repeats(plan: Plan, cell: ResolvedCell) -> int:
    """The number of repeats of a cell; the least if it follows from the results."""
    return min(plan.spec.rule.at_least, cell.repeats) if plan.spec.rule else cell.repeats


def statuses(plan: Plan, attempts: Iterable[Run], todo: Iterable[WorkItem]) -> dict[str, Counter[str]]:
    """The number of trials without work, by the id of their cell and their status as a word.

    Skipped cells, and those without such trials, are left out.
    """
    current, pending = latest(attempts), {work.trial.trial_id for work in todo}
    counts: dict[str, Counter[str]] = {}
    for trial in plan.trials:
        run = current.get(trial.trial_id)
        if run and not trial.cell.skip and trial.trial_id not in pending:
            status = TrialStatus.parse(run.status)
            counts.setdefault(trial.cell.cell_id, Counter())[WORDS.get(status, str(status)) if status else "done"] += 1
    return counts


def headline(
    plan: Plan,
    counts: Mapping[str, Mapping[str, int]],
    todo: Sequence[WorkItem],
    estimator: Estimator,
    others: Mapping[str, Mapping[int, Run]],
) -> str:
    """The grid in one line: number of trials by state, and the time that the missing ones take."""
    words: Counter[str] = Counter({"done": 0})
    for of_cell in counts.values():
        words.update(of_cell)
    remote = sum(map(len, others.values()))
    skipped = sum(max(0, _repeats(plan, c) - len(others.get(c.cell_id, ()))) for c in plan.cells if c.skip)
    states_text = (*words.items(), ("done on other machines", remote), (TO_RUN, len(todo)), ("skipped", skipped))
    parts = [f"{count:,} {word}" for word, count in states_text if count]
    counts_text = f" ({', '.join(parts)})" if len(parts) > 1 or not todo else ""
    known = [(seconds, count) for _, seconds, count in _estimates(todo, estimator)]
    time_text = ""
    if known:
        total, coverage = _sum(known, todo)
        time_text = f", about {seconds_text(total)}{coverage}"
    elif todo:
        time_text = ", time not known yet"
    machines = [node for node in plan.nodes if node.address]
    where = f"on a cluster of {plural(len(machines), 'machine')}" if machines else "on this machine"
    return f"{plan.spec.name} {where}: {trials_text(plan)}{counts_text}{time_text}"


def _estimates(todo: Iterable[WorkItem], estimator: Estimator) -> list[tuple[ResolvedCell, float, int]]:
    """The cells of which a trial's seconds can be estimated, with those and the number of missing trials."""
    counts = Counter(work.trial.cell for work in todo)
    estimates = ((cell, estimator.seconds(cell.content), count) for cell, count in counts.items())
    return [(cell, seconds, count) for cell, seconds, count in estimates if seconds is not None]


def _sum(known: Sequence[tuple[float, int]], todo: Sequence[WorkItem]) -> tuple[float, str]:
    """The sum of amounts of so many trials each, with the number of these if it is not of all missing trials."""
    number = sum(count for _, count in known)
    coverage = "" if number == len(todo) else f" for {number:,} of {plural(len(todo), 'trial')}"
    return sum(amount * count for amount, count in known), coverage


def price_lines(plan: Plan, todo: Sequence[WorkItem], estimator: Estimator) -> Iterator[str]:
    """The price of the missing trials, if their devices have one and their time can be estimated; unused prices."""
    if unused := plan.spec.prices.unused((c.profile, c.content.device) for c in plan.cells):
        yield f"{unused}."
    if price := price_text(plan, todo, estimator):
        sources = join_words(list(dict.fromkeys(c.price.source for c in plan.cells if c.price)))
        yield f"Price: {price} (prices: {sources})."


def price_text(plan: Plan, todo: Sequence[WorkItem], estimator: Estimator) -> str:
    """About what some trials cost; empty if it is not known."""
    prices = [
        (price_of(seconds, cell.price.per_hour) or 0.0, count)
        for cell, seconds, count in _estimates(todo, estimator)
        if cell.price
    ]
    total, coverage = _sum(prices, todo)
    return f"about {money_text(total, plan.spec.price_currency)}{coverage}" if total else ""


def budget_line(plan: Plan) -> Iterator[str]:
    """What each trial may spend on training; of a price, for how long that lasts on each device."""
    budget = plan.spec.budget
    if not budget:
        return
    text = budget_text(budget.amount, plan.spec.price_currency)
    text += " of training" if budget.price is not None else ""
    text += ", without compilation" if budget.compile == "excluded" else ""
    if budget.energy is not None:
        text += " of the device; the time that it lasts is not known in advance"
    elif budget.price is not None:
        seconds = {cell.profile: cell.content.budget["seconds"] for cell in plan.cells if cell.content.budget}
        text += f", which lasts {join_words([f'{seconds_text(each)} on {device}' for device, each in seconds.items()])}"
    yield f"Budget of each trial: {text}."


def states(
    plan: Plan,
    counts: Mapping[str, Mapping[str, int]],
    others: Mapping[str, Mapping[int, Run]],
    todo: Iterable[WorkItem],
    later: Iterable[WorkItem] = (),
) -> Mapping[str, str]:
    """The state of each cell by its id: `1 done, 2 to run`; `skipped` without its reason.

    What may follow, and what other machines have done, comes last: `4 to run, up to 6 more, 3 done on gpu-box`.
    """
    to_run, more = (Counter(work.trial.cell.cell_id for work in works) for works in (todo, later))

    def text(cell: ResolvedCell) -> str:
        parts = [f"{count} {word}" for word, count in counts.get(cell.cell_id, {}).items()]
        parts += [f"{to_run[cell.cell_id]} {TO_RUN}"] if cell.cell_id in to_run else []
        parts += [f"up to {more[cell.cell_id]} more"] if cell.cell_id in more else []
        remote = others.get(cell.cell_id)
        if remote is None:
            return "skipped" if cell.skip else ", ".join(parts)
        hosts = sorted({str(run.host.get("name") or "a different machine") for run in remote.values()})
        missing = _repeats(plan, cell) - len(remote)
        return f"{len(remote)} done on {join_words(hosts)}" + (f", {missing} skipped" if missing > 0 else "")

    return {cell.cell_id: text(cell) for cell in plan.cells}


def cell_columns(
    plan: Plan, cells: Sequence[ResolvedCell], states: Mapping[str, str], estimator: Estimator
) -> list[Column]:
    """The table of some cells of a plan: settings that differ, device with its hardware, state, time of a trial."""
    axes = [axis for axis in plan.varied if axis != "device"]
    seconds = [None if cell.skip else estimator.seconds(cell.content) for cell in cells]
    times = [seconds_text(each) if each else NOTHING for each in seconds]
    columns = [
        Column("configuration", [configuration_label(cell.axes, axes) for cell in cells], kind=LABEL),
        Column("device", [_device(cell) for cell in cells], drop=1),
        Column("state", [states[cell.cell_id] for cell in cells], kind=TEXT),
        Column("per trial", times, drop=2, right=True),
    ]
    return [column for column in columns if not column.is_empty]


def as_data(
    plan: Plan, states: Mapping[str, str], todo: Sequence[WorkItem], later: Sequence[WorkItem], estimator: Estimator
) -> dict[str, Any]:
    """The plan as plain values, for `--json`; times and prices are estimates, null if not known."""
    known = _estimates(todo, estimator)
    to_run, more = (Counter(work.trial.cell.cell_id for work in works) for works in (todo, later))
    prices = [(price_of(seconds, cell.price.per_hour) or 0.0) * count for cell, seconds, count in known if cell.price]
    configurations = [
        {
            "id": cell.cell_id,
            "label": configuration_label(masked(cell.axes), [axis for axis in plan.varied if axis != "device"]),
            "device": cell.profile,
            "axes": masked(cell.axes),
            "repeats": cell.repeats,
            "state": states[cell.cell_id],
            "to_run": to_run[cell.cell_id],
            "more": more[cell.cell_id],
            "trial_s": None if cell.skip else estimator.seconds(cell.content),
            "price_per_hour": cell.price.per_hour if cell.price else None,
            "skip": cell.skip,
        }
        for cell in plan.cells
    ]
    return {
        "grid": plan.spec.name,
        "trials": len(plan.trials),
        "to_run": len(todo),
        "more": len(later),
        "estimated": sum(count for *_, count in known),
        "seconds": sum(seconds * count for _, seconds, count in known) if known else None,
        "price": sum(prices) if prices else None,
        "currency": plan.spec.price_currency,
        "configurations": configurations,
        "warnings": list(plan_warnings(plan)),
    }


def hardware_texts(plan: Plan) -> list[str]:
    """The hardware of each device that can run here: `cpu: AMD EPYC, 2 cores`."""
    devices = {cell.profile: cell.content.device for cell in plan.cells if cell.fit and not cell.skip}
    return [f"{name}: {hardware_text(device)}" for name, device in devices.items()]


def _device(cell: ResolvedCell) -> str:
    """A device with its hardware, as far as it is known: `cpu (2 cores)`, `gpu (NVIDIA H100)`."""
    if cell.skip or cell.fit is None:
        return cell.profile
    fit = cell.fit
    count = f"{fit.accelerators} x " if fit.accelerators > 1 else ""
    hardware = f"{count}{fit.hardware.model}" if fit.accelerators else plural(fit.cpus, "core")
    parts = [hardware, *([plural(fit.devices, "device")] if fit.devices > max(1, fit.accelerators) else [])]
    parts += [plural(fit.replicas, "replica")] if fit.replicas > fit.devices else []
    return f"{cell.profile} ({', '.join(parts)})"

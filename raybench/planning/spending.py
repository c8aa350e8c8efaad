"""Limits of one command: the money and the hours that its trials may take."""

from __future__ import annotations

import time

from raybench.config.values import money_of, seconds_of
from raybench.errors import UsageError
from raybench.planning.plan import Plan
from raybench.results.run_table import Run, price_of


class Spending:
    """What the trials of one command have taken, against its limits.

    Args:
        spend: money, such as `$20`, in the currency of the grid; None: any.
        within: time, such as `2h`; None: any.
    """

    def __init__(self, plan: Plan, spend: str | None, within: str | None) -> None:
        self._prices = {cell.cell_id: cell.price.per_hour for cell in plan.cells if cell.price}
        self._currency, self._began = plan.spec.price_currency, time.monotonic()
        self._seconds = seconds_of(within, "--within") if within else None
        self._money = money_of(spend, "--spend") if spend else None
        free = [cell for cell in plan.cells if not cell.skip and cell.cell_id not in self._prices]
        if spend and free:
            raise UsageError(f"--spend {spend}: {free[0].profile} has no price; add `price_per_hour` or --prices")
        self._trials: list[tuple[float, float]] = []  # seconds and price of each that has ended

    def add(self, run: Run) -> None:
        """Add a trial that has ended."""
        seconds = sum(run.ledger.values()) if run.ledger else run.total_s or 0.0
        self._trials.append((seconds, price_of(seconds, self._prices.get(run.cell_id)) or 0.0))

    def stops(self, running: int) -> str:
        """Return why no trial should begin beside those that run; empty if one may: it is taken to cost as the mean."""
        if not self._trials:
            return ""
        seconds, prices = (sum(column) for column in zip(*self._trials, strict=True))
        of_trial_s, of_trial = seconds / len(self._trials), prices / len(self._trials)
        if self._money is not None and prices + (running + 1) * of_trial > self._money:
            spent = f"{prices:.3g} {self._currency} of {self._money:g} are spent"
            return f"{spent}, and a further trial costs about {of_trial:.2g}"
        passed_s = time.monotonic() - self._began
        if self._seconds is not None and passed_s + of_trial_s > self._seconds:
            passed = f"{passed_s:.0f} s of {self._seconds:g} have passed"
            return f"{passed}, and a further trial takes about {of_trial_s:.2g} s"
        return ""

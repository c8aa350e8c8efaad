"""Time to target over a whole grid from few full trainings: the factored surface.

    time(device, batch, decay) = start(device, batch) + epochs(batch, decay, numerics) × epoch time(device, batch)

How many epochs a setting takes does not depend on the device, as long as the numerics (precision, replicas) are the
same; how long an epoch takes does not depend on the decay. So epochs are measured once, where they are cheapest, and
epoch times everywhere, from a few epochs each. A full run of a predicted setting checks the assumption.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raybench.analysis.factored import Setting
from raybench.analysis.welch import CONFIDENCE

DRAWS = 4000
"""Draws of the parametric bootstrap; a probability of one half is then known to within 0.016."""

SEED = 0
"""So that the same data always give the same digits."""

FURTHEST = 200.0
"""Logarithms further out than this are drawn only where two runs are all there is: such an interval is open, and floats
overflow beyond."""

EPOCH_ROUNDING = 1 / 12
"""Variance of an epoch number's rounding: a run is looked at once an epoch, and reached its target within it."""


@dataclass(frozen=True)
class Learning:
    """One run towards the target: the epochs it took or, where it missed, those that it was given."""

    epochs: float
    reached: bool = True


@dataclass(frozen=True)
class Prediction:
    """The time to target of a setting.

    Attributes:
        seconds: the typical time, with restarts where some runs miss; None where no run reached the target, or an
            epoch was never timed there.
        low, high: its 95 % interval; None where nothing was repeated, so that no spread is known.
        fastest: the probability that it is the fastest of its device; None without an interval.
        share: of the runs that reached the target; None where none was made.
    """

    setting: Setting
    seconds: float | None
    low: float | None = None
    high: float | None = None
    fastest: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Level:
    """The mean of logarithms at one place, and the spread of one run; `pool` names whom it shares that spread with."""

    mean: float
    runs: int
    sd: float
    df: int
    pool: Hashable


class Surface:
    """What was measured, and what follows for every setting."""

    def __init__(
        self,
        settings: Sequence[Setting],
        epoch_s: Mapping[Hashable, Sequence[float]],
        start_s: Mapping[Hashable, Sequence[float]],
        runs: Mapping[Hashable, Sequence[Learning]],
    ) -> None:
        """Take in the measurements.

        The spread from run to run, as a part of the value, is pooled: that of epoch times and of starts over the
        settings of a device, that of epochs over all. Three runs at each of nine settings then say as much of it as
        nineteen at one, and a setting that ran once has an interval too.

        Args:
            settings: every cell that is asked about.
            epoch_s: for each `Setting.timed` its steady seconds an epoch, one number a process.
            start_s: the same of what a run pays once; nothing where it is left out.
            runs: for each `Setting.learned` the runs that trained to the target.
        """
        device = {setting.timed: setting.device for setting in settings}
        self.settings = tuple(settings)
        self.runs = runs
        hits = {key: [run.epochs for run in some if run.reached] for key, some in runs.items()}
        self._epoch = _levels(epoch_s, {key: ("epoch", device.get(key)) for key in epoch_s})
        self._start = _levels(start_s, {key: ("start", device.get(key)) for key in start_s})
        self._learned = _levels(hits, dict.fromkeys(hits, "epochs"), EPOCH_ROUNDING)
        random = np.random.default_rng(SEED)
        self._spread: dict[Hashable, Any] = {}
        self._draws: dict[Hashable, Any] = {}
        for kind, levels in (("epoch", self._epoch), ("start", self._start), ("learned", self._learned)):
            for key, level in levels.items():
                if level.df and level.pool not in self._spread:
                    self._spread[level.pool] = np.sqrt(level.df / random.chisquare(level.df, DRAWS))
                noise = random.standard_normal(DRAWS)
                self._draws[kind, key] = self._log(level, noise / math.sqrt(level.runs))
        for key, some in runs.items():
            reached = sum(run.reached for run in some)
            if 0 < reached < len(some):
                # Jeffreys' posterior of the share; where nothing missed, restarts are not invented.
                share = random.beta(reached + 0.5, len(some) - reached + 0.5, DRAWS)
                self._draws["odds", key] = (1 - share) / share
        self._random = random
        self.predictions = self._predict()

    @property
    def best(self) -> dict[str, Prediction]:
        """The fastest setting of each device that has one."""
        found: dict[str, Prediction] = {}
        for each in self.predictions:
            known = found.get(each.setting.device)
            if each.seconds is not None and (known is None or each.seconds < (known.seconds or math.inf)):
                found[each.setting.device] = each
        return found

    def of(self, setting: Setting) -> Prediction:
        """The prediction for a setting."""
        return self.predictions[self.settings.index(setting)]

    def epoch_seconds(self, setting: Setting) -> float | None:
        """Seconds an epoch where a setting runs, the geometric mean over processes; None where it was never timed."""
        level = self._epoch.get(setting.timed)
        return math.exp(level.mean) if level else None

    def ratio(self, baseline: Setting, other: Setting) -> tuple[float, float, float] | None:
        """How many times as fast the other is to the target, with its 95 % interval; None where one has none."""
        first, second = self.of(baseline), self.of(other)
        if first.low is None or second.low is None or not first.seconds or not second.seconds:
            return None
        low, high = np.quantile(self._drawn(baseline) / self._drawn(other), ENDS)
        return first.seconds / second.seconds, float(low), float(high)

    def epochs_beyond(self, setting: Setting, epochs: Sequence[float], level: float) -> bool | None:
        """Whether full runs took more or fewer epochs than those measured let expect, at a level of chance.

        Returns:
            None where there is nothing to compare, or no spread is known.
        """
        known = self._learned.get(setting.learned)
        if known is None or not epochs or not known.df:
            return None
        return _outside(epochs, np.exp(self._new(known, len(epochs))), level)

    def seconds_beyond(self, setting: Setting, seconds: Sequence[float], level: float) -> bool | None:
        """Whether full runs that reached the target took more or less time than predicted; otherwise as above."""
        epoch, learned = self._epoch.get(setting.timed), self._learned.get(setting.learned)
        if epoch is None or learned is None or not seconds or not (epoch.df and learned.df):
            return None
        predicted = np.exp(self._new(epoch, len(seconds)) + self._new(learned, len(seconds)))
        start = self._start.get(setting.timed)
        return _outside(seconds, predicted + (np.exp(self._new(start, len(seconds))) if start else 0.0), level)

    def _new(self, level: Level, runs: int) -> Any:
        """Draws of the mean of so many new runs."""
        return self._log(level, self._random.standard_normal(DRAWS) * math.sqrt(1 / level.runs + 1 / runs))

    def _log(self, level: Level, noise: Any) -> Any:
        drawn = level.mean + level.sd * self._spread.get(level.pool, 1.0) * noise
        return np.clip(drawn, -FURTHEST, FURTHEST)

    def _drawn(self, setting: Setting) -> Any:
        """Draws of the time to target of a setting whose epochs and epoch times are known."""
        epoch, epochs = (np.exp(self._draws[name]) for name in (("epoch", setting.timed), ("learned", setting.learned)))
        drawn = self._draws.get(("start", setting.timed))
        start = 0.0 if drawn is None else np.exp(drawn)
        odds = self._draws.get(("odds", setting.learned))
        wasted = 0.0 if odds is None else odds * (start + self._budget(setting) * epoch)
        return start + epochs * epoch + wasted

    def _budget(self, setting: Setting) -> float:
        """Epochs that a run takes which misses the target."""
        return float(np.mean([run.epochs for run in self.runs[setting.learned] if not run.reached]))

    def _predict(self) -> tuple[Prediction, ...]:
        drawn: dict[Setting, Any] = {}
        found: dict[Setting, Prediction] = {}
        for setting in self.settings:
            some = self.runs.get(setting.learned, ())
            share = sum(run.reached for run in some) / len(some) if some else None
            epoch, epochs = self._epoch.get(setting.timed), self._learned.get(setting.learned)
            if epoch is None or epochs is None or not share:
                found[setting] = Prediction(setting, None, share=share)
                continue
            start = math.exp(self._start[setting.timed].mean) if setting.timed in self._start else 0.0
            each = math.exp(epoch.mean)
            wasted = (1 - share) / share * (start + self._budget(setting) * each) if share < 1 else 0.0
            seconds = start + math.exp(epochs.mean) * each + wasted
            if not (epoch.df and epochs.df):
                found[setting] = Prediction(setting, seconds, share=share)
                continue
            drawn[setting] = self._drawn(setting)
            low, high = np.quantile(drawn[setting], ENDS)
            found[setting] = Prediction(setting, seconds, float(low), float(high), share=share)
        for device in dict.fromkeys(setting.device for setting in self.settings):
            mine = [setting for setting in self.settings if setting.device == device and found[setting].seconds]
            if mine and all(setting in drawn for setting in mine):
                wins = np.bincount(np.argmin([drawn[setting] for setting in mine], axis=0), minlength=len(mine))
                for setting, count in zip(mine, wins, strict=True):
                    old = found[setting]
                    found[setting] = Prediction(
                        setting, old.seconds, old.low, old.high, float(count / DRAWS), old.share
                    )
        return tuple(found[setting] for setting in self.settings)


ENDS = (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)


def _levels(
    values: Mapping[Hashable, Sequence[float]], pools: Mapping[Hashable, Hashable], rounding: float = 0.0
) -> dict[Hashable, Level]:
    """Means of logarithms with the pooled spread of one run, for each key that has a value."""
    logs = {key: np.log(np.asarray(some, float)) for key, some in values.items() if len(some)}
    squares: dict[Hashable, float] = {}
    df: dict[Hashable, int] = {}
    for key, each in logs.items():
        pool = pools[key]
        squares[pool] = squares.get(pool, 0.0) + float(((each - each.mean()) ** 2).sum())
        df[pool] = df.get(pool, 0) + len(each) - 1
    found = {}
    for key, each in logs.items():
        pool = pools[key]
        variance = squares[pool] / df[pool] if df[pool] else 0.0
        variance = max(variance, rounding / math.exp(2 * float(each.mean())))
        found[key] = Level(float(each.mean()), len(each), math.sqrt(variance), df[pool], pool)
    return found


def _outside(values: Sequence[float], drawn: Any, level: float) -> bool:
    low, high = np.quantile(drawn, (level / 2, 1 - level / 2))
    middle = math.exp(float(np.mean(np.log(values))))
    return not low <= middle <= high

"""Direction and scale of metrics, by what the user says, else by the words of their names and by their values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from raybench.core.job import MOST_FRACTION, Target
from raybench.core.origin import Origin

_LOWER = """
    loss logloss error err rmse mse msle mae mape wer cer eer nll ce xent crossentropy perplexity ppl bits bpb bpc bpd
    brier ece kl fid kid lpips hinge regret distance divergence latency time seconds ms energy cost
"""
LOWER = frozenset(_LOWER.split())
"""Words in the names of metrics of which less is better."""

_HIGHER = """
    accuracy acc precision recall f1 auc auroc auprc roc ap map iou miou jaccard dice bleu rouge score reward rewards
    return returns psnr ssim ndcg mrr hits r2 correlation likelihood elbo elo fitness success win throughput speed
"""
HIGHER = frozenset(_HIGHER.split())
"""Words in the names of metrics of which more is better."""

NEGATION = frozenset({"neg", "negative"})

SHARES = frozenset(
    ["accuracy", "acc", "precision", "recall", "f1", "auc", "auroc", "ap", "map", "iou", "miou", "jaccard", "dice"]
)
"""Words in the names of metrics that are fractions or percentages."""

LEAST_PERCENT = 1.5
"""Largest median of the values of a side that may be fractions."""

PERCENT = 100.0


class Direction(NamedTuple):
    """Whether more of a metric is better, None if that is not known, and where it comes from."""

    is_higher: bool | None
    origin: Origin

    @property
    def sign(self) -> int:
        """1 if more is better, −1 if less is, 0 if that is not known."""
        return 0 if self.is_higher is None else 1 if self.is_higher else -1


@lru_cache(4096)
def words_in(name: str) -> frozenset[str]:
    """Return the words of a metric's name, which begin at `/ _ - .` and capital letters, and pairs of them."""
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", name) if part]
    pieces = [piece.lower() for part in parts for piece in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", part)]
    return frozenset({*map(str.lower, parts), *pieces, *map("".join, pairwise(pieces))})


def direction_of(metric: str, directions: Mapping[str, bool], target: Target | None = None) -> Direction:
    """Return whether more of a metric is better: as the user or the target says, else by the words of its name.

    Args:
        directions: whether more is better, by metric, as the user says.
    """
    if metric in directions:
        return Direction(directions[metric], Origin.SAID)
    if target and target.metric == metric:
        return Direction(target.at_least is not None, Origin.SAID)
    words = words_in(metric)
    is_lower, is_higher = bool(words & LOWER), bool(words & HIGHER)
    if is_lower == is_higher:
        return Direction(None, Origin.ASSUMED)
    return Direction(is_higher != bool(words & NEGATION), Origin.RECOGNIZED)


def percent_scale(metric: str, values: Iterable[float]) -> float | None:
    """Return 100 if the values of a side are percentages, 1 if they are fractions; None if neither is clear.

    Every value of a fraction is at most `MOST_FRACTION`, and the median of percentages is above `LEAST_PERCENT`.
    """
    if not words_in(metric) & SHARES:
        return 1.0
    finite = [value for value in values if math.isfinite(value)]
    if "%" in metric or (finite and LEAST_PERCENT < median(finite) <= PERCENT):
        return PERCENT
    return 1.0 if not finite or max(finite) <= MOST_FRACTION or max(finite) > PERCENT else None

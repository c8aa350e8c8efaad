"""Metrics by the words of their names: direction, scale, and which of them is that of quality."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
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
LOWER = frozenset(_LOWER.split())  # words in the names of metrics of which less is better

_HIGHER = """
    accuracy acc precision recall f1 auc auroc auprc roc ap map iou miou jaccard dice bleu rouge score reward rewards
    return returns psnr ssim ndcg mrr hits r2 correlation likelihood elbo elo fitness success win throughput speed
"""
HIGHER = frozenset(_HIGHER.split())  # words in the names of metrics of which more is better

NEGATION = frozenset({"neg", "negative"})

SHARES = frozenset(
    ["accuracy", "acc", "precision", "recall", "f1", "auc", "auroc", "ap", "map", "iou", "miou", "jaccard", "dice"]
)
"""Words in the names of metrics that are fractions or percentages."""

LEAST_PERCENT = 1.5  # largest median of the values of a side that may be fractions

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


def main_metric(names: Collection[str], requested: str = "") -> str:
    """Return the quality metric: as requested, else a reward, an accuracy, an error of validation, then of training.

    Args:
        names: the available metrics, in their order; if there are none, the result is empty.
        requested: the metric of a request (`raybench.results.grid_request.GridRequest`).
    """
    return requested if requested in names else min(names, key=_order, default="")


def quality_metrics(names: Iterable[str]) -> list[str]:
    """Return the metrics of quality: of data that is not trained on or, without one, the main metric of training."""
    candidates = [name for name in names if _order(name)[0] <= TRAINING_QUALITY]
    return [name for name in candidates if _order(name)[1] < PARTS["train"]] or sorted(candidates, key=_order)[:1]


def _order(name: str) -> tuple[int, int, bool]:
    """Return the place of a metric among those of quality."""
    part, word = PARTS.get(name.partition("/")[0], PARTS["train"]), name.partition("/")[2]
    if part == PARTS["speed"] or _NO_QUALITY.search(word):
        return TRAINING_QUALITY + 1 + (part == PARTS["speed"]), part, False
    rank = next((rank for rank, pattern in enumerate(_QUALITIES) if pattern.search(word)), 3 if part < 2 else 4)
    return rank, part, (word == "loss") == (part < 2)


TRAINING_QUALITY = 4  # the last place of metrics of quality: that of errors in training

PARTS = {"val": 0, "test": 1, "train": 2, "speed": 3}
"""The parts of the data that a metric may be of, from the one that says most of the quality; and speeds."""

_QUALITIES = (
    re.compile("reward|return"),
    re.compile(r"^accuracy$"),
    re.compile(r"accuracy|f1|auc|auroc|map|iou|bleu|rouge|score|dice|ndcg|psnr|ssim"),
)
"""Metrics of quality, before errors such as a loss."""

_NO_QUALITY = re.compile("entropy|policy|value|kl|surrogate|actor|critic|baseline|pi_loss|std")
"""Words of metrics that a training is guided by, and that say nothing of its quality."""

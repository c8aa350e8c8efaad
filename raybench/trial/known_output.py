"""Lines that end epochs and metrics in the output of common programs, for what a command's grid has no pattern of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAX_METRIC_CHARS = 1_000
"""Length of the part of a line in which metrics and epochs are recognized."""


@dataclass(frozen=True)
class KnownOutput:
    """The lines of a kind of program.

    Attributes:
        name: for the user.
        marks: the patterns `epoch`, `epoch_begins` and `begin` of a command in a grid file. A named group is not the
            epoch's number.
        are_passes: whether an epoch is a pass over the data, whatever the batch size, and not a number of iterations.
    """

    name: str
    marks: Mapping[str, str]
    are_passes: bool = True


_NO_PROGRESS = r"(?!.*(?:\bbatch|\bstep|\biter|\[ *\d+/\d+ ?\(|\d%\||it/s|/step))"

KNOWN_OUTPUTS = (
    KnownOutput("the test lines of PyTorch's examples", {"epoch": r"^Test set: .*Accuracy: \d+/\d+"}),
    KnownOutput("the lines `end of epoch N`", {"epoch": r"\bend of epoch\s+(\d+)"}),
    KnownOutput(
        "nanoGPT's evaluations (`step N: train loss …`)",
        {"epoch": r"^step ([1-9]\d*): train loss", "begin": r"^step 0: train loss"},
        are_passes=False,
    ),
    KnownOutput(
        "the lines `iter N: … loss …`",
        {"epoch": r"\biter ([1-9]\d*): (?:train )?loss", "begin": r"\biter 0: (?:train )?loss"},
        are_passes=False,
    ),
    KnownOutput(
        "the logs of Transformers' Trainer",
        {"epoch": r"^\{(?!.*'train_runtime').*'epoch': '?([^\s',}]+)"},
        are_passes=False,
    ),
    KnownOutput(
        "the lines `Epoch N` or `Epoch N/M` (in Keras's `fit`, to the end of its progress bar)",
        {
            "epoch_begins": r"(?:^|\] ?)Epoch (\d+)(?:(?:/\d+)?:?\s*$| \| Batchsize)",
            "epoch": r"^\s*(?P<steps>\d+)/(?P=steps)\b.*/(?:step|epoch)",
        },
    ),
    KnownOutput("the progress bars `Epoch N: 100%`", {"epoch": r"\b[Ee]poch[ :#]*(\d+)\b.*\b100%"}),
    KnownOutput(
        "the lines `ep N/M … loss …`",
        {"epoch": rf"^{_NO_PROGRESS}\W*\b[Ee]p\.? ?0*(\d+) ?/ ?\d+.*(?:\b|_)(?:[Ll]oss|[Aa]cc)"},
    ),
    KnownOutput(
        "the lines `epoch N … loss …`",
        {"epoch": rf"^{_NO_PROGRESS}.*\b[Ee]poch[ :#=\['\"]*(\d+).*(?:\b|_)(?:[Ll]oss|[Aa]cc)"},
    ),
    KnownOutput("the checkpoints of timm", {"epoch": r"^Current checkpoints:"}),
    KnownOutput("the rounds of XGBoost or LightGBM", {"epoch": r"^\[(\d+)\]\t\S[^:]*:"}, are_passes=False),
)

METRICS = {
    "accuracy": r"acc(?:uracy)?(?:@?1)?|prec@1|top-?1",
    "perplexity": r"ppl|perplexity",
    "other": r"(?:m?log)?loss|f1(?:[-_]score)?|(?:pr_?|ro_?)?auc|auroc|(?-i:mAP)\w*|m?iou|bleu|rouge\w*|wer|cer|r?msl?e"
    r"|mae|mape|nll|bp[bc]|ndcg\S*|psnr|ssim|fid|dice"
    r"|(?:(?<=[-_])|(?<=rain |test |tion |eval ))(?:err|error|return|reward|score)",
}
"""What programs call a metric, by raybench's name of it; others keep their names."""

PARTS = {
    "train": r"train(?:ing)?",
    "val": r"val|valid|validat(?:ion|e|ing)|eval|evaluat(?:ion|e|ing)|dev",
    "test": r"test(?:ing)?|^\s*\*(?= )",
}
"""How programs name parts of the data; a metric without any is one of training."""

UNITS = {
    "tokens": r"tok(?:en)?s?|tps",
    "images": r"im(?:a?ge?)?s?",
    "examples": r"examples?|samples?",
    "sequences": r"seq(?:uence)?s?",
}
"""Units of work, of which programs print so many per second."""


def _named(patterns: Mapping[str, str]) -> str:
    return "|".join(f"(?P<{name}>{text})" for name, text in patterns.items())


_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,20}\.?\d{0,20}(?:e[-+]?\d+)?|\.\d+|nan|inf)"
_PER_SECOND = rf"(?:(?:{'|'.join(UNITS.values())})(?:/|_per_| per )s(?:ec(?:ond)?)?|tps)\b"
_RATE = re.compile(
    rf"(?<![\w.])({_NUMBER})([kM]?)\s*{_PER_SECOND}|(?<!eval_)(?<![a-z]){_PER_SECOND}[\"']?[\s:=]+[\"']?({_NUMBER})([kM]?)",
    re.IGNORECASE,
)
_SECOND = re.compile(r"(?:/|_per_| per )s|tps", re.IGNORECASE)
_METRIC = re.compile(
    rf"(?<![\w.@-])(?P<before>[a-z][\w.'@]{{0,40}}?[-_/.])?(?:{_named(METRICS)})(?:[-_](?:epoch|step))?"
    r"(?: (?:of|on|for)\b[^:=|]*(?=[:=])| train| val\w*| test)?(?: value)?[\"']?(?:\s*[:=|│]\s*|\s+)[\"']?"
    rf"(?P<value>{_NUMBER})(?![\w:])(?:/(?P<all>\d+)\b| *\( *(?P<mean>{_NUMBER})\))?",
    re.IGNORECASE,
)
_PART = re.compile(rf"(?<![a-z])(?:{_named(PARTS)})(?![a-z]|\w*\.py)", re.IGNORECASE)
_NOT_CURRENT = re.compile(r"\b(?:best|max|min|target|top-[2-9])[ _-][^,|;\t]*", re.IGNORECASE)
_NEUTRAL = re.compile(r"average|avg|mean|epoch|step|total|running|metrics|top1|'s|", re.IGNORECASE)
"""Words before the name of a metric that do not make it a different one."""


def recognize(line: str) -> KnownOutput | None:
    """Return the kind of program that prints a line; None if it is not the beginning or end of an epoch of any."""
    line = line[:MAX_METRIC_CHARS]
    return next((known for known in KNOWN_OUTPUTS if any(re.search(text, line) for text in known.marks.values())), None)


def metrics_in(line: str, header: str = "") -> Iterator[tuple[str, float, int]]:
    """Yield the name, the value and the place of the value of each common metric in a line.

    Args:
        line: of the output.
        header: the last line that is not indented, which an indented one belongs to.
    """
    context = header if line[:1].isspace() else ""
    line = _NOT_CURRENT.sub(lambda match: " " * len(match[0]), line[:MAX_METRIC_CHARS])
    rest = line  # without the values of metrics, of which the last may stand before the unit of a rate
    for found in _METRIC.finditer(line):
        words = re.split(r"[-_/.]", _PART.sub("", found["before"] or ""))
        own = [word.lower() for word in words if not _NEUTRAL.fullmatch(word)]
        kind = next(name if name != "other" else found[name].lower() for name in METRICS if found[name])
        value = _float(found["mean"] or found["value"]) / (float(found["all"] or 1) or 1)
        yield f"{_part(context, line[: found.start('value')])}/{'_'.join([*own, kind])}", value, found.start("value")
        rest = f"{rest[: found.start('value')]}{' ' * len(found['value'])}{rest[found.end('value') :]}"
    has_rate = _SECOND.search(line)  # as the pattern of rates is slow in a long line of numbers
    for found in _RATE.finditer(rest) if has_rate else ():
        unit = next(name for name, text in UNITS.items() if re.search(text, found[0], re.IGNORECASE))
        factor = {"k": 1e3, "m": 1e6}.get((found[2] or found[4] or "").lower(), 1)
        yield f"speed/{unit}_per_s", _float(found[1] or found[3]) * factor, found.start(1 if found[1] else 3)


def _part(*texts: str) -> str:
    """Return the part of the data that is named last."""
    return ["train", *(match.lastgroup or "" for text in texts for match in _PART.finditer(text))][-1]


def _float(text: str) -> float:
    return float(text.replace(",", ""))

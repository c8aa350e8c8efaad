"""Lines that end epochs in the output of common programs, for commands whose grid has no `epoch`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KnownOutput:
    """The lines of a kind of program.

    Attributes:
        name: for the user.
        marks: the patterns `epoch`, `epoch_begins` and `begin` of a command in a grid file. A named group is not the
            epoch's number.
        metrics: by name, the pattern whose first group is the value.
        are_passes: whether an epoch is a pass over the data, whatever the batch size, and not a number of iterations.
    """

    name: str
    marks: Mapping[str, str]
    metrics: Mapping[str, str] = field(default_factory=dict)
    are_passes: bool = True


_VALUE = r"'?([^\s',}]+)"
_NO_PROGRESS = r"(?!.*(?:\bbatch|\bstep|\biter|\d+/\d+ ?\(|\d%|it/s|/step))"

KNOWN_OUTPUTS = (
    KnownOutput(
        "the test lines of PyTorch's examples",
        {"epoch": r"^Test set: .*Accuracy: \d+/\d+"},
        {"val/loss": r"^Test set: Average loss: ([\d.]+)"},
    ),
    KnownOutput(
        "the lines `end of epoch N`",
        {"epoch": r"\bend of epoch\s+(\d+)"},
        {"val/loss": r"\bend of epoch\b.*\bval\w* loss\s+([\d.]+)"},
    ),
    KnownOutput(
        "nanoGPT's evaluations (`step N: train loss …`)",
        {"epoch": r"^step ([1-9]\d*): train loss", "begin": r"^step 0: train loss"},
        {"train/loss": r"^step \d+: train loss ([\d.]+)", "val/loss": r"^step \d+: .*val loss ([\d.]+)"},
        are_passes=False,
    ),
    KnownOutput(
        "the lines `iter N: … loss …`",
        {"epoch": r"\biter ([1-9]\d*): (?:train )?loss", "begin": r"\biter 0: (?:train )?loss"},
        {"train/loss": r"\biter \d+: (?:train )?loss ([\d.]+)"},
        are_passes=False,
    ),
    KnownOutput(
        "the logs of Transformers' Trainer",
        {"epoch": rf"^\{{(?!.*'train_runtime').*'epoch': {_VALUE}"},
        {"train/loss": rf"^\{{'loss': {_VALUE}", "val/loss": rf"'eval_loss': {_VALUE}"},
        are_passes=False,
    ),
    KnownOutput(
        "Keras's progress bars (with the validation of `fit`)",
        {"epoch_begins": r"^Epoch (\d+)/\d+\s*$", "epoch": r"^\s*(?P<steps>\d+)/(?P=steps)\b.*/(?:step|epoch)"},
        {
            "train/loss": r"/(?:step|epoch)\b.*[ ]loss: ([\d.eE+-]+)",
            "train/accuracy": r"/(?:step|epoch)\b.*[ ]accuracy: ([\d.]+)",
            "val/loss": r"\bval_loss: ([\d.eE+-]+)",
            "val/accuracy": r"\bval_accuracy: ([\d.]+)",
        },
    ),
    KnownOutput(
        "the progress bars `Epoch N: 100%`",
        {"epoch": r"\b[Ee]poch[ :#]*(\d+)\b.*\b100%"},
        {"train/loss": r"\btrain_loss(?:_epoch|_step)?=([\d.eE+-]+)", "val/loss": r"\bval_loss=([\d.eE+-]+)"},
    ),
    KnownOutput(
        "the lines that begin an epoch (`Epoch N | Batchsize: …`)", {"epoch_begins": r"\bEpoch (\d+) \| Batchsize"}
    ),
    KnownOutput(
        "the lines `epoch N … loss …`",
        {"epoch": rf"^{_NO_PROGRESS}.*\b[Ee]poch[ :#=\[]*(\d+).*(?:\b|_)(?:[Ll]oss|[Aa]cc)"},
        {
            "train/loss": r"\b[Ee]poch\b.*?(?<!val[ _])(?<!valid[ _])(?<![Tt]est[ _])"
            r"\b(?:train[ _])?[Ll]oss[ :=]+([\d.eE+-]+)",
            "val/loss": r"\b[Ee]poch\b.*\b(?:[Vv]al\w*|[Tt]est)[ _]?[Ll]oss[ :=]+([\d.eE+-]+)",
        },
    ),
    KnownOutput(
        "the checkpoints of timm",
        {"epoch": r"^Current checkpoints:"},
        {
            "train/loss": r"^Train: \d+ \[.*Loss: +\S+ \( *([\d.]+)\)",
            "val/accuracy": r"^Test: \[.*Acc@1: +\S+ \( *([\d.]+)\)",
        },
    ),
    KnownOutput("the rounds of XGBoost", {"epoch": r"^\[(\d+)\]\t\S+:"}, are_passes=False),
)


def recognise(line: str) -> KnownOutput | None:
    """Return the kind of program that prints a line; None if it is not the beginning or end of an epoch of any."""
    return next((known for known in KNOWN_OUTPUTS if any(re.search(text, line) for text in known.marks.values())), None)

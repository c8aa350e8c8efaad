"""Metrics in the output of common programs, for what a command's grid has no pattern of.

A metric is a number after a name with one of `WORDS`: in running text, in a table under a header, in a block of keys
and values. It is looked for once per kind of line, and then read at its place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from raybench.output.transcript import NUMBERS, Kind, Slot, number_of, numbers_in

MAX_CHARS = 2_000  # length of the part of a line in which metrics are looked for

WORDS = {
    "accuracy": r"acc(?:uracy)?(?:[@-]?1)?|prec@1|top-?1",
    "perplexity": r"ppl|perplexity",
    "loss": r"loss|cost|xent",
    "reward": r"rewards?|rew",
    "return": r"returns?|ret",
    "error": r"err(?:or)?",
    "other": r"(?:m?log)loss|f1(?:[-_]score)?|(?:pr_?|ro_?)?auc|auroc|(?-i:mAP)[\w-]*|m?iou|bleu|rouge\w*|wer|cer|dice"
    r"|r?msl?e|mae|mape|nll|bp[bcd]|ndcg\S*|psnr|ssim|fid|score|elbo|fitness|inertia",
}
"""What programs call a metric, by raybench's word of it; others keep their own."""

PARTS = {
    "train": r"tr(?:ain(?:ing)?)?|learn",
    "val": r"va|val|valid|validat(?:ion|e|ing)|eval|evaluat(?:ion|e|ing)|dev",
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

COUNTERS = re.compile(
    r"(?P<passes>epochs?|ep|e|pass(?:es)?)|(?:\w+_)?(?:iter(?:ation)?s?|steps?|timesteps?|updates?)|it|up|batch(?:es)?"
    r"|rounds?|trees?|episodes?|games?|gen(?:eration)?s?|cycles?|progress|#",
    re.IGNORECASE,
)
"""Names of counters of work; those of passes over the data are a group."""

SEPARATORS = re.compile(r"\s*[|│]\s*|\t\s*|\s{2,}"), re.compile(","), re.compile(" +")
"""What separates the cells of a table."""


def _named(patterns: Mapping[str, str]) -> str:
    return "|".join(f"(?P<{name}>{text})" for name, text in patterns.items())


_WORD = re.compile(_named(WORDS), re.IGNORECASE)
_PART = re.compile(rf"(?<![a-z])(?:{_named(PARTS)})(?![a-z]|\w*\.py)", re.IGNORECASE)
_PER_SECOND = rf"(?:(?:{'|'.join(UNITS.values())})(?:/|_per_| per )s(?:ec(?:ond)?)?|tps)\b"
_BEFORE_RATE = re.compile(rf"(?<!eval_)(?<![a-z]){_PER_SECOND}(?:/\w+)?[\"']?[\s:=|]+[\"']?$", re.IGNORECASE)
_AFTER_RATE = re.compile(rf"(k?|M)\s*{_PER_SECOND}(?!\s*[:=|]\s*[\d.])", re.IGNORECASE)
_NAME = re.compile(
    r"(?P<name>[a-z][\w.@'/-]*(?: (?!- )[a-z(][\w.@'/)-]*)*)[\"'\])]*(?P<mark>\s*[:=|│]+\s*|\s+)[\"'\[]*$",
    re.IGNORECASE,
)
_OF_PARTS = re.compile(rf"loss\W+(?:{PARTS['train']})\W*$", re.IGNORECASE)  # `loss train: 0.7, val: 0.8`
_BARE = re.compile(rf"(?<![\w ])\s*(?:{'|'.join(PARTS.values())})\s*[:=]\s*$", re.IGNORECASE)
_PROSE = re.compile(r"\b(?:of|on|for|at)\b[^:=|,]*$", re.IGNORECASE)
_UNIT = re.compile(r"^[a-z]\w*(?= )", re.IGNORECASE)  # of the number before: the m50s of 0m50s
_PIECES = re.compile(r"[-_/.@' ()\[\]]+|(?<=[a-z])(?=[A-Z][a-z])")
_NEUTRAL = re.compile(
    r"|average|avg|mean|epoch|step|total|running|current|final|overall|metrics|set|top1|s|the|a|is|of|with|after|and|at"
    r"|in|on|for|batch",
    re.IGNORECASE,
)
"""Words around the word of a metric that do not make it a different one."""

_NO_METRIC = re.compile(
    r"scale|weights?|fn|func(?:tion)?|coef\w*|type|times?|best|max|min|target|top|threshold|patience|interval|bars?|steps"
    r"|decay|tol\w*|fact\w*|it|smoothing|lambda|alpha|eps\w*|name",
    re.IGNORECASE,
)
"""Words that make it something else, such as a setting, or the best value so far."""

_NOT_CURRENT = re.compile(r"\b(?:best|max|min|target|top-[2-9])[ _-][^,|;\t)\]]*$", re.IGNORECASE)
_CELL = re.compile(r"[-+]?[\d.][\w.,%/+:-]*|nan|\+|all|-|")
_AFTER_TABLE = re.compile(r":?\s+\d+%\|")


def find_slots(kind: Kind, headers: Sequence[Sequence[str]], patterns: Mapping[str, re.Pattern[str]]) -> None:
    """Look for the metrics in the lines of a kind, once, besides those that patterns of the user match.

    Args:
        headers: of all tables in the output, the last one first.
    """
    if kind.slots is None:
        text = kind.text(0)
        taken = [match.start(1) for regex in patterns.values() if regex.groups and (match := regex.search(text))]
        slots = slots_in(text, _context_of(kind), columns_of(kind, headers), taken)
        kind.slots = tuple(slot for slot in slots if slot.name not in patterns)
        parts = {slot.name.partition("/")[0] for slot in kind.slots} - {"speed"}
        kind.parts = parts or {_part(text[:MAX_CHARS])}  # or else by its words


def slots_in(
    text: str, context: str = "", columns: Mapping[int, str] | None = None, taken: Collection[int] = ()
) -> Iterator[Slot]:
    """Yield the metrics of a line.

    Args:
        context: the header of the section that the line is in.
        columns: the name of the column that each number is in, if it is a row of a table.
        taken: where numbers stand that are something else.
    """
    text = text[:MAX_CHARS]
    matches = [match for match in NUMBERS.finditer(text) if match[1]]
    ends = [0, *(match.end() for match in matches)]
    leads = [text[begin : match.start()] for begin, match in zip(ends, matches, strict=False)]
    leads[1:] = [_UNIT.sub("", lead) for lead in leads[1:]]
    mean, has_loss, bare = -1, False, list[Slot]()
    for number, match in enumerate(matches):
        lead, before, rest = leads[number], text[: match.start()], text[match.end() : match.end() + 24]
        if columns:
            lead = f"{columns.get(number, '')}: "
            before = " | ".join([*[*columns.values()][:number], lead])
        elif number and lead.rstrip().endswith(":") and _PROSE.search(leads[number - 1]):  # `of the 10000 images: 54 %`
            lead = f"{_PROSE.sub('', leads[number - 1]).rstrip()}: "
        if number == mean or match.start() in taken:
            continue
        part, name = _part(context, before), "" if _NOT_CURRENT.search(before) else _name_in(lead)
        if not name and ((rate := _AFTER_RATE.match(rest)) or _BEFORE_RATE.search(lead)):
            unit = next(
                unit for unit, word in UNITS.items() if re.search(word, rate[0] if rate else lead, re.IGNORECASE)
            )
            letter = (rate[1] if rate else (re.match(r"(k|M)\b", rest) or [""])[0]).lower()
            yield Slot(f"speed/{unit}_per_s", number, None, {"k": 1e3, "m": 1e6}.get(letter, 1.0))
        elif re.match(r"[\w:]", rest) or (match[1].isdigit() and len(match[1]) > 20):
            continue
        elif name:
            has_loss = has_loss or (name.endswith("loss") and not _OF_PARTS.search(lead))
            is_open = re.fullmatch(r"\s*\(\s*", "".join(leads[number + 1 : number + 2]))
            if is_open and re.match(r"\s*\)", text[matches[number + 1].end() :]):  # a running mean
                mean = number + 1
            divisor = number + 1 if re.match(r"/\d+\b", rest) else None
            yield Slot(f"{part}/{name}", max(mean, number), divisor)
        elif not columns and re.search(r"[.e]", match[1]) and _BARE.search(lead):  # `Val: 0.7`
            bare.append(Slot(part, number))
    yield from (slot._replace(name=f"{slot.name}/{'score' if has_loss else 'loss'}") for slot in bare)


def _name_in(lead: str) -> str:
    """The name of the metric whose value follows a text; empty if it is none."""
    if not (match := _NAME.search(lead)):
        return ""
    tokens = match["name"].rpartition(" - ")[2].split(" ")
    if match["mark"].strip() and _PROSE.search(match["name"]):
        tokens = _PROSE.sub("", match["name"]).split()
    for place in range(len(tokens) - 1, max(-1, len(tokens) - 4), -1):
        words = _words(tokens[place])
        at = next((at for at in reversed(range(len(words))) if _WORD.fullmatch(words[at])), None)
        if at is None and all(_is_neutral(word) or word == "value" for word in words):
            continue
        if at is None:
            return ""
        before = [word for token in tokens[max(0, place - 2) : place] for word in _words(token)]
        before = [] if any(map(_WORD.fullmatch, before)) else before  # `lm loss PPL`
        before, after = before + words[:at], words[at + 1 :]
        kind = str((word := _WORD.fullmatch(words[at])) and word.lastgroup)
        is_other = any(_NO_METRIC.fullmatch(word) or word.isdigit() for word in (*before[-1:], *after))  # `acc@5`
        if is_other or (kind == "error" and not before and not after):
            return ""
        qualifiers = [word.lower() for word in (*before, *after) if not (_is_neutral(word) or word.isdigit())]
        return "_".join([*qualifiers, words[at].lower() if kind == "other" else kind])
    return ""


def _words(token: str) -> list[str]:
    """The words of a token such as `ep_rew_mean`, `Loss_D` or `AverageEpRet`."""
    token = token.rpartition("/")[2] or token
    head, mark, last = token.rpartition("_")
    if _WORD.fullmatch(token):
        return [token]
    return [*_PIECES.split(head), last] if mark and _WORD.fullmatch(last) else [*filter(None, _PIECES.split(token))]


def _is_neutral(word: str) -> bool:
    return bool(_NEUTRAL.fullmatch(word) or _PART.fullmatch(word))


def _part(*texts: str) -> str:
    """The part of the data that is named last."""
    return ["train", *(match.lastgroup or "" for text in texts for match in _PART.finditer(text))][-1]


def values_at(slots: Iterable[Slot], text: str) -> dict[str, float]:
    """The values of the metrics of a kind in one of its lines."""
    numbers = [*map(number_of, numbers_in(text[:MAX_CHARS]))]
    return {
        slot.name: numbers[slot.number] * slot.factor / ((slot.divisor and numbers[slot.divisor]) or 1.0)
        for slot in slots
        if slot.number < len(numbers)
    }


def header_in(line: str) -> list[str]:
    """The names of the columns in a line that is the header of a table; empty if it is none."""
    for separator in SEPARATORS:
        cells = separator.split(_AFTER_TABLE.split(line)[0].strip(" |│"))
        if len(cells) > 1 and cells[0] and all(re.fullmatch(r"[A-Za-z#][^:=]{0,30}|", cell) for cell in cells):
            is_named = any(_name_in(f"{cell}: ") or COUNTERS.fullmatch(cell) for cell in cells)
            if is_named or separator is SEPARATORS[0]:
                return cells
    return []


def columns_of(kind: Kind, headers: Sequence[Sequence[str]]) -> dict[int, str]:
    """The names of the columns that the numbers of a row are in; empty if it is not one of a table with a header."""
    for separator in SEPARATORS:
        cells = separator.split(_AFTER_TABLE.split(kind.text(0))[0].strip(" |│"))
        if len(cells) > 1 and all(map(_CELL.fullmatch, cells)):
            near = (header_in(line) for line in reversed(kind.before))
            names = next((names for names in (*near, *headers) if len(names) == len(cells)), ())
            in_order = [name for name, cell in zip(names, cells, strict=False) for _ in numbers_in(f" {cell}")]
            if in_order:
                return dict(enumerate(in_order))
    return {}


def _context_of(kind: Kind) -> str:
    """The header of the section that the lines of a kind are in: the last one that is less indented."""
    text = kind.text(0).lstrip("|│")
    indent = len(text) - len(text.lstrip())
    lines = (line.lstrip("|│") for line in reversed(kind.before))
    return next((line for line in lines if line.strip(" -|│=") and len(line) - len(line.lstrip()) < indent), "")

"""Logs of others: each file is a run, and what differs between the names of files, or their settings, is an axis."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median

from raybench.core.settings import PARAM
from raybench.core.text import plural
from raybench.errors import FileError, UsageError
from raybench.results.run_table import Run
from raybench.sources import mlperf, program_log, table, tensorboard, trainer_state
from raybench.sources.rows import NoLog, Repeats, Table, is_of_trial

TEXTS = frozenset({".txt", ".log", ".out", ".err", ""})
"""Endings of the names of files that a program's output is kept in."""

UNEQUAL_WORK = 1.1  # ratio of the work of two logs' steps above which they are not compared as equal

_REPEATED = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9a-f]{12,}|\d{4}-\d\d-\d\d|\d{8,}|events\.out\.tfevents\S*"
    r"|(?<![a-z\d])(?:version|result|seed|run|repeat|rep|trial|try|rank)[-_=]?\d+(?=$|[-_. /])",
    re.IGNORECASE,
)
"""Parts of the name of a file that tell repeats apart: ids, dates, seeds, and what counts runs by its word."""

_LAST_NUMBER = re.compile(r"(.*?)[-_=. ]?(\d+)(\D*)", re.DOTALL)
_NAMED = re.compile(r"([A-Za-z]{2,}(?:_[A-Za-z]+)*)[=_-]?(\d+(?:\.\d+)?(?:e-?\d+)?)")
_SEEDS = re.compile(r"(?:version|result|seed|run|repeat|rep|trial|try|rank|step|checkpoint|job|gpu)", re.IGNORECASE)
_SETTING = re.compile(r"--?([A-Za-z][\w.-]*)[= ]([^\s,=]+)|\b([A-Za-z]\w*)[:=]([^\s,:=]+)")
_NO_SETTING = re.compile(r".*(?:id|pid|port|time|date|host|path|dir|file|url|rank|seed|save|log|name|output)s?", re.I)


def is_log(path: Path) -> bool:
    """Return whether a file may be a log that this module reads."""
    if path.name.startswith(tensorboard.PREFIX) or path.name == trainer_state.NAME:
        return True
    if path.suffix.lower() not in {*TEXTS, ".csv"} or path.name.startswith(".") or not path.is_file():
        return False
    with path.open("rb") as file:
        return b"\0" not in file.read(1 << 14)


def load_logs(path: Path, axes: Mapping[str, str], repeats: Repeats) -> list[Run]:
    """Load the run of a log, or those of all logs in a folder.

    Args:
        axes: regular expressions by the name of an axis, whose first group is its value, in the path or the text.
        repeats: those in other files; those of these are added.

    Raises:
        FileError: a file is damaged; of a folder one that holds no log is left out, with a warning, and so are copies.
        UsageError: no file of a folder is a log, or no run has an axis.
    """
    files = [file for file in sorted(path.rglob("*")) if is_log(file)] if path.is_dir() else [path]
    states = trainer_state.last_states(file for file in files if file.name == trainer_state.NAME)
    events = dict.fromkeys(file.parent for file in files if file.name.startswith(tensorboard.PREFIX))
    texts = [file for file in files if file.name != trainer_state.NAME and file.parent not in events]
    logs: dict[bytes, Table] = {}  # by the digest of their content
    copies: list[Path] = []
    left_out: dict[Path, FileError] = {}

    def add(file: Path, read: Callable[[Path], Table], no_log: type[FileError]) -> None:
        content = _digest(file)
        try:
            if content in logs:
                copies.append(file)
            else:
                logs[content] = read(file)
            left_out.pop(file, None)
        except no_log as error:
            left_out[file] = error

    for file in (*texts, *states, *events):
        add(file, partial(_read, earlier=[*logs.values()]), NoLog)
    if not logs:  # next to logs, a table with a line per run may be their summary
        for file in [file for file in left_out if file.suffix.lower() == ".csv"]:
            add(file, table.read_runs, FileError)
    if not logs:
        raise next(iter(left_out.values())) if left_out else UsageError(f"{path}: no log in it")
    tables = [*logs.values()]
    _count_unequal_work(tables)
    names = [_name(log.path, path) for log in tables]
    named = zip(tables, names, strict=True)
    values = [_said(log, name, axes) for log, name in named] if axes else _differences(tables, names)
    is_counted = any("log" in of_log for of_log in values) and _stems(names) != [_REPEATED.sub("", n) for n in names]
    runs: list[Run] = []
    for log, name, axis_values in zip(tables, names, values, strict=True):
        trial = {} if any(map(is_of_trial, log.columns)) else {"trial": name}
        log.values = {**trial, **log.values, **{f"{PARAM}{axis}": value for axis, value in axis_values.items()}}
        runs += log.load(repeats, path.resolve().stem)
    reasons = {"without readable lines of epochs or steps": [*left_out], "with the same content as others": copies}
    messages = [
        f"Left out {plural(len(paths), 'file')} {reason}: {', '.join(map(str, paths[:3]))}{', …' if paths[3:] else ''}"
        for reason, paths in reasons.items()
        if paths
    ]
    messages += ["The last numbers of names were taken for those of repeats"] if is_counted and not axes else []
    runs[0] = replace(runs[0], warnings=[*runs[0].warnings, *messages])
    return runs


def _read(path: Path, earlier: Sequence[Table]) -> Table:
    """Read one run; `earlier` logs may be of the same program, and then have its clock."""
    if path.is_dir():
        return tensorboard.read(path)
    if path.name == trainer_state.NAME:
        return trainer_state.read(path)
    if path.suffix.lower() == ".csv":
        return table.read_log(path)
    if mlperf.MARK in path.read_text(encoding="utf-8", errors="replace"):
        return mlperf.read(path)
    return program_log.read(path, next((log.output_clock for log in reversed(earlier) if log.output_clock), None))


def _count_unequal_work(logs: Sequence[Table]) -> None:
    """Count what the programs printed per second, such as tokens, if a step of one log has more of it than of another.

    Otherwise steps are compared: such rates are rounded, or means over several steps.
    """
    for unit in set.intersection(*({*log.amounts} for log in logs)):
        sizes = [median(log.amounts[unit]) for log in logs]
        if min(sizes) > 0 and max(sizes) > UNEQUAL_WORK * min(sizes):
            for log in logs:
                log.columns = {**log.columns, unit: log.amounts[unit]}
                log.warning = "Steps differ in their work, so the rates that the programs printed are compared"


def _digest(log: Path) -> bytes:
    """Return a digest of the content of a log, or of a folder of TensorBoard's events."""
    files = sorted(log.glob(f"{tensorboard.PREFIX}*")) if log.is_dir() else [log]
    return sha256(b"".join(file.read_bytes() for file in files)).digest()


def _name(file: Path, folder: Path) -> str:
    """Return the path of a run in its folder, without the ending."""
    if file == folder:
        return file.stem
    name = file.relative_to(folder).as_posix()
    is_text = file.suffix.lower() in {*TEXTS, ".csv"}
    return name.removesuffix(file.suffix if is_text else f"/{file.name}")


def _said(log: Table, name: str, axes: Mapping[str, str]) -> dict[str, str | float]:
    values: dict[str, str | float] = {}
    for axis, pattern in axes.items():
        match = re.search(pattern, name) or re.search(pattern, log.text)
        if match is None:
            raise UsageError(f"--axis {axis}: {pattern!r} is neither in the name nor in the text of {log.path}")
        values[axis] = _number(match[1] if match.re.groups else match[0])
    return values


def _differences(logs: Sequence[Table], names: Sequence[str]) -> list[dict[str, str | float]]:
    """Return what differs between the names of files and, if nothing does, between the settings that they print."""
    values: list[dict[str, str | float]] = [{} for _ in logs]
    if all("device" in {**log.values, **log.columns} for log in logs):
        return values
    settings = {name for log in logs for name in log.values if name.startswith(PARAM)}
    if any(len({str(log.values.get(name)) for log in logs}) > 1 for name in settings):
        return values
    named = [
        {
            match[0]: _number(match[1])
            for match in _NAMED.findall(name)
            if not _SEEDS.fullmatch(match[0].rpartition("_")[2])
        }
        for name in names
    ]
    if len({_REPEATED.sub("", _NAMED.sub(r"\1", name)) for name in names}) == 1:  # they differ in numbers alone
        values = _varied(named)
    if any(values):
        return values
    stems = [" ".join(filter(None, (part.strip("-_. ") for part in stem.split("/")))) for stem in _stems(names)]
    values = _varied([{"log": stem} for stem in stems])
    return values if any(values) or not all(log.text for log in logs) else _varied(list(map(_settings, logs)))


def _stems(names: Sequence[str]) -> list[str]:
    """Return names without what tells repeats apart.

    Last numbers do so if they count the repeats of each name from 0 or 1 on. Others are part of a name, as in L4 and
    L40, fp16 and fp32, or base, v1 and v2.
    """
    stems = [_REPEATED.sub("", name) for name in names]
    plain = [place for place, name in enumerate(names) if stems[place] == name]
    parts = {place: match.groups() for place in plain if (match := _LAST_NUMBER.fullmatch(names[place]))}
    numbers: dict[tuple[str, str], set[int]] = {}
    for before, number, after in parts.values():
        numbers.setdefault((before, after), set()).add(int(number))
    most = max(map(len, numbers.values()), default=0)
    if len(parts) == len(plain) and most > 1 and all(max(counts) <= most for counts in numbers.values()):
        for place, (before, _, after) in parts.items():
            stems[place] = before + after
    return stems


def _settings(log: Table) -> dict[str, str | float]:
    """Return the settings in the first lines of a log: lines of nothing but names and values."""
    settings: dict[str, str | float] = {}
    for line in log.text[:200_000].split("\n"):
        pairs = _SETTING.findall(line)
        if pairs and not re.sub(r"[\s,|\\]+", "", _SETTING.sub("", line)) and "step" not in line[:6]:
            for pair in pairs:
                name, value = pair[:2] if pair[0] else pair[2:]
                if not _NO_SETTING.fullmatch(name):
                    settings.setdefault(name, _number(value))
    return settings


def _varied(values: Iterable[Mapping[str, str | float]]) -> list[dict[str, str | float]]:
    rows = list(values)
    axes = [
        axis for axis in dict.fromkeys(axis for row in rows for axis in row) if len({row.get(axis) for row in rows}) > 1
    ]
    return [{axis: row[axis] for axis in axes if axis in row} for row in rows]


def _number(text: str) -> str | float:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text

"""CSV files of others: a line per run with any columns, an export of Weights & Biases, or Lightning's `metrics.csv`.

Of a line per run, columns with the names of raybench's tables are those; names with the word of a metric are metrics,
a time is that of the run; of two, one is its training and the other all of it. Of the others those whose values differ
between lines, and repeat, are axes: `params.NAME`; if none does, the first that differs is the axis.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import partial
from itertools import accumulate, pairwise
from operator import le, or_
from pathlib import Path
from statistics import median
from typing import Any

from raybench.core.settings import PARAM
from raybench.core.status import TrialStatus
from raybench.core.text import cut, plural
from raybench.errors import FileError, Problem
from raybench.output.metrics import slots_in
from raybench.results.epoch import UNITS
from raybench.results.epoch_table import EPOCHS
from raybench.results.output_clock import OF_TRAINING, OutputClock
from raybench.results.run_table import CELL, OF_A_TABLE, TRIALS
from raybench.sources.durations import UNITS_S, duration_s
from raybench.sources.epochs_csv import CsvTable, alias, as_parameters, is_of_others, value_of
from raybench.sources.rows import KNOWN, OF_TRIALS, SHOWN, TIMES, NoLog, Table, is_of_trial, part_taken

_CLOCKS = {"time", "duration", "runtime", "elapsed", "wallclock"}
_PARTS = {"epoch": "epoch", "step": "step", "steps": "step", "iter": "step", "iteration": "step", "it": "step"}
_BEGIN = {"start", "started", "begin", "began"}
_END = {"end", "ended", "finish", "finished", "stop", "stopped"}
_MOMENTS = {*_BEGIN, *_END, "date", "timestamp", "created"}
"""Words of columns with points in time, of which one alone is no duration."""
_OF_TIME = {
    *(*_CLOCKS, *_PARTS, "train", "training", "wall", "total", "run", "epochs", "per", "in", "to"),
    *("avg", "average", "mean"),
}
_REPEATS = ("rep", "run", "run_id", "run_number", "replicate", "repetition", "trial")
"""Names of a column that, with whole numbers that occur again, is that of the repeat."""
_COUNTS = ("gpus", "num_gpus", "n_gpus", "ngpus", "gpu_count", "num_devices", "n_devices", "accelerators")
_WORK = {
    **dict.fromkeys(("epochs", "epochs_done", "num_epochs", "n_epochs"), "epoch"),
    **dict.fromkeys(("steps", "steps_done", "num_steps", "n_steps", "total_steps"), "steps"),
    **dict.fromkeys(("examples", "examples_done", "num_examples", "n_examples", "samples", "num_samples"), "examples"),
    **dict.fromkeys(("tokens", "num_tokens", "n_tokens", "total_tokens"), f"{UNITS}tokens"),
}
"""Columns that count the work of a run."""
_CELLS = (
    (re.compile(r"\$\s*([\d.,]+)"), ""),
    (re.compile(r"([-+]?[\d.]+)\s*%"), ""),
    (re.compile(r"(\d{1,3}(?:,\d{3})+(?:\.\d+)?)"), ","),
)
"""How numbers are also written, with what is left out of them: prices, percentages, thousands."""
_MINUTES = re.compile(r"\d+:\d\d(\.\d+)?")
_SETTINGS = re.compile(
    r"lr|.*(?:rate|decay|momentum|dropout|beta|eps|alpha|temperature|scale|ratio|frac).*", re.IGNORECASE
)
"""Names of columns with fractional numbers that are settings, not results."""
_RATE = re.compile(r"(?:train_)?(?!time)(\w+?)(?:_per_s(?:ec(?:ond)?)?|/s(?:ec)?)|\w*throughput\w*", re.IGNORECASE)
_MONEY = re.compile(r"(?:.*[_ ])?(?:cost|price|usd|dollars?)(?:[_ ].*)?|.*[$€£].*", re.IGNORECASE)
_NO_SETTING = re.compile(r"_.*|(?!params\.|settings\.)\w+\..*")
_PLACES = ("epoch", "_step", "step", "time/total_timesteps", "total_timesteps", "_runtime", "_timestamp")
"""Columns that count the work of one run, in order of preference."""
_ELAPSED = ("_runtime", "_timestamp", "time/time_elapsed", "time_elapsed", "time")
"""Columns that may be the seconds since a run began."""
_OF_ONE_RUN = ("_runtime", "_timestamp", "time/total_timesteps")
"""Columns that are in the history of a run, where they never fall."""
_CHART = re.compile(r"Step$|Relative Time")
"""The first column of a chart that Weights & Biases exports; by time it has no times of steps."""
_PARTS_OF_DATA = {"train", "training", "val", "valid", "validation", "eval", "test"}
_MISSING = {"n/a", "na", "none", "null", "-", "–", "—", "?"}
"""How a missing number is also written."""
_NUMERIC = re.compile(r"[-+]?[$€£]?\.?\d")
_SUMMARY = re.compile(r"\s*(?:mean|average|avg|median|std|sd|sum|total)\s*", re.IGNORECASE)
"""The first value of a line that is not of a run."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
STATES = ("state", "status")  # columns that say how a run ended
_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("finished", "complete", "done", "success", "succeeded", "ok", "passed"), TrialStatus.COMPLETED),
    **dict.fromkeys(("crashed", "error", "failure"), TrialStatus.FAILED),
    **dict.fromkeys(("cancelled", "canceled", "aborted", "preempted"), TrialStatus.KILLED),
    **dict.fromkeys(("running", "pending", "scheduled", "preempting"), "unfinished"),
    **{status: status for status in TrialStatus},
}
"""The status of a run by the words of Weights & Biases, MLflow and Slurm."""

_UNUSUAL = {TrialStatus.FAILED, TrialStatus.KILLED}  # a column with these is of states, whatever its name
_FREE_TEXT = ("comment", "comments", "note", "notes", "remark", "remarks", "description", "message")
_NO, _YES = {"false", "no", "0"}, {"true", "yes", "1"}
_SUCCESSES = ("success", "succeeded", "ok", "passed", "finished", "completed")
_EXITS = ("exit_code", "exit_status", "exitcode", "returncode", "return_code")

_COMPUTED = {column.name for column in (*TRIALS, *EPOCHS)} | {"cell"}


def read_csv(path: Path) -> Table:
    """Read a CSV of epochs, or of others.

    Raises:
        FileError: it is invalid; the message lists all problems, each with line and column.
        OSError: it cannot be read.
    """
    file = CsvTable(path)
    texts, has_others = file.read_lines(), is_of_others(file.names)
    if not has_others:
        file.convert(texts)
    if file.problems:
        raise FileError(file.problems, SHOWN)
    return _read(file, texts) if has_others else file


def _read(file: CsvTable, texts: Sequence[Sequence[str]]) -> Table:
    """Return the rows of a CSV file of others.

    Args:
        texts: the values of its lines.
    """
    rows = [(line, values) for line, values in zip(file.lines, texts, strict=True) if not _is_summary(values)]
    left_out = [values[0].strip() for values in texts if _is_summary(values)]
    repeats = {*_REPEATS, "seed", "repeat", "started"}
    numbered = [place for place, name in enumerate(file.names) if {alias(name), name.lower()} & repeats]
    seen = {tuple(values): line for line, values in reversed(rows)}
    equal = {line: v for line, v in rows if seen[*v,] != line}
    copies = {line for line, v in equal.items() if any(v[place].strip() for place in numbered)}
    rows = [(line, values) for line, values in rows if line not in copies]
    file.lines, texts = [line for line, _ in rows], [values for _, values in rows]
    written = {name: [values[place].strip() for values in texts] for place, name in enumerate(file.names)}
    written, taken = _with_durations(file, written)
    columns = _plain(written)
    repeat = next((name for name in columns if name.lower() in _REPEATS), "")
    if repeat and "repeat" not in columns and "epoch" not in columns and _are_repeats(columns[repeat]):
        columns = {"repeat" if name == repeat else name: column for name, column in columns.items()}
    if not texts:
        raise FileError([Problem(str(file.path), 1, 1, "", "no run in it")])
    _check_numbers(file, columns)
    if file.problems:
        raise FileError(file.problems, SHOWN)
    if _CHART.match(file.names[0]) and any(" - " in name for name in columns):
        return _chart(file, columns)
    counts = (_numbers(columns[name]) for name in _OF_ONE_RUN if name in columns)
    is_of_one_run = not _is_of_runs(file.names) and any(numbers and _never_falls(numbers) for numbers in counts)
    if is_of_one_run:
        return history(file.path, columns)
    if steps := _numbers(columns.get("step", ())):
        which, runs = _runs_in(columns)
        is_log = "epoch" in columns or all(_rises([steps[row] for row in of_run]) for of_run in runs.values())
        if is_log and (len(runs) < len(texts) or not which):
            return _histories(file, columns, which, runs)
    first: dict[str, int] = {}
    for line, name in zip(file.lines, columns.get("trial", ()), strict=False):
        if first.setdefault(name, line) != line and "attempt" not in columns:
            file.problem(line, "trial", f"{name} again, as on line {first[name]}; lines of epochs need a column epoch")
    if file.problems:
        raise FileError(file.problems, SHOWN)
    table = _of_runs(file.path, columns)
    table.lines, table.clock = file.lines, OF_A_TABLE
    notes = [f"Left out {', '.join(left_out)}, taken for a summary of other lines"] if left_out else []
    notes += [taken] if taken else []
    for name, column in written.items():
        if name not in columns and (minutes := next(filter(_MINUTES.fullmatch, column), "")):
            notes.append(f"{minutes} in column {name} was taken for minutes and seconds")
    notes += [f"Left out {plural(len(copies), 'line')} equal to others in every column"] if copies else []
    if further := len(equal) - len(copies):
        notes.append(f"{plural(further, 'line')} equal to others in every column count as runs of their own")
    table.warning = ". ".join(filter(None, [table.warning, *notes]))
    return table


def _with_durations(file: CsvTable, columns: dict[str, list[str]]) -> tuple[dict[str, list[str]], str]:
    """Return columns with the seconds of each run from two that say when it began and ended, and which these are.

    Adds a problem for a run that ended before it began.
    """
    moments = {name: [_moment(text) if text else None for text in texts] for name, texts in columns.items()}
    names = [
        [n for n, of in moments.items() if any(of) and not words.isdisjoint(_words_of(n))] for words in (_BEGIN, _END)
    ]
    if [*map(len, names)] != [1, 1] or "wall_s" in columns:
        unread = [n for words in (_BEGIN, _END) for n in columns if not words.isdisjoint(_words_of(n))]
        texts = [columns[name][0] for name in unread if any(columns[name]) and not any(moments[name])]
        is_pair = len(unread) == len(texts) == 2
        remedy = "were not read: write 2026-03-01T23:42:28, or the seconds of each run"
        return columns, f"Columns {' and '.join(unread)}, such as {texts[0]}, {remedy}" if is_pair else ""
    (begin,), (end,) = names
    seconds = []
    for line, first, last in zip(file.lines, moments[begin], moments[end], strict=True):
        passed_s = (last - first).total_seconds() if first and last else 0.0
        passed_s += 86400 if passed_s < 0 and last and last.date() == date.min else 0  # times of day, across midnight
        if passed_s < 0:
            file.problem(line, end, f"before {begin}")
        seconds.append(str(passed_s) if first and last else "")
    kept = {name: texts for name, texts in columns.items() if name not in (begin, end) or alias(name) == "started"}
    return {**kept, "wall_s": seconds}, f"Columns {begin} and {end} were taken for the begin and the end of each run"


def _moment(text: str) -> datetime | None:
    """Return a date, or a time of day on the first of all days; None for other texts."""
    if not re.search("[:-]", text):
        return None  # 1030 is a number
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    with suppress(ValueError):
        return datetime.combine(date.min, time.fromisoformat(text.zfill(5 if text.count(":") == 1 else 8)))
    return None


def _is_summary(values: Sequence[str]) -> bool:
    """Return whether a line sums up others: it is named so, and lacks a value, such as the number of a run."""
    return bool(_SUMMARY.fullmatch(values[0])) and not all(map(str.strip, values))


def read_log(path: Path) -> Table:
    """Read a CSV file with lines of epochs or steps, of one run or, with columns of trials, of several.

    Raises:
        NoLog: it has no such lines.
        FileError: no column is a time or a metric, or its lines are not those of the trials that it names.
    """
    file = CsvTable(path)
    texts, names = file.read_lines(), file.names
    if file.problems or not texts or _is_of_runs(names) or not {*_PLACES[:5]} & {*names}:
        raise NoLog(file.problems or [Problem(str(path), 1, 1, "", "no line counts epochs or steps")])
    if not is_of_others(names) and any(name in TIMES or is_of_trial(name) for name in names):
        file.convert(texts)
        if not file.problems:
            return file
        if {*TIMES, "trial"} & {*names}:
            raise FileError(file.problems, SHOWN)
    columns = {name: [values[place].strip() for values in texts] for place, name in enumerate(names)}
    return _histories(file, columns, *_runs_in(columns))


def read_runs(path: Path) -> Table:
    """Read a CSV file with a line per run.

    Raises:
        FileError: it is not one.
    """
    file = CsvTable(path)
    texts = file.read_lines()
    if file.problems or len(file.names) < 2:
        raise FileError(file.problems or [Problem(str(path), 1, 1, "", "not a table")], SHOWN)
    return _read(file, texts)


def _is_of_runs(names: Sequence[str]) -> bool:
    """Return whether lines are runs, since they say how each ended."""
    return "epoch" not in names and any(name.lower() in STATES for name in names)


def _plain(columns: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return columns with numbers as programs write them: no signs, percent and thousands, and times in seconds."""
    plain: dict[str, list[str]] = {}
    for name, texts in columns.items():
        cleaned = ["" if text.lower() in _MISSING else text for text in texts]
        texts = cleaned if all(map(_NUMERIC.match, filter(None, cleaned))) else texts  # none may be a setting
        present = [text for text in texts if text]
        for pattern, left_out in _CELLS:
            if present and all(map(pattern.fullmatch, present)):
                matches = [pattern.fullmatch(text) for text in texts]
                texts = [match[1].replace(left_out, "") if match else "" for match in matches]
                present = [text for text in texts if text]
        seconds = {text: duration_s(text) for text in present}
        words = {*_words_of(name)}
        is_time = "".join(present[:1]).count(":") > 1 or not _CLOCKS.isdisjoint(words)  # not 10m, a size
        is_time &= UNITS_S.get(_unit(name)) != 3600 or not any(map(_MINUTES.fullmatch, present))
        if is_time and present and None not in seconds.values() and _MOMENTS.isdisjoint(words):
            kind, texts = _kind(name), [str(seconds.get(text, "")) for text in texts]
            name = kind if kind not in {*columns, *plain} else name
        plain[name] = texts
    return plain


def _are_repeats(texts: Sequence[str]) -> bool:
    """Return whether texts are whole numbers, of which some occur again."""
    present = [text for text in texts if text]
    return all(map(str.isdecimal, present)) and len({*present}) < len(present)


def _numbers(texts: Sequence[str]) -> list[float | None] | None:
    """Return the numbers of a column, None for what is missing; None if it has texts, or nothing."""
    try:
        numbers = [float(text) if text not in ("", "NA", "<NA>") else None for text in texts]
    except ValueError:
        return None
    return numbers if any(number is not None for number in numbers) else None


def _words_of(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower().replace("wall_clock", "wallclock")) if word]


def _unit(name: str) -> str:
    """Return the unit of time at an end of a name; empty without one."""
    words = _words_of(name)
    if words and words[0] in UNITS_S and (words[1:2] == ["per"] or len(words[0]) > 3):  # min_time is a minimum
        return words[0]
    return words[-1] if words and words[-1] in UNITS_S else ""


def _time(name: str) -> tuple[float, str] | None:
    """Return the seconds of a time's unit and what takes it, such as `run` or `step`; None if a name is no time."""
    words, unit = _words_of(name), _unit(name)
    is_said = not _CLOCKS.isdisjoint(words) or (unit and (len(words) > 1 or len(unit) > 3 or unit == "s"))
    if not is_said or not _OF_TIME.issuperset({*words} - (UNITS_S.keys() if unit else set())):  # hours (h)
        return None
    return UNITS_S.get(unit, 1.0), next((_PARTS[word] for word in words if word in _PARTS), "run")


def _kind(name: str) -> str:
    """Return which time of a run a name says: `train_s`, `wall_s` of all of it, or `time_s` if it says neither."""
    words = {*_words_of(name)}
    if name in TIMES or words & {"train", "training", "epochs"}:
        return "train_s"
    return "wall_s" if words & {"total", "wall", "wallclock", "run", "runtime", "elapsed"} else "time_s"


def _metric(name: str) -> str:
    """Return the metric that a column holds; empty if none."""
    if "/" in name and not _RATE.fullmatch(name):
        return name
    name = re.sub(r"\s*[\[(]?%[\])]?", "", name)
    if _MONEY.fullmatch(name):
        return ""
    slot = next(slots_in(f"{name.removeprefix('last_').removeprefix('final_')}: 0.5"), None)
    return slot.name if slot and not slot.name.startswith("speed/") and not name.startswith("best_") else ""


def _chart(file: CsvTable, columns: Mapping[str, Sequence[str]]) -> Table:
    """Return the rows of all runs of a chart of Weights & Biases: a column `RUN - METRIC` each."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for name, texts in columns.items():
        trial, _, written = name.rpartition(" - ")
        metric = "" if written.endswith(("__MIN", "__MAX")) else _metric(written)
        present = [(line, value) for line, value in zip(file.lines, _numbers(texts) or (), strict=False)]
        values = [(line, value) for line, value in present if value is not None] if trial and metric else []
        for epoch, (line, value) in enumerate(values, 1):
            rows.append({"trial": trial, f"{PARAM}run": trial, "epoch": epoch, metric: value})
            lines.append(line)
    if not rows:
        raise FileError([Problem(str(file.path), 1, 1, "", "no column RUN - METRIC has a metric")])
    names = dict.fromkeys(name for row in rows for name in row)
    table = Table(file.path, {name: [row.get(name) for row in rows] for name in names})
    table.lines = lines
    return table


def _check_numbers(file: CsvTable, columns: Mapping[str, Sequence[str]]) -> None:
    """Add a problem for each text in a column of numbers."""
    for name, texts in columns.items():
        if (_metric(name) or _time(name)) and name not in KNOWN:
            invalid = [(line, text) for line, text in zip(file.lines, texts, strict=True) if not _numbers([text, "0"])]
            for line, text in invalid if len(invalid) < len(texts) else ():
                file.problem(line, name, f"{text!r} is not a number")
        if (_time(name) or _RATE.fullmatch(name)) and (numbers := _numbers(texts)):
            for line, number in zip(file.lines, numbers, strict=True):
                if number is not None and (number < 0 or math.isinf(number)):
                    file.problem(line, name, f"{number:g} is not a {'time' if _time(name) else 'rate'}")


def _runs_in(columns: Mapping[str, Sequence[str]]) -> tuple[dict[str, Sequence[Any]], dict[tuple[Any, ...], list[int]]]:
    """Return the columns that tell the runs of a log apart, by their names in a table, and the places of each run."""
    which: dict[str, Sequence[Any]] = {}
    for written, texts in columns.items():
        name = {"gpu": "device", "accelerator": "device", "run": "repeat"}.get(written.lower(), alias(written))
        name = "trial" if written.lower() == "run" and not all(map(str.isdecimal, texts)) else name
        is_word = _numbers(texts) is None and all(texts) and not _PARTS_OF_DATA.issuperset(texts)
        if name in ("trial", "repeat", "seed", "device", "host") or name.startswith(PARAM):
            _converted(name, texts, which)
        elif is_word and not _is_moment(name, texts) and len({*texts}) < len(texts) / 2:
            which[name if name in KNOWN else f"{PARAM}{name}"] = texts
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate([*zip(*which.values(), strict=True)] or [()] * len(next(iter(columns.values())))):
        groups.setdefault(key, []).append(row)
    for name, texts in columns.items():  # settings that are no schedule
        is_new = alias(name) in CELL and alias(name) not in which
        if is_new and all(len({texts[row] for row in rows}) == 1 for rows in groups.values()):
            _converted(alias(name), texts, which)
    if not which.keys() - {"trial", "repeat", "seed"} and (names := which.get("trial")):
        stems = [re.sub(r"[-_ ]?\d+$", "", name) for name in names]
        if 1 < len({*stems}) < len({*names}):
            which[f"{PARAM}run"] = stems
    return which, groups


def _histories(
    file: CsvTable,
    columns: Mapping[str, Sequence[str]],
    which: Mapping[str, Sequence[Any]],
    groups: Mapping[Any, Sequence[int]],
) -> Table:
    """Return the logs of all runs in a file as one table, with the columns that tell them apart."""
    if len(groups) < 2:
        return history(file.path, columns)
    tables = [
        history(file.path, {n: [texts[r] for r in rows] for n, texts in columns.items()}) for rows in groups.values()
    ]
    warning = "The last numbers of names were taken for those of repeats" if f"{PARAM}run" in which else ""
    warning = ". ".join(filter(None, [tables[0].warning, warning]))
    table = Table(file.path, warning=warning, output_clock=tables[0].output_clock)
    for part, rows in zip(tables, groups.values(), strict=True):
        size, before = len(part.columns["epoch"]), len(table.lines)
        table.lines += [file.lines[rows[0]]] * size
        added = part.columns | {name: [values[rows[0]]] * size for name, values in which.items()}
        for name in {**table.columns, **added}:
            table.columns[name] = [*table.columns.get(name, [None] * before), *added.get(name, [None] * size)]
    return table


def history(path: Path, columns: Mapping[str, Sequence[str]]) -> Table:
    """Return a log with several lines of an epoch or step; each column has its last value of an epoch."""
    key = next(name for name in _PLACES if name in columns)
    rows: dict[float, dict[str, float]] = {}
    numbers = {name: column for name, texts in columns.items() if (column := _numbers(texts))}
    times = {name: time for name in numbers if name not in _ELAPSED and (time := _time(name))}
    clocks = (name for name in (*_ELAPSED, *times) if name in numbers)
    clock = next((name for name in clocks if name.startswith("_") or _grows(numbers[name])), "")
    steps = [step for step in numbers.get("step", ()) if step is not None]
    gaps = [later - earlier for earlier, later in pairwise(steps)]
    of_step = next((name for name, time in times.items() if time[1] == "step" and len(numbers[name]) == len(steps)), "")
    if gaps and of_step and not clock:
        clock = "_elapsed"  # each line has the time of one step
        taken = zip(numbers[of_step], [gaps[0], *gaps], strict=True)
        numbers[clock] = [*accumulate((step_s or 0.0) * gap * times[of_step][0] for step_s, gap in taken)]
    place = 0.0
    for values in zip(*numbers.values(), strict=True):
        present = {name: value for name, value in zip(numbers, values, strict=True) if value is not None}
        place = present.get(key, place)
        rows.setdefault(place, {}).update(present)
    metrics = {metric: name for name in numbers if not name.startswith("_") and (metric := _metric(name))}
    epochs: dict[str, list[Any]] = {"epoch": [*range(1, len(rows) + 1)]}
    epochs |= {metric: [epoch.get(name) for epoch in rows.values()] for metric, name in metrics.items()}
    if clock:
        begin_s = next(epoch[clock] for epoch in rows.values() if clock in epoch) if clock == "_timestamp" else 0.0
        last_s, epochs["elapsed_s"] = 0.0, []
        for epoch in rows.values():
            last_s = max(last_s, (epoch.get(clock, begin_s) - begin_s) * times.get(clock, (1.0, ""))[0])
            epochs["elapsed_s"].append(last_s)
    if not metrics and not clock:
        raise FileError([Problem(str(path), 1, 1, "", "no column is a time or a metric")])
    is_said = not clock or clock.startswith("_") or clock in ("elapsed_s", *_ELAPSED[2:4])
    said = "" if is_said else f"Column {clock} was taken for the seconds since training began"
    of_steps = OutputClock(label="step", shown="step", step=median(gaps)) if key == "step" and gaps else None
    return Table(path, epochs, warning=said, output_clock=of_steps)


def _never_falls(numbers: Sequence[float | None]) -> bool:
    present = [number for number in numbers if number is not None]
    return all(earlier <= later for earlier, later in pairwise(present))


def _rises(numbers: Sequence[float | None]) -> bool:
    present = [number for number in numbers if number is not None]
    return len(present) == len(numbers) and all(earlier < later for earlier, later in pairwise(present))


def _grows(numbers: Sequence[float | None]) -> bool:
    """Return whether a column is the time since a run began: that of each epoch does not grow with their number."""
    present = [number for number in numbers if number is not None]
    return len(present) > 1 and _rises(present) and present[-1] > 1.5 * present[0]


@dataclass
class _Columns:
    """The columns of a table with a line per run, by what they hold.

    Attributes:
        written: all columns, as text.
        table: those that raybench has, and metrics.
        settings: those that may be axes.
        times: times and rates: their order of preference, name, seconds of the unit, and what takes them.
        work: those that count the work of each run, by names of the table of epochs.
        failed: whether each run failed, by a column such as `exit_code`.
        unused: names of those that are neither.
        notes: on what was taken for granted or is not used.
    """

    path: Path
    written: Mapping[str, Sequence[str]]
    table: dict[str, Sequence[Any]]
    settings: dict[str, Sequence[Any]] = field(default_factory=dict)
    times: list[tuple[int, str, float, str]] = field(default_factory=list)
    work: dict[str, Sequence[Any]] = field(default_factory=dict)
    failed: list[bool] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    output_clock: OutputClock | None = None

    @property
    def size(self) -> int:
        """The number of runs."""
        return len(self.table["epoch"])

    def error(self, column: int, name: str, text: str) -> FileError:
        """Return an error at a column of the first line."""
        return FileError([Problem(str(self.path), 1, column, name, text)])


def _of_runs(path: Path, written: Mapping[str, Sequence[str]]) -> Table:
    """Return the rows of a table with a line per run."""
    columns = _Columns(path, written, {"epoch": [1] * len(next(iter(written.values())))})
    if {"steady_s", "epochs_done"} <= written.keys():
        text = "a table of raybench's trials, without the times of epochs; write `results.epochs` instead"
        raise columns.error(1, "", text)
    for name, texts in written.items():
        _sort(columns, name, texts)
    if any(columns.failed):
        status = columns.table.get("status") or [None] * columns.size
        states = zip(status, columns.failed, strict=True)
        ended = (None, TrialStatus.COMPLETED)
        columns.table["status"] = [TrialStatus.FAILED if fails and s in ended else s for s, fails in states]
    _choose_time(columns, _whole_time(columns))
    for name in written:
        columns.notes += part_taken(_metric(alias(name)), name, columns.table)
    _choose_axes(columns)
    _check_prices(columns)
    table = columns.table
    table.setdefault("trial", [f"{path.stem}:{number}" for number in range(1, columns.size + 1)])
    rows = Table(path, {n: c for n, c in table.items() if n in ("trial", "epoch") or any(v is not None for v in c)})
    rows.output_clock, rows.warning = columns.output_clock, ". ".join(columns.notes)
    return rows


def _failures(name: str, texts: Sequence[str]) -> list[bool] | None:
    """Return whether each run failed, if a column such as `error`, `exit_code` or `success` says it."""
    words, numbers = [text.lower() for text in texts], _numbers(texts)
    if name in ("error", "exception") and numbers is None:
        return [word not in {"", "nan", *_MISSING, *_NO} for word in words]
    if name in _EXITS and numbers:
        return [bool(number) for number in numbers]
    if name in ("success", "succeeded", "ok", "passed", "finished", "completed", "failed", "crashed") and {*words} <= {
        "",
        *_NO,
        *_YES,
    }:
        return [word in (_YES if name in ("failed", "crashed") else _NO) for word in words]
    return None


def _sort(columns: _Columns, written: str, texts: Sequence[str]) -> None:
    """Add a column to those that hold the same."""
    name, numbers = alias(written), _numbers(texts)
    name = "device_count" if name.lower() in _COUNTS and all(map(str.isdecimal, texts)) else name
    metric, rate, words = _metric(name), _RATE.fullmatch(name), [text.lower() for text in texts]
    time = None if rate else _time(name)
    if (failures := _failures(name.lower(), texts)) is not None:
        columns.failed = [*map(or_, columns.failed or failures, failures)]
        columns.notes += [f"Column {written} says which runs failed"] if any(failures) else []
    elif name.lower() in STATES or ({*words} <= {"", *_WORDS} and not _UNUSUAL.isdisjoint(map(_WORDS.get, words))):
        if _WORDS.keys() & {*words}:
            columns.table["status"] = [_WORDS.get(word, word) or None for word in words]
    elif (work := _WORK.get(name.lower())) and numbers and (most := max(number or 0 for number in numbers)) >= 1:
        missing = math.ceil(most) if work == "epoch" else None  # of a run that failed, which has a number none the less
        columns.work.setdefault(work, [math.ceil(number) if number else missing for number in numbers])
        if name == "epochs":
            _converted(name, texts, columns.table)
        else:
            columns.settings[name] = as_parameters(texts)
    elif time and numbers and (name not in KNOWN or name in (*TIMES, "wall_s")):
        order = 0 if name == "epochs_s" else 1 if time[1] == "run" else 2
        columns.times.append((order, written, *time))
    elif rate and numbers and name not in KNOWN:
        columns.times.append((3, written, 0.0, rate[1] or ""))
    elif (name == "host" and "host" in columns.table) or (name.lower() in _FREE_TEXT and any(texts)):
        columns.unused.append(written)
    elif name in OF_TRIALS and _converted(name, texts, columns.table):
        return
    elif metric and numbers:
        columns.table.setdefault(metric, numbers)
    elif (
        metric or time or (_MONEY.fullmatch(name) and (numbers or re.search("[$€£]", name))) or _is_moment(name, texts)
    ):
        columns.unused.append(written)
    elif (_are_dates(texts) and len({*texts}) == len(texts)) or not any(texts):
        return  # when each run was made, or nothing
    elif (name in OF_TRIALS or name not in _COMPUTED) and not _NO_SETTING.fullmatch(name):
        columns.settings[name.removeprefix(PARAM)] = as_parameters(texts)


def _are_dates(texts: Sequence[str]) -> bool:
    return all(map(_DATE.match, filter(None, texts)))


def _is_moment(name: str, texts: Sequence[str]) -> bool:
    """Return whether a column says when runs began or ended, by times of day."""
    is_named = any(texts) and not _MOMENTS.isdisjoint(_words_of(name))
    return is_named and not _are_dates(texts) and all(map(_moment, filter(None, texts)))


def _whole_time(columns: _Columns) -> str:
    """Add the time of whole runs if that of their training is in a column too, which stays; returns its name.

    Raises:
        FileError: names do not say which of two times is that of the training, or it is longer than the whole.
    """
    seconds: dict[str, Sequence[float]] = {}
    for order, name, factor, _ in sorted(columns.times, key=lambda time: time[1].startswith("_")):
        numbers = [(number or 0.0) * factor for number in _numbers(columns.written[name]) or ()]
        is_new = not any(
            all(map(partial(math.isclose, rel_tol=0.01), numbers, earlier)) for earlier in seconds.values()
        )
        if order < 2 and is_new and not (name.startswith("_") and seconds):  # of Weights & Biases
            seconds[name] = numbers
    training = [name for name in seconds if _kind(name) == "train_s"]
    wholes = [name for name in seconds if name not in training]
    if len(seconds) < 2:
        return ""
    if len(training) == len(wholes) == 1 and all(map(le, seconds[training[0]], seconds[wholes[0]])):
        columns.times = [time for time in columns.times if time[1] != wholes[0]]
        columns.table["wall_s"] = [whole_s or None for whole_s in seconds[wholes[0]]]
        return wholes[0]
    first, second = [*seconds][:2]
    text = f"a time of a run, as {first} is: name that of its training train_s, that of all of it wall_s, or remove one"
    raise columns.error(1 + [*columns.written].index(second), second, text)


def _choose_time(columns: _Columns, whole: str) -> None:
    """Add the time of each run from the best column with times or rates."""
    table, notes = columns.table, columns.notes
    order, written, factor, unit = min(columns.times, key=lambda time: time[0], default=(4, "", 0.0, ""))
    numbers = _numbers(columns.written.get(written, ())) or []
    has_metric = any("/" in name for name in table)
    if order > 1 and written and (has_metric or not unit):  # of a part of a run no time to a target can be told
        what = f"a time per {unit}" if order == 2 else "a rate"
        notes.append(f"Column {written} was not used: it is {what}; add the time of the whole run as a column time_s")
    elif order == 3:
        table |= {"train_s": [1 / rate if rate else None for rate in numbers], f"units/{unit}": [1] * columns.size}
        columns.output_clock = OutputClock(label=unit)
    elif written:
        table["train_s"] = [None if s is None else s * factor for s in numbers]
        columns.output_clock = OutputClock(label=unit) if order == 2 else OF_TRAINING if whole else None
        if whole:
            notes.append(f"Column {written} was taken for the time of training, {whole} for that of the whole run")
        if not _unit(written):
            notes.append(f"Column {written} was taken for seconds; write its unit, such as {written}_h")
    if not has_metric and "train_s" not in table:
        names = cut(", ".join(columns.written), 200)
        default = f"no column is a time or a metric among {names}; name them time_s and val/loss"
        raise columns.error(1, "", notes[0] if notes else default)
    if order < 2 or "train_s" not in table:
        table |= columns.work
    if order < 2 and (unequal := [name for name in ("epoch", "steps") if len({*table.get(name, ())}) > 1]):
        notes.append(f"Times are of whole runs, with different numbers of {unequal[0].removesuffix('s')}s")


def _choose_axes(columns: _Columns) -> None:
    """Add the settings that tell configurations apart: those whose values differ, and repeat."""
    table, settings = columns.table, columns.settings
    told_apart = OF_TRIALS - {"trial", "status", "repeat", "seed", "order", "price_per_hour"}
    columns_of_settings = [column for name, column in settings.items() if name.lower() not in _WORK]
    columns_of_settings = [column for column in columns_of_settings if len({*column}) < columns.size]
    columns_of_settings += [column for name, column in table.items() if name in told_apart]
    work = set()
    for name, column in settings.items():  # work that follows from other settings, or is not repeated, is a result
        combined = (
            {*zip(*columns_of_settings, column, strict=True)},
            {*zip(*columns_of_settings, [0] * columns.size, strict=True)},
        )
        if name.lower() in _WORK and (len(combined[0]) == len(combined[1]) or min(Counter(column).values()) < 2):
            work.add(name)
    varied = {name: column for name, column in settings.items() if len({*column}) > 1 and name not in work}
    repeated = {
        name: column
        for name, column in varied.items()
        if len({*column}) < max(3, columns.size) and not _is_result(name, column)
    }
    first = [(n, c) for n, c in varied.items() if not ({"seed", "repeat"} & table.keys() and _is_result(n, c))][:1]
    axes = repeated or ({} if told_apart & table.keys() else dict(first))
    columns.unused += [name for name, column in varied.items() if name not in axes and _is_fractional(column)]
    table |= {f"{PARAM}{name}": column for name, column in axes.items()}
    if columns.unused:
        names = ", ".join(columns.unused)
        columns.notes.append(f"Not used: {names} (known names: time_s, val/loss, val/accuracy, price_per_hour)")


def _check_prices(columns: _Columns) -> None:
    """Multiply prices of one device by their number, and say that `price` is one per hour."""
    table = columns.table
    if "price_per_hour" not in table:
        return
    if "price" in columns.written:
        columns.notes.append("Column price was taken for the price per hour")
    if all(count == 1 for count in table.get("device_count", ())):
        return
    if any(alias(name) == "price_per_hour" and "/gpu" in name.lower() for name in columns.written):
        pairs = zip(table["price_per_hour"], table["device_count"], strict=True)
        table["price_per_hour"] = [None if None in pair else pair[0] * pair[1] for pair in pairs]
    else:
        columns.notes.append("Prices are taken for those of all devices of a run; name that of one device $/gpu/h")


def _is_result(name: str, column: Sequence[Any]) -> bool:
    """Return whether an unknown column has results, not values of a setting: fractional numbers that differ."""
    return _is_fractional(column) and not _SETTINGS.fullmatch(name) and min(Counter(column).values()) < 2


def _is_fractional(column: Sequence[Any]) -> bool:
    return any(isinstance(value, float) and not value.is_integer() for value in column)


def _converted(name: str, texts: Sequence[str], table: dict[str, Sequence[Any]]) -> bool:
    """Add a column of raybench's tables if all its values are valid, and return whether they are."""
    try:
        values = {text: value_of(name, text) for text in {*texts}}
    except ValueError:
        return False
    table[name] = [values[text] for text in texts]
    return True

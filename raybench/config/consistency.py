"""Checks of the parts of a grid against each other: axes, devices, rules, baseline and target."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from pathlib import Path as Folder
from typing import Any

from raybench.config.command_parameters import unknown_output
from raybench.config.error_messages import cut, device_alias, flow, nearest
from raybench.config.function_parameters import wrong_parameters
from raybench.config.grid import GridSpec
from raybench.config.setting_types import Settings
from raybench.config.yaml_document import Path
from raybench.core.identity import AFTERWARDS
from raybench.core.settings import PARAM
from raybench.devices import KINDS
from raybench.errors import WorkloadError

Finding = tuple[Path, str]

MAX_TRIALS = 10_000
"""Maximum trials of one grid: of a minute each, they take a week on one machine."""


def findings(spec: GridSpec, raw: Mapping[str, Any], invalid: Set[Path], base: Folder) -> Iterator[Finding]:
    """Every contradiction, with the path of its value.

    Args:
        spec: the grid, without the invalid parts.
        raw: the file's data.
        invalid: paths of values reported as invalid and left out of `spec`; findings that need them are skipped.
        base: the folder of the file.
    """
    yield from _twice(spec, raw)
    if not _misspelt("devices", raw, invalid):
        yield from _devices(spec, raw)
    if not _misspelt("axes", raw, invalid):
        yield from _rules(spec, invalid)
    too_many = too_many_trials(spec)
    if too_many:
        yield ("repeats" if spec.repeats > MAX_TRIALS else "axes",), too_many
    metric = unknown_metric(spec, base)
    if metric:
        yield ("target", "metric"), metric
    if not invalid:
        yield from wrong_parameters(spec, base)
    if spec.stop_at_target and "target" not in raw and not _misspelt("target", raw, invalid):
        yield ("stop_at_target",), "needs a target; add one, such as `target: {metric: val/accuracy, at_least: 0.9}`"


def too_many_trials(spec: GridSpec) -> str | None:
    """The message if the grid has too many trials, with the factors of their number; else None.

    Excluded points are counted, and `device: available` counts as one device.
    """
    sizes = {"device": 1} | {name: 1 if values == "available" else len(values) for name, values in spec.axes.items()}
    points = math.prod(sizes.values())
    included = sum(math.prod(size for name, size in sizes.items() if name not in entry) for entry in spec.include)
    trials = (points + included) * spec.repeats
    if trials <= MAX_TRIALS:
        return None
    factors = " × ".join(f"{size:,} {name}" for name, size in sizes.items() if size > 1) or "1 cell"
    plus = f" + {included:,} of include" if included else ""
    return (
        f"{trials:,} trials ({factors}{plus}; {spec.repeats:,} repeats) are more than the maximum of {MAX_TRIALS:,}; "
        "use fewer values or repeats"
    )


def unknown_metric(spec: GridSpec, base: Folder) -> str | None:
    """The message if the workload has no metric of the target's name; None if it has, or if this is unknown."""
    try:
        info = spec.read_workload(base) if spec.target else None
        if spec.target and info and info.command:
            return unknown_output(info, spec.target.metric)
        names = info.metric_names if info else ()
    except (WorkloadError, OSError):
        return None  # a workload that cannot be read is an error of its own
    metrics = [f"{split}/{name}" for split in ("val", "train") for name in (*names, "loss")]
    if not names or not spec.target or spec.target.metric in metrics:
        return None
    split, _, name = spec.target.metric[:100].rpartition("/")
    matches = get_close_matches(name, [*names, "loss"], 1, 0.5)
    hint = (
        f"did you mean {split if split == 'train' else 'val'}/{matches[0]}?"
        if matches
        else f"use one of {', '.join(metrics)}"
    )
    return f"{cut(str(spec.workload))} has no metric {cut(repr(spec.target.metric))}; {hint}"


def _misspelt(section: str, raw: Mapping[str, Any], invalid: Set[Path]) -> bool:
    """Return whether an unknown key may be this section, which is missing."""
    return section not in raw and any(len(path) == 1 and nearest(str(path[0]), [section]) for path in invalid)


def _twice(spec: GridSpec, raw: Mapping[str, Any]) -> Iterator[Finding]:
    axes = raw.get("axes")
    for name in Settings.model_fields:
        if isinstance(axes, Mapping) and name in axes and name in raw:
            yield (name,), "both an axis and a fixed value; remove one"
    for name in spec.params:
        if f"{PARAM}{name}" in spec.axes:
            yield ("params", name), "both an axis and a fixed value; remove one"
    for name in AFTERWARDS & spec.axes.keys():
        message = f"does not affect training and cannot be an axis; set `{name}: {spec.axes[name][0]}` at the top level"
        yield ("axes", name), message
    for name, values in spec.axes.items():
        seen: set[str] = set()
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if repr(value) in seen:
                yield ("axes", name, index), f"{cut(flow(value))} is on the axis twice; remove one"
            seen.add(repr(value))


def _devices(spec: GridSpec, raw: Mapping[str, Any]) -> Iterator[Finding]:
    declared = raw.get("devices", {})
    if not isinstance(declared, Mapping):
        return
    axis = spec.axes.get("device")
    references: list[tuple[Path, str]] = []
    if isinstance(axis, list):
        references += [(("axes", "device", index), name) for index, name in enumerate(axis)]
    for index, entry in enumerate(spec.include):
        if "device" in entry:
            references.append((("include", index, "device"), entry["device"]))
    for path, name in references:
        if name not in declared and name not in KINDS:
            hint = nearest(name, declared) or ("" if device_alias(name) else nearest(name.lower(), KINDS))
            declare = f"; declare it, such as `devices: {{gpu: {{kind: cuda}}}}`, or use one of {', '.join(KINDS)}"
            yield path, f"unknown device {cut(repr(name))}{hint or declare}"


def _rules(spec: GridSpec, invalid: Set[Path]) -> Iterator[Finding]:
    """Rules must use existing axes and their values."""
    axes = _Axes(spec, invalid)
    for index, entry in enumerate(spec.include):
        if not entry and ("include", index) not in invalid:
            yield ("include", index), "is empty; add an axis or a setting, or remove it"
    for index, rule in enumerate(spec.exclude):
        if not rule and ("exclude", index) not in invalid:
            yield ("exclude", index), "is empty and would exclude every cell; add an axis or remove it"
        yield from axes.check(("exclude", index), rule, included=False)
    for index, override in enumerate(spec.overrides):
        if ("overrides", index) not in invalid:
            if not override.when:
                yield ("overrides", index, "when"), "is empty; move settings of all cells to the top level"
            yield from axes.check(("overrides", index, "when"), override.when, included=True)
    yield from axes.check(("baseline",), {name: [value] for name, value in spec.baseline.items()}, included=True)


class _Axes:
    """The values on each axis, and those that `include` adds."""

    def __init__(self, spec: GridSpec, invalid: Set[Path]) -> None:
        self._invalid = any(path[0] == "axes" for path in invalid)
        self._include_invalid = any(path[0] == "include" for path in invalid)
        self._axes: dict[str, list[Any]] = {
            name: list(KINDS) if values == "available" else values for name, values in spec.axes.items()
        }
        if not self._invalid:
            self._axes.setdefault("device", ["cpu"])
        self._more = {name: list(values) for name, values in self._axes.items()}
        for entry in spec.include:
            for name, value in entry.items():
                self._more.setdefault(name, []).append(value)
        self._keys = {
            included: {name: {repr(value) for value in values} for name, values in table.items()}
            for included, table in ((False, self._axes), (True, self._more))
        }

    def check(self, rule_path: Path, rule: Mapping[str, Sequence[Any]], included: bool) -> Iterator[Finding]:
        axes, keys = (self._more if included else self._axes), self._keys[included]
        for name, values in rule.items():
            if self._invalid and name not in self._axes:
                continue
            if name not in axes:
                if not (included and self._include_invalid):
                    yield (*rule_path, name), f"not an axis of this grid; its axes are {', '.join(axes)}"
                continue
            for index, value in enumerate(values):
                if repr(value) not in keys[name] and not (included and self._include_invalid):
                    path = (*rule_path, name, index) if len(values) > 1 else (*rule_path, name)
                    yield path, f"{cut(flow(value))} is not on the axis {name}; its values are {_listed(axes[name])}"


def _listed(values: Sequence[Any]) -> str:
    text = ", ".join(map(flow, values[:8]))
    return f"{text}, …" if len(values) > 8 else text

"""What each part of a grid says of the others: axes, devices, rules, the baseline and the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, get_args

from raybench.spec.messages import cut, flow, nearest
from raybench.spec.models import GridSpec
from raybench.spec.settings import Settings
from raybench.spec.values import Kind
from raybench.spec.yaml_lines import Path

Finding = tuple[Path, str]

KINDS: tuple[str, ...] = get_args(Kind)
_DECLARE = f"; declare it, such as devices: {{gpu: {{kind: cuda}}}}, or use a kind: {', '.join(KINDS)}"


def findings(spec: GridSpec, written: Mapping[str, Any], doubted: Set[Path]) -> Iterator[Finding]:
    """Everything that does not fit together, with the path of the offending value.

    Args:
        spec: the grid, without the parts in doubt.
        written: the file's data.
        doubted: the paths of what is wrong already and left out of `spec`; nothing is said that rests on them.
    """
    yield from _twice(spec, written)
    if not _misspelt("devices", written, doubted):
        yield from _devices(spec, written)
    if not _misspelt("axes", written, doubted):
        yield from _rules(spec, doubted)
    if "target" not in written and not _misspelt("target", written, doubted):
        asking = {"stop_at_target": spec.stop_at_target, "study": spec.study == "factored"}
        for name in (name for name, asked in asking.items() if asked):
            yield (name,), "there is no target; add one, such as {metric: val/accuracy, at_least: 0.9}"


def _misspelt(section: str, written: Mapping[str, Any], doubted: Set[Path]) -> bool:
    """Whether an unknown key of the file may well be this section, which is not there."""
    return section not in written and any(len(path) == 1 and nearest(str(path[0]), [section]) for path in doubted)


def _twice(spec: GridSpec, written: Mapping[str, Any]) -> Iterator[Finding]:
    axes = written.get("axes")
    for name in Settings.model_fields:
        if isinstance(axes, Mapping) and name in axes and name in written:
            yield (name,), "on the axis and fixed: say it once"
    for name, values in spec.axes.items():
        seen: set[str] = set()
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if repr(value) in seen:
                yield ("axes", name, index), f"{cut(flow(value))} is on the axis twice"
            seen.add(repr(value))


def _devices(spec: GridSpec, written: Mapping[str, Any]) -> Iterator[Finding]:
    declared = written.get("devices", {})
    if not isinstance(declared, Mapping):
        return
    axis = spec.axes.get("device")
    used: list[tuple[Path, str]] = []
    if isinstance(axis, list):
        used += [(("axes", "device", index), name) for index, name in enumerate(axis)]
    for index, entry in enumerate(spec.include):
        if "device" in entry:
            used.append((("include", index, "device"), entry["device"]))
    for path, name in used:
        if name not in declared and name not in KINDS:
            # To difflib, gpu is nearly tpu.
            near = nearest(name, declared) or ("" if name == "gpu" else nearest(name, KINDS))
            yield path, f"unknown device {cut(repr(name))}{near or _DECLARE}"


def _rules(spec: GridSpec, doubted: Set[Path]) -> Iterator[Finding]:
    """Rules name axes that are there, and values that are on them."""
    axes = _Axes(spec, doubted)
    for index, entry in enumerate(spec.include):
        if not entry and ("include", index) not in doubted:
            yield ("include", index), "names no axis and no setting, so it adds nothing"
    for index, rule in enumerate(spec.exclude):
        if not rule and ("exclude", index) not in doubted:
            yield ("exclude", index), "names no axis, so it would take out every point"
        yield from axes.check(("exclude", index), rule, included=False)
    for index, override in enumerate(spec.overrides):
        if ("overrides", index) not in doubted:
            if not override.when:
                yield ("overrides", index, "when"), "names no axis; what holds for every cell stands at the top level"
            yield from axes.check(("overrides", index, "when"), override.when, included=True)
    yield from axes.check(("baseline",), {name: [value] for name, value in spec.baseline.items()}, included=True)


class _Axes:
    """The values on each axis, and those that `include` adds."""

    def __init__(self, spec: GridSpec, doubted: Set[Path]) -> None:
        self._doubted = any(path[0] == "axes" for path in doubted)
        self._include_doubted = any(path[0] == "include" for path in doubted)
        self._axes: dict[str, list[Any]] = {
            name: list(KINDS) if values == "available" else values for name, values in spec.axes.items()
        }
        if not self._doubted:
            self._axes.setdefault("device", ["cpu"])
        self._more = {name: list(values) for name, values in self._axes.items()}
        for entry in spec.include:
            for name, value in entry.items():
                self._more.setdefault(name, []).append(value)
        self._keys = {
            included: {name: {repr(value) for value in values} for name, values in table.items()}
            for included, table in ((False, self._axes), (True, self._more))
        }

    def check(self, at: Path, rule: Mapping[str, Sequence[Any]], included: bool) -> Iterator[Finding]:
        there, keys = (self._more if included else self._axes), self._keys[included]
        for name, wanted in rule.items():
            if self._doubted and name not in self._axes:
                continue
            if name not in there:
                if not (included and self._include_doubted):
                    yield (*at, name), f"{name} is no axis of this grid; its axes are {', '.join(there)}"
                continue
            for index, value in enumerate(wanted):
                if repr(value) not in keys[name] and not (included and self._include_doubted):
                    place = (*at, name, index) if len(wanted) > 1 else (*at, name)
                    yield place, f"{cut(flow(value))} is not on the axis {name} ({_listed(there[name])})"


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(map(flow, values[:8]))
    return f"{shown}, …" if len(values) > 8 else shown

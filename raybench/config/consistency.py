"""Checks of the parts of a grid against each other: axes, devices, rules, baseline and target."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raybench.config.command import GridCommand
from raybench.config.error_messages import SHOWN, device_alias, excerpt, flow
from raybench.config.grid import GridSpec
from raybench.config.parameters import GridFault
from raybench.config.yaml_document import KeyPath
from raybench.core.identity import AFTERWARDS
from raybench.devices import KINDS
from raybench.errors import close
from raybench.workloads.command import MARKS

MAX_TRIALS = 10_000  # maximum trials of one grid: of a minute each, they take a week on one machine


def contradictions(spec: GridSpec) -> Iterator[GridFault]:
    """Yield every contradiction in a grid whose single values are valid."""
    if spec.name.lower() in ("mlflow.db", "mlartifacts"):
        yield ("name",), "is that of MLflow's files in the results folder; choose a different name"
    for path, name, _ in spec.given():
        if name in spec.axes and path[0] not in ("axes", "include"):
            yield path, "both an axis and a fixed value; remove one"
    for name in AFTERWARDS & spec.axes.keys():
        message = f"does not affect training and cannot be an axis; set `{name}: {spec.axes[name][0]}` at the top level"
        yield ("axes", name), message
    for name, values in spec.axes.items():
        keys = [repr(value) for value in values]  # unlike in Python, 1 and true are different
        for key, count in Counter(keys).items():
            if count > 1 and values != "available":
                index = keys.index(key, keys.index(key) + 1)
                yield ("axes", name, index), f"{excerpt(flow(values[index]))} is on the axis twice; remove one"
    yield from _devices(spec)
    yield from _rules(spec)
    yield from _size(spec)
    if spec.budget and spec.rule:
        yield (("repeats",), "`until` is for speeds, but a budget compares qualities; give a number of repeats")
    if spec.flops_per_token and spec.flops_per_example:
        yield ("flops_per_example",), "flops_per_token is set, too; remove one"
    if spec.flops_precision and not (spec.flops_per_token or spec.flops_per_example):
        yield ("flops_precision",), "needs flops_per_token or flops_per_example"
    if isinstance(spec.workload, GridCommand):
        yield from _metrics(spec.workload)
    if spec.stop_at_target and not spec.target:
        yield ("stop_at_target",), "needs a target; add one, such as `target: {metric: val/accuracy, at_least: 0.9}`"
    if spec.stop_at_target and spec.target and spec.target.of == "mean":
        yield ("target", "of"), "runs that stop at the target have no fixed length; remove stop_at_target"


def _metrics(command: GridCommand) -> Iterator[GridFault]:
    for name in command.metrics:
        if name in MARKS:
            yield ("workload", "metrics", name), f"not a metric; write `{name}: …` next to `metrics`"
        elif name != command.time and "/" not in name.strip("/"):
            yield ("workload", "metrics", name), f"name the data, such as train/{name[:60]} or val/{name[:60]}"
    if command.time and command.time not in command.metrics:
        hint = close(command.time, command.metrics) or "add it to `metrics`"
        yield ("workload", "time"), f"there is no {command.time[:60]!r}; {hint}"


def _size(spec: GridSpec) -> Iterator[GridFault]:
    """Too many trials; excluded points are counted, and `device: available` counts as one device."""
    sizes = {name: len(values) for name, values in spec.values(included=False).items()}
    sizes |= {"device": 1} if spec.axes.get("device") == "available" else {}
    points = math.prod(sizes.values())
    included = sum(math.prod(size for name, size in sizes.items() if name not in entry) for entry in spec.include)
    trials = (points + included) * spec.most_repeats
    if trials > MAX_TRIALS:
        key = "repeats" if spec.most_repeats > MAX_TRIALS else "axes"
        yield (key,), f"{trials:,} trials are more than the maximum of {MAX_TRIALS:,}; use fewer values or repeats"


def _devices(spec: GridSpec) -> Iterator[GridFault]:
    """Devices that do not exist, and declared ones that no cell uses."""
    axis = spec.values(included=False)["device"]
    named: dict[KeyPath, str] = {("axes", "device", index): name for index, name in enumerate(axis)}
    named |= {("include", at, "device"): entry["device"] for at, entry in enumerate(spec.include) if "device" in entry}
    unknown = {path: name for path, name in named.items() if name not in spec.devices and name not in KINDS}
    for path, name in unknown.items():
        near = close(name, spec.devices) or ("" if device_alias(name) else close(name.lower(), KINDS))
        declare = f"declare it, such as `devices: {{gpu: {{kind: cuda}}}}`, or use one of {', '.join(KINDS)}"
        yield path, f"unknown device {excerpt(repr(name))}; {near or declare}"
    if spec.devices and not unknown and not spec.devices.keys() & named.values():
        names = ", ".join(map(flow, spec.devices))
        message = f"no configuration runs on these devices; list them as an axis: `axes: {{device: [{names}]}}`"
        yield ("devices",), message


def _rules(spec: GridSpec) -> Iterator[GridFault]:
    """Rules must use existing axes and their values."""
    rules: list[tuple[KeyPath, Mapping[str, Sequence[Any]]]]
    rules = [(("overrides", index, "when"), override.when) for index, override in enumerate(spec.overrides)]
    baseline = {name: [value] for name, value in spec.baseline.items()}
    yield from _not_on(spec.values(included=True), [*rules, (("baseline",), baseline)])
    yield from _not_on(
        spec.values(included=False), [(("exclude", index), rule) for index, rule in enumerate(spec.exclude)]
    )


def _not_on(
    axes: Mapping[str, Sequence[Any]], rules: Sequence[tuple[KeyPath, Mapping[str, Sequence[Any]]]]
) -> Iterator[GridFault]:
    keys = {name: set(map(repr, values)) for name, values in axes.items()}
    for path, rule in rules:
        for name, values in rule.items():
            if name not in axes:
                yield (*path, name), f"{name} is not an axis of this grid; its axes are {', '.join(axes)}"
                continue
            for index, value in enumerate(values):
                if repr(value) not in keys[name]:
                    listed = ", ".join(map(flow, axes[name][:SHOWN])) + (", …" if len(axes[name]) > SHOWN else "")
                    at = (*path, name, index) if len(values) > 1 else (*path, name)
                    yield at, f"{excerpt(flow(value))} is not on the axis {name}; its values are {listed}"

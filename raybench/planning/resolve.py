"""Resolve a point of the grid to a cell: settings, identity, placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from raybench import datasets, engines
from raybench.config import DeviceProfile, GridSpec
from raybench.config import Settings as GridSettings
from raybench.config.prices import Price
from raybench.core.cell import VERSION_AXIS, Cell, CellDevice, CellEngine, ComparedVersion
from raybench.core.identity import digest
from raybench.core.origin import Origin
from raybench.core.settings import MISSING, PARAM, SETTINGS
from raybench.devices import frameworks, hosted
from raybench.devices.energy import energy_problem
from raybench.devices.power_limit import power_limit_problem
from raybench.engines.loop_facts import recognize
from raybench.environments import recipe_for
from raybench.errors import WorkloadError, nearest
from raybench.planning.expand import Point, matches
from raybench.planning.node import Node
from raybench.planning.placement import NeedsNode, Placement, ResourceRequest, devices_and_replicas, find_placements
from raybench.results.run_table import price_of
from raybench.workloads import WorkloadInfo
from raybench.workloads.command import arithmetic, fill


class ModelFlops(NamedTuple):
    """FLOPs of the model that the grid states: per unit of work, and the number format of its matrix products."""

    unit: str
    per_unit: float
    precision: Any


@dataclass(frozen=True, eq=False)
class ResolvedCell:
    """A point of the grid, resolved.

    Attributes:
        axes: the point: each axis and its value.
        fit: the placement; None if the cell cannot run, and then `skip` is the reason.
        request_id: the digest of the request in the grid file, the same on machines on which its cells differ.
        flops: the FLOPs of its model, if the grid states them.
        wanted: the resources that no node has; None if it can run, or a further node would not help.
    """

    content: Cell
    axes: Mapping[str, Any]
    profile: str
    workload: WorkloadInfo
    fit: Placement | None = None
    skip: str | None = None
    timeout: float = 0.0
    price: Price | None = None
    memory_limit: int = 0
    checkpoint_every: int = 0
    repeats: int = 1
    request_id: str = ""
    flops: ModelFlops | None = None
    wanted: ResourceRequest | None = None

    @cached_property
    def cell_id(self) -> str:
        """The digest of its content."""
        return self.content.cell_id

    @property
    def without_version(self) -> str:
        """What the cells of all compared versions have in common."""
        return repr({**self.axes, VERSION_AXIS: None}) if VERSION_AXIS in self.axes else self.cell_id


def data_of(info: WorkloadInfo, root: Path) -> tuple[str | None, Mapping[str, int]]:
    """The digest and split sizes of a workload's data, if they are known."""
    if info.dataset is None:
        return None, {}
    dataset = datasets.get(info.dataset)
    status = dataset.status(root)
    return status.digest or dataset.official_digest, dataset.examples


class Resolver:
    """Turns the points of a grid into cells.

    A training function or a command has only the values that it uses; a declared workload has every setting.
    """

    def __init__(
        self,
        spec: GridSpec,
        info: WorkloadInfo,
        nodes: Sequence[Node],
        data: tuple[str | None, Mapping[str, int]],
        compared: ComparedVersion | None = None,
    ) -> None:
        """Args are the grid, its workload, the machines, `data_of` the workload, and the compared version, if any."""
        self._spec, self._info, self._nodes, self._compared = spec, info, nodes, compared or ComparedVersion()
        self._digest, self._available = data[0], dict(data[1])
        if info.held_out and self._available:
            self._available = {"train": self._available["train"] - info.held_out, "val": info.held_out}
        unlimited = {"epochs": MISSING} if spec.budget else {}
        self._defaults = info.cell_defaults | unlimited
        self._below = _explicit(spec)
        self._placement = cache(self._find_placements)
        self._settings_of = cache(lambda device: _explicit(spec.profile(device)))
        # An accuracy of the user's own may be in percent.
        target = spec.target.plain() if spec.target and "accuracy" in info.metric_names else None
        if target and target.in_percent:
            bound = max(target.at_least or 0, target.at_most or 0)
            message = f"{bound:g} is not allowed for accuracy; use a fraction from 0 to 1, such as {bound / 100:g}"
            raise spec.error("target", message)
        self._rules = [(rule.when, _explicit(rule.set)) for rule in spec.overrides]

    def cells(self, point: Point) -> list[ResolvedCell]:
        """The cells of a point: one for each kind of node that fits, or one without a placement."""
        profile, info = self._spec.profile(point["device"]), self._info
        framework = (*frameworks(profile.kind), "torch")[0] if info.libraries is None else recognize(info.libraries)
        given = self._below | self._settings_of(point["device"])
        given |= {name: value for name, value in point.items() if name != "device"}
        for when, changes in self._rules:
            if matches(point, when):
                given |= changes
        requested = {"framework": framework} | self._defaults | given
        need = self._need(profile, requested)
        places = self._placement(need)
        fits, skip = ([None], places) if isinstance(places, str) else (places, None)
        return [self._cell(point, given, requested, need, fit, skip) for fit in fits]

    def _cell(
        self,
        point: Point,
        given: Mapping[str, Any],
        requested: Mapping[str, Any],
        need: ResourceRequest,
        fit: Placement | None,
        skip: str | None,
    ) -> ResolvedCell:
        name, profile = point["device"], self._spec.profile(point["device"])
        devices, replicas = (fit.devices, fit.replicas) if fit else devices_and_replicas(need, "")
        resolved = {**requested, "replicas": replicas} | self._batch_sizes(given, requested, devices)
        skip = self._unsupported(profile.kind, resolved) or skip or self._beyond_machine(profile.kind, resolved, fit)
        is_told = devices > 1 or self._info.tells_devices(given)
        device = self._device(profile, resolved, fit, devices if is_told else MISSING)
        price = self._price(name, device)
        content = self._content(device, self._budget(name, price, resolved), resolved, fit)
        return ResolvedCell(
            content=content,
            axes=point,
            profile=name,
            workload=self._info,
            fit=fit,
            skip=skip,
            timeout=float(resolved.get("timeout") or 0.0),
            price=price,
            memory_limit=self._memory_limit(name, profile.kind, resolved),
            checkpoint_every=int(resolved.get("checkpoint_every") or 0),
            repeats=min(self._spec.most_repeats, profile.repeats or self._spec.most_repeats),
            request_id=digest(self._request(profile, requested, content)),
            flops=self._flops(resolved),
            wanted=need if isinstance(skip, NeedsNode) else None,
        )

    def _price(self, name: str, device: CellDevice) -> Price | None:
        profile, model = self._spec.profile(name), str(device.model or "").casefold()
        is_of_model = hosted(profile.kind) or profile.accelerator_type or not model or name.casefold() in model
        origin = Origin.SAID if is_of_model else Origin.ASSUMED
        per_hour = profile.price_per_hour
        of_grid = None if per_hour is None else Price(per_hour, "the grid file", origin).of_all(device)
        return self._spec.prices.price(name, device, of_grid, self._spec.currency)

    def _flops(self, resolved: Mapping[str, Any]) -> ModelFlops | None:
        """The FLOPs that the grid states, with the values of a cell."""
        spec = self._spec
        key, unit = ("flops_per_token", "tokens") if spec.flops_per_token else ("flops_per_example", "examples")
        text = spec.flops_per_token or spec.flops_per_example
        if text is None:
            return None
        values = {name.removeprefix(PARAM): value for name, value in resolved.items()}
        try:
            flops = arithmetic(text, values)
            written = fill(spec.flops_precision or str(resolved.get("precision", "fp32")), values)
        except KeyError as error:
            name = error.args[0]
            raise spec.error(key, f"no value for {{{name}}}; {nearest(name, values)}") from None
        precision = TORCH_NAMES.get(written, written)
        if not flops or flops <= 0:
            raise spec.error(key, f"{fill(text, values)} is not a number above 0")
        if precision not in PRECISION_NAMES:
            key = "flops_precision" if spec.flops_precision else "precision"
            raise spec.error(
                key, f"{written} is not a precision whose peak is measured; {nearest(written, PRECISION_NAMES)}"
            )
        return ModelFlops(unit, flops, precision)

    def _request(self, profile: DeviceProfile, resolved: Mapping[str, Any], content: Cell) -> Mapping[str, Any]:
        """The request in the grid file: the cell without values that depend on the training machine."""
        request = {name: value for name, value in content.identity().items() if name != "engine"}
        request["device"] = {
            "kind": profile.kind,
            "accelerator_type": profile.accelerator_type,
            **{name: resolved.get(name) for name in ("count", "replicas", "threads", "cpus", "environment")},
            **({"nodes": resolved["nodes"]} if resolved["nodes"] > 1 else {}),
            **({"resources": profile.resources} if profile.resources else {}),
        }
        request["workload"] = {"name": self._info.name, "version": self._info.version}
        request["data"] = {"name": content.data.name, "examples": resolved.get("examples") or {}}
        return request

    def _batch_sizes(self, given: Mapping[str, Any], resolved: Mapping[str, Any], devices: int) -> dict[str, int]:
        """The size of a batch over all devices and on each, of which one is given."""
        total, part = "batch_size", "per_device_batch_size"
        if total in given and part in given:
            raise self._spec.error(part, f"{total} is set, too; remove one")
        if total not in given and resolved.get(part):
            return {total: resolved[part] * devices}
        batch = resolved.get(total)
        if not isinstance(batch, int) or (batch % devices and part not in self._info.arguments):
            return {}
        if batch % devices:
            raise self._spec.error(total, f"{batch} is not a multiple of the {devices} devices")
        return {part: batch // devices}

    def _find_placements(self, need: ResourceRequest) -> list[Placement] | str:
        """The placements of a trial; if its framework is not installed, in the environment built for it."""
        result = find_placements(need, self._nodes)
        recipe = recipe_for(need.framework, need.kind)
        if isinstance(result, str) and recipe and not need.environment:
            alternative = find_placements(replace(need, environment=recipe.name), self._nodes)
            return result if isinstance(alternative, str) else alternative
        return result

    def _memory_limit(self, name: str, kind: str, resolved: Mapping[str, Any]) -> int:
        limit = int(resolved.get("memory_limit") or 0)
        if limit and not hosted(kind):
            message = (
                f"does not apply to {name}, whose kind {kind} has its own memory; set it only for devices on the CPU"
            )
            raise self._spec.error("memory_limit", message)
        return limit

    def _unsupported(self, kind: str, resolved: Mapping[str, Any]) -> str | None:
        """The reason why the command, or raybench's engine of the framework, cannot train this cell, or None."""
        if reason := self._info.without_effect(resolved, hosted(kind)):
            return reason
        framework = resolved["framework"]
        if not self._info.frameworks or framework not in engines.ENGINES:
            return None
        if engines.FRAMEWORKS[framework].models not in self._info.frameworks:
            return f"{self._info.name} has no {framework} model"
        return engines.unimplemented(framework, resolved) or None

    def _beyond_machine(self, kind: str, resolved: Mapping[str, Any], fit: Placement | None) -> str | None:
        """The reason why energy cannot be measured, or power not be limited, on this machine; None for a cluster."""
        is_here = bool(fit and any(node.name in fit.nodes and not node.address for node in self._nodes))
        needs_energy = is_here and self._spec.budget and self._spec.budget.energy is not None
        if needs_energy and (reason := energy_problem(kind)):
            return f"a budget of energy needs a counter: {reason}"
        watts = resolved.get("power_limit")
        return power_limit_problem(kind, watts, is_here) or None if watts else None

    def _budget(self, device: str, price: Price | None, resolved: Mapping[str, Any]) -> dict[str, Any] | None:
        """The budget of a cell; a price is that of so many seconds, FLOPs are those of so much work."""
        budget = self._spec.budget
        if not budget:
            return None
        if budget.energy is not None:
            return {"joules": budget.energy}
        if budget.is_of_work:
            return self._work_budget(resolved)
        if budget.price is not None and not (price and price.per_hour):
            example = f"`devices: {{{device}: {{kind: {self._spec.profile(device).kind}, price_per_hour: 0.35}}}}`"
            raise self._spec.error("budget", f"needs the price of {device}; give it one, such as {example}")
        price_per_s = price_of(1.0, price.per_hour) if price else None
        seconds = budget.time or round((budget.price or 0.0) / (price_per_s or 1.0), 3)
        return {"seconds": seconds} | ({"compile": False} if budget.compile == "excluded" else {})

    def _work_budget(self, resolved: Mapping[str, Any]) -> dict[str, Any]:
        assert self._spec.budget
        ((unit, amount),) = self._spec.budget.amount.items()
        if not self._info.counts_work:
            raise self._spec.error("budget", f"of {unit} needs a training that counts them while it runs; set `epochs`")
        if unit != "flops":
            return {"work": amount, "unit": unit}
        flops = self._flops(resolved)
        if flops is None:
            raise self._spec.error("budget", "of flops needs `flops_per_token` or `flops_per_example`")
        return {"work": amount / flops.per_unit, "unit": flops.unit}

    def _need(self, profile: DeviceProfile, resolved: Mapping[str, Any]) -> ResourceRequest:
        precision = resolved.get("precision")
        if precision not in PRECISION_NAMES:  # values of the user's own parameter
            precision = "fp32"
        return ResourceRequest(
            kind=profile.kind,
            framework=resolved["framework"],
            precision=str(precision),
            replicas=resolved.get("replicas"),
            count=resolved["count"],
            nodes=resolved["nodes"],
            cpus=resolved.get("cpus") or 0,
            accelerator_type=profile.accelerator_type,
            resources=tuple(sorted((profile.resources or {}).items())),
            data=(self._info.dataset, self._digest) if self._info.dataset else None,
            environment=self._spec.environment_key(resolved.get("environment")),
            form=type(self._info),
        )

    def _device(
        self, profile: DeviceProfile, resolved: Mapping[str, Any], fit: Placement | None, devices: Any
    ) -> CellDevice:
        cpus: Any = fit.cpus if fit else resolved.get("cpus")  # None if no node fits
        return CellDevice(
            kind=profile.kind,
            model=fit.hardware.model if fit else profile.accelerator_type,
            count=(fit.accelerators or fit.cpus) if fit else resolved["count"],
            replicas=resolved["replicas"],
            threads=resolved.get("threads") or cpus,
            devices=devices,
            nodes=resolved["nodes"] if resolved["nodes"] > 1 else MISSING,
            resources=profile.resources or MISSING,
            power_limit=resolved.get("power_limit") or MISSING,
        )

    def _content(
        self, device: CellDevice, budget: Mapping[str, Any] | None, resolved: Mapping[str, Any], fit: Placement | None
    ) -> Cell:
        framework = resolved["framework"]
        try:
            data = self._info.data(resolved, self._digest, self._available)
            settings, params = self._info.values(resolved, _irrelevant(resolved))
        except WorkloadError as error:
            raise self._spec.error(error.field, str(error)) from None
        engine = CellEngine(
            name=framework,
            framework_version=".".join(fit.framework_version.split(".")[:2]) if fit else None,
            libraries=MISSING if self._info.libraries is None else self._libraries(framework, fit),
            environment=resolved.get("environment") or MISSING,
            lock=(fit.lock if fit else "") or MISSING,
        )
        target = self._spec.target if self._spec.stop_at_target else None
        return Cell(
            data=data,
            device=device,
            engine=engine,
            framework=framework,
            settings=settings,
            warmup_epochs=resolved["warmup_epochs"],
            workload=self._info.identity(),
            seed=self._spec.seed,
            stop_at_target=target.model_dump(exclude_none=True, exclude={"of", "level"}) if target else None,
            budget=budget,
            compared=self._compared,
            params=params,
        )

    def _libraries(self, framework: str, fit: Placement | None) -> dict[str, str]:
        """Versions of further libraries that the files import; unknown in a different environment."""
        if fit is None or fit.environment:
            return {}
        distributions = _distributions()
        packages = {name: distributions[name][0] for name in self._info.libraries or () if name in distributions}
        return {
            name: ".".join(metadata.version(package).split(".")[:2])
            for name, package in packages.items()
            if package != engines.FRAMEWORKS[framework].package
        }


TORCH_NAMES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # names that programs give to number formats
PRECISION_NAMES = SETTINGS["precision"].names  # values of `precision` that a device may lack


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The distributions of each installed module; looking them up takes half a second."""
    return metadata.packages_distributions()


def _irrelevant(resolved: Mapping[str, Any]) -> frozenset[str]:
    """The settings that others make ineffective; they are not part of the cell."""
    single_replica = {"decay_rule"} if resolved["replicas"] == 1 else set()
    return engines.FRAMEWORKS[resolved["framework"]].ignores | single_replica


def _explicit(settings: GridSettings) -> dict[str, Any]:
    """The settings and parameters written by the user, without defaults, as axes are called."""
    params = {f"{PARAM}{name}": value for name, value in getattr(settings, "params", {}).items()}
    return settings.model_dump(include=settings.model_fields_set & SETTINGS.keys()) | params

"""Resolve a point of the grid to a cell: settings, identity, placement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from raybench import datasets, engines
from raybench.config import CellSettings, DeviceProfile, GridSpec
from raybench.config import Settings as GridSettings
from raybench.core.cell import Cell, CellData, CellDevice, CellEngine, Examples
from raybench.core.identity import DigestTemplate, canonical, identifying
from raybench.core.settings import DEFAULTS, PARAM, SETTINGS, Settings
from raybench.devices import frameworks, hosted
from raybench.environments import recipe_for
from raybench.errors import UsageError
from raybench.planning import smoke
from raybench.planning.cell import make_cell
from raybench.planning.expand import Point, matches
from raybench.planning.node import Node
from raybench.planning.placement import Placement, ResourceRequest, find_placement, unsupported_reason
from raybench.planning.validate import check_training, model_options, place
from raybench.workloads import WorkloadInfo

Conversion = Callable[[Any], Any]
"""The conversion of a value on an axis to that in a cell."""


@dataclass(frozen=True, eq=False)
class CellGroup:
    """The common part of cells that differ only in `own` values, which affect no other part of a cell.

    Attributes:
        profile: the device profile's name.
        content: the content of one of the cells.
        fit: the placement; None if the cells cannot run, and then `skip` is the reason.
        repeats: requested number of runs.
        own: the axes in whose values the cells differ, each with the conversion to the value in the content.
    """

    profile: str
    content: Cell
    fit: Placement | None = None
    skip: str | None = None
    timeout: float = 0.0
    price_per_hour: float | None = None
    memory_limit: int = 0
    checkpoint_every: int = 0
    repeats: int = 1
    own: Mapping[str, Conversion] = field(default_factory=dict)

    def content_of(self, axes: Mapping[str, Any]) -> Cell:
        """The content of the cell with these values on the axes."""
        values = {name: convert(axes[name]) for name, convert in self.own.items()}
        params = {name.removeprefix(PARAM): value for name, value in values.items() if name.startswith(PARAM)}
        settings = {name: value for name, value in values.items() if not name.startswith(PARAM)}
        content = self.content
        content = replace(content, settings=replace(content.settings, **settings)) if settings else content
        return replace(content, params={**content.params, **params}) if params else content


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedCell:
    """A point of the grid, resolved.

    A large grid has very many, so it holds only what differs from the other cells of its group.

    Attributes:
        axes: the point: each axis and its value.
        request_id: the digest of the request in the grid file, the same on machines on which its cells differ.
    """

    cell_id: str
    axes: Mapping[str, Any]
    group: CellGroup
    request_id: str = ""

    @property
    def content(self) -> Cell:
        """The content from which the identity is computed; made anew each time."""
        return self.group.content_of(self.axes)

    def variant(self, names: Collection[str]) -> tuple[Any, ...]:
        """A key of the cells in its group that have the same values of these settings and parameters."""
        # The values of an axis are the same objects in all cells; 1 and True are equal, but not the same value.
        return self.group, *(id(self.axes[name]) for name in self.group.own if name in names)

    @property
    def profile(self) -> str:
        """The device profile's name."""
        return self.group.profile

    @property
    def fit(self) -> Placement | None:
        """The placement; None if it cannot run."""
        return self.group.fit

    @property
    def skip(self) -> str | None:
        """The reason why it cannot run, or None."""
        return self.group.skip

    @property
    def repeats(self) -> int:
        """Requested number of runs."""
        return self.group.repeats


def data_of(info: WorkloadInfo, root: Path) -> tuple[str | None, Mapping[str, int]]:
    """The digest and split sizes of a workload's data, if they are known."""
    if info.dataset is None:
        return info.data_digest(root), {}
    dataset = datasets.get(info.dataset)
    status = dataset.status(root)
    return status.digest or dataset.official_digest, dataset.examples


FLOAT32 = ("fp32", "tf32")
"""Precisions whose weights are float32 in any case."""

INDEPENDENT: Mapping[str, Callable[[Any], Any]] = {
    "betas": lambda value: None,
    "eps": lambda value: None,
    "epochs": lambda value: None,
    "evaluation_batch_size": lambda value: None,
    "label_smoothing": lambda value: value == 0,  # then it is not part of the cell
    "learning_rate": lambda value: None,
    "momentum": lambda value: value == 0,  # then there is no Nesterov momentum
    "schedule": lambda value: None,
    "steps_per_epoch": lambda value: None,
    "weight_decay": lambda value: None,
}
"""Settings whose value affects no other part of a cell, except for the given aspect of the value."""


class _OwnValue(NamedTuple):
    """A value on an axis of which only an aspect affects other parts of a cell.

    Attributes:
        text: as canonical JSON.
        value: the value; while this holds it, no other object gets its id.
    """

    text: str
    aspect: Any
    value: Any


@dataclass(frozen=True)
class _Template:
    """A group of cells with the digests of their identities.

    Attributes:
        point: the one from which the rest was resolved.
    """

    point: Point
    group: CellGroup
    cell: DigestTemplate
    request: DigestTemplate


class Resolver:
    """Turns points into cells; whatever several points have in common is resolved once."""

    def __init__(
        self,
        spec: GridSpec,
        info: WorkloadInfo,
        nodes: Sequence[Node],
        digest: str | None,
        examples_there: Mapping[str, int],
        isolation: str,
    ) -> None:
        self._isolation = isolation
        self._spec, self._info, self._nodes, self._digest = spec, info, nodes, digest
        self._there = dict(examples_there)
        if info.held_out and self._there:
            self._there = {"train": self._there["train"] - info.held_out, "val": info.held_out}
        self._given = explicit_settings(spec) | explicit_params(spec)
        self._below = self._defaults(info) | self._given
        self._fits: dict[ResourceRequest, Placement | str] = {}
        self._profiles: dict[str, tuple[DeviceProfile, dict[str, Any]]] = {}
        self._rules = [(rule.when, explicit_settings(rule.set) | explicit_params(rule.set)) for rule in spec.overrides]
        self._layouts: dict[tuple[str, ...], tuple[Mapping[str, Conversion], itemgetter[Any]]] = {}
        self._templates: dict[tuple[Any, ...], _Template] = {}
        self._own_values: dict[tuple[str, int], _OwnValue] = {}

    def cell(self, point: Point) -> ResolvedCell:
        """The cell of a point.

        Raises:
            UsageError: it can never be trained, such as a batch larger than the training set.
        """
        conversions, common_of = self._layout(tuple(point))
        own = {name: self._own_value(name, point[name], convert) for name, convert in conversions.items()}
        # Values of an axis are the same objects in all points; 1 and True are equal, but not the same value.
        key = (*point, *map(id, common_of(point)), *(value.aspect for value in own.values()))
        template = self._templates.get(key) or self._template(point, conversions)
        if own:
            self._templates[key] = template
        texts = [own[name].text for name in template.group.own]
        return ResolvedCell(template.cell.digest(texts), point, template.group, template.request.digest(texts))

    def _layout(self, names: tuple[str, ...]) -> tuple[Mapping[str, Conversion], itemgetter[Any]]:
        """The axes with values that affect no other part of a cell, and a getter of the other values of a point."""
        if names not in self._layouts:
            conversions = {name: convert for name in names if (convert := self._conversion(name))}
            common = [name for name in names if name not in conversions]
            self._layouts[names] = conversions, itemgetter("device", *common)  # a tuple, also of the device alone
        return self._layouts[names]

    def _conversion(self, name: str) -> Conversion | None:
        """The conversion of an axis's values, if they affect no other part of a cell; None if they may."""
        if self._spec.smoke or any(name in when or name in changes for when, changes in self._rules):
            return None
        return self._conversion_of_independent(name)

    def _conversion_of_independent(self, name: str) -> Conversion | None:
        return SETTINGS[name].canonical_value if name in INDEPENDENT else None

    def _own_value(self, name: str, value: Any, convert: Conversion) -> _OwnValue:
        key = name, id(value)
        if key not in self._own_values:
            aspect = INDEPENDENT[name](value) if name in INDEPENDENT else None
            self._own_values[key] = _OwnValue(canonical(convert(value)), aspect, value)
        return self._own_values[key]

    def _template(self, point: Point, conversions: Mapping[str, Conversion]) -> _Template:
        """Resolve a point, as a template for all that differ only in values of the axes in `conversions`."""
        profile, by_profile = self._profile(point["device"])
        defaults = {"framework": self._default_framework(profile.kind)}
        resolved = defaults | self._below | by_profile | {k: v for k, v in point.items() if k != "device"}
        for when, changes in self._rules:
            if matches(point, when):
                resolved |= changes
        limit = self._memory_limit(point["device"], profile.kind, resolved)
        skip, stand_in = None, None
        if self._spec.smoke:
            skip = unsupported_reason(self._need(profile, resolved)) or self._cannot(resolved)
            profile, resolved, stand_in = self._cut(point["device"], profile, resolved)
        fit_or_reason = self._fit(self._need(profile, resolved))
        skip = skip or (fit_or_reason if isinstance(fit_or_reason, str) else self._cannot(resolved))
        best_fit = None if isinstance(fit_or_reason, str) else fit_or_reason
        content = self._content(profile, resolved, best_fit, stand_in)
        price = profile.price_per_hour
        timeout = float(resolved.get("timeout") or 0.0)
        checkpoint_every = int(resolved.get("checkpoint_every") or 0)
        repeats = min(self._spec.repeats, profile.repeats or self._spec.repeats)
        tree = content.to_json()
        leaves = {_leaf(name): name for name in conversions}
        of_cell = DigestTemplate(identifying(tree), leaves)
        group = CellGroup(
            point["device"], content, best_fit, skip, timeout, price, limit, checkpoint_every, repeats,
            own={leaves[gap]: conversions[leaves[gap]] for gap in of_cell.gaps},
        )  # fmt: skip
        of_request = DigestTemplate(self._request(profile, resolved, tree), leaves)
        return _Template(point, group, of_cell, of_request)

    def _defaults(self, info: WorkloadInfo) -> dict[str, Any]:
        """The settings of a cell that the grid does not give."""
        return dict(DEFAULTS) | dict(info.defaults)

    def _default_framework(self, kind: str) -> str:
        return (*frameworks(kind), "torch")[0]

    def _request(
        self, profile: DeviceProfile, resolved: Mapping[str, Any], tree: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The request in the grid file: the cell without values that depend on the training machine.

        Args:
            tree: the cell as JSON.
        """
        request = {name: value for name, value in identifying(tree).items() if name != "engine"}
        request["device"] = {
            "kind": profile.kind,
            "accelerator_type": profile.accelerator_type,
            "count": profile.count,
            **{name: resolved.get(name) for name in ("replicas", "replication", "threads", "cpus")},
        }
        request["workload"] = {"name": self._info.name, "version": self._info.version}
        request["data"] = {
            "name": tree["data"]["name"],
            "examples": {**self._info.examples, **(resolved.get("examples") or {})},
        }
        return request

    def _fit(self, need: ResourceRequest) -> Placement | str:
        """The placement of a trial.

        If a framework is not installed, the environment built for it is used.
        """
        if need not in self._fits:
            result = find_placement(need, self._nodes)
            recipe = recipe_for(need.framework, need.kind)
            if isinstance(result, str) and recipe and not need.environment:
                alternative = find_placement(replace(need, environment=recipe.name), self._nodes)
                result = result if isinstance(alternative, str) else alternative
            self._fits[need] = result
        return self._fits[need]

    def _cut(
        self, name: str, profile: DeviceProfile, resolved: dict[str, Any]
    ) -> tuple[DeviceProfile, dict[str, Any], dict[str, Any]]:
        """The scaled-down cell of a smoke run: its device, its settings, and the original values.

        Raises:
            UsageError: the full cell can never be trained.
        """
        self._content(profile, resolved, None)  # raises the same errors as a full run
        counts = self._examples(resolved, 1)
        cores = max((node.cores for node in self._nodes), default=1)
        options = list(smoke.scaled_down(profile, resolved, counts, self._info.frameworks, cores))
        small = next(
            (option for option in options if isinstance(self._fit(self._need(*option)), Placement)), options[0]
        )
        return *small, smoke.original_values(name, (profile, resolved), small, counts)

    def _memory_limit(self, name: str, kind: str, resolved: Mapping[str, Any]) -> int:
        """Memory limit of a trial's processes, in bytes; 0 for none.

        Raises:
            UsageError: the device has its own memory, which the limit does not cover.
        """
        limit = int(resolved.get("memory_limit") or 0)
        if limit and not hosted(kind):
            message = f"memory_limit does not apply to {name}, whose kind {kind} has its own memory"
            raise UsageError(f"{place(self._spec, 'memory_limit')}{message}; set it only for devices on the CPU")
        return limit

    def _profile(self, name: str) -> tuple[DeviceProfile, dict[str, Any]]:
        if name not in self._profiles:
            profile = self._spec.profile(name)
            self._profiles[name] = profile, explicit_settings(profile)
        return self._profiles[name]

    def _cannot(self, resolved: Mapping[str, Any]) -> str | None:
        """The reason why no machine can train this cell with its framework, or None."""
        framework = resolved["framework"]
        if engines.MODELS[framework] not in self._info.frameworks:
            return f"{self._info.name} has no {framework} model"
        irrelevant, mode = irrelevant_settings(resolved), resolved["compile"]
        if "compile" not in irrelevant and mode not in engines.COMPILE_MODES[framework]:
            return f"raybench's {framework} engine has no compile: {mode}; use default"
        missing = sorted(engines.WITHOUT[framework] - irrelevant)
        if not missing:
            return None
        settings = Settings.of(resolved)
        values = {name: value for name in missing if (value := getattr(settings, name)) != SETTINGS[name].default}
        lacks = [f"{name}: false" if value is False else name for name, value in values.items()]
        return f"raybench's {framework} engine has no {' and no '.join(lacks)}" if lacks else None

    def _need(self, profile: DeviceProfile, resolved: Mapping[str, Any]) -> ResourceRequest:
        return ResourceRequest(
            kind=profile.kind,
            framework=resolved["framework"],
            precision=resolved["precision"],
            replicas=resolved["replicas"],
            replication=resolved.get("replication"),
            count=profile.count or 1,
            cpus=resolved.get("cpus") or 0,
            accelerator_type=profile.accelerator_type,
            memory_gb=profile.memory_gb,
            resources=tuple(sorted((profile.resources or {}).items())),
            data=(self._info.dataset, self._digest) if self._info.dataset else None,
            environment=self._spec.environment(profile),
        )

    def _content(
        self,
        profile: DeviceProfile,
        resolved: Mapping[str, Any],
        best_fit: Placement | None,
        stand_in: Mapping[str, Any] | None = None,
    ) -> Cell:
        framework = resolved["framework"]
        cpus: Any = best_fit.cpus if best_fit else resolved.get("cpus")  # None if no node fits
        device = CellDevice(
            kind=profile.kind,
            model=best_fit.hardware.model if best_fit else profile.accelerator_type,
            count=(best_fit.accelerators or best_fit.cpus) if best_fit else profile.count or 1,
            replicas=resolved["replicas"],
            threads=resolved.get("threads") or cpus,
        )
        if best_fit and best_fit.replication.form:
            device = replace(device, replication=best_fit.replication.form, devices=best_fit.replication.devices)
        no_effect = irrelevant_settings(resolved)
        check_training(self._spec, self._info, {name: v for name, v in resolved.items() if name not in no_effect})
        engine = CellEngine(
            name=framework,
            version=engines.VERSIONS.get(framework),
            framework_version=".".join(best_fit.framework_version.split(".")[:2]) if best_fit else None,
        )
        target = self._spec.target if self._spec.stop_at_target else None
        resolved = {**resolved, "model": model_options(self._spec, self._info, resolved.get("model") or {})}
        return make_cell(
            workload=self._info.identity(),
            data=CellData(
                name=self._info.dataset or self._info.name,
                digest=self._digest,
                examples=Examples(**self._examples(resolved, best_fit.replication.devices if best_fit else 1)),
            ),
            device=device,
            engine=engine,
            resolved=dict(DEFAULTS) | {name: value for name, value in resolved.items() if name not in no_effect},
            seed=self._spec.seed,
            target=target.model_dump(exclude_none=True) if target else None,
            isolation=self._isolation,
            smoke=stand_in,
        )

    def _examples(self, resolved: Mapping[str, Any], devices: int) -> dict[str, int | None]:
        """The number of examples used of each split.

        None means all of a number that is not yet known.

        Raises:
            UsageError: more than available, or fewer than a batch.
        """
        requested = {**self._info.examples, **(resolved.get("examples") or {})}
        counts = {split: requested.get(split) or self._there.get(split) for split in ("train", "val")}
        name = self._info.dataset or self._info.name
        for split, count in counts.items():
            available = self._there.get(split)
            if count and available and count > available:
                raise UsageError(
                    f"{place(self._spec, 'examples')}examples.{split}: {count} is not allowed; {name} has {available}"
                )
        train, batch, replicas = counts["train"], resolved["batch_size"], resolved["replicas"]
        for divisor, noun in ((replicas, "replicas"), (devices, "devices")):
            if batch % divisor:
                location = place(self._spec, "batch_size")
                raise UsageError(
                    f"{location}batch_size: {batch} is not a multiple of the {divisor} {noun}; use one that is"
                )
        if train and batch > train:
            location = place(self._spec, "batch_size")
            raise UsageError(
                f"{location}batch_size: {batch} is larger than the training set of {train} examples; use a smaller one"
            )
        return counts


def _leaf(name: str) -> str:
    """The dotted name in JSON of a setting or parameter of a cell."""
    return name if name.startswith(PARAM) else ".".join(("settings", *SETTINGS[name].path))


def irrelevant_settings(resolved: Mapping[str, Any]) -> frozenset[str]:
    """The settings that others make ineffective; they are not part of the cell."""
    single_replica = {"decay_rule"} if resolved["replicas"] == 1 else set()
    full_precision = {"master_weights"} if resolved["precision"] in FLOAT32 else set()
    return engines.WITHOUT_EFFECT.get(resolved["framework"], frozenset()) | single_replica | full_precision


def explicit_settings(settings: GridSettings | DeviceProfile) -> dict[str, Any]:
    """The settings written by the user, without defaults."""
    values = settings.model_dump(include=settings.model_fields_set & SETTINGS.keys())
    return {name: value for name, value in values.items() if value is not None or SETTINGS[name].nullable}


def explicit_params(settings: CellSettings) -> dict[str, Any]:
    """The parameters of the user's own training function, as axes are called."""
    return {f"{PARAM}{name}": value for name, value in settings.params.items()}

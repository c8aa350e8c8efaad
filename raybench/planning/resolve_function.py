"""Resolve a point of the grid to a cell of the user's own training function.

Its cell has the values of the function's parameters and what raybench itself applies, and no defaults of an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import Any

from raybench.config import DeviceProfile
from raybench.core.cell import UNKNOWN_SETTINGS, Cell, CellData, CellDevice, CellEngine, Examples, Role
from raybench.core.identity import SCHEMA
from raybench.core.settings import DEFAULTS, PARAM, TRAINING, Settings
from raybench.devices import hosted, loop_frameworks
from raybench.engines.user_loop import LOOP_PACKAGES, recognise
from raybench.planning import smoke
from raybench.planning.placement import Placement, ResourceRequest
from raybench.planning.resolve import INDEPENDENT, Conversion, Resolver
from raybench.workloads import WorkloadInfo
from raybench.workloads.static_function import SETTINGS as PASSED

KEPT = frozenset({"epochs", "steps_per_epoch", "precision"})
"""Settings that are part of the cell if they are given, whether they are parameters or not."""


class FunctionResolver(Resolver):
    """Turns points into cells of a training function."""

    def _defaults(self, info: WorkloadInfo) -> dict[str, Any]:
        parameters = {
            name if name in PASSED else f"{PARAM}{name}": parameter.default
            for name, parameter in info.parameters.items()
            if parameter.known
        }
        return {"warmup_epochs": DEFAULTS["warmup_epochs"], "replicas": 1} | parameters

    def _default_framework(self, kind: str) -> str:
        return recognise(self._info.libraries)

    def _conversion_of_independent(self, name: str) -> Conversion | None:
        parameter = self._info.parameters.get(name.removeprefix(PARAM))
        return parameter.converted if parameter and (name.startswith(PARAM) or name in INDEPENDENT) else None

    def _cannot(self, resolved: Mapping[str, Any]) -> str | None:
        return None

    def _need(self, profile: DeviceProfile, resolved: Mapping[str, Any]) -> ResourceRequest:
        return ResourceRequest(
            kind=profile.kind,
            framework=resolved["framework"],
            precision=resolved["precision"] if resolved.get("precision") in smoke.PRECISIONS else "fp32",
            count=profile.count or 1,
            cpus=resolved.get("cpus") or 0,
            accelerator_type=profile.accelerator_type,
            memory_gb=profile.memory_gb,
            resources=tuple(sorted((profile.resources or {}).items())),
            data=(self._info.dataset, self._digest) if self._info.dataset else None,
            environment=self._spec.environment(profile),
            own_loop=True,
        )

    def _values(self, resolved: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings and the parameters of a cell."""
        parameters = self._info.parameters
        values = {name: resolved[name] for name in KEPT if name in resolved}
        values |= {name: each.converted(resolved[name]) for name, each in parameters.items() if name in resolved}
        params = {
            name: parameter.converted(resolved[f"{PARAM}{name}"])
            for name, parameter in parameters.items()
            if f"{PARAM}{name}" in resolved
        }
        return values, params

    def _content(
        self,
        profile: DeviceProfile,
        resolved: Mapping[str, Any],
        best_fit: Placement | None,
        stand_in: Mapping[str, Any] | None = None,
    ) -> Cell:
        cpus: Any = best_fit.cpus if best_fit else resolved.get("cpus")  # None if no node fits
        device = CellDevice(
            kind=profile.kind,
            model=best_fit.hardware.model if best_fit else profile.accelerator_type,
            count=(best_fit.accelerators or best_fit.cpus) if best_fit else profile.count or 1,
            replicas=1,
            threads=resolved.get("threads") or cpus,
        )
        framework = resolved["framework"]
        version = ".".join(best_fit.framework_version.split(".")[:2]) if best_fit else None
        values, params = self._values(resolved)
        target = self._spec.target if self._spec.stop_at_target else None
        return Cell(
            data=self._data(resolved),
            device=device,
            engine=CellEngine(
                name=framework, framework_version=version, libraries=self._libraries(framework, best_fit)
            ),
            framework=framework,
            schema=SCHEMA,
            settings=_settings(
                values,
                target.model_dump(exclude_none=True) if target else None,
            ),
            warmup_epochs=resolved["warmup_epochs"],
            workload=self._info.identity(),
            params=params,
            seed=self._spec.seed,
            isolation=self._isolation,
            role=Role(smoke=stand_in),
        )

    def _data(self, resolved: Mapping[str, Any]) -> CellData:
        """The data set, which is known for a function that comes with raybench."""
        name = self._info.dataset
        if name is None:
            return CellData(name=self._info.name)
        return CellData(name=name, digest=self._digest, examples=Examples(**self._examples(resolved, 1)))

    def _libraries(self, framework: str, best_fit: Placement | None) -> dict[str, str]:
        """Versions of further libraries that the files import; unknown in another environment."""
        if best_fit is None or best_fit.environment:
            return {}
        distributions = _distributions()
        packages = {name: distributions[name][0] for name in self._info.libraries if name in distributions}
        return {
            name: ".".join(metadata.version(package).split(".")[:2])
            for name, package in packages.items()
            if package != LOOP_PACKAGES[framework]
        }

    def _cut(
        self, name: str, profile: DeviceProfile, resolved: dict[str, Any]
    ) -> tuple[DeviceProfile, dict[str, Any], dict[str, Any]]:
        """A few steps on the host's cores, with the settings of the full cell."""
        steps = min(resolved.get("steps_per_epoch") or smoke.FUNCTION_STEPS, smoke.FUNCTION_STEPS)
        small = resolved | {"epochs": smoke.EPOCHS, "steps_per_epoch": steps, "threads": 1}
        small |= {"warmup_epochs": min(resolved["warmup_epochs"], smoke.EPOCHS - 1)}
        cores = max((node.cores for node in self._nodes), default=1)
        small |= {"cpus": min(resolved["cpus"], cores)} if resolved.get("cpus") else {}
        kinds = [profile.kind] if hosted(profile.kind) else ["cpu", "xla_cpu"]
        counts = self._examples(resolved, 1) if self._info.dataset else {}
        if self._info.dataset:
            batch = smoke.batch_size(resolved["batch_size"])
            small |= {"batch_size": batch, "examples": {"train": steps * batch + 1, "val": batch + 1}}
            small |= {} if hosted(profile.kind) else {"compile": False}
        unbound = {"accelerator_type": None, "memory_gb": None, "resources": None, "count": 1}
        options = [
            profile.model_copy(update=unbound | {"kind": kind})
            for kind in kinds
            if resolved["framework"] in loop_frameworks(kind)
        ] or [profile]
        chosen = next(
            (each for each in options if isinstance(self._fit(self._need(each, small)), Placement)), options[0]
        )
        return chosen, small, smoke.original_values(name, (profile, resolved), (chosen, small), counts)


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The distributions of each installed module; looking them up takes half a second."""
    return metadata.packages_distributions()


def _settings(values: Mapping[str, Any], target: Mapping[str, Any] | None) -> Settings:
    """The settings of a cell that has these values only."""
    given = {name: value for name, value in values.items() if name in TRAINING and value is not None}
    further = {"stop_at_target": dict(target)} if target is not None else {}
    return replace(UNKNOWN_SETTINGS, **given, further=further)

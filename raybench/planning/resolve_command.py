"""Resolve a point of the grid to a cell of the user's own command.

Its cell has the values that the command uses and the digest of the command with its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from raybench.config import DeviceProfile
from raybench.config.command_parameters import used_settings
from raybench.core.cell import Cell
from raybench.core.settings import DEFAULTS, PARAM
from raybench.errors import UsageError
from raybench.planning import smoke
from raybench.planning.placement import Placement, ResourceRequest
from raybench.planning.resolve import INDEPENDENT, Conversion
from raybench.planning.resolve_function import FunctionResolver
from raybench.planning.validate import place
from raybench.workloads import WorkloadInfo
from raybench.workloads.static_command import SPECIAL, Command


class CommandResolver(FunctionResolver):
    """Turns points into cells of a command."""

    @property
    def _command(self) -> Command:
        assert self._info.command
        return self._info.command

    def _defaults(self, info: WorkloadInfo) -> dict[str, Any]:
        assert info.command
        has_epochs = info.command.reports or info.command.counts_epochs
        return {"warmup_epochs": DEFAULTS["warmup_epochs"] if has_epochs else 0, "replicas": 1}

    def _conversion_of_independent(self, name: str) -> Conversion | None:
        return _unchanged if name.startswith(PARAM) or name in INDEPENDENT else None

    def _need(self, profile: DeviceProfile, resolved: Mapping[str, Any]) -> ResourceRequest:
        return replace(super()._need(profile, resolved), own_processes=True)

    def _values(self, resolved: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        missing = self._command.names - {name.removeprefix(PARAM) for name in resolved} - set(SPECIAL)
        for name in sorted(missing):
            raise UsageError(
                f"{place(self._spec, 'workload')}a cell has no value for {{{name}}}, which the command uses; set one "
                "for the whole grid"
            )
        used = {name: resolved[name] for name in used_settings(self._command, resolved)}
        params = {name.removeprefix(PARAM): value for name, value in used.items() if name.startswith(PARAM)}
        return {name: value for name, value in used.items() if not name.startswith(PARAM)}, params

    def _content(
        self,
        profile: DeviceProfile,
        resolved: Mapping[str, Any],
        best_fit: Placement | None,
        stand_in: Mapping[str, Any] | None = None,
    ) -> Cell:
        content = super()._content(profile, resolved, best_fit, stand_in)
        # Processes of a trial on the host's cores, whose number the device's own count does not tell.
        count = profile.count or 1
        return replace(content, device=replace(content.device, devices=count)) if count > 1 else content

    def _cut(
        self, name: str, profile: DeviceProfile, resolved: dict[str, Any]
    ) -> tuple[DeviceProfile, dict[str, Any], dict[str, Any]]:
        """The cell of a smoke run: the command with its arguments for it; `current_trial` takes a few steps.

        Raises:
            UsageError: the command does not say how to make it short.
        """
        if not self._command.reports and self._command.smoke is None:
            raise UsageError(
                f"{place(self._spec, 'workload')}--smoke needs arguments that make the command short; add them, such "
                "as `smoke: [--epochs=1]`, under `workload`"
            )
        count = profile.count
        chosen, small, _ = super()._cut(name, profile, resolved)
        chosen = chosen.model_copy(update={"count": count})
        if not self._command.reports:
            small = {name: value for name, value in small.items() if name not in ("epochs", "steps_per_epoch")}
            small |= {name: resolved[name] for name in ("epochs", "steps_per_epoch") if name in resolved}
        return chosen, small, smoke.original_values(name, (profile, resolved), (chosen, small), {})


def _unchanged(value: Any) -> Any:
    return value

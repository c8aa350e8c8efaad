"""What a grid file may say.

`load_grid` reads one and reports everything that is wrong with it at once; `json_schema` describes one to an editor.
"""

from raybench.config.consistency import too_many_trials, unknown_metric
from raybench.config.function_parameters import wrong_parameters
from raybench.config.grid import CellSettings, DeviceProfile, GridSpec, Override, Target
from raybench.config.load import load_grid
from raybench.config.schema import json_schema
from raybench.config.setting_types import Settings
from raybench.config.validate import wrong_settings

__all__ = [
    "CellSettings",
    "DeviceProfile",
    "GridSpec",
    "Override",
    "Settings",
    "Target",
    "json_schema",
    "load_grid",
    "too_many_trials",
    "unknown_metric",
    "wrong_parameters",
    "wrong_settings",
]

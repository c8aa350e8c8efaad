"""The content of a grid file.

`load_grid` reads one and reports everything that is wrong with it at once.
"""

from raybench.config.grid import CellSettings, DeviceProfile, GridSpec, Override, Repeats, Target
from raybench.config.load import load_grid, wrong_settings
from raybench.config.setting_types import Settings

__all__ = [
    "CellSettings",
    "DeviceProfile",
    "GridSpec",
    "Override",
    "Repeats",
    "Settings",
    "Target",
    "load_grid",
    "wrong_settings",
]

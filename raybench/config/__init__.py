"""The content of a grid file.

`load_grid` reads one and reports everything that is wrong with it at once.
"""

from raybench.config.grid import DeviceProfile, GridSpec, Repeats
from raybench.config.load import load_grid, wrong_settings
from raybench.config.setting_types import Settings

__all__ = ["DeviceProfile", "GridSpec", "Repeats", "Settings", "load_grid", "wrong_settings"]

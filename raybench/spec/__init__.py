"""What a grid file may say.

`load_grid` reads one and reports everything that is wrong with it at once; `json_schema` describes one to an editor.
"""

from raybench.spec.checks import wrong_settings
from raybench.spec.load import load_grid
from raybench.spec.models import DeviceProfile, GridSpec, Override, Target
from raybench.spec.schema import json_schema
from raybench.spec.settings import Settings

__all__ = ["DeviceProfile", "GridSpec", "Override", "Settings", "Target", "json_schema", "load_grid", "wrong_settings"]

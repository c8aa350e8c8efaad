"""A recipe of one tiny wheel, so that a real environment is built in seconds and without a network."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from raybench.environments import RECIPES, EnvironmentRecipe, recipes


def wheel(folder: Path, version: str = "1.0") -> Path:
    """A wheel of a package `tiny`."""
    info = f"tiny-{version}.dist-info"
    path = folder / f"tiny-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("tiny.py", "")
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvironmentRecipe:
    """The recipe `tiny`; environments go to a folder of the test's own."""
    recipe = EnvironmentRecipe("tiny", "tiny", (f"tiny @ {wheel(tmp_path).as_uri()}",), "a test")
    monkeypatch.setattr(recipes, "NEEDED_BY_TRIALS", ())
    monkeypatch.setitem(RECIPES, "tiny", recipe)
    monkeypatch.setenv("RAYBENCH_ENVIRONMENTS", str(tmp_path / "environments"))
    for name in ("PIP_CONSTRAINT", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return recipe

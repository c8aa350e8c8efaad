"""The README and the pages in docs/: their commands run, their tables and links are right, their site builds."""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from typing import NamedTuple

import click
import pytest
from support import ROOT

from raybench.cli import VERBS, group, main

README = (ROOT / "README.md").read_text()
DOCS = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "claims.md")  # which is generated
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "SKILL.md", *DOCS]
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in PAGES}
BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]+) -->\n)?^(?P<indent> *)```sh\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
EXTERNAL = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


class Block(NamedTuple):
    """Shell commands of a page; `reason` says why they are not run."""

    page: str
    text: str
    reason: str | None


BLOCKS = [
    Block(page, "\n".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines()), match["reason"])
    for page, text in TEXTS.items()
    for match in BLOCK.finditer(text)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the shipped grids, recorded results and the command `raybench`."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "grids", folder / "grids")
    shutil.copytree(ROOT / "notebooks" / "recorded", folder / "raybench-results")
    shutil.copy(ROOT / "docs" / "colab.zip", folder)
    command = folder / "bin" / "raybench"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m raybench "$@"\n')
    command.chmod(0o755)
    return folder


def run(command, folder, monkeypatch):
    """Run a command in this process if it is one of raybench without a pipe, else in a shell."""
    if not command.startswith("raybench ") or set("|<>&$") & set(command):
        done = shell(command, folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    monkeypatch.setattr("sys.argv", shlex.split(command, comments=True))
    monkeypatch.chdir(folder)
    try:
        main()
    except SystemExit as end:
        assert not end.code, command


def shell(text, folder):
    path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": path}
    command = ["bash", "-euo", "pipefail", "-c", text]
    return subprocess.run(command, cwd=folder, env=environment, timeout=120, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS if not block.reason}))
def test_commands_run(page, folder, monkeypatch):
    for block in BLOCKS:
        for command in block.text.splitlines() if block.page == page and not block.reason else ():
            run(command, folder, monkeypatch)


def test_commands_have_existing_verbs_and_options():
    for page, text in TEXTS.items():
        commands = [match["text"] for match in BLOCK.finditer(text)]
        commands += re.findall(r"`(raybench [^`]+)`", FENCE.sub("", text))
        for verb, rest in re.findall(r"\braybench ([a-z]+)\b([^\n|;&#]*)", "\n".join(commands)):
            assert verb in VERBS, f"{page}: raybench {verb}"
            command = group.get_command(click.Context(group), verb)
            if isinstance(command, click.Group) and (names := re.findall(r"^ ([a-z]+)", rest)):
                command = command.commands[names[0]]
            options = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
            own, _, _ = rest.partition(" -- ")  # before the command of `raybench run`
            assert set(re.findall(r"(?<=\s)--[a-z-]+", own)) <= options, f"{page}: raybench {verb}{rest}"


def anchors(text):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        name, _, anchor = target.partition("#")
        page = (path.parent / name) if name else path
        assert "://" in target or page.exists(), target
        assert "://" in target or not anchor or anchor in anchors(page.read_text()), target


def test_generated_tables_are_current():
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    for path in generate["pages"]():
        assert generate["with_tables"](path.read_text()) == path.read_text(), "run `python docs/generate.py`"
    assert set(re.findall("<!-- table: (.*) -->", "".join(TEXTS.values()))) == set(generate["TABLES"])


@pytest.mark.slow
def test_outputs_are_current():
    outputs = runpy.run_path(str(ROOT / "docs" / "outputs.py"))
    for name, text in outputs["texts"](of_machine=False).items():
        shown = [match["text"] for page in TEXTS.values() for match in outputs["BLOCK"].finditer(page)
                 if match["name"] == name]  # fmt: skip
        assert shown and set(shown) == {text}, "run `python docs/outputs.py`"


def test_sizes():
    words = sum(len(path.read_text().split()) for path in DOCS if path.name != "claims.md")  # which a script writes
    assert len([line for line in README.splitlines() if not line.startswith("| `")]) <= 200  # rows of declared things
    assert (len(DOCS) <= 21, words <= 18_000) == (True, True), (len(DOCS), words)


def test_versions_of_python():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lowest, *_ = re.findall(r"Python :: (3\.\d+)", "\n".join(settings["project"]["classifiers"]))
    assert settings["project"]["requires-python"] == f">={lowest}"
    assert f"Python {lowest} or later" in README


def test_shipped_grids_are_listed():
    shipped = {path.name for path in (ROOT / "grids").glob("*.yaml")}
    assert set(re.findall(r"^\| `(\w+\.yaml)` \|", "\n".join(TEXTS.values()), re.MULTILINE)) == shipped


def test_grid_of_the_readme_is_shipped():
    (grid,) = re.findall(r"## A grid file\n\n```yaml\n(.*?)```", README, re.DOTALL)
    assert any(path.read_text().endswith(grid) for path in (ROOT / "grids").glob("*.yaml"))


@pytest.mark.slow
def test_function_of_the_readme_runs(tmp_path, monkeypatch):
    (function,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    _, grid = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "my.py").write_text(f"import torch\nfrom torch import nn\n{function}")
    (tmp_path / "grid.yaml").write_text(grid)
    run("raybench grid grid.yaml --inline --repeats 1 --tracking none --no-checks", tmp_path, monkeypatch)


def test_every_verb_is_listed():
    assert [verb for verb in VERBS if f"`raybench {verb}" not in README] == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason='mkdocs is not installed: pip install -e ".[docs]"')
def test_site_builds_strictly_without_external_files(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.html")}
    assert not [match for text in pages.values() for match in EXTERNAL.findall(text)]
    assert all(f"raybench {verb}" in pages["command_line.html"] for verb in VERBS)
    assert "Trial.epochs" in pages["python.html"]

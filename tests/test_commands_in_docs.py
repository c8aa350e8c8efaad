"""The commands in the README and the documentation work as written.

Every fenced block `sh` is run in a folder that has the shipped grids and recorded results of the quick start, unless
the line above it is `<!-- not run: REASON -->`. Commands that are not run have at least verbs and options that exist.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from support import ROOT

from raybench.cli import VERBS, group

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]+) -->\n)?^(?P<indent> *)```sh\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
IN_TEXT = re.compile(r"`(raybench [^`]+)`")
COMMAND = re.compile(r"\braybench ([a-z]+)\b([^\n|;&#]*)")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of commands; `reason` says why it is not run."""

    page: str
    text: str
    reason: str | None


def blocks() -> Iterator[Block]:
    for path in PAGES:
        for match in BLOCK.finditer(path.read_text()):
            text = "".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True))
            yield Block(str(path.relative_to(ROOT)), text, match["reason"])


RUN = [block for block in blocks() if block.reason is None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the shipped grids, recorded results, a bundle, and the command `raybench`."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "grids", folder / "grids")
    shutil.copytree(ROOT / "notebooks" / "recorded", folder / "raybench-results")
    shutil.copy(ROOT / "docs" / "tutorial" / "colab.zip", folder)
    command = folder / "bin" / "raybench"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m raybench "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("block", RUN, ids=[f"{block.page}: {block.text.splitlines()[0]}" for block in RUN])
def test_it_runs(block: Block, folder: Path) -> None:
    path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": path}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=folder, env=environment, timeout=120)
    assert done.returncode == 0


def test_blocks_are_run() -> None:
    verbs = {verb for block in RUN for verb, _ in COMMAND.findall(block.text)}
    assert {"plan", "report", "devices", "schema"} <= verbs
    assert sum(path.read_text().count("```sh\n") for path in PAGES) == len(list(blocks()))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_verbs_and_options_exist(path: Path) -> None:
    text = path.read_text()
    commands = [match["text"] for match in BLOCK.finditer(text)] + IN_TEXT.findall(FENCE.sub("", text))
    for verb, rest in COMMAND.findall("\n".join(commands)):
        assert verb in VERBS, f"raybench {verb}"
        command = group.get_command(click.Context(group), verb)
        assert command is not None
        if isinstance(command, click.Group) and (names := re.findall(r"^ ([a-z]+)", rest)):
            command = command.commands[names[0]]
        options = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
        assert set(re.findall(r"(?<=\s)--[a-z-]+", rest)) <= options, f"raybench {verb}{rest}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_is_in_a_block_with_its_language(path: Path) -> None:
    """So that none escapes this file: neither in an indented block nor in a fenced one without a language."""
    text = path.read_text()
    assert not re.search(r"^ *```(?:bash|shell|console)$", text, re.MULTILINE)
    assert not re.search(r"^ {4,}(?:\$ )?raybench [a-z]", FENCE.sub("", text), re.MULTILINE)

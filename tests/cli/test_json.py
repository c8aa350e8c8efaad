"""`--json -` of every verb that has a result: JSON on standard output, and nothing else."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from support import ROOT

from raybench.cli import VERBS, group

GRID = ("--no-checks", "--tracking", "none")
TRAIN = (sys.executable, "train.py")
RESULTS = {
    ("plan", "digits.yaml"): "configurations",
    ("report", "quickstart"): "sentences",
    ("report", "quickstart", "--chain"): "chains",
    ("compare", "quickstart", "quickstart"): "decision",
    ("parity", "quickstart"): "pairs",
    ("devices",): "nodes",
    ("env",): "environments",
    ("data",): "data_sets",
    ("grid", "digits.yaml", *GRID): "sentences",
    ("noise", "digits.yaml", "--runs", "3"): "noise",
}
COMMANDS = {
    ("run", "--repeats", "1", "--tracking", "none", "--json", "-", "--", *TRAIN): "sentences",
    ("run", "--repeats", "1", "--tracking", "none", "--json", "-", "--", *TRAIN, "--vs", *TRAIN, "2"): "sentences",
    ("noise", "--json", "-", "--runs", "3", "--", *TRAIN): "noise",
}


@pytest.mark.usefixtures("in_process", "digits")
@pytest.mark.parametrize("command", [*RESULTS, *COMMANDS], ids=" ".join)
def test_standard_output_is_json_and_nothing_else(raybench, tmp_path, monkeypatch, command):
    monkeypatch.setattr("raybench.reporting.figures.rendered_figures", lambda *_: {})
    shutil.copytree(ROOT / "notebooks" / "recorded", tmp_path / "raybench-results")
    (tmp_path / "train.py").write_text(
        "for epoch in 1, 2, 3:\n    print(f'epoch {epoch} loss {1 / epoch}', flush=True)\n"
    )
    said = raybench(*command, *(["--json", "-"] if command in RESULTS else []))
    assert said.status in (0, 1, 5), said.err  # parity may differ, compare may be undecided
    result = json.loads(said.out)
    assert result["version"] >= 1 and result[(RESULTS | COMMANDS)[command]]


def test_every_other_verb_has_no_result():
    commands = {verb: group.get_command(click.Context(group), verb) for verb in VERBS}
    without = {verb for verb, command in commands.items() if "data" not in {each.name for each in command.params}}
    assert without == {"export", "import", "ui"}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes_verbs_and_options(tmp_path):
    """The line of the docs in a real bash, which then asks the command."""
    (line,) = re.findall(r'^eval "\$\(_RAYBENCH.*$', (ROOT / "docs" / "command_line.md").read_text(), re.MULTILINE)
    (tmp_path / "raybench").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m raybench "$@"\n')
    (tmp_path / "raybench").chmod(0o755)
    ask = "COMP_WORDS=({words}); COMP_CWORD={place}; _raybench_completion raybench; echo ${{COMPREPLY[@]}}"
    for words, expected in (("raybench re", ["report"]), ("raybench grid --op", ["--open"])):
        script = f"PATH={tmp_path}:$PATH\n{line}\n{ask.format(words=words, place=len(words.split()) - 1)}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, cwd=Path.cwd())
        assert done.stdout.split() == expected, done.stderr

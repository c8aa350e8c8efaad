"""The GitHub Action: its shell steps, with real trials, and what the pull request then shows."""

import json
import os
import subprocess
import sys

import yaml
from support import ROOT
from support.repositories import commit

GRID = "name: mine\nworkload: train.py:train\nepochs: 3\naxes: {device: [cpu]}\n"
TRAIN = """
import time

def train(trial):
    for epoch in trial.epochs():
        for step in trial.steps(range(2), examples=8):
            time.sleep(%s)
        trial.log({"val/loss": %s + 0.001 * (trial.seed %% 2)})
"""
RAYBENCH = """#!{python}
from raybench.cli import main
from raybench.execution import base
from raybench.execution.inline import InlineExecutor

base.make_executor = lambda *_: InlineExecutor()
main()
"""
GH = '#!/bin/bash\necho "$@" > gh.txt\n'


def test_undecided_version_passes_only_with_a_result(tmp_path):
    *_, last = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    for new_s, status in (("1.5", 0), ("null", 5)):
        (tmp_path / "comparison.json").write_text(f'{{"changes": [\n  {{"new_s": {new_s}\n}}]}}')
        command = ["bash", "-e", "-o", "pipefail", "-c", last["run"]]
        assert subprocess.run(command, cwd=tmp_path, env=os.environ | {"STATUS": "5"}, check=False).returncode == status


def test_code_of_the_pull_request_has_no_token():
    checkout = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][0]
    assert checkout["uses"].startswith("actions/checkout") and checkout["with"]["persist-credentials"] is False


def test_steps_compare_comment_and_set_the_status(tmp_path):
    says = "### raybench: Discard: 1 of 1 configuration: lower quality (train)."
    head = tmp_path / "head"
    head.mkdir()
    (head / "grid.yaml").write_text(GRID)
    for values in ((0.02, 0.5), (0.01, 0.6)):
        (head / "train.py").write_text(TRAIN % values)
        commit(head)
    programs = {"raybench": RAYBENCH.format(python=sys.executable), "gh": GH, "pip": "#!/bin/bash\n"}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    values = {
        "${{ inputs.grid }}": "grid.yaml",
        "${{ inputs.options }}": "--quality val/loss --max-slowdown 20% --no-checks",
        "${{ inputs.install }}": "-r head/requirements.txt",
        "${{ inputs.token }}": "secret",
        "${{ github.event.pull_request.html_url }}": "https://github.com/a/b/pull/1",
        "${{ steps.compare.outputs.status }}": "4",
    }
    environ = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_OUTPUT": "out",
        "GITHUB_STEP_SUMMARY": "summary",
    }
    ended = []
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        if "run" in step:
            own = {name: values[value] for name, value in step.get("env", {}).items()}
            command = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
            done = subprocess.run(command, cwd=tmp_path, env=environ | own, capture_output=True, text=True)
            ended.append((done.returncode, done.stdout + done.stderr))
    assert [code for code, _ in ended] == [0, 0, 0, 0, 4], ended
    assert (tmp_path / "out").read_text() == "status=4\n", ended
    comment = (tmp_path / "comment.md").read_text()
    assert comment.startswith(says) and (tmp_path / "summary").read_text() == comment
    assert "\n| base, s/epoch | new, s/epoch | speed (bounds) |" in comment.replace("| configuration |", "\n|")
    assert json.loads((tmp_path / "comparison.json").read_text())["decision"] == "discard"
    assert (tmp_path / "gh.txt").read_text().startswith("pr comment https://github.com/a/b/pull/1 --body-file comment")

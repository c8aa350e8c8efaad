"""Whatever a file from somebody else says, it commands no terminal."""

import json
import re

import pytest
from support.grid_files import write_events
from support.made_up_grids import contract_events

HOSTILE = "\x1b[2J\x1b]52;c;cm0=\x07\x9b31m\u202egpj\u2066\u200f\r\x08\x7f"
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(tmp_path):
    """A grid with such sequences wherever it has a text that is shown."""
    made = contract_events()
    for event in made:
        if event["event"] == "trial_started":
            event["profile"] = f"{event['profile']}{HOSTILE}"
            event |= {"label": HOSTILE, "grid": f"made_up{HOSTILE}", "versions": {f"torch{HOSTILE}": HOSTILE}}
            event["host"] = {"name": HOSTILE, "boot": "b", "pid": 1}
            event["cell"]["workload"]["name"] += HOSTILE
        elif event["event"] == "epoch_ended":
            event["metrics"][f"val/{HOSTILE}"] = 0.5
        elif event["trial"].endswith("r2"):
            event |= {"status": "failed", "warnings": [HOSTILE]}
            event["error"] = {"type": HOSTILE, "message": HOSTILE, "where": HOSTILE, "phase": HOSTILE}
    return write_events(tmp_path / "made_up", made)


@pytest.mark.parametrize(
    "options", [(), ("--full",), ("--all",), ("--json", "-"), ("--grid", "x"), ("--baseline", "x")]
)
def test_a_report_of_a_grid(raybench, hostile, options):
    said = raybench("report", hostile, *options)
    assert said.status in (0, 2)
    assert said.out or said.err
    assert UNPRINTABLE.findall(said.out + said.err) == []


def test_a_plan_and_its_errors(raybench, tmp_path):
    device = json.dumps(f"c{HOSTILE}")
    text = f"name: g\nworkload: digits_cnn\naxes: {{device: [{device}]}}\ndevices: {{{device}: {{kind: tpu}}}}\n"
    (tmp_path / "g.yaml").write_text(text)
    (tmp_path / "wrong.yaml").write_text(f"{text}epochs: [{device}]\n{device}: 1\n")
    for command in (("plan", "g.yaml"), ("grid", "g.yaml", "--inline", "--tracking", "none")):
        said = raybench(*command)
        assert said.status in (0, 3) and UNPRINTABLE.findall(said.out + said.err) == []
    for command in (("plan", "wrong.yaml"), ("plan", f"{HOSTILE}.yaml"), ("report", HOSTILE), (HOSTILE,)):
        said = raybench(*command)
        assert said.status == 2 and UNPRINTABLE.findall(said.out + said.err) == []

"""Whatever a file from somebody else says, it commands no terminal."""

import ast
import json
import re
from pathlib import Path

import pytest
from support.made_up_grids import contract_events

import raybench as package
from raybench.core.text import printable, printable_json

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
    for event in made:
        path = tmp_path / "made_up" / "attempts" / event["trial"] / f"{event['trial']}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{json.dumps(event)}\n")
    return tmp_path / "made_up"


@pytest.mark.parametrize(
    "options", [(), ("--full",), ("--all",), ("--json", "-"), ("--grid", "x"), ("--baseline", "x")]
)
def test_a_report_of_a_grid(raybench, hostile, options):
    said = raybench("report", hostile, *options)
    assert said.status in (0, 2)
    assert said.out or said.err
    assert UNPRINTABLE.findall(said.out + said.err) == []


def test_data_keep_the_texts_as_escapes(raybench, hostile):
    data = json.loads(raybench("report", hostile, "--json", "-").out)
    assert any(HOSTILE in each["label"] for each in data["configurations"])


@pytest.mark.slow
def test_a_page(raybench, hostile, tmp_path):
    assert raybench("report", hostile, "--html", tmp_path / "page.html").status == 0
    assert UNPRINTABLE.findall((tmp_path / "page.html").read_text()) == []


@pytest.mark.parametrize("bad", [False, True])
def test_a_report_of_a_csv(raybench, tmp_path, bad):
    device = HOSTILE.replace("\r", "")
    rows = [f"a,1,5.0,0.3,{device}", f"b,1,5.1,{device if bad else 0.2},{device}", "c,1,9.0,0.4,cpu"]
    (tmp_path / "e.csv").write_text("\n".join([f"trial,epoch,train_s,val/{device},device", *rows]))
    said = raybench("report", "e.csv")
    assert said.status == (2 if bad else 0), said
    assert UNPRINTABLE.findall(said.out + said.err) == []


def test_a_plan_and_its_errors(raybench, tmp_path):
    device = json.dumps(f"c{HOSTILE}")
    text = f"name: g\nworkload: digits_cnn\naxes: {{device: [{device}]}}\ndevices: {{{device}: {{kind: tpu}}}}\n"
    (tmp_path / "g.yaml").write_text(text)
    (tmp_path / "wrong.yaml").write_text(f"{text}epochs: [{device}]\n{device}: 1\n")
    for command in (("plan", "g.yaml"), ("plan", "g.yaml", "--order"), ("grid", "g.yaml", "--inline", "--no-tracking")):
        said = raybench(*command)
        assert said.status in (0, 3) and UNPRINTABLE.findall(said.out + said.err) == []
    for command in (("plan", "wrong.yaml"), ("plan", f"{HOSTILE}.yaml"), ("report", HOSTILE), (HOSTILE,)):
        said = raybench(*command)
        assert said.status == 2 and UNPRINTABLE.findall(said.out + said.err) == []


def test_text_for_a_terminal_and_for_data():
    assert printable(f"a\tb\n{HOSTILE}é✓") == "a\tb\n[2J]52;c;cm0=31mgpjé✓"
    assert printable("\ud800") == "\ufffd"
    assert json.loads(printable_json(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE


def test_there_are_two_ways_to_the_terminal():
    """Only `say` and `Terminal` print: any other call would print control characters unchanged."""
    found = []
    for path in sorted((Path(package.__file__).parent / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "click.echo", "click.secho", "Console", "sys.stdout.write", "sys.stderr.write"):
                found.append((path.name, called))
    assert found == [("terminal.py", "click.echo")]

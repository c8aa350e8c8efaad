"""What is asked most often costs least: help and plan load no framework, no Ray and no MLflow."""

import signal
import subprocess
import sys

import pytest
from support import ROOT, TESTS

from raybench.cli import VERBS

HEAVY = ["torch", "ray", "mlflow", "pandas", "scipy", "sklearn", "tensorflow", "pooch"]


def loaded_by(*arguments, statuses=(0,)):
    """The heavy packages that a command has loaded when it ends."""
    code = f"""
import sys
from raybench.cli import main
sys.argv = ["raybench", *{arguments!r}]
try:
    main()
finally:
    print([name for name in {["pydantic", "rich", "numpy", *HEAVY]} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode in statuses, done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("arguments", [["--help"], ["grid", "--help"], ["plan", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments):
    assert loaded_by(*arguments) == "[]"


def test_a_plan_loads_nothing_heavy_and_starts_nothing(digits, tmp_path):
    loaded = loaded_by("plan", str(digits))
    assert not any(name in loaded for name in HEAVY), loaded
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["digits.yaml"]


LOGS = TESTS / "sources" / "logs" / "modded_nanogpt"
CLAIMS = ROOT / "notebooks" / "published" / "claims"


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", LOGS),
        ("report", CLAIMS / "modded_81.csv"),
        ("report", CLAIMS / "modded_81.csv", "--target", "mean val/loss<=3.28"),
        ("report", "--chain", CLAIMS / "golf_records.csv"),
        ("compare", LOGS / "baseline", LOGS / "baseline", "--max-slowdown", "5%"),
    ],
    ids=lambda arguments: " ".join(getattr(each, "name", each) for each in arguments),
)
def test_logs_load_no_framework(arguments):
    loaded = loaded_by(*map(str, arguments), statuses=(0, 5))
    assert not any(name in loaded for name in HEAVY if name != "scipy"), loaded


def test_ctrl_c_while_the_command_loads_is_no_traceback():
    code = """
import os, signal, sys
sys.argv = ["/bin/raybench", "--help"]
class Interrupt:
    def find_spec(self, name, *_):
        if name == "raybench.errors":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from raybench.cli import main
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    "verb",
    [[verb] for verb in VERBS] + [["data", "fetch"], ["env", "create"]],
    ids=" ".join,
)
def test_every_verb_has_an_example(raybench, verb):
    said = raybench(*verb, "--help")
    assert said.status == 0
    assert "Example" in said.out
    assert f"raybench {' '.join(verb)}" in said.out.split("Example")[1]


def test_every_verb_is_in_the_list(raybench):
    for ask in (["--help"], ["-h"]):
        listed = raybench(*ask).out.split("Commands:")[1]
        assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "] == list(
            VERBS
        )

"""Runs code in a process in which one declaration of raybench.results has one more line."""

import json
import os
import subprocess
import sys

ADD = """
import json, sys, types
from importlib.util import find_spec

name, mark, line = sys.argv[1:]
path = find_spec(name).origin
text = open(path).read()
assert text.count(mark) == 1
module = sys.modules[name] = types.ModuleType(name)
exec(compile(text.replace(mark, line + mark), path, "exec"), module.__dict__)
"""


def printed_with(line, before, module, code):
    """The JSON that `code` prints where the module's text has `line` before the only place that says `before`."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120"}
    command = [sys.executable, "-c", ADD + code, module, before, line]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

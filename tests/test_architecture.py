"""Which package may import what, read off the source."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, WORKLOADS

import raybench
from raybench import workloads

PACKAGE = Path(raybench.__file__).parent
FRAMEWORKS = {"torch", "torch_xla", "torch_tpu", "tensorflow", "keras"}
HEAVY = FRAMEWORKS | {"ray", "mlflow"}
MODULES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


def imports(tree, top_level_only=False):
    """The modules a file imports: their full names."""
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def inside(name, *packages):
    return any(name == package or name.startswith(package + "/") for package in packages)


def import_faults(name, tree):
    """Imports that the contracts in pyproject.toml cannot say, since they depend on a file's name."""
    used = {module.split(".")[0] for module in imports(tree)}
    if "mlflow" in used and not inside(name, "tracking/mlflow.py"):
        yield "only tracking/mlflow.py imports mlflow"
    if used & HEAVY and inside(name, "config", "planning", "analysis", "core", "results"):
        yield f"imports {used & HEAVY}"
    of_framework = inside(name, "workloads") and any(of in Path(name).stem for of in ("torch", "tensorflow"))
    if used & FRAMEWORKS and not (inside(name, "devices", "engines", "integrations") or of_framework):
        yield "only devices/, engines/, integrations/ and a workload's file of that framework import a framework"
    if inside(name, "devices") and {each.split(".")[0] for each in imports(tree, top_level_only=True)} & FRAMEWORKS:
        yield "a device is probed without its framework"


def test_imports_of_each_file():
    assert [f"{name}: {fault}" for name, tree in MODULES.items() for fault in import_faults(name, tree)] == []


def test_layers():
    # The contracts in pyproject.toml; `lint-imports` shows them with the chains of imports that break one.
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run([*command, "--no-cache"], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_branches_on_device_or_framework():
    names = {"cuda", "mps", "tpu", "torch", "torch_xla", "torch_tpu", "tensorflow"}
    faults = []
    for name, tree in MODULES.items():
        if inside(name, "devices", "engines", "planning/placement.py"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                texts = {leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
                faults += [f"{name}:{node.lineno} compares with {text}" for text in names & texts]
    assert faults == []


def test_every_module_has_a_docstring():
    assert [name for name, tree in MODULES.items() if tree.body and not ast.get_docstring(tree)] == []


DRIVERS = {"pandas", "scipy", "sklearn", "matplotlib", "pooch"}
LOOKUP = f"""
from pathlib import Path
from raybench import datasets, workloads
for name in ("my_file.py:my_workload", *workloads.names()):
    workloads.read_workload(name, Path({str(WORKLOADS)!r}))
datasets.get("digits").status(datasets.data_root())
"""
LIGHT = {
    "raybench": (
        "import raybench; raybench.Workload; dir(raybench)",
        HEAVY | DRIVERS | {"numpy", "yaml", "pydantic", "click", "rich"},
    ),
    "a loop": ("import raybench; raybench.current_trial()", HEAVY | DRIVERS | {"pydantic"}),
    "lookup": (LOOKUP, HEAVY | DRIVERS | {"numpy", "requests", "filelock", "pydantic", "rich"}),
    "load": (
        f"import raybench; assert len(raybench.load({str(ROOT / 'notebooks' / 'recorded')!r}).trials)",
        HEAVY | {"sklearn", "matplotlib"},
    ),
    **{
        name: (f"import raybench.{name}", HEAVY | DRIVERS)
        for name in ("config", "planning.plan", "workloads", "datasets", "environments", "planning.node", "cli")
    },
}


@pytest.mark.parametrize(("code", "heavy"), LIGHT.values(), ids=LIGHT)
def test_what_loads_little(code, heavy, tmp_path):
    code = f"{code}\nimport sys\nprint(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_trial_layer_needs_only_a_framework(tmp_path):
    """A machine with a framework and NumPy alone can run trials, and load their workload and data."""
    (tmp_path / "w.py").write_text("from raybench import Workload\nw = Workload(model=list, dataset='digits')\n")
    info = workloads.read_workload("w.py:w", tmp_path)
    code = """
import json, sys
from pathlib import Path
missing = "ray mlflow pydantic click rich pooch requests yaml filelock platformdirs scipy"
sys.modules.update(dict.fromkeys(missing.split()))
import raybench.execution.fork_server
import raybench.execution.process
import raybench.trial.record
import raybench.engines.torch.engine
import raybench.workloads.digits_cnn.torch
from raybench import datasets, workloads
workload = workloads.load_workload(workloads.read_info(json.load(sys.stdin)), Path())
print(len(datasets.get(workload.dataset).load(Path()).train))
"""
    how = {"input": json.dumps(info.to_json()), "capture_output": True, "text": True, "check": True, "cwd": tmp_path}
    assert subprocess.run([sys.executable, "-c", code], **how).stdout == "1437\n"


# Names that do not say what they hold. Their number may only fall: rename those that you meet.
GRAMMAR = {"each", "own", "found", "known", "other", "others", "left", "made", "said", "listed", "same"}
MOST_GRAMMAR = 60


def bound_names(tree):
    """The variables and parameters of a module, with their lines; not the fields of its classes."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {id(entry.target) for node in classes for entry in node.body if isinstance(entry, ast.AnnAssign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.id, node.lineno


def test_names_say_what_they_hold():
    bound = ((file, name, line) for file, tree in MODULES.items() for name, line in bound_names(tree))
    names = [f"{file}:{line} {name}" for file, name, line in bound if name in GRAMMAR]
    assert len(names) <= MOST_GRAMMAR, "\n".join(names)

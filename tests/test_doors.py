"""The rooms of the house and the doors between them, read off the imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import raybench

PACKAGE = Path(raybench.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
FRAMEWORKS = {"torch", "torch_xla", "tensorflow", "keras"}
HEAVY = FRAMEWORKS | {"ray", "mlflow"}


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def imports(path, top_level_only=False):
    """The modules a file imports: their full names."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
    return found


def roots(path, **how):
    return {name.split(".")[0] for name in imports(path, **how)}


def inside(path, *rooms):
    return any(name_of(path) == room or name_of(path).startswith(room + "/") for room in rooms)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_stay_in_their_rooms(path):
    used = roots(path)
    assert "ray" not in used or inside(path, "execution"), "only execution/ imports ray"
    assert "mlflow" not in used or inside(path, "tracking/mlflow.py"), "only tracking/mlflow.py imports mlflow"
    if inside(
        path, "spec", "plan.py", "resolve.py", "replication.py", "analysis", "preflight.py", "cell.py", "identity.py"
    ):
        assert not used & HEAVY
    if used & FRAMEWORKS:
        named_for_it = any(framework in path.stem for framework in ("torch", "tensorflow"))
        assert inside(path, "devices", "engines") or (inside(path, "workloads") and named_for_it), "a framework's rooms"
    if inside(path, "trial", "engines", "devices", "datasets", "workloads", "audit"):
        assert not used & {"ray", "mlflow", "pydantic", "click", "rich"}, "the trial layer needs none of these"
        for module in imports(path):
            assert not module.startswith(("raybench.cli", "raybench.tracking", "raybench.execution", "raybench.spec"))
    if inside(path, "devices"):
        assert not roots(path, top_level_only=True) & FRAMEWORKS, "a device is probed without its framework"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_branch_on_a_device_or_framework_elsewhere(path):
    if inside(path, "devices", "engines", "preflight.py"):
        return
    names = {"cuda", "mps", "tpu", "torch", "torch_xla", "tensorflow"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            constants = {
                leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
            }
            assert not constants & names, f"line {node.lineno} compares with {constants & names}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_short_and_say_what_they_are(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 320
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "a module says in a line what is inside"


@pytest.mark.parametrize(
    "module",
    [
        "raybench",
        "raybench.spec",
        "raybench.plan",
        "raybench.workloads",
        "raybench.datasets",
        "raybench.environments",
        "raybench.devices.node",
        "raybench.cli",
    ],
)
def test_light_modules_load_nothing_heavy(module):
    heavy = sorted(HEAVY | {"pandas", "scipy", "sklearn", "matplotlib", "pooch"})
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_the_trial_layer_loads_without_the_rest():
    """A machine with a framework and NumPy alone can run trials."""
    missing = ["ray", "mlflow", "pydantic", "click", "rich", "pooch", "yaml", "filelock"]
    needed = [
        "raybench.execution.template",
        "raybench.execution.process",
        "raybench.trial.record",
        "raybench.engines.torch.engine",
        "raybench.datasets.digits",
        "raybench.workloads.digits_cnn.torch",
    ]
    code = f"import sys\nsys.modules.update(dict.fromkeys({missing!r}))\nimport {', '.join(needed)}"
    subprocess.run([sys.executable, "-c", code], check=True)

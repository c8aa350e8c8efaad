"""Nothing that raybench reads is run: not data, journals, stores, checkpoints or grid files."""

import ast
from pathlib import Path

import pytest

import raybench
from raybench.config import load_grid
from raybench.errors import GridFileError

PACKAGE = Path(raybench.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle"}
YAML_LOADERS = {
    "load",
    "load_all",
    "full_load",
    "full_load_all",
    "unsafe_load",
    "unsafe_load_all",
    "Loader",
    "UnsafeLoader",
}
TORCH_LOADERS = {"torch.load", "torch.jit.load", "torch.package.PackageImporter"}
UNSAFE_READERS = {
    "pd.read_pickle",
    "pandas.read_pickle",
    "keras.models.load_model",
    "tf.keras.models.load_model",
}
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
A_PERSONS_OWN_FILE = "workloads/lookup.py"
"""The one place that runs a file: the workload that a grid names."""


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def called(node):
    """What a call calls, with its dots: `torch.load`; empty where it is no plain name."""
    return ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""


def keyword(node, name):
    return next((ast.unparse(word.value) for word in node.keywords if word.arg == name), None)


def dangers(path):
    """What of a module unpickles, unpacks or runs what it reads, line by line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            if {name.split(".")[0] for name in names} & UNPICKLERS:
                yield node
        if not isinstance(node, ast.Call):
            continue
        function = called(node)
        if (
            (function in RUNS_TEXT and name_of(path) != A_PERSONS_OWN_FILE)
            or (function.startswith("yaml.") and function.removeprefix("yaml.") in YAML_LOADERS)
            or (function in TORCH_LOADERS and keyword(node, "weights_only") != "True")
            or (function in ("np.load", "numpy.load") and keyword(node, "allow_pickle") != "False")
            or function in UNSAFE_READERS
            or function.endswith((".extractall", ".unpack_archive"))
            or (function.endswith(("Popen", "subprocess.run")) and keyword(node, "shell") not in (None, "False"))
        ):
            yield node


def test_no_module_unpickles_or_runs_what_it_reads():
    found = [f"{name_of(path)}:{node.lineno}: {ast.unparse(node)[:80]}" for path in MODULES for node in dangers(path)]
    assert found == []


EVIL = {
    "a tag": "name: g\nworkload: !!python/object/apply:os.system ['touch {proof}']\n",
    "a tag of a value": "name: g\nworkload: digits_cnn\nepochs: !!python/name:os.system\n",
    "a local tag": "name: g\nworkload: !include /etc/passwd\n",
    "a template": "name: g\nworkload: '{{{{ self.__init__.__globals__ }}}}'\n",
    "a format": "name: '{{0.__class__}}'\nworkload: digits_cnn\n",
    "a shell's word": "name: g\nworkload: '$(touch {proof})'\n",
    "a module": "name: g\nworkload: 'os:system'\n",
    "an environment": "name: g\nworkload: digits_cnn\ndevices: {{cpu: {{kind: cpu, environment: 5}}}}\n",
}


@pytest.mark.parametrize("evil", EVIL.values(), ids=EVIL)
def test_a_grid_file_is_data(evil, tmp_path):
    from raybench.errors import UsageError
    from raybench.planning.node import probe_node
    from raybench.planning.plan import make_plan

    proof = tmp_path / "proof"
    (tmp_path / "g.yaml").write_text(evil.format(proof=proof))
    with pytest.raises((GridFileError, UsageError)) as told:
        make_plan(load_grid(tmp_path / "g.yaml"), [probe_node()], tmp_path)
    assert "Traceback" not in str(told.value)
    assert not proof.exists()

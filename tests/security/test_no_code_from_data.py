"""Nothing that raybench reads is run: not data, journals, stores, checkpoints or grid files."""

import ast
from pathlib import Path

import pytest

import raybench
from raybench.errors import GridFileError
from raybench.spec import load_grid

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
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
A_PERSONS_OWN_FILE = "workloads/reference.py"
"""The one place that runs a file: the workload that a grid names."""


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def called(node):
    """What a call calls, with its dots: `torch.load`; empty where it is no plain name."""
    return ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""


def keyword(node, name):
    return next((ast.unparse(word.value) for word in node.keywords if word.arg == name), None)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_unpickles_or_runs_what_it_reads(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not {name.split(".")[0] for name in names} & UNPICKLERS, f"line {node.lineno}"
        if not isinstance(node, ast.Call):
            continue
        function, where = called(node), f"line {node.lineno}: {ast.unparse(node)[:80]}"
        if function in RUNS_TEXT:
            assert name_of(path) == A_PERSONS_OWN_FILE, where
        if function.startswith("yaml."):
            assert function.removeprefix("yaml.") not in YAML_LOADERS, where
        if function in ("torch.load", "torch.jit.load", "torch.package.PackageImporter"):
            assert keyword(node, "weights_only") == "True", where
        if function in ("np.load", "numpy.load"):
            assert keyword(node, "allow_pickle") == "False", where
        if function in (
            "pd.read_pickle",
            "pandas.read_pickle",
            "keras.models.load_model",
            "tf.keras.models.load_model",
        ):
            pytest.fail(where)
        if function.endswith((".extractall", ".unpack_archive")):
            pytest.fail(where)
        if function.endswith(("Popen", "subprocess.run")):
            assert keyword(node, "shell") in (None, "False"), where


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
    from raybench.devices.node import probe_node
    from raybench.errors import UsageError
    from raybench.plan import make_plan

    proof = tmp_path / "proof"
    (tmp_path / "g.yaml").write_text(evil.format(proof=proof))
    with pytest.raises((GridFileError, UsageError)) as told:
        make_plan(load_grid(tmp_path / "g.yaml"), [probe_node()], tmp_path)
    assert "Traceback" not in str(told.value)
    assert not proof.exists()

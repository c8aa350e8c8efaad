"""The examples, commands and tables of the README and of the pages in docs/ are correct."""

import json
import re
import runpy
import shlex
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml
from support import ROOT

from raybench.analysis.grid_results import GridResults
from raybench.analysis.run_counts import RunCounts
from raybench.cli import VERBS
from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.reporting.reference_results import reported_numbers
from raybench.run import Options, run_grid

WORKER_GROUP = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template", "numOfHosts"}
README = (ROOT / "README.md").read_text()
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS]


def page(name):
    """The text of a page in docs/."""
    return (ROOT / "docs" / f"{name}.md").read_text()


def block(heading, language, text=README):
    """The first code block below a heading in that language."""
    section = f"\n{text}".split(f"\n{heading}\n", 1)[1]
    return re.search(rf"```{language}\n(.*?)```", section, re.DOTALL).group(1)


def test_the_grid_file_of_the_readme_loads(tmp_path):
    (tmp_path / "grid.yaml").write_text(block("## A grid file", "yaml"))
    spec = load_grid(tmp_path / "grid.yaml")
    assert spec.baseline == {"device": "gpu"}
    assert spec.overrides[0].set.precision == "bf16"
    shipped = (ROOT / "grids" / f"{spec.name}.yaml").read_text()
    assert shipped[shipped.index("name: ") :].rstrip() == block("## A grid file", "yaml").strip(), (
        "the same as the shipped one"
    )


def test_every_command_of_the_published_comparisons_is_a_grid_that_has_something_beside_it():
    rows = page("how_to/published").split("| comparison | command | published |")[1].split("\n\n")[0].splitlines()[2:]
    grids = {path.stem for path in (ROOT / "grids").glob("*.yaml")}
    first = ""
    for row in rows:
        said = shlex.split(re.search(r"`(.*)`", row.split("|")[2]).group(1))
        first = said[2] if said[0] == "raybench" else first
        assert Path(first).stem in grids
        spec = load_grid(ROOT / first, [said[at + 1] for at, word in enumerate(said) if word == "--set"])
        assert reported_numbers(GridResults(spec.name, spec.workload, [], {}, {})), (
            f"nothing was published of {spec.workload}"
        )


@pytest.mark.slow
def test_a_workload_of_ones_own_word_for_word(tmp_path):
    (tmp_path / "my_file.py").write_text(block("## Your own workload", "python"))
    (tmp_path / "grid.yaml").write_text("name: mine\nworkload: my_file.py:my_workload\n")

    options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
    outcome = run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options)
    assert [row.counts for row in outcome.rows] == [RunCounts(1, 1)]
    assert outcome.rows[0].metric.value > 0.85
    assert len(next(iter(outcome.latest.values())).epochs) == 3, "the recipe's own number"


def test_the_files_of_the_cluster_page_have_only_fields_of_ray_and_kuberay():
    launcher, job = re.findall(r"```yaml\n(.*?)```", page("how_to/cluster"), re.DOTALL)
    import ray.autoscaler

    schema = json.loads(Path(ray.autoscaler.__file__).with_name("ray-schema.json").read_text())
    told = yaml.safe_load(launcher)
    jsonschema.validate(told, schema)
    assert told.keys() <= schema["properties"].keys()
    # Of KubeRay's RayJob, the fields of its API reference, ray.io/v1.
    told = yaml.safe_load(job)
    assert (told["apiVersion"], told["kind"]) == ("ray.io/v1", "RayJob")
    spec, cluster = told["spec"], told["spec"]["rayClusterSpec"]
    assert spec.keys() <= {"entrypoint", "shutdownAfterJobFinishes", "rayClusterSpec", "ttlSecondsAfterFinished"}
    assert cluster.keys() <= {"headGroupSpec", "workerGroupSpecs", "rayVersion"}
    groups = cluster["workerGroupSpecs"]
    assert all(group.keys() <= WORKER_GROUP and group["template"]["spec"]["containers"] for group in groups)
    assert cluster["headGroupSpec"].keys() <= {"rayStartParams", "template", "serviceType"}
    grid = shlex.split(spec["entrypoint"])[2]
    assert (ROOT / "grids" / Path(grid).name).exists()


def test_the_example_of_tables_word_for_word(capsys):
    code = block("# Results as tables", "python", page("how_to/results_as_tables"))
    exec(compile(code, "results_as_tables.md", "exec"), {})
    assert capsys.readouterr().out.strip() == code.rpartition("# ")[2].strip()


def test_every_verb_is_in_its_table():
    for verb in VERBS:
        assert f"`raybench {verb}" in README, verb


def test_the_tables_that_come_from_the_code_are_up_to_date():
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    for path in generate["pages"]():
        assert generate["with_tables"](path.read_text()) == path.read_text(), "run `python docs/generate.py`"


@pytest.mark.slow
def test_outputs_are_up_to_date():
    outputs = runpy.run_path(str(ROOT / "docs" / "outputs.py"))
    shown = {}
    for path in outputs["pages"]():
        for match in outputs["BLOCK"].finditer(path.read_text()):
            shown.setdefault(match["name"], set()).add(match["text"])
    assert shown.keys() == outputs["OUTPUTS"].keys()
    for name, output in outputs["OUTPUTS"].items():
        text = outputs["text_of"](output)
        assert shown[name] == {text} or (output.of_machine and len(shown[name]) == 1), "run `python docs/outputs.py`"


def test_the_grid_of_the_tutorial_is_the_shipped_one():
    shown = block("## 2. Look at the grid file", "yaml", page("tutorial/first_verdict"))
    shipped = yaml.safe_load((ROOT / "grids" / "quickstart.yaml").read_text())
    assert yaml.safe_load(shown) == {key: value for key, value in shipped.items() if key != "description"}


def test_the_grid_of_the_page_on_colab_is_the_shipped_one():
    shown = block("## 1. The grid file", "yaml", page("tutorial/colab"))
    shipped = yaml.safe_load((ROOT / "grids" / "machines.yaml").read_text())
    assert yaml.safe_load(shown) == {key: value for key, value in shipped.items() if key != "description"}


def test_the_supported_versions_of_python_are_the_same_everywhere():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, tools = settings["project"], settings["tool"]
    lowest, *others = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert (project["requires-python"], tools["mypy"]["python_version"]) == (f">={lowest}", lowest)
    assert tools["ruff"]["target-version"] == f"py{lowest.replace('.', '')}"
    assert f"Python {lowest} or later" in README
    others = " ".join(f"python{version}" for version in others)
    assert f".ci/pythons {others}\n" in (ROOT / "CONTRIBUTING.md").read_text()


def test_the_shipped_grids_are_in_their_table():
    shipped = {path.name for path in (ROOT / "grids").glob("*.yaml")}
    assert set(re.findall(r"^\| `(\w+\.yaml)` \|", page("reference/grids"), re.MULTILINE)) == shipped


def test_the_two_commands_are_the_ones_that_are_run():
    first, second = re.findall(r"^(pip install .*)$", README, re.MULTILINE)[:2]
    assert first == "pip install . && raybench grid grids/quickstart.yaml"
    assert second == 'pip install -e ".[test,tensorflow]" && pytest'
    assert 'pip install --quiet -e ".[test,tensorflow]"' in (ROOT / ".ci" / "run").read_text()


def test_the_readme_is_short_and_links_to_every_page():
    assert len(README.splitlines()) <= 250
    ending = README.split("\n## Documentation\n", 1)[1]
    pages = {str(path.relative_to(ROOT)) for path in DOCS} - {"docs/index.md"}
    assert set(re.findall(r"\((docs/[\w/]+\.md)\)", ending)) == pages


def anchors(text):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        found = (path.parent / name) if name else path
        assert found.exists(), target
        assert not anchor or anchor in anchors(found.read_text()), target

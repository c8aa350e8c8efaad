"""The public Python API: its names, its examples, its types, and what it returns."""

import doctest
import inspect
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support import ROOT
from support.grid_files import write_events
from support.made_up_grids import cell_of, contract_events, told

import raybench
from raybench.cli.options import options
from raybench.core.options import GridOptions, option, options_of, with_keywords
from raybench.execution.inline import InlineExecutor
from raybench.reporting import figures, frames, results

GRID = {
    "name": "small",
    "workload": "digits_cnn",
    "epochs": 1,
    "steps_per_epoch": 3,
    "examples": {"train": 256, "val": 64},
    "threads": 1,
    "axes": {"batch_size": [32, 64]},
    "baseline": {"batch_size": 32},
}
QUIET = {"tracking": None, "checks": False, "inline": True, "progress": False}


@pytest.fixture
def contract(tmp_path):
    """The results of the grid whose numbers `formats.md` has: a CPU and a device of twice its speed."""
    return raybench.load(write_events(tmp_path / "made_up", contract_events()))


@pytest.fixture
def quickstart(tmp_path, monkeypatch):
    """A current folder with the recorded results of the quick start, as the examples expect them."""
    shutil.copytree(ROOT / "notebooks" / "recorded", tmp_path / "raybench-results")
    monkeypatch.chdir(tmp_path)


def examples():
    modules = [raybench, results]
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = {test.name: test for module in modules for test in finder.find(module) if test.examples}
    return [
        pytest.param(test, id=name, marks=[pytest.mark.slow] if name == "raybench.run_grid" else [])
        for name, test in found.items()
    ]


@pytest.mark.usefixtures("quickstart")
@pytest.mark.parametrize("example", examples())
def test_docstring_examples(example):
    said = []
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert outcome.attempted and not outcome.failed, "".join(said)


@pytest.mark.usefixtures("quickstart")
def test_examples_of_the_page():
    (page,) = (ROOT / "docs").glob("python.md")
    text = re.sub("```.*", "", page.read_text())  # a closing fence is no output
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    said = []
    outcome = doctest.DocTestRunner().run(example, out=said.append)
    assert outcome.attempted > 4 and not outcome.failed, "".join(said)


def priority_of(grid, options):
    """Return the priority.

    Args:
        grid: the grid.

    Returns:
        The priority.
    """
    return options.priority


def test_option_is_one_entry(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class MoreOptions(GridOptions):
        priority: int = option(0, "Priority of the processes.", metavar="N", least=0)

    run_grid = with_keywords(MoreOptions)(priority_of)
    assert run_grid("grid.yaml", priority=3, smoke=True) == 3
    assert "priority: Priority of the processes." in run_grid.__doc__
    assert inspect.signature(run_grid).parameters["priority"].default == 0

    command = click.command(options(MoreOptions)(lambda options: click.echo(f"priority {options.priority}")))
    assert CliRunner().invoke(command, ["--priority", "4", "--no-checks"]).output == "priority 4\n"
    assert CliRunner().invoke(command, ["--priority", "-1"]).exit_code == 2
    assert "--priority N" in CliRunner().invoke(command, ["--help"]).output

    monkeypatch.syspath_prepend(ROOT / "docs")
    import generate

    assert "| `--priority N` | Priority of the processes. |" in generate.options(options_of(MoreOptions))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A results folder, and what `run_grid` returns for a grid without a file."""
    folder = tmp_path_factory.mktemp("small")
    return folder, raybench.run_grid(GRID, results=folder, **QUIET)


def test_grid_from_python(small):
    folder, found = small
    assert repr(found) == "Results(small~inline: 2 configurations, 2 runs)"
    assert found.trials["status"].tolist() == ["completed"] * 2
    table = found.comparison
    assert table["batch_size"].tolist() == [32, 64] and table["completed"].tolist() == [1, 1]
    assert found.effects["runs"].tolist() == [1]
    loaded = raybench.load(folder, grid="small~inline")
    assert loaded.trials.equals(found.trials) and loaded.epochs.equals(found.epochs)
    assert loaded.comparison.equals(table)
    assert "batch_size" in found.report.grid_file, "the report shows the grid, as YAML"


def test_same_call_runs_only_what_is_missing(small, monkeypatch):
    folder, _ = small
    begun = []
    run = InlineExecutor.run
    monkeypatch.setattr(InlineExecutor, "run", lambda self, *rest: begun.append(1) or run(self, *rest))
    again = raybench.run_grid(GRID, results=folder, **QUIET)
    assert len(again.trials) == 2 and not begun
    more = raybench.run_grid(GRID, results=folder, where={"batch_size": 64}, set={"repeats": 2}, **QUIET)
    assert begun and more.trials["batch_size"].value_counts().to_dict() == {64: 2, 32: 1}
    assert more.comparison["planned"].tolist() == [2]


def test_interrupt(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(InlineExecutor, "run", stop)
    with pytest.raises(KeyboardInterrupt, match="the same call runs the rest"):
        raybench.run_grid(GRID, results=tmp_path, **QUIET)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: raybench.run_grid("quickstrt.yaml"), "quickstrt.yaml: no such file; did you mean quickstart.yaml?"),
        (lambda: raybench.run_grid({"name": "g"}), "grid: workload: "),
        (lambda: raybench.run_grid(GRID | {"learning_rat": 1}), "grid: learning_rat: "),
        (lambda: raybench.run_grid(GRID, set={"axes.batch_size": 0}), "set axes.batch_size=…: axes.batch_size: "),
        (
            lambda: raybench.run_grid(GRID, where={"batch_sise": 32}),
            "where batch_sise=32: small has no axis batch_sise; did you mean batch_size?",
        ),
        (
            lambda: raybench.run_grid(GRID, where={"batch_size": 31}),
            "where batch_size=31: small has no batch_size 31; use one of 32, 64",
        ),
        (lambda: raybench.run_grid(GRID, repeats=0), "repeats: 0 is not allowed"),
        (lambda: raybench.load("raybench-result"), "raybench-result: there is no such file or folder"),
        (lambda: raybench.report("quickstar"), "did you mean quickstart?"),
        (lambda: raybench.export("quickstar"), "did you mean quickstart?"),
        (lambda: raybench.report("quickstart", "no/such/folder.html"), "cannot be written: No such file or directory"),
        (
            lambda: raybench.report("quickstart", baseline={"batch_size": 31}),
            "quickstart has no batch_size 31; use one of 32, 128",
        ),
        (
            lambda: raybench.load("raybench-results").with_baseline(devise="cpu"),
            "quickstart has no axis devise; did you mean device?",
        ),
        (lambda: raybench.run_grid("quickstart", retry=["lots"]), "['lots'] is not a list of statuses"),
        (lambda: raybench.run_grid("quickstart", inline=True, address="auto"), "leave out one of inline and address"),
        (
            lambda: raybench.load("raybench-results").plot("time_and_price"),
            "fewer than two configurations have a price",
        ),
    ],
)
@pytest.mark.usefixtures("quickstart")
def test_wrong_use_is_one_line(call, message):
    Path("quickstart.yaml").write_text("name: quickstart\n")
    with pytest.raises(raybench.RaybenchError) as raised:
        call()
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_comparison_has_known_ratio(contract):
    contract = contract.for_these_machines.with_baseline(device="cpu")
    rows = contract.comparison.set_index("device")
    assert [round(rows.loc["other", name], 2) for name in ("ratio", "low", "high")] == [2.02, 1.97, 2.08]
    assert rows.loc["other", ["reference", "completed"]].tolist() == ["cpu", 3]
    turned = contract.with_baseline(device="other").comparison.set_index("device")
    assert round(1 / turned.loc["cpu", "ratio"], 2) == 2.02
    assert contract.effects["ratio"].tolist() == contract.best["ratio"].tolist() == [rows.loc["other", "ratio"]]


def test_tables_have_the_described_columns(contract):
    for table, described in frames.TABLES.items():
        frame = getattr(contract, table)
        names = [column.name for column in described]
        own = [name for name in frame.columns if "/" in name and name not in names]  # metrics of the trials
        assert [name for name in frame.columns if name not in ("device", *own)] == names
        assert all(str(frame[column.name].dtype) == column.dtype for column in described)
        texts = contract.columns[contract.columns["table"] == table]
        assert texts["name"].tolist() == [column.name for column in described] and all(texts["meaning"])


def test_notebook_shows_answer_effects_and_figure(contract):
    contract = contract.for_these_machines.with_baseline(device="cpu")
    html = contract._repr_html_()
    assert "Faster: other:" in html and "2.02x" in html and "<svg" in html
    assert "2.02x" in str(contract) and "examples/s" in str(contract)
    assert repr(contract) == "Results(made_up: 2 configurations, 6 runs)"


def test_html_in_names_is_escaped(tmp_path):
    events = [
        event
        for device in ("cpu", "<b>gpu</b>")
        for event in told(cell_of(device), 0, [1.0, 1.0, 1.0, 1.0], [0.5] * 4, profile=device)
    ]
    html = raybench.load(write_events(tmp_path / "g", events))._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;gpu" in html


def test_several_grids(tmp_path):
    for name in ("one", "two"):
        events = [{**event, "grid": name} for event in contract_events()]
        write_events(tmp_path / name, events)
    both = raybench.load(tmp_path)
    assert both.comparison["grid"].tolist() == ["one", "one", "two", "two"]
    assert both._repr_html_().count("<svg") == 2 and "two" in str(both)
    with pytest.raises(raybench.RaybenchError, match=r"results of 2 grids \(one, two\): choose one"):
        _ = both.report
    page = raybench.report(raybench.load(tmp_path, grid="two"), tmp_path / "two.html", baseline="other")
    assert "<h1>two</h1>" in page.read_text()


def test_empty_results():
    nothing = raybench.Results([])
    assert (repr(nothing), str(nothing), nothing._repr_html_()) == (
        "Results(no grid: 0 configurations, 0 runs)",
    ) * 2 + ("",)
    assert len(nothing.comparison) == 0
    with pytest.raises(raybench.RaybenchError, match="no trial in these results yet"):
        _ = nothing.report


@pytest.mark.usefixtures("quickstart")
def test_figures_are_axes():
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    found = raybench.load("raybench-results")
    for name in figures.FIGURES.keys() - {"time_and_price", "scaling"}:
        axes = found.plot(name)
        assert isinstance(axes, Axes) and pyplot.fignum_exists(axes.figure.number), name
        pyplot.close(axes.figure)
    with pytest.raises(raybench.RaybenchError, match="no figure sped; did you mean speed"):
        found.plot("sped")

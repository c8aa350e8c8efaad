"""`raybench run`: one command line as a grid."""

import pytest
from support.executors import DrawnTimes

from raybench import load
from raybench.config.one_line import as_yaml, expanded_braces, grid_of
from raybench.errors import UsageError

PROGRAM = """
import sys, time
for epoch in (1, 2):
    time.sleep(0.06)
    print(f"epoch {epoch}: val loss {1 / epoch} with {sys.argv[1:]}", flush=True)
"""


@pytest.mark.parametrize(
    ("words", "command", "axes"),
    [
        ("train.py --batch-size {16,64}", "train.py --batch-size {batch_size}", {"batch_size": [16, 64]}),
        ("./train --lr={0.1,1e-3}", "./train --lr={lr}", {"params.lr": [0.1, 0.001]}),
        ("./train -a {True,no} -b {010,2.10}", None, {"params.a": ["True", "no"], "params.b": ["010", "2.10"]}),
        ("train {1..3} {a,b}", "train {argument_1} {argument_2}", None),
        ("train --data.batch-size={1,2}", "train --data.batch-size={batch_size}", {"batch_size": [1, 2]}),
        ("train.py lr={1,2}", "train.py lr={lr}", {"params.lr": [1, 2]}),
        ("train -n {true,false}", "train -n {n}", {"params.n": [True, False]}),
        ("train --device {cpu,cuda}", "train --device {device}", {"device": ["cpu", "cuda"]}),
        ("train --device {cpu,gpu}", "train --device {device_option}", {"params.device_option": ["cpu", "gpu"]}),
        ("train --threads {1,2}", "train --threads {threads}", {"threads": [1, 2]}),
        ("train --precision {16-mixed,32}", "train --precision {precision_option}", None),
        ("torchrun --nproc-per-node={1,2} a.py", "torchrun --nproc-per-node={count} a.py", {"count": [1, 2]}),
        ("train --x {a,b} --x {c,d}", "train --x {x} --x {x_2}", None),
        ('train {"a":1,"b":2} {name} {seed}', 'train {"a":1,"b":2} {{name}} {seed}', {}),
    ],
)
def test_braces_become_axes(words, command, axes):
    grid = grid_of(words.split())
    assert command in (None, " ".join(grid["workload"]["command"]))
    if axes is not None:
        assert grid.get("axes", {}) == axes


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"target": "val/loss<=0.5"}, {"target": {"metric": "val/loss", "at_most": 0.5}}),
        ({"target": "val/acc >= 90"}, {"target": {"metric": "val/acc", "at_least": 90}}),
        ({"budget": "90s"}, {"budget": {"time": "90s"}}),
        ({"budget": "50kJ"}, {"budget": {"energy": "50kJ"}}),
        ({"begin": "^start"}, {"workload": {"command": ["a"], "begin": "^start"}}),
        ({"time": "(.) s"}, {"workload": {"command": ["a"], "metrics": {"seconds": "(.) s"}, "time": "seconds"}}),
    ],
)
def test_options_are_fields_of_the_grid(options, fields):
    assert grid_of(["a"]) | fields == grid_of(["a"], **options)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("python my/train.py --epochs=3", "train"),
        ("python my/train.py --lr {1,2} --threads {1,2}", "train_lr_threads"),
        ("python -m package.main", "package.main"),
        ("torchrun --nproc-per-node 2 a.py", "a"),
        ("./solver", "solver"),
    ],
)
def test_grid_is_named_after_its_program(words, name):
    assert grid_of(words.split())["name"] == name


@pytest.mark.parametrize("words", ["train {1,1}", "train {1..100000}"])
def test_wrong_braces_are_refused(words):
    with pytest.raises(UsageError):
        grid_of(words.split())


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        ("train.py --batch-size 16 64", "--batch-size '{16,64}'"),
        ("train.py --compile true false -v", "--compile '{true,false}'"),
        ("train.py --lr=0.1 --lr=0.2", "--lr='{0.1,0.2}'"),
        ("torchrun --nproc-per-node 2 train.py data.txt -m pkg.a b", None),
    ],
)
def test_expanded_braces(words, quoted):
    assert expanded_braces(words.split()) == quoted


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("python a.py -x 1 --vs python b.py -x 1", ["a.py -x 1", "b.py -x 1"]),
        ("python a.py --vs python a.py --fast", ["python a.py", "python a.py --fast"]),
        ("./a --vs ./b --vs ./c", ["./a", "./b", "./c"]),
    ],
)
def test_two_commands_are_versions_of_one_grid(raybench, tmp_path, monkeypatch, words, names):
    for name in "abc":
        (tmp_path / f"{name}.py").write_text(PROGRAM)
    drawn = DrawnTimes(lambda job: 1.0 + names.index(job.cell.compared.version) + 0.01 * job.repeat)
    monkeypatch.setattr("raybench.execution.base.make_executor", lambda *_, **__: drawn)
    said = raybench("run", "--repeats", 4, "--tracking", "none", "--", *words.split())
    assert said.status == 0, said.err
    assert f"Faster: {names[0]} (the reference)" in said.out
    assert all(f"  {each}" in said.out for each in names[1:])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-- a --vs", "--vs separates two commands that differ"),
        ("-- a --vs a", "--vs separates two commands that differ"),
        ("--save g.yaml -- a --vs b", "--save cannot be used with --vs: a grid file has one command"),
        ("-- a {1,2} --vs b", "axes is {params.argument_1:[1,2]} in a '{1,2}' and {} in b; to compare"),
        ("--epoch ( -- a", "--epoch: not a regular expression"),
        ("--metric val/f1=f1 -- a", "--metric: has no group for the value"),
        ("--begin ( -- a", "--begin: not a regular expression"),
        ("--time s= -- a", "--time: has no group for the value"),
        ("--target val/loss -- a", "--target val/loss: use METRIC>=VALUE or METRIC<=VALUE"),
        ("--target val/loss>=1 -- a", "--target: a loss falls in training"),
        ("--budget 3x -- a", "--budget: "),
        ("--baseline b=1 -- a", "--baseline: params.b is not an axis of this grid; its axes are device"),
        ("--until 5% --repeats 2 -- a", "--repeats: at_most 2 is less than at_least 4"),
        ("-- python no.py", "COMMAND: there is no no.py in "),
    ],
)
def test_wrong_command_line_names_the_option(raybench, words, message):
    said = raybench("run", *words.split())
    assert (said.status, said.err.startswith(message)) == (2, True), said.err


@pytest.mark.slow
@pytest.mark.usefixtures("in_process")
def test_run_prints_the_comparison_and_saves_the_grid(raybench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (tmp_path / "train.py").write_text(PROGRAM + "import os; assert os.environ['OMP_NUM_THREADS'] == '3'")
    arguments = ["--epoch", r"epoch (\d+)", "--metric", r"val/loss=loss ([\d.]+)", "--save", "g.yaml"]
    arguments += ["--work", "examples=100", "--tracking", "none"]
    said = raybench("run", "--repeats", 1, *arguments, "--", "python", "train.py", "--batch-size", "{16,64}")
    assert said.status == 0
    assert "2  batch" in said.out and "0.5" in said.out
    assert "nothing was left" in raybench("grid", "g.yaml", "--tracking", "none").out.lower()
    same = raybench("run", "--repeats", 1, *arguments, "--", "python", "train.py", "--batch-size", "{16,64}")
    assert same.status == 0 and "nothing was left" in same.out.lower(), "the same command continues what was stopped"
    again = raybench("run", "--save", "g.yaml", "--", "python", "train.py")
    assert again.status == 2 and "exists already" in again.err


STATED = """
name: own
workload: {command: "python train.py {size} {dtype} [a]", epoch: ^epoch, work: {tokens: "{size}"}}
params: {size: 1000, dtype: float32}
flops_per_token: 2 * {size}
flops_precision: "{dtype}"
"""


@pytest.mark.slow
@pytest.mark.usefixtures("small_probes")
def test_mfu_of_stated_flops(raybench, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "own.yaml").write_text(STATED)
    said = raybench("grid", "own.yaml", "--tracking", "none", "--inline")
    (row,) = load("raybench-results/own~inline").trials.to_dict("records")
    assert said.status == 0 and row["flop_rate"] == pytest.approx(2 * 1000 * 1000 / row["steady_s"], rel=0.01)
    assert 0 < row["mfu"] < 0.1
    assert "(fp32 matrix product)" in said.out or "(fp32 convolution)" in said.out
    assert "Command python train.py 1000 float32 '[a]'" in said.out


def test_saved_grid_is_the_same(tmp_path):
    from raybench.config import load_grid

    grid = grid_of(
        ["true", "--a-b={1,2}", "--b={010,no,1e-5}"],
        epoch=r"^epoch (\d+)",
        metrics=["val/loss=loss: ([0-9.]+)"],
        work=["tokens=64"],
        flops_per_token="6 * 1e5",
        baseline=["--a-b=1"],
    )
    assert (grid["baseline"], grid["flops_per_token"]) == ({"params.a_b": 1}, "6 * 1e5")
    (tmp_path / "g.yaml").write_text(as_yaml(grid))
    assert load_grid(tmp_path / "g.yaml").model_dump() == load_grid(grid).model_dump()

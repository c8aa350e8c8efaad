"""What a grid file says of a command, and of the names that it uses."""

import textwrap

import pytest

from raybench.config import load_grid
from raybench.errors import GridFileError


@pytest.fixture
def problems(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "reports.py").write_text("import raybench\nraybench.current_trial()\n")

    def problems(workload, text=""):
        path = tmp_path / "grid.yaml"
        path.write_text(f"name: x\nworkload:\n{textwrap.indent(textwrap.dedent(workload), '  ')}\n{text}\n")
        try:
            load_grid(path)
        except GridFileError as error:
            return [str(problem).replace(f"{tmp_path}/", "") for problem in error.problems]
        return []

    return problems


RUN = "command: [python, train.py, '--bs={batch_size}']"
ALL = "command: python train.py {args}"


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        (RUN, "batch_size: 8\nthreads: 1\ntimeout: 2h\nwarmup_epochs: 0"),
        (RUN, "axes: {batch_size: [8, 16]}"),
        (ALL, "axes: {params.hidden: [1, 2], learning_rate: [0.1]}\nepochs: 3"),
        ("command: python train.py {settings_file}", "axes: {params.hidden: [1, 2]}"),
        ("command: [torchrun, '--nproc-per-node={count}', train.py, '{seed}', '{device}', '{data_dir}']", ""),
        ("command: python reports.py", "epochs: 3\nsteps_per_epoch: 4\ncheckpoint_every: 1"),
        (
            "command: python reports.py",
            "stop_at_target: true\ntarget: {metric: val/accuracy, at_least: 0.5}",
        ),
        ("command: awk '{ print $1 }' '{{x}}'", ""),
        ("command: python train.py\nmetrics: {val/accuracy: '(.)'}", "target: {metric: val/accuracy, at_least: 0.5}"),
        ("command: python train.py\njson_lines: true\nsmoke: [--short, 3]\nenv: {A: 1, B: true}", ""),
    ],
)
def test_what_fits(problems, workload, text):
    assert problems(workload, text) == []


@pytest.mark.parametrize(
    ("workload", "text", "problem"),
    [
        ("command: [python, train.py, '--bs={batchsize}']", "axes: {batch_size: [8]}",
         "grid.yaml:3:31: workload.command[2]: unknown name {batchsize}; did you mean batch_size?"),
        ("command: [python, train.py]\nenv: {WD: '{weight_decay}'}", "",
         "grid.yaml:4:13: workload.env.WD: the grid has no value for {weight_decay}; add `weight_decay: …`"),
        ("command: 'awk {print} {args}'", "",
         "grid.yaml:3:12: workload.command[1]: unknown name {print}; add `params: {print: …}`, or write {{print}} for "
         "braces"),
        ("command: [python, train.py, '--bs={batch_size:03d}']", "batch_size: 8",
         "grid.yaml:3:31: workload.command[2]: {batch_size} has a format, which is not supported; write {batch_size}"),
        ("command: [python, train.py, '--x={args}']", "",
         "grid.yaml:3:31: workload.command[2]: {args} stands for several arguments; write it as an argument of its "
         "own"),
        ("command: python trian.py", "",
         "grid.yaml:3:12: workload.command: there is no trian.py in FOLDER; did you mean train.py?"),
        (ALL, "inputs: ['*.txt']", "grid.yaml:4:9: inputs: there is no file '*.txt' in FOLDER"),
        ("command: python train.py\nmetrics: {val/accuracy: 'acc=(['}", "",
         "grid.yaml:4:27: workload.metrics.val/accuracy: not a regular expression: unterminated character set at "
         "position 5"),
        ("command: python train.py\nmetrics: {val/accuracy: 'acc='}", "",
         "grid.yaml:4:27: workload.metrics.val/accuracy: has no group for the value; put it in parentheses, such as "
         "acc=([\\d.]+)"),
        ("command: python train.py\nmetrics: {epoch: '^Epoch \\d+'}", "",
         "grid.yaml:4:20: workload.metrics.epoch: has no group for the value; put it in parentheses, such as "
         "^Epoch (\\d+)"),
        ("command: python train.py\nmetrics: {loss: '(.)'}", "",
         "grid.yaml:4:19: workload.metrics.loss: name the data of 'loss', such as train/loss or val/loss"),
        ("command: \"python 'train.py\"", "",
         "grid.yaml:3:12: workload.command: cannot be split into words: no closing quotation; write a list"),
        ("command: [python, train.py, {args}]", "",
         'grid.yaml:3:12: workload.command: YAML reads {args} as a map; write it in quotes, "{args}"'),
        ("command: python train.py\nenv: {A: {args}}", "",
         'grid.yaml:4:12: workload.env.A: YAML reads {args} as a map; write it in quotes, "{args}"'),
        ("command: []", "", "grid.yaml:3:12: workload.command: there is no program; write it first, such as "
         "`command: python train.py {args}`"),
        ("command: python train.py\nmetrics: {val/a: '(.)'}\njson_lines: true", "",
         "grid.yaml:3:3: workload: has metrics and json_lines; remove one"),
        (RUN, "batch_size: 8\naxes: {weight_decay: [0, 0.1]}",
         "grid.yaml:5:22: axes.weight_decay: the command does not use it; write {weight_decay} in it, or {args} for "
         "--weight_decay=… and all others"),
        (RUN, "batch_size: 8\nepochs: 3",
         "grid.yaml:5:9: epochs: the command does not use it; write {epochs} in it, or {args} for --epochs=… and all "
         "others"),
        (ALL, "params: {batch_size: 3}",
         "grid.yaml:4:22: params.batch_size: batch_size is a setting of raybench; write it without params"),
        (ALL, "params: {seed: 3}", "grid.yaml:4:16: params.seed: seed is a name of raybench"),
        (ALL, "replicas: 2", "grid.yaml:4:11: replicas: not for a command: the batch is divided by a loop of raybench; "
         "give the device a count, and use {count}"),
        (ALL, "model: {a: 1}", "grid.yaml:4:8: model: a command gets model from params; write params: {model: …}, on "
         "an axis params.model"),
        (ALL, "checkpoint_every: 2", "grid.yaml:4:19: checkpoint_every: saves the state of the training, which a "
         "command needs raybench.current_trial() for"),
        ("command: python reports.py\nmetrics: {val/a: '(.)'}", "",
         "grid.yaml:4:12: workload.metrics: its script reports by raybench.current_trial(); remove metrics"),
        ("command: python train.py\nmetrics: {val/accuracy: '(.)'}", "target: {metric: val/acuracy, at_least: 0.5}",
         "grid.yaml:5:18: target.metric: train.py has no metric 'val/acuracy'; did you mean val/accuracy?"),
        ("command: python train.py\nmetrics: {epoch: '(.)'}", "warmup_epochs: 0",
         "grid.yaml:5:16: warmup_epochs: the first epoch of a command includes its start; set it to 1 or more"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error_with_its_line(problems, tmp_path, workload, text, problem):
    assert [each.replace(str(tmp_path), "FOLDER") for each in problems(workload, text)] == [problem]


def test_a_misspelt_key(problems):
    assert problems("comand: python")[0] == "grid.yaml:3:3: workload.comand: unknown name; did you mean command?"


def test_a_target_needs_a_pattern(problems):
    said = problems(
        "command: python train.py",
        "target: {metric: val/accuracy, at_least: 0.5}\nstop_at_target: true",
    )
    assert said == [
        "grid.yaml:4:18: target.metric: train.py has no metrics; add a pattern, such as `metrics: {epoch: …, "
        "val/accuracy: …}`",
        "grid.yaml:5:17: stop_at_target: ends the training at an epoch, which a command needs raybench.current_trial() "
        "for",
    ]


def test_a_workload_of_another_type(tmp_path):
    (tmp_path / "grid.yaml").write_text("name: x\nworkload: [python, train.py]\n")
    with pytest.raises(GridFileError, match=r"use a workload's name, file.py:name, or a map with a `command`"):
        load_grid(tmp_path / "grid.yaml")


def test_numbers_in_a_command_are_text(tmp_path):
    (tmp_path / "grid.yaml").write_text("name: x\nworkload: {command: [sleep, 3, 0.5, true]}\n")
    assert load_grid(tmp_path / "grid.yaml").workload.command == ["sleep", "3", "0.5", "true"]

"""A grid must suit the parameters of its training function, or the names in its command."""

import pytest

from raybench.config import load_grid
from raybench.errors import GridFileError

FUNCTION = """
def train(trial, *, batch_size: int, weight_decay: float = 0.0, hidden: int = 4, model="small", start=len("a")):
    return batch_size, weight_decay, hidden, model, start
"""
FILES = {
    "my.py": FUNCTION,
    "lr.py": "def train(trial, *, batch_size: int, lr: float = 0.1):\n    batch_size, lr\n",
    "train.py": "print(1)\n",
    "reports.py": "import raybench\nraybench.current_trial()\n",
}
MY = "workload: my.py:train\nbatch_size: 8\nparams: {start: 1}\n"
LR = "workload: lr.py:train\nbatch_size: 8\n"
ALL = "workload: {command: 'python train.py {args}'}\n"
BATCH = "workload: {command: [python, train.py, '--bs={batch_size}']}\n"
REPORTS = "workload: {command: python reports.py}\n"


@pytest.fixture
def problems(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)

    def problems(text):
        path = tmp_path / "grid.yaml"
        path.write_text(f"name: x\n{text}\n")
        try:
            load_grid(path)
        except GridFileError as error:
            return [(each.line, f"{each.where}: {each.message}".replace(f"{tmp_path}/", "")) for each in error.problems]
        return []

    return problems


@pytest.mark.parametrize(
    "text",
    [
        MY + "epochs: 2\nsteps_per_epoch: 3\nthreads: 1\nprecision: fp32\nframework: none\ncheckpoint_every: 1",
        MY + "axes: {params.hidden: [1, 2], params.model: [a, b], weight_decay: [0, 0.1]}",
        MY + "axes: {device: [cpu]}\noverrides: [{when: {device: cpu}, set: {params: {hidden: 3}, weight_decay: 1.0}}]",
        MY + "include: [{device: cpu, params.hidden: 7}]",
        BATCH + "batch_size: 8\nthreads: 1\ntimeout: 2h\nwarmup_epochs: 0",
        BATCH + "axes: {batch_size: [8, 16]}",
        ALL + "axes: {params.hidden: [1, 2], learning_rate: [0.1]}\nepochs: 3",
        "workload: {command: 'python train.py {settings_file}'}\naxes: {params.hidden: [1, 2]}",
        "workload: {command: [torchrun, '--nproc-per-node={count}', train.py, '{seed}', '{device}', '{data_dir}']}",
        "workload: {command: 'a --bs {per_device_batch_size}'}\nbatch_size: 8\naxes: {count: [1, 2]}",
        "workload: {command: 'a --bs {batch_size}'}\nper_device_batch_size: 8\ncount: 2",
        "workload: {command: \"awk '{ print $1 }' '{{x}}'\"}",
        "workload: {command: python train.py, smoke: [--short, 3], env: {A: 1, B: true}}",
        "workload: {command: x, metrics: {val/accuracy: '(.)'}}\ntarget: {metric: val/accuracy, at_least: 0.5}",
        REPORTS + "epochs: 3\nsteps_per_epoch: 4\ncheckpoint_every: 1",
        REPORTS + "stop_at_target: true\ntarget: {metric: val/accuracy, at_least: 0.5}",
    ],
)
def test_grids_that_fit(problems, text):
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (MY + "momentum: 0.9", 5, "momentum: train (my.py:2) has no parameter momentum; it has batch_size, weight_de"),
        (MY + "axes: {params.hiden: [1, 2]}", 5, "axes.params.hiden: train (my.py:2) has no parameter hiden; did you"),
        (MY + "axes: {params.hidden: [1, x]}", 5, "axes.params.hidden[1]: 'x' is not allowed; use an integer"),
        (MY + "axes: {params.weight_decay: [1]}", 5, "weight_decay is a setting of raybench; write it without params"),
        (MY + "axes: {params.start: [1, 2]}", 4, "params.start: both an axis and a fixed value; remove one"),
        (MY + "replicas: 2", 5, "not for a training function: only raybench's own loop divides a batch; set count"),
        (MY + "devices: {cpu: {kind: cpu, replicas: 2}}", 5, "devices.cpu.replicas: not for a training function"),
        (MY + "precision: bf16", 5, "precision: train (my.py:2) has no parameter precision"),
        (MY + "model: {side: 2}", 5, "write params: {model: …}, on an axis params.model"),
        (MY + "lr: 0.1", 5, "lr: unknown setting; did you mean learning_rate?"),
        (MY.replace("batch_size", "epochs"), 2, "my.py:2: batch_size has no default and no value in the grid; add `b"),
        (LR + "axes: {lr: [1, 2]}", 4, "axes.lr: lr is a parameter of train (lr.py:1); write params.lr"),
        (LR + "lr: 0.1", 4, "lr is a parameter of train (lr.py:1); write params: {lr: …}"),
        (LR + "overrides: [{when: {batch_size: 8}, set: {lr: 1}}]", 4, "overrides[0].set.lr: lr is a parameter of tra"),
        ("workload: digits_cnn\nparams: {a: 1}", 3, "params are for your own training function; the options of digi"),
        ("workload: [python, train.py]", 2, "use a workload's name, file.py:name, or a map with a `command`"),
    ],
)
def test_parameters_of_functions(problems, text, line, words):
    ((at, message),) = problems(text)
    assert at == line and words in message


@pytest.mark.parametrize(
    ("workload", "text", "line", "words"),
    [
        ("[python, train.py, '--bs={batchsize}']", "axes: {batch_size: [8]}", 3, "unknown name {batchsize}; did you m"),
        ("python train.py\n  env: {WD: '{weight_decay}'}", "", 4, "no value for {weight_decay}; add `weight_decay: …`"),
        ("'awk {print} {args}'", "", 3, "command[1]: unknown name {print}; make it an axis, add `params: {print: …}`"),
        ("'a {batch_size:03d}'", "batch_size: 8", 3, "{batch_size} has a format, which is not supported; write {bat"),
        ("'a --x={args}'", "", 3, "{args} stands for several arguments; write it as an argument of its own"),
        ("python trian.py", "", 3, "there is no trian.py in FOLDER; did you mean train.py?"),
        ("python train.py", "inputs: ['*.txt']", 4, "there is no file '*.txt' in FOLDER"),
        ("a\n  metrics: {val/accuracy: 'acc=(['}", "", 4, "workload.metrics.val/accuracy: not a regular expression"),
        ("a\n  metrics: {epoch: '(.)'}", "", 4, "not a metric; write `epoch: …` next to `metrics`"),
        ("a\n  metrics: {loss: '(.)'}", "", 4, "name the data, such as train/loss or val/loss"),
        ("a\n  time: s", "", 4, "time: there is no 's'; add it to `metrics`"),
        ("a\n  work: {tokens: many}", "", 4, "workload.work.tokens: has no group for the value"),
        ("a\n  work: {tokens: '{batch} * 3'}", "batch_size: 8", 4, "unknown name {batch}; did you mean batch_size?"),
        ('"python \'train.py"', "", 3, "cannot be split into words: no closing quotation; write a list"),
        ("[python, train.py, {args}]", "", 3, 'YAML reads {args} as a map; write it in quotes, "{args}"'),
        ("a\n  env: {A: {args}}", "", 4, 'workload.env.A: YAML reads {args} as a map; write it in quotes, "{args}"'),
        ("[]", "", 3, "there is no program; write it first, such as `command: python train.py {args}`"),
        ("'a {x}'", "params: {x: 1}\naxes: {weight_decay: [0, 0.1]}", 5, "the command does not use it; write {weight"),
        ("'a {x}'", "params: {x: 1}\nepochs: 3", 5, "write {epochs} in it, or {args} for --epochs=… and all others"),
        ("'a {lr}'", "axes: {lr: [1]}", 4, "axes.lr: lr is a name in the command, not a setting of raybench; write p"),
        ("'a {args}'", "params: {batch_size: 3}", 4, "batch_size is a setting of raybench; write it without params"),
        ("'a {args}'", "params: {seed: 3}", 4, "seed is reserved by raybench; use a different name"),
        ("'a {args}'", "replicas: 2", 4, "not for a command: only raybench's own loop divides a batch; set count"),
        ("'a {args}'", "model: {a: 1}", 4, "not for a command: write params: {model: …}"),
        ("'a {args}'", "checkpoint_every: 2", 4, "needs raybench.current_trial() in the script of the command"),
        ("python reports.py\n  metrics: {val/a: '(.)'}", "", 4, "the script reports to raybench.current_trial(); rem"),
        ("a\n  metrics: {val/acc: (.)}", "target: {metric: val/ac, at_least: 0}", 5, "a has no metric 'val/ac'; did y"),
    ],
)
def test_names_in_commands(problems, tmp_path, workload, text, line, words):
    ((at, message),) = problems(f"workload:\n  command: {workload}\n{text}")
    assert at == line and words in message.replace(str(tmp_path), "FOLDER")


def test_keys_of_commands_are_checked(problems):
    assert problems("workload:\n  comand: python") == [
        (3, "workload.comand: unknown setting; did you mean command?"),
        (3, "workload.command: missing; add it, such as `command: python train.py {args}`"),
    ]

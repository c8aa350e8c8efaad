"""Each fault of a grid file is one message with its line and the nearest right value."""

from pathlib import Path

import pytest

from raybench.config import load_grid
from raybench.errors import GridFileError

HEAD = "name: x\nworkload: digits_cnn\n"

KEYS = [
    ("axes:\n  batch_szie: [1]", 4, "axes.batch_szie: unknown setting; did you mean batch_size?"),
    ("lr: 0.1", 3, "unknown setting; did you mean learning_rate?"),
    ("command: python train.py", 3, "not allowed here, only under `workload`, next to `command`"),
    ("metrics: {a: b}", 3, "not allowed here, only under `workload`, next to `command`; did you mean metric?"),
    ("epoch: 3", 3, "did you mean epochs?"),
    ("axes: {params: {hidden: [1]}}", 3, "write each parameter with its name, such as `params.hidden`"),
    ("zzz: 1", 3, "unknown setting; `raybench plan --schema` lists them all"),
    ("axes:\n  processes: [1]", 4, "unknown setting; write a parameter of your own as `params.processes`"),
    ("axes:\n  price_per_hour: [1, 2]", 4, "not allowed here, only in a device under `devices`"),
    ("axes:\n  repeats: [1]", 4, "not allowed here, only at the top level of the file"),
    ("price_per_hour: 1", 3, "not allowed here, only in a device under `devices`"),
    ("device: cpu", 3, "list the devices as an axis: `axes: {device: [cpu, cuda]}`"),
    ("gpus: 2", 3, "set the count of a device"),
    ("dataset: mnist", 3, "the workload determines the data set"),
    ("target: {metric: a, at_leats: 1, at_most: 2}", 3, "target.at_leats: unknown setting; did you mean at_least?"),
    ("examples:\n  trian: 4", 4, "examples.trian: 'trian' is not one of train, val; did you mean train?"),
    ("epochs: 1\nepochs: 2", 4, "epochs: appears twice (first on line 3); remove one"),
    ("? [a]\n: 1", 3, "a key must be plain text"),
    ("schedule: {name: exponential}", 3, "schedule.decay_steps: missing; add it, such as `decay_steps: 2000`"),
    ("schedule: {name: exponential, decay_steps: 1, flor: 1}", 3, "did you mean floor?"),
    ("devices:\n  gpu:\n    threads: 2", 5, "devices.gpu.kind: missing; add it, such as `kind: cuda`"),
    ('"\\e[2J": 1', 3, r"'\x1b[2J': unknown setting"),
]
VALUES = [
    ("batch_size: 1.5", 3, "1.5 is not allowed; it should be a valid integer"),
    ("batch_size: [64, 128]", 3, "a valid integer; to vary it, make it an axis: `axes: {batch_size: [64, 128]}`"),
    ("precision: [fp32, bf16]", 3, "use one of fp32, tf32, bf16, fp16; to vary it, make it an axis: `axes: {precision"),
    ("epochs: true", 3, "true is not allowed; it should be a valid number"),
    ("epochs: 0", 3, "0 is not allowed; it should be greater than 0"),
    ("epochs:", 3, "there is no value; set one or remove the line"),
    ("nesterov: on", 3, "the text 'on' is not allowed; it should be a valid boolean: true or false"),
    ("learning_rate: .inf", 3, "should be a finite number"),
    ("momentum: 1", 3, "it should be less than 1"),
    ("betas: [0.9]", 3, "use two numbers [beta1, beta2]"),
    ("precision: blfoat16", 3, "did you mean bf16?"),
    ("optimizer: AdamW", 3, "did you mean adamw?"),
    ("optimizer: {name: sgd}", 3, "the map {name: sgd} is not allowed; use one of sgd, adam, adamw"),
    ("memory_limit: 2G", 3, "use bytes above 0, or a text such as 512MiB"),
    ("timeout: 5x", 3, "use seconds above 0, or a text such as 90s"),
    ("schedule: cosine", 3, "the text 'cosine' is not allowed; use constant, {name: piecewise_linear"),
    ("schedule: linear", 3, "use constant, {name: piecewise_linear, points: [[epoch, factor], …]}, "),
    ("schedule:\n  name: piecewise_linear\n  points: [[0, 1]]", 5, "at least two points"),
    ("schedule: {name: piecewise_linear, points: [[1, 1], [2, 0]]}", 3, "the first point must be at epoch 0, not 1"),
    ("schedule: {name: piecewise_linear, points: [[0, 1], [0, 0]]}", 3, "must increase, but 0 follows 0"),
    ("devices:\n  a: {kind: cpu, environment: xal}", 4, "unknown environment 'xal'; did you mean xla?"),
    ("devices:\n  a: {kind: cpu, environment: venv}", 4, "(a path has a slash, such as ./venv)"),
    ("devices:\n  a: {kind: cpu, environment: [xla]}", 4, "use a built environment (xla, "),
    ("devices: {gpu: {kind: GPU}}", 3, "devices.gpu.kind: 'GPU' is not one of cpu, cuda, mps"),
    ("devices: {gpu: {kind: gpu}}", 3, "did you mean cuda?"),
    ("augmentation: [corp]", 3, "augmentation[0]: the text 'corp' is not allowed; use crop, flip, cutout, {crop: pi"),
    ("augmentation: [{crop: 2}, crop]", 3, "crop appears more than once; keep one"),
    ("target: {metric: a, at_most: 1, of: means}", 3, "did you mean mean?"),
    ("target: {metric: val/loss, at_most: 1, of: mean, level: 1}", 3, "a percentage such as 1%"),
    ("stop_at_target: true\ntarget: {metric: val/loss, at_most: 1, of: mean}", 4, "no fixed length"),
    ("target: {metric: a}", 3, "needs exactly one of at_least and at_most"),
    ("target: {metric: val/loss, at_least: 0.1}", 3, "a loss falls in training; use at_most: 0.1"),
    ("target: {metric: val/accuracy, at_least: 940}", 3, "use a fraction from 0 to 1"),
    ("axes: [1]", 3, "the list [1] is not allowed; use a map, such as {device: [cpu, cuda], b"),
    ("budget: {time: 5 minutes}", 3, "the text '5 minutes' is not allowed; use seconds above 0, or a text such as 90s"),
    ("budget: {energy: 50kJoule}", 3, "use joules above 0, or a text such as 500J, 50kJ"),
    ("budget: {time: 5m, price: 1}", 3, "needs exactly one of time, price, energy, tokens"),
    ("budget: {tiem: 5m}", 3, "did you mean time?"),
    ("budget: {energy: 1kJ, compile: excluded}", 3, "is for a budget of time or price; remove it"),
    ("repeats: {until: 5}", 3, "use a percentage such as 5%, verdict or best"),
    ("repeats: {until: 5%, at_least: 2}", 3, "it should be greater than or equal to 3"),
    ("repeats: {until: 5%, at_most: 3}", 3, "at_most 3 is less than at_least 4"),
    ("repeats: {until: verdict, at_most: 12}", 3, "hold for at_most: 10 or less"),
    ("repeats: {at_least: 5}", 3, "repeats: needs `until`, such as `until: 5%`, or `machines`"),
    ("repeats: {machines: 3, at_most: 5}", 3, "at_most needs `until`"),
    ("repeats: many", 3, "use a number, such as 3, {until: 5%"),
    ("flops_per_token: many", 3, "use a number, or numbers and names in braces"),
    ("budget: 5m", 3, "the text '5m' is not allowed"),
    ("exclude: {device: cpu}", 3, "use a list, such as [{device: cpu}]"),
    ("axes:\n  epochs: []", 4, "should have at least 1 item"),
    ("axes:\n  epochs: 3", 4, "3 is not allowed; use a list, such as [3]"),
    ("axes:\n  device: cpu", 4, "use a list of devices, such as [cpu], or the word available"),
    ("axes:\n  batch_size: [64,\n   0]", 5, "axes.batch_size[1]: 0 is not allowed"),
    ("description: [a, null, {b: 'two words'}]", 3, "[a, null, {b: two words}] is not allowed; it should be a valid"),
    ("tracking_uri: [http://me:secret@host]", 3, "the list [http://…@host] is not allowed"),
]
CONTRADICTIONS = [
    ("axes:\n  epochs: [1, 2,\n    1]", 5, "axes.epochs[2]: 1 is on the axis twice; remove one"),
    ("axes:\n  weight_decay: [5e-4, 0.0005]", 4, "0.0005 is on the axis twice"),
    ("epochs: 1\naxes: {epochs: [1]}", 3, "both an axis and a fixed value; remove one"),
    ("devices: {cpu: {kind: cpu, epochs: 1}}\naxes: {epochs: [1]}", 3, "devices.cpu.epochs: both an axis and a fixed"),
    ("axes: {warmup_epochs: [1, 2]}", 3, "cannot be an axis; set `warmup_epochs: 1` at the top level"),
    ("axes: {device: [cpu, gpu]}", 3, "unknown device 'gpu'; declare it, such as `devices: {gpu: {kind: cuda}}`"),
    ("axes: {device: [CPU]}", 3, "did you mean cpu?"),
    ("axes: {device: [gpuu]}\ndevices: {gpu: {kind: cuda}}", 3, "did you mean gpu?"),
    (
        "devices: {gpu: {kind: cuda}}",
        3,
        "no configuration runs on these devices; list them as an axis: `axes: {device: [gpu]}`",
    ),
    ("axes: {epochs: [1]}\nexclude:\n  - {epochs: [1, 2]}", 5, "exclude[0].epochs[1]: 2 is not on the axis epochs"),
    ("exclude:\n  - {epochs: 2}", 4, "epochs is not an axis of this grid; its axes are device"),
    ("exclude: [{}]", 3, "the map {} is not allowed; it should have at least 1 item"),
    ("exclude: [{device: tpu}]", 3, "tpu is not on the axis device; its values are cpu"),
    ("include: [{}]", 3, "the map {} is not allowed; it should have at least 1 item"),
    ("include: [{device: gpu}]", 3, "include[0].device: unknown device 'gpu'"),
    ("overrides: [{when: {}, set: {epochs: 1}}]", 3, "the map {} is not allowed; it should have at least 1 item"),
    ("overrides: [{when: {device: tpu}, set: {epochs: 1}}]", 3, "tpu is not on the axis device"),
    ("baseline: {batch_size: 8}", 3, "batch_size is not an axis of this grid"),
    ("stop_at_target: true", 3, "needs a target; add one"),
    ("flops_per_token: 6\nflops_per_example: 6", 4, "flops_per_token is set, too; remove one"),
    ("flops_precision: bf16", 3, "needs flops_per_token or flops_per_example"),
    ("axes: {epochs: [1, 2]}\noverrides: [{when: {epochs: 1}, set: {epochs: 3}}]", 4, "set.epochs: both an axis and"),
    ("devices: {gpu: {kind: cuda}}\naxes: {device: available}", 3, "no configuration runs on these devices"),
    ("target: {metric: val/f1, at_least: 0}", 3, "digits_cnn has no metric 'val/f1'; use one of val/accuracy, val/lo"),
    ("target: {metric: test/accuracy, at_least: 0}", 3, "did you mean val/accuracy?"),
    ("repeats: 1000000000", 3, "1,000,000,000 trials are more than the maximum of 10,000; use fewer values or repe"),
    ("axes: {batch_size: [1, 2]}\nrepeats: 6000", 3, "12,000 trials are more than"),
    pytest.param(
        f"axes:\n  batch_size: {[*range(1, 2001)]}\n  epochs: {[*range(1, 1001)]}\n"
        "include: [{device: cpu, epochs: 2000}]",
        *(4, "2,002,000 trials are more than"),
        id="millions of trials",
    ),
]
YAML = [
    ("axes:\n\tdevice: [cpu]", 4, "a tab is not allowed here; use spaces"),
    ("epochs:\t3", 3, "a tab is not allowed here"),
    ("epochs: [1\nseed: 1", 3, "expected ',' or ']', but got ':' in line 4; check indentation"),
    ("target: {metric: a b c: d}", 3, "while parsing a flow mapping, expected ',' or '}'"),
    ("description: 'abc\nseed: 1", 3, "while scanning a quoted scalar, found unexpected end"),
    ("epochs: a: b", 3, "mapping values are not allowed here"),
    ("axes:\n  epochs:\n  - 1\n  -2", 6, "while scanning a simple key, could not find expected ':'"),
    ("epochs\nseed: 1", 3, "could not find expected ':'"),
    ("axes:\n    epochs: [1]\n  seed: 1", 5, "expected <block end>"),
    ("description: @me", 3, "found character '@' that cannot start any token"),
    ("axes: !!python/object/apply:os.system [ls]", 3, "tags (!) are not supported"),
    ("axes: &a {epochs: [1]}\nexclude: *a", 3, "anchors (&), aliases (*) and tags (!) are not supported"),
    ("---\nname: y", 3, "expected a single document in the stream, but found another"),
    ("description: a\0b", 3, "U+0000 is not allowed"),
    ("seed: 1\repochs: [", 5, "while parsing a flow node"),
    ('description: "\\UFFFFFFFF"', 1, "not valid YAML"),
]


def problems_of(folder, text, *changes):
    """The problems of a grid file with this text after its first two lines, and these changes."""
    path = folder / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else (HEAD + text + "\n").encode())
    with pytest.raises(GridFileError) as caught:
        load_grid(path, changes)
    assert caught.value.exit_status == 2 and caught.value.__cause__ is None
    return caught.value.problems


@pytest.mark.parametrize(("text", "line", "words"), [*KEYS, *VALUES, *CONTRADICTIONS, *YAML])
def test_one_fault_one_message(tmp_path, text, line, words):
    (problem,) = problems_of(tmp_path, text)
    assert problem.line == line and words in f"{problem.where}: {problem.message}", str(problem)
    assert len(str(problem)) < 400


def test_wrong_values_are_reported_together(tmp_path):
    problems = problems_of(tmp_path, "epochs: two\nseed: 1\nseed: 2\nprecision: fp8\naxes: {batch_szie: [1]}\n")
    assert [(problem.line, problem.where) for problem in problems] == [
        (3, "epochs"),
        (5, "seed"),
        (6, "precision"),
        (7, "axes.batch_szie"),
    ]
    assert str(problems[0]).startswith(f"{tmp_path}/x.yaml:3:9: epochs: the text 'two'")


def test_contradictions_are_reported_together(tmp_path):
    problems = problems_of(tmp_path, "axes: {epochs: [1, 1]}\nexclude: [{epochs: 7}]\nstop_at_target: true")
    assert [problem.line for problem in problems] == [3, 4, 5]


def test_required_keys(tmp_path):
    assert [str(problem).partition("yaml:")[2] for problem in problems_of(tmp_path, b"epochs: 1\n")] == [
        "1:1: name: missing; add it, such as `name: my_grid`",
        "1:1: workload: missing; add it, such as `workload: digits_cnn`",
    ]


def test_fifty_problems_are_printed(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(HEAD + "".join(f"zzz{n}: 1\n" for n in range(70)))
    with pytest.raises(GridFileError) as caught:
        load_grid(path)
    assert [problem.line for problem in caught.value.problems] == list(range(3, 73))
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (51, "… and 20 more")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "axes.batch_size=[64, 0]",
            "axes.batch_size=…: axes.batch_size[1]: 0 is not allowed; it should be greater than",
        ),
        ("axes.device=[cpu", "axes.device=…: not valid YAML: while parsing a flow seq"),
        ("axes={epochs: [1], epochs: [2]}", "axes=…: epochs: appears twice (first on line 1); remove one"),
        ("foo", "foo: use name=value, such as axes.batch_size=[64,128] or repeats=5"),
        ("=3", "=…: use name=value"),
        ("name.x=3", "name.x=…: name.x: name is not a map and has no x; set name as a whole"),
        ("tracking_uri=1:2: http://me:secret@h", "tracking_uri=…: tracking_uri: the map {1:2: http://…@h} is not all"),
    ],
)
def test_wrong_changes(tmp_path, change, message):
    (problem,) = problems_of(tmp_path, "", change)
    assert str(problem).startswith(f"--set {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": the file is empty; write lines such as `name: my_grid`"),
        (b"# only a comment\n", ": the file is empty"),
        (b"- a\n", ":1:1: the file must be a map"),
        ("name: é\n".encode("utf-16"), ": not UTF-8 text; save the file as UTF-8"),
        (b"name: x\nworkload: \xff\n", ": not UTF-8 text"),
        (b"a: 1\n" * 100_000, ": is larger than 256 KiB"),
    ],
)
def test_unreadable_content(tmp_path, content, message):
    (problem,) = problems_of(tmp_path, content)
    assert str(problem).startswith(f"{tmp_path}/x.yaml{message}")


def test_files_that_are_not_grids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("grids").mkdir()
    Path("grids/quickstart.yaml").write_text(HEAD)
    messages = {
        "grids/quikstart.yaml": "no such file; did you mean grids/quickstart.yaml?",
        "grids/other.yaml": "no such file",
        "quikstart": "no such file; did you mean quickstart?",
        "grids": "is a folder; name a grid file",
        "train.py": "is a Python file; write a grid file with `workload: train.py:FUNCTION`, or use `raybench run -- "
        "python train.py`",
        "train.py:f": "is a Python file; write a grid file with `workload: train.py:f`, or use `raybench run -- "
        "python train.py`",
        "a" * 300: "cannot be read: File name too long",
    }
    for path, message in messages.items():
        with pytest.raises(GridFileError) as caught:
            load_grid(Path(path))
        assert str(caught.value) == f"{path}: {message}"


def test_name_of_a_file_of_mlflow(tmp_path):
    (problem,) = problems_of(tmp_path, b"name: mlflow.db\nworkload: digits_cnn\naxes: {device: [cpu]}\n")
    assert str(problem).startswith(f"{tmp_path}/x.yaml:1:7: name: is that of MLflow's files")


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ('{command: [python, "a\\0b"]}', "workload.command[1]: has a character that no"),
        ('{command: python x.py, inputs: ["\\ud800"]}', "has a character that no file or command can have"),
        (
            "{command: python x.py, epoch: '" + "(" * 5000 + ")" * 5000 + "'}",
            "not a regular expression: nested too deep",
        ),
    ],
)
def test_texts_that_no_program_can_get(tmp_path, workload, message):
    text = f"name: x\nworkload: {workload}\naxes: {{device: [cpu]}}\n"
    assert any(message in str(problem) for problem in problems_of(tmp_path, text.encode()))

"""Files that are wrong: one clear message for each fault, with its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raybench.config import load_grid
from raybench.errors import GridFileError

MINIMAL = "name: x\nworkload: digits_cnn\n"


@pytest.fixture
def complaints(tmp_path, monkeypatch):
    """The error message for a grid file with this text after its first two lines, and these changes."""
    monkeypatch.chdir(tmp_path)

    def load(text: str | bytes, *changes: str, head: str = MINIMAL) -> list[str]:
        Path("x.yaml").write_bytes(text if isinstance(text, bytes) else (head + text).encode())
        with pytest.raises(GridFileError) as caught:
            load_grid(Path("x.yaml"), changes)
        assert caught.value.exit_status == 2
        assert caught.value.__cause__ is None
        return str(caught.value).splitlines()

    return load


FAULTS = {
    "keys": [
        "axes:\n  batch_szie: [1]",
        "optimiser: sgd",
        "lr: 0.1",
        "zzz: 1",
        "axes:\n  repeats: [1]",
        "price_per_hour: 1",
        "device: cpu",
        "gpus: 2",
        "target: {metric: a, at_leats: 1, at_most: 2}",
        "examples:\n  trian: 4",
        "epochs: 1\nepochs: 2",
        "? [a]\n: 1",
    ],
    "values": [
        "batch_size: 1.5",
        "epochs: true",
        "epochs: '3'",
        "epochs: 1_000",
        "epochs: 0",
        "epochs:",
        "nesterov: yes",
        "learning_rate: .inf",
        "learning_rate: 1e999",
        "weight_decay: .nan",
        "momentum: 1",
        "betas: [0.9]",
        "precision: blfoat16",
        "precision: mixed_bfloat16",
        "framework: Keras",
        "optimizer: {name: sgd}",
        "memory_limit: 2G",
        "timeout: 5x",
        "schedule: linear",
        "schedule: {name: exponentail, decay_steps: 2}",
        "schedule: {name: exponential}",
        "schedule: {name: piecewise_linear, points: [[0, 1]]}",
        "schedule: {name: piecewise_linear, points: [[1, 1], [2, 0]]}",
        "schedule: {name: piecewise_linear, points: [[0, 1], [0, 0]]}",
        "devices:\n  a: {kind: cpu, environment: xal}",
        "devices:\n  a: {kind: cpu, environment: venv}",
        "devices:\n  a: {kind: cpu, environment: {}}",
        "devices:\n  a: {kind: cpu, environment: [xla]}",
        "augmentation: [corp]",
        "augmentation: [{crop: 2}, crop]",
        "augmentation: [{turn: 2}]",
        "augmentation: [flip, flip]",
        "label_smoothing: 1",
        "target: {metric: a}",
        "target: {metric: a, at_least: 1, at_most: 2}",
        "target: {metric: val/accuracy, at_least: 940}",
        "target: {metric: val/accuracy, at_least: -0.3}",
        "devices: {gpu: {kind: gpu}}",
        "description: [a, null, {b: 'two words'}]",
        "tracking_uri: [http://me:secret@host]",
    ],
    "shapes": [
        "axes: [1]",
        "baseline: cpu",
        "target: 0.9",
        "exclude: {device: cpu}",
        "axes:\n  epochs: []",
        "axes:\n  epochs: 3",
        "axes:\n  device: cpu",
        "devices:\n  gpu:\n    threads: 2",
    ],
    "across": [
        "axes:\n  epochs: [1, 2,\n    1]",
        "axes:\n  weight_decay: [5e-4, 0.0005]",
        "epochs: 1\naxes: {epochs: [1]}",
        "axes: {device: [cpu, gpu]}",
        "axes: {device: [gpuu]}\ndevices: {gpu: {kind: cuda}}",
        "axes: {epochs: [1]}\nexclude:\n  - {epochs: 2}",
        "axes: {epochs: [1]}\nexclude:\n  - {epochs: [1, 2]}",
        "exclude:\n  - {epochs: 2}",
        "exclude: [{}]",
        "exclude: [{device: tpu}]",
        "include: [{}]",
        "include: [{device: gpu}]",
        "overrides: [{when: {}, set: {epochs: 1}}]",
        "overrides: [{when: {device: tpu}, set: {epochs: 1}}]",
        "baseline: {batch_size: 8}",
        "stop_at_target: true",
    ],
    "YAML": [
        "axes:\n\tdevice: [cpu]",
        "epochs:\t3\n",
        "epochs: [1\nseed: 1",
        "target: {metric: a b c: d}",
        "description: 'abc\nseed: 1",
        "epochs: a: b",
        "epochs\nseed: 1",
        "axes:\n    epochs: [1]\n  seed: 1",
        "description: @me",
        "axes: !!python/object/apply:os.system [ls]",
        "name2: *nowhere",
        "axes: &a {x: *a}",
        "axes:\n  <<: {epochs: [1]}",
        "---\nname: y",
        "axes: " + "[" * 2000,
        "description: a\0b",
    ],
}
"""Lines of a grid file, each with one fault, by what is wrong with them."""


@pytest.mark.parametrize("kind", FAULTS)
def test_one_fault_one_message(complaints, kind, snapshot):
    said = {text: complaints(text) for text in FAULTS[kind]}
    assert [text for text, messages in said.items() if len(messages) != 1] == []
    assert "\n\n".join(f"{text[:200]!r}\n→ {message}" for text, (message,) in said.items()) == snapshot


def test_what_is_required(complaints):
    assert complaints("epochs: 1\n", head="") == [
        "x.yaml:1:1: name: missing; add a name, such as `name: my_grid`",
        "x.yaml:1:1: workload: missing; add the workload to train, such as `workload: digits_cnn`",
    ]


def test_all_at_once_with_what_rests_on_it(complaints):
    text = """\
axes:
  batch_szie: [1]
  batch_size: [64, 0]
  epochs: [1, 2, 1]
precision: fp8
seed: 1
seed: 2
exclude:
  - {batch_size: 128}
  - {epochs: 7}
  - {epoch: 7}
baseline: {epochs: 3}
stop_at_target: true
"""
    assert [line.split(": ")[0] + ": " + line.split(": ")[1] for line in complaints(text)] == [
        "x.yaml:4:3: axes.batch_szie",
        "x.yaml:5:20: axes.batch_size[1]",
        "x.yaml:6:18: axes.epochs[2]",
        "x.yaml:7:12: precision",
        "x.yaml:9:1: seed",
        "x.yaml:12:14: exclude[1].epochs",
        "x.yaml:13:6: exclude[2].epoch",
        "x.yaml:14:20: baseline.epochs",
        "x.yaml:15:17: stop_at_target",
    ]


def test_a_misspelt_section_is_one_fault(complaints):
    text = """\
axis: {device: [gpu], epochs: [1, 2]}
include: [{epochs: 3, device: gpu}]
exclude: [{epochs: 2}]
baseline: {device: gpu, epochs: 1}
device: {gpu: {kind: cuda}}
tagret: {metric: val/accuracy, at_least: 0.9}
stop_at_target: true
"""
    assert [line.split(": ")[1] for line in complaints(text)] == ["axis", "device", "tagret"]
    (said,) = complaints(
        text.replace("axis", "axes")
        .replace("device: {", "devices: {")
        .replace("epochs: [1", "epoch: [1")
        .replace("tagret", "target")
    )
    assert said == "x.yaml:3:23: axes.epoch: unknown setting; did you mean epochs?"


def test_fifty_are_printed_and_all_are_kept(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(MINIMAL + "".join(f"zzz{n}: 1\n" for n in range(70)))
    with pytest.raises(GridFileError) as caught:
        load_grid(path)
    assert len(caught.value.problems) == 70
    assert [problem.line for problem in caught.value.problems] == list(range(3, 73))
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (51, "… and 20 more")


def test_changes_say_which_change_is_wrong(complaints):
    changes = [
        "axes.batch_size=[64, 0]",
        "axes.device=[cpu",
        "foo",
        "=3",
        "name.x=3",
        "repeats=0",
        "tracking_uri=1:2: http://me:secret@h",
    ]
    said = complaints("", *changes)
    assert said == [
        "--set =…: use name=value, such as axes.batch_size=[64,128] or repeats=5",
        "--set axes.batch_size=…: axes.batch_size[1]: 0 is not allowed; use a number of at least 1",
        "--set axes.device=…: the list opened here with '[' is not closed: ',' or ']' is missing in this line",
        "--set foo: use name=value, such as axes.batch_size=[64,128] or repeats=5",
        "--set name.x=…: name.x: name is not a map and has no x; set name as a whole",
        "--set repeats=…: repeats: 0 is not allowed; use a number of at least 1",
        "--set tracking_uri=…: tracking_uri: the map {1:2: http://…@h} is not allowed; use text",
    ]


def test_a_bomb_is_refused_at_once(complaints):
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    assert complaints("\n".join(rows)) == ["x.yaml:6:45: aliases expand to more than 10,000 values; write them out"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only a comment\n", b"---\n", b"null\n"])
def test_nothing_in_it(complaints, content):
    assert complaints(content) == ["x.yaml: the file is empty; write lines such as `name: my_grid`"]


@pytest.mark.parametrize("content", [b"- a\n", b"just text\n", b"3\n"])
def test_no_map_at_the_top(complaints, content):
    assert complaints(content) == ["x.yaml:1:1: the file must be a map; write lines such as `name: my_grid`"]


@pytest.mark.parametrize(("content", "line"), [("name: é\n".encode("utf-16"), 1), (b"name: x\nworkload: \xff\n", 2)])
def test_no_utf_8(complaints, content, line):
    (said,) = complaints(content)
    assert said.startswith(f"x.yaml:{line}:")
    assert said.endswith("not UTF-8 text; save the file as UTF-8")


def test_ten_megabytes(complaints):
    assert complaints(b"a: 1\n" * 2_000_000) == ["x.yaml: is larger than 256 KiB; name a grid file"]


def test_keys_no_terminal_can_bear(complaints):
    assert complaints('"\\e[2J": 1\n') == [
        "x.yaml:3:1: '\\x1b[2J': unknown setting; `raybench plan --schema` lists them all"
    ]
    assert len(complaints("k" * 1000 + ": 1\n")[0]) < 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (r'"\uD800": 1', "x.yaml:3:1: the character U+D800 is not allowed; write the text without escapes"),
        (
            r'description: "a\0b"',
            "x.yaml:3:14: description: the character U+0000 is not allowed; write the text without",
        ),
        (r'description: "\UFFFFFFFF"', "x.yaml:3:17: an escape beyond U+10FFFF, the last character; correct it"),
    ],
)
def test_escapes_of_what_is_no_character(complaints, text, says):
    (said,) = complaints(text + "\n")
    assert said.startswith(says)


def test_no_such_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("grids").mkdir()
    Path("grids/quickstart.yaml").write_text(MINIMAL)
    os.mkfifo("pipe")
    said = {
        "grids/quikstart.yaml": "no such file; did you mean grids/quickstart.yaml?",
        "grids/other.yaml": "no such file",
        "nowhere/x.yaml": "no such file",
        "grids": "is a folder; name a grid file",
        "pipe": "is not a regular file; name a grid file",
        "a" * 300: "cannot be read: File name too long",
    }
    for path, message in said.items():
        with pytest.raises(GridFileError) as caught:
            load_grid(Path(path))
        assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize("line", [3, 10, 57, 199])
def test_a_fault_in_line_n_is_reported_at_line_n(complaints, line):
    for fault in ("epochs: [1]", "\tepochs: 1", "epochs: 'a", "foo: 1", "seed: -1", "epochs: !x 1", "epochs: a: b"):
        (said,) = complaints("#\n" * (line - 3) + fault + "\nretries: 1\n")
        assert said.startswith(f"x.yaml:{line}:"), fault


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("optimizer: AdamW", "did you mean adamw?"),
        ("precision: float16", "did you mean fp16?"),
        ("precision: FP16", "did you mean fp16?"),
        ("precision: bfloat16", "did you mean bf16?"),
        ("framework: PyTorch", "did you mean torch?"),
        ("axes: {device: [CPU]}", "did you mean cpu?"),
        ("devices: {a: {kind: GPU}}", "did you mean cuda?"),
        ("dataset: mnist", "not a setting; the workload determines the data set, see `raybench data`"),
    ],
)
def test_what_people_write_is_understood(complaints, line, says):
    (said,) = complaints(f"{line}\n")
    assert says in said, said


WORKLOADS = """from raybench import Workload
plain = Workload(model=print, dataset="digits")
named = Workload(model=print, dataset="digits", metrics=print, metric_names=("f1", "auc"))
unknown = Workload(model=print, dataset="digits", metrics=print)
"""


@pytest.mark.parametrize(
    ("workload", "metric", "message"),
    [
        (
            "digits_cnn",
            "val/f1",
            "digits_cnn has no metric 'val/f1'; use one of val/accuracy, val/loss, train/accuracy, train/loss",
        ),
        ("digits_cnn", "test/accuracy", "digits_cnn has no metric 'test/accuracy'; did you mean val/accuracy?"),
        ("mine.py:plain", "val/acc", "mine.py:plain has no metric 'val/acc'; did you mean val/accuracy?"),
        ("mine.py:named", "val/f2", "mine.py:named has no metric 'val/f2'; did you mean val/f1?"),
        ("mine.py:unknown", "val/f2", None),
        ("nothing.py:mine", "val/f2", None),
    ],
)
def test_a_metric_that_there_is_not_is_named_with_everything_else(complaints, tmp_path, workload, metric, message):
    (tmp_path / "mine.py").write_text(WORKLOADS)
    lines = complaints(
        f"target: {{metric: {metric}, at_least: 0.9}}\nepochs: two\n", head=f"name: x\nworkload: {workload}\n"
    )
    assert lines[-1].startswith("x.yaml:4:9: epochs: ")
    assert lines[:-1] == ([f"x.yaml:3:18: target.metric: {message}"] if message else [])


def test_the_warm_up_is_no_axis(complaints):
    assert complaints("axes: {warmup_epochs: [1, 2]}\n") == [
        "x.yaml:3:23: axes.warmup_epochs: does not affect training and cannot be an axis; "
        "set `warmup_epochs: 1` at the top level"
    ]

"""Files that are wrong: one clear message for each fault, with its line."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from raybench.errors import GridFileError
from raybench.spec import load_grid

MINIMAL = "name: x\nworkload: digits_cnn\n"


@pytest.fixture
def complaints(tmp_path, monkeypatch):
    """What is said of a file with this text after its two first lines, with these changes."""
    monkeypatch.chdir(tmp_path)

    def load(text: str | bytes, *changes: str, head: str = MINIMAL) -> list[str]:
        Path("x.yaml").write_bytes(text if isinstance(text, bytes) else (head + text).encode())
        with pytest.raises(GridFileError) as caught:
            load_grid(Path("x.yaml"), changes)
        assert caught.value.exit_status == 2
        assert caught.value.__cause__ is None
        return str(caught.value).splitlines()

    return load


KINDS = "cpu, cuda, mps, tpu, xla_cpu"
DECLARE = f"; declare it, such as devices: {{gpu: {{kind: cuda}}}}, or use a kind: {KINDS}"
ONE_FAULT = {
    # keys
    "axes:\n  batch_szie: [1]": "4:3: axes.batch_szie: unknown setting; did you mean batch_size?",
    "optimiser: sgd": "3:1: optimiser: unknown setting; did you mean optimizer?",
    "lr: 0.1": "3:1: lr: unknown setting; did you mean learning_rate?",
    "zzz: 1": "3:1: zzz: unknown setting; `raybench schema` lists them all",
    "axes:\n  repeats: [1]": "4:3: axes.repeats: cannot stand here; it belongs at the top level of the file",
    "price_per_hour: 1": "3:1: price_per_hour: cannot stand here; it belongs to a device, under devices",
    "device: cpu": "3:1: device: devices are chosen on an axis: write axes: {device: [cpu, cuda]}",
    "target: {metric: a, at_leats: 1, at_most: 2}": "3:21: target.at_leats: unknown name; did you mean at_least?",
    "examples:\n  trian: 4": "4:3: examples.trian: unknown name; did you mean train?",
    "epochs: 1\nepochs: 2": "4:1: epochs: said twice (first on line 3); keep one",
    "? [a]\n: 1": "3:3: a key must be plain text, such as batch_size",
    # values
    "batch_size: 1.5": "3:13: batch_size: wanted a whole number of at least 1, not 1.5",
    "epochs: true": "3:9: epochs: wanted a number above 0, not true",
    "epochs: '3'": "3:9: epochs: wanted a number above 0, not the text '3'",
    "epochs: 1_000": "3:9: epochs: wanted a number above 0, not the text '1_000'",
    "epochs: 0": "3:9: epochs: wanted a number above 0, not 0",
    "epochs:": "3:8: epochs: nothing is given; give a value or leave the line out",
    "nesterov: yes": "3:11: nesterov: wanted true or false, not the text 'yes'",
    "learning_rate: .inf": "3:16: learning_rate: wanted a number above 0, not inf",
    "learning_rate: 1e999": "3:16: learning_rate: wanted a number above 0, not inf",
    "weight_decay: .nan": "3:15: weight_decay: wanted a number of at least 0, not nan",
    "momentum: 1": "3:11: momentum: wanted a number of at least 0 and below 1, not 1",
    "betas: [0.9]": "3:8: betas: wanted two numbers [beta1, beta2], each at least 0 and below 1, not the list [0.9]",
    "precision: blfoat16": "3:12: precision: 'blfoat16' is not one of fp32, tf32, bf16, fp16; did you mean bf16?",
    "optimizer: {name: sgd}": "3:12: optimizer: wanted a name (sgd, adam or adamw), not a map; "
    "learning_rate, momentum and so on stand beside it",
    "memory_limit: 2G": "3:15: memory_limit: wanted bytes above 0, or a text such as 512MiB, 2GiB or 1.5GB, "
    "not the text '2G'",
    "timeout: 5x": "3:10: timeout: wanted seconds above 0, or a text such as 90s, 30m, 2h or 1h30m, not the text '5x'",
    "schedule: linear": "3:11: schedule: wanted constant, {name: piecewise_linear, points: [[epoch, factor], …]} "
    "or {name: exponential, decay_steps: …}, not the text 'linear'",
    "schedule: {name: exponentail, decay_steps: 2}": "3:18: schedule.name: "
    "'exponentail' is not one of exponential; did you mean exponential?",
    "schedule: {name: exponential}": "3:11: schedule.decay_steps: missing; "
    "say after how many steps, such as `decay_steps: 2000`",
    "schedule: {name: piecewise_linear, points: [[0, 1]]}": "3:44: schedule.points: "
    "a piecewise-linear schedule needs at least two points [epoch, factor]",
    "schedule: {name: piecewise_linear, points: [[1, 1], [2, 0]]}": "3:44: schedule.points: "
    "the first point must be at epoch 0, not 1",
    "schedule: {name: piecewise_linear, points: [[0, 1], [0, 0]]}": "3:44: schedule.points: "
    "the epochs of the points must rise, and 0 follows 0",
    "devices:\n  a: {kind: cpu, environment: xal}": "4:31: devices.a.environment: "
    "unknown environment 'xal'; did you mean xla? (a path has a slash, such as ./venv)",
    "devices:\n  a: {kind: cpu, environment: venv}": "4:31: devices.a.environment: "
    "unknown environment 'venv'; there are xla, tpu, tensorflow (a path has a slash, such as ./venv)",
    "devices:\n  a: {kind: cpu, environment: {}}": "4:31: devices.a.environment: "
    "wanted a Ray runtime_env with at least one entry, such as {env_vars: {NAME: text}}, not the map {}",
    "devices:\n  a: {kind: cpu, environment: [xla]}": "4:31: devices.a.environment: wanted a built environment "
    "(xla, tpu, tensorflow), the path of a Python or of a virtual environment, or a map: a Ray runtime_env, "
    "not the list [xla]",
    "augmentation: [corp]": "3:16: augmentation[0]: 'corp' is not one of crop, flip, cutout; did you mean crop?",
    "augmentation: [{crop: 2}, crop]": "3:15: augmentation: crop is said more than once",
    "augmentation: [{turn: 2}]": "3:16: augmentation[0]: wanted crop, flip, cutout, {crop: pixels}, "
    "{flip: alternating} or {cutout: pixels}, not the map {turn: 2}",
    "augmentation: [{flip: alternate}]": "3:23: augmentation[0].flip: 'alternate' is not one of random, alternating; "
    "did you mean alternating?",
    "augmentation: [flip, {flip: random}]": "3:15: augmentation: flip is said more than once",
    "test_time_augmentation: [mirror]": "3:26: test_time_augmentation[0]: 'mirror' is not one of flip",
    "test_time_augmentation: [{shift: 0}]": "3:34: test_time_augmentation[0].shift: wanted a whole number of at least "
    "1, not 0",
    "test_time_augmentation: [3]": "3:26: test_time_augmentation[0]: wanted flip or {shift: pixels}, not 3",
    "lookahead: true": "3:12: lookahead: wanted false, or a map such as {every: 5, decay: 0.5}, not true",
    "lookahead: {every: 5}": "3:12: lookahead.decay: missing; say how much of the slow weights stays, "
    "such as `decay: 0.5`",
    "lookahead: {every: 5, decay: 1}": "3:30: lookahead.decay: wanted a number of at least 0 and below 1, not 1",
    "lookahead: {every: 5, decay: 0.5, pow: 3}": "3:35: lookahead.pow: unknown name; did you mean power?",
    "parameter_groups: [{rate_factor: 2}]": "3:20: parameter_groups[0].match: missing; say which parameters, such "
    "as `match: '*.bias'`",
    "parameter_groups: [{match: a, rate: 2}]": "3:31: parameter_groups[0].rate: unknown name; known here: match, "
    "rate_factor, decay_factor, epochs",
    "parameter_groups: [{match: a, epochs: 1.5}]": "3:39: parameter_groups[0].epochs: wanted a whole number of at "
    "least 1, not 1.5",
    "label_smoothing: 1": "3:18: label_smoothing: wanted a number of at least 0 and below 1, not 1",
    "target: {metric: a}": "3:9: target: wanted one bound, at_least or at_most",
    "target: {metric: a, at_least: 1, at_most: 2}": "3:9: target: wanted one bound, at_least or at_most",
    "target: {metric: val/accuracy, at_least: 94}": "3:9: target: accuracy is a share from 0 to 1, and never 94; "
    "94 % is 0.94",
    "target: {metric: val/accuracy, at_least: -0.3}": "3:9: target: accuracy is a share from 0 to 1, and never -0.3",
    "devices: {gpu: {kind: gpu}}": "3:23: devices.gpu.kind: 'gpu' is not one of cpu, cuda, mps, tpu, xla_cpu; "
    "did you mean cuda?",
    "description: [a, null, {b: 'two words'}]": "3:14: description: "
    "wanted text, not the list [a, null, {b: two words}]",
    "tracking_uri: [http://me:secret@host]": "3:15: tracking_uri: wanted text, not the list [http://…@host]",
    # shapes
    "axes: [1]": "3:7: axes: wanted a map (name: value), not the list [1]",
    "exclude: {device: cpu}": "3:10: exclude: wanted a list (each entry begins with '- '), not the map {device: cpu}",
    "axes:\n  epochs: []": "4:11: axes.epochs: wanted at least one value, not an empty list",
    "axes:\n  epochs: 3": "4:11: axes.epochs: wanted a list, not 3",
    "axes:\n  device: cpu": "4:11: axes.device: wanted a list of devices, such as [cpu], "
    "or the word available, not the text 'cpu'",
    "devices:\n  gpu:\n    threads: 2": "5:5: devices.gpu.kind: missing; "
    "say what it is: cpu, cuda, mps, tpu or xla_cpu",
    # across
    "axes:\n  epochs: [1, 2,\n    1]": "5:5: axes.epochs[2]: 1 is on the axis twice",
    "axes:\n  weight_decay: [5e-4, 0.0005]": "4:24: axes.weight_decay[1]: 0.0005 is on the axis twice",
    "epochs: 1\naxes: {epochs: [1]}": "3:9: epochs: on the axis and fixed: say it once",
    "axes: {device: [cpu, gpu]}": f"3:22: axes.device[1]: unknown device 'gpu'{DECLARE}",
    "axes: {device: [gpuu]}\ndevices: {gpu: {kind: cuda}}": "3:17: axes.device[0]: "
    "unknown device 'gpuu'; did you mean gpu?",
    "axes: {epochs: [1]}\nexclude:\n  - {epochs: 2}": "5:14: exclude[0].epochs: 2 is not on the axis epochs (1)",
    "axes: {epochs: [1]}\nexclude:\n  - {epochs: [1, 2]}": "5:18: exclude[0].epochs[1]: "
    "2 is not on the axis epochs (1)",
    "exclude:\n  - {epochs: 2}": "4:14: exclude[0].epochs: epochs is no axis of this grid; its axes are device",
    "exclude: [{}]": "3:11: exclude[0]: names no axis, so it would take out every point",
    "exclude: [{device: tpu}]": "3:20: exclude[0].device: tpu is not on the axis device (cpu)",
    "include: [{}]": "3:11: include[0]: names no axis and no setting, so it adds nothing",
    "include: [{device: gpu}]": f"3:20: include[0].device: unknown device 'gpu'{DECLARE}",
    "overrides: [{when: {}, set: {epochs: 1}}]": "3:20: overrides[0].when: names no axis; "
    "what holds for every cell stands at the top level",
    "overrides: [{when: {device: tpu}, set: {epochs: 1}}]": "3:29: overrides[0].when.device: "
    "tpu is not on the axis device (cpu)",
    "baseline: {batch_size: 8}": "3:24: baseline.batch_size: batch_size is no axis of this grid; its axes are device",
    "stop_at_target: true": "3:17: stop_at_target: there is no target; "
    "add one, such as {metric: val/accuracy, at_least: 0.9}",
    # YAML
    "axes:\n\tdevice: [cpu]": "4:1: tabs are not allowed for indentation; use spaces",
    "epochs:\t3\n": "3:8: a tab is not allowed here; use spaces",
    "epochs: [1\nseed: 1": "3:9: the list opened here with '[' is not closed: ',' or ']' is missing before line 4",
    "target: {metric: a b c: d}": "3:9: the map opened here with '{' is not closed: ',' or '}' is missing in this line",
    "description: 'abc\nseed: 1": "3:14: the quote opened here is not closed",
    "epochs: a: b": "3:10: a ':' is not expected here; check the indentation, or put the value in quotes",
    "epochs\nseed: 1": "3:1: a ':' is missing after this name",
    "axes:\n    epochs: [1]\n  seed: 1": "5:3: this does not fit the lines above; check the indentation",
    "description: @me": "3:14: a value cannot begin with this character; put it in quotes",
    "axes: !!python/object/apply:os.system [ls]": "3:7: axes: "
    "tags such as !!python/object/apply:os.system are not supported; write the plain value",
    "name2: *nowhere": "3:8: name2: the alias *nowhere refers to no anchor above it",
    "axes: &a {x: *a}": "3:14: axes.x: the alias *a stands inside what it refers to",
    "axes:\n  <<: {epochs: [1]}": "4:3: axes: merge keys (<<) are not supported; write the lines out",
    "---\nname: y": "3:1: a second document begins here (---); a grid file is one document",
    "axes: " + "[" * 2000: "3:57: nested more than 50 deep",
    "description: a\0b": "3:15: the character U+0000 is not allowed in YAML",
}


@pytest.mark.parametrize("text", ONE_FAULT, ids=lambda text: text[:40])
def test_one_fault_one_message(complaints, text):
    assert complaints(text) == [f"x.yaml:{ONE_FAULT[text]}"]


def test_what_is_required(complaints):
    assert complaints("epochs: 1\n", head="") == [
        "x.yaml:1:1: name: missing; give the grid a name, such as `name: my_grid`",
        "x.yaml:1:1: workload: missing; say what is trained, such as `workload: digits_cnn`",
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
        "--set =…: write it as name=value, such as axes.batch_size=[64,128] or repeats=5",
        "--set axes.batch_size=…: axes.batch_size[1]: wanted a whole number of at least 1, not 0",
        "--set axes.device=…: the list opened here with '[' is not closed: ',' or ']' is missing in this line",
        "--set foo: write it as name=value, such as axes.batch_size=[64,128] or repeats=5",
        "--set name.x=…: name.x: name is no map to put x in; set name as a whole",
        "--set repeats=…: repeats: wanted a whole number of at least 1, not 0",
        "--set tracking_uri=…: tracking_uri: wanted text, not the map {1:2: http://…@h}",
    ]


def test_a_bomb_is_refused_at_once(complaints):
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    began = time.process_time()
    assert complaints("\n".join(rows)) == ["x.yaml:6:45: aliases stand for more than 10,000 values; write them out"]
    assert time.process_time() - began < 5


def test_many_aliases_of_a_long_text_are_not_written_out(complaints):
    text = f"description: &a {'x' * 100_000}\nepochs: [{'*a, ' * 9_000}]\n"
    assert len(complaints(text)[0]) < 300


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only a comment\n", b"---\n", b"null\n"])
def test_nothing_in_it(complaints, content):
    assert complaints(content) == ["x.yaml: is empty; see `raybench init` for grids to begin with"]


@pytest.mark.parametrize("content", [b"- a\n", b"just text\n", b"3\n"])
def test_no_map_at_the_top(complaints, content):
    assert complaints(content) == ["x.yaml:1:1: wanted a map (name: value) at the top of the file"]


@pytest.mark.parametrize(("content", "line"), [("name: é\n".encode("utf-16"), 1), (b"name: x\nworkload: \xff\n", 2)])
def test_no_utf_8(complaints, content, line):
    (said,) = complaints(content)
    assert said.startswith(f"x.yaml:{line}:")
    assert said.endswith("not UTF-8 text; save the file as UTF-8")


def test_ten_megabytes(complaints):
    assert complaints(b"a: 1\n" * 2_000_000) == ["x.yaml: is larger than 256 KiB; that is no grid file"]


def test_keys_no_terminal_can_bear(complaints):
    assert complaints('"\\e[2J": 1\n') == ["x.yaml:3:1: '\\x1b[2J': unknown setting; `raybench schema` lists them all"]
    assert len(complaints("k" * 1000 + ": 1\n")[0]) < 200


def test_no_such_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("grids").mkdir()
    Path("grids/quickstart.yaml").write_text(MINIMAL)
    os.mkfifo("pipe")
    said = {
        "grids/quikstart.yaml": "there is no such file; did you mean grids/quickstart.yaml?",
        "grids/other.yaml": "there is no such file",
        "nowhere/x.yaml": "there is no such file",
        "grids": "is a folder; name a grid file in it",
        "pipe": "is not a regular file",
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

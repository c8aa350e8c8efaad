"""The placeholders of a command, and the files that it names."""

import json

import pytest

from raybench.errors import WorkloadError
from raybench.workloads import read_info, read_workload
from raybench.workloads.command import ARGS, Command, fill, filled, placeholders


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "here/src").mkdir(parents=True)
    (tmp_path / "here/pack/.cache").mkdir(parents=True)
    (tmp_path / "here/pack/__pycache__").mkdir()
    files = {
        "here/train.py": "import torch, helper\n",
        "here/helper.py": "x = 1\n",
        "here/src/main.py": "import near\n",
        "here/src/near.py": "import raybench\ntrial = raybench.current_trial()\n",
        "here/pack/__main__.py": "import helper\n",
        "here/conf.yaml": "1",
        "here/out.pt": "1",
        "here/run.sh": "#!/bin/sh\n",
        "here/.git": "1",
        "here/pack/.cache/x": "1",
        "here/pack/__pycache__/x": "1",
        "other.py": "import beside\n",
        "beside.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "here"


def info(folder, *arguments, inputs=(), **rest):
    return read_workload(Command(arguments, **rest), folder, inputs)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("--bs={batch_size}", ["batch_size"]),
        ("{a}{b}", ["a", "b"]),
        ("{params.hidden}", ["hidden"]),
        ("{{a}}", []),
        ("{ print $1 }", []),
        ("{}", []),
        ('{"a": 1}', []),
        ("${HOME}", ["HOME"]),
    ],
)
def test_names_in_braces(text, names):
    assert list(placeholders(text)) == names


def test_values_are_put_in():
    values = {"a": 1e-5, "b": True, "c": "x y", "d": [1, 2]}
    assert fill("{a} {b} {c} {d} {{a}} {print}".replace("{print}", "{ print }"), values) == (
        "1e-05 true x y [1, 2] {a} { print }"
    )


def test_all_other_values_are_arguments():
    command = Command(("python", "x.py", "--a={a}", "{args}"))
    values = {"a": 1, ARGS: {"b": "x y", "c": False}}
    assert filled(command, values) == ["python", "x.py", "--a=1", "--b=x y", "--c=false"]


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["python", "train.py", "conf.yaml", "--x={a}", "{b}.py"], ["conf.yaml", "helper.py", "train.py"]),
        (["python", "train.py", "--config=conf.yaml", "--out=out.pt"], ["conf.yaml", "helper.py", "train.py"]),
        (["python", "src/main.py"], ["src/main.py", "src/near.py"]),
        (["python", "../other.py"], ["../beside.py", "../other.py"]),
        (["torchrun", "-m", "src.main"], ["src/main.py", "src/near.py"]),
        (["python", "-m", "pack"], ["helper.py", "pack/__main__.py"]),
        (["./run.sh"], ["run.sh"]),
        (["awk", "{ print }"], []),
        (["sh", "-c", "python train.py --x={a} && cat gone.py"], ["helper.py", "train.py"]),
        (["python", "-c", "print(1);" * 60], []),
    ],
)
def test_files_that_it_names_and_imports(folder, arguments, files):
    found = info(folder, *arguments)
    assert list(found.files) == files
    assert found.command.reports == ("src/near.py" in files)


@pytest.mark.parametrize(
    ("pattern", "files"),
    [("pack", ["pack/__main__.py"]), ("**/*", ["pack/__main__.py"]), ("pack/.cache", ["pack/.cache/x"])],
)
def test_inputs_below_hidden_folders_are_named(folder, pattern, files):
    found = [name for name in info(folder, "awk", inputs=[pattern]).files if name.startswith("pack")]
    assert found == files


def test_name_and_libraries(folder):
    assert (info(folder, "awk").name, info(folder, "python", "src/main.py").name) == ("awk", "main.py")
    assert info(folder, "python", "train.py").libraries == ("torch",)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("trian.py", "there is no trian.py in .*; did you mean train.py?"),
        ("src/man.py", "did you mean src/main.py?"),
        ("/etc/x.py", "there is no /etc/x.py"),
        ("../oter.py", "did you mean ../other.py?"),
    ],
)
def test_a_script_that_is_missing(folder, word, message):
    with pytest.raises(WorkloadError, match=message):
        info(folder, "python", word)


def test_what_changes_results_changes_the_digest(folder):
    digests = {
        info(folder, "python", "train.py").digest,
        info(folder, "python", "train.py", "--amp").digest,
        info(folder, "python", "train.py", env={"A": "1"}).digest,
        info(folder, "python", "train.py", metrics={"epoch": "(.)"}).digest,
        info(folder, "python", "train.py", inputs=["conf.yaml"]).digest,
    }
    (folder / "helper.py").write_text("x = 2 \n")
    digests.add(info(folder, "python", "train.py").digest)
    assert len(digests) == 6
    assert info(folder, "python", "train.py").digest == info(folder, "python", "train.py", given=("a",)).digest


def test_it_is_the_same_as_plain_values(folder):
    found = info(folder, "python", "train.py", env={"A": "{a}"}, metrics={"val/a": "(a)"}, given=("a",))
    assert read_info(json.loads(json.dumps(found.to_json()))) == found

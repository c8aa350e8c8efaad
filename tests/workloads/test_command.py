"""The placeholders of a command, and the files that it names."""

import pytest

from raybench.errors import WorkloadError
from raybench.workloads import read_command
from raybench.workloads.command import ARGS, Command, fill, filled, placeholders


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "train.py").write_text("import torch, helper\n")
    (tmp_path / "helper.py").write_text("x = 1\n")
    (tmp_path / "src" / "main.py").write_text("import near\n")
    (tmp_path / "src" / "near.py").write_text("import raybench\ntrial = raybench.current_trial()\n")
    (tmp_path / "data.txt").write_text("1")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    return tmp_path


def info(folder, *arguments, files=(), **rest):
    return read_command(Command(arguments, **rest), folder / "grid.yaml", files)


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


def test_files_that_it_names_and_their_imports_travel(folder):
    found = info(folder, "python", "train.py", "data.txt", "--x={a}", "{b}.py")
    assert list(found.files) == ["data.txt", "helper.py", "train.py"]
    assert (found.name, found.libraries, found.own_loop) == ("train.py", ("torch",), "command")
    assert not found.command.reports


def test_a_script_in_a_subfolder_imports_from_there(folder):
    found = info(folder, "python", "src/main.py", files=["*.sh"])
    assert list(found.files) == ["run.sh", "src/main.py", "src/near.py"]
    assert found.command.reports


def test_a_module_is_a_file(folder):
    assert list(info(folder, "torchrun", "-m", "src.main").files) == ["src/main.py", "src/near.py"]


def test_a_program_without_files(folder):
    found = info(folder, "awk", "{ print }")
    assert (found.name, found.files) == ("awk", {})


def test_the_text_of_a_shell_names_files(folder):
    assert list(info(folder, "sh", "-c", "python train.py --x={a} && cat gone.py").files) == ["helper.py", "train.py"]


def test_a_program_longer_than_the_name_of_a_file(folder):
    assert info(folder, "python", "-c", "print(1);" * 60).files == {}


def test_the_main_module_of_a_package(folder):
    (folder / "package").mkdir()
    (folder / "package" / "__main__.py").write_text("import helper\n")
    assert "package/__main__.py" in info(folder, "python", "-m", "package").files


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("trian.py", "there is no trian.py in .*; did you mean train.py?"),
        ("src/man.py", "did you mean src/main.py?"),
        ("/etc/x.py", "is outside of the grid file's folder"),
        ("../x.py", "is outside of the grid file's folder"),
    ],
)
def test_a_script_that_is_missing(folder, word, message):
    with pytest.raises(WorkloadError, match=message) as error:
        info(folder, "python", word)
    assert error.value.field == "command"


def test_what_changes_results_changes_the_digest(folder):
    digests = {
        info(folder, "python", "train.py").digest,
        info(folder, "python", "train.py", "--amp").digest,
        info(folder, "python", "train.py", env={"A": "1"}).digest,
        info(folder, "python", "train.py", metrics={"epoch": "(.)"}).digest,
        info(folder, "python", "train.py", files=["data.txt"]).digest,
    }
    (folder / "helper.py").write_text("x = 2\n")
    digests.add(info(folder, "python", "train.py").digest)
    assert len(digests) == 6
    assert info(folder, "python", "train.py").digest == info(folder, "python", "train.py", given=("a",)).digest


def test_it_is_the_same_as_plain_values(folder):
    found = info(folder, "python", "train.py", env={"A": "{a}"}, json_lines={"val/a": "a"}, given=("a",))
    assert type(found).from_json(found.to_json()) == found

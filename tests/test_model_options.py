"""What a grid chooses of a workload's model: in the cell where it is not the default, refused where it is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from raybench.config import load_grid
from raybench.errors import UsageError
from raybench.planning.validate import model_options
from raybench.workloads import read_reference

IMDB = read_reference("imdb_lstm", Path())


@pytest.fixture
def spec(tmp_path: Path):
    path = tmp_path / "grid.yaml"
    path.write_text("name: g\nworkload: imdb_lstm\nmodel: {recurrent_dropout: 0.2}\n")
    return load_grid(path)


def test_only_what_differs_from_the_default_is_in_the_cell(spec) -> None:
    assert model_options(spec, IMDB, {"recurrent_dropout": 0.2}) == {"recurrent_dropout": 0.2}
    assert model_options(spec, IMDB, {"recurrent_dropout": 0.0}) == {}
    assert model_options(spec, IMDB, {"recurrent_dropout": 0}) == {}
    assert repr(model_options(spec, IMDB, {"recurrent_dropout": 1})) == "{'recurrent_dropout': 1.0}"


@pytest.mark.parametrize(
    ("workload", "chosen", "said"),
    [
        ("imdb_lstm", {"recurent_dropout": 0.2}, "not an option of imdb_lstm's model; did you mean recurrent_dropout?"),
        ("imdb_cnn", {"dropout": 0.2}, "not an option of imdb_cnn's model; the model has no options"),
        ("imdb_lstm", {"recurrent_dropout": "much"}, "'much' is not allowed; use a number"),
        ("imdb_lstm", {"recurrent_dropout": True}, "True is not allowed; use a number"),
        ("resunet_v2", {"side": 32.5}, "32.5 is not allowed; use an integer"),
        ("resunet_v1", {"concatenate": 1}, "1 is not allowed; use true or false"),
    ],
)
def test_what_is_no_option_is_refused_with_its_line(spec, workload: str, chosen: dict, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        model_options(spec, read_reference(workload, Path()), chosen)
    name = next(iter(chosen))
    assert str(caught.value) == f"{spec.source_path}:3: model.{name}: {said}"


def test_what_is_chosen_of_the_data_reaches_them_and_the_model() -> None:
    from raybench import workloads
    from raybench.datasets import synthetic_scenes

    unet = workloads.get("resunet_v2")
    data = synthetic_scenes.read(Path())
    assert unet.prepare_data(data) is data
    assert unet.with_options({"side": 32}).prepare_data(data).train.inputs.shape[1:] == (32, 32, 6)
    for wrong in (33, 8, -16, 0):
        with pytest.raises(ValueError, match=f"^model.side: {wrong} is not allowed, since the network"):
            unet.with_options({"side": wrong}).prepare_data(data)


def test_the_chosen_model_is_what_is_built() -> None:
    from raybench import workloads
    from raybench.workloads.imdb_lstm.torch import DroppingLSTM

    plain = workloads.get("imdb_lstm")
    assert plain.with_options({}) is plain
    assert isinstance(plain.with_options({"recurrent_dropout": 0.2}).build_model("torch").lstm, DroppingLSTM)
    assert not isinstance(plain.build_model("torch").lstm, DroppingLSTM)
